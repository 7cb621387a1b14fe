//! MIGRATE, between two servers, and to targets that do not answer as they should.

use crate::common::{Client, Running, await_text, encode, show};
use crate::doors::{self, files};
use perdura_server::{ClientCertificates, Listener, Options};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

fn start() -> Running {
    Running::with(|options| options.threads(2), 64 << 20)
}

fn migrate(client: &mut Client, to: SocketAddr, rest: &str) -> String {
    let port = to.port().to_string();
    let mut args: Vec<&[u8]> = vec![b"MIGRATE", b"127.0.0.1", port.as_bytes()];
    args.extend(
        rest.split(' ').map(|word| if word == "-" { b"".as_slice() } else { word.as_bytes() }),
    );
    show(&client.call(&args))
}

#[test]
fn keys_of_all_types_move() {
    let (from, to) = (start(), start());
    let (mut here, mut there) = (from.client(), to.client());
    for command in [
        "SET s text",
        "SET n 17 PX 100000",
        "RPUSH l a b c",
        "SADD m x y z",
        "HSET h f v g w",
        "ZADD z 1 a 2.5 b",
        "XADD x 5-1 f v",
        "XGROUP CREATE x g 0",
    ] {
        here.ask(command);
    }
    assert_eq!(migrate(&mut here, to.address, "nothing 0 1000"), "NOKEY");
    assert_eq!(migrate(&mut here, to.address, "s 0 1000 COPY"), "OK");
    let busy = "ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    assert_eq!(migrate(&mut here, to.address, "s 0 1000"), busy);
    assert_eq!(here.ask("EXISTS s"), "1");
    assert_eq!(migrate(&mut here, to.address, "s 0 1000 REPLACE"), "OK");
    assert_eq!(migrate(&mut here, to.address, "- 3 1000 KEYS n l m none h z x n"), "OK");
    assert_eq!(here.ask("DBSIZE"), "0");
    assert_eq!(there.ask("GET s"), "text");
    there.ask("SELECT 3");
    for (command, answer) in [
        ("GET n", "17"),
        ("LRANGE l 0 -1", "[a b c]"),
        ("SCARD m", "3"),
        ("HGET h g", "w"),
        ("ZRANGE z 0 -1 WITHSCORES", "[a 1 b 2.5]"),
        ("XLEN x", "1"),
    ] {
        assert_eq!(there.ask(command), answer);
    }
    let left: u64 = there.ask("PTTL n").parse().unwrap();
    assert!((50_000..=100_000).contains(&left), "{left}");
    // Of some that cannot go, the others go.
    here.ask("MSET a 1 b 2 c 3");
    there.ask("SET b other");
    assert_eq!(migrate(&mut here, to.address, "- 3 1000 KEYS a b c"), busy);
    assert_eq!([here.ask("EXISTS a c"), here.ask("GET b")], ["0", "2"]);
    assert_eq!([there.ask("MGET a b c")], ["[1 other 3]"]);
    await_text(&mut here, "INFO stats", "migrate_cached_sockets:1\r");
    let index = "ERR Target instance replied with error: ERR DB index is out of range";
    assert_eq!(migrate(&mut here, to.address, "b 99 1000"), index);
    assert_eq!(here.ask("MULTI"), "OK");
    let refused = "ERR Command not allowed inside a transaction";
    assert_eq!(migrate(&mut here, to.address, "b 0 1000"), refused);
    from.check();
    to.check();
}

#[test]
fn passwords_are_given() {
    let (from, to) = (start(), start());
    let (mut here, mut there) = (from.client(), to.client());
    here.ask("MSET a 1 b 2 c 3");
    there.ask("ACL SETUSER mover on >secret ~* +@all");
    there.ask("CONFIG SET requirepass word");
    there.ask("AUTH word");
    let error = "ERR Target instance replied with error: ";
    assert_eq!(
        migrate(&mut here, to.address, "a 0 1000"),
        format!("{error}NOAUTH Authentication required.")
    );
    let wrong = format!("{error}WRONGPASS invalid username-password pair or user is disabled.");
    assert_eq!(migrate(&mut here, to.address, "a 0 1000 AUTH other"), wrong);
    assert_eq!(migrate(&mut here, to.address, "a 0 1000 AUTH word"), "OK");
    assert_eq!(migrate(&mut here, to.address, "b 0 1000 AUTH2 mover secret"), "OK");
    // A connection that is logged in is nobody else's.
    assert!(migrate(&mut here, to.address, "c 0 1000").starts_with(error));
    assert_eq!([here.ask("EXISTS a b c"), there.ask("EXISTS a b c")], ["1", "2"]);
    there.ask("CONFIG SET requirepass new");
    here.ask("SET a 1");
    // The password is given each time.
    assert_eq!(migrate(&mut here, to.address, "a 0 1000 REPLACE AUTH word"), wrong);
    assert_eq!(migrate(&mut here, to.address, "a 0 1000 REPLACE AUTH new"), "OK");
}

#[test]
fn targets_may_fail() {
    let from = start();
    let (mut here, mut other) = (from.client(), from.client());
    here.ask("SET a 1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let began = Instant::now();
    // Nobody answers; others are served meanwhile, those of the same thread included.
    here.send(&encode(&[
        b"MIGRATE",
        b"127.0.0.1",
        address.port().to_string().as_bytes(),
        b"a",
        b"0",
        b"500",
    ]));
    for _ in 0..4 {
        assert!(from.client().ask("INCR n").parse::<u64>().is_ok());
    }
    assert!(began.elapsed() < Duration::from_millis(400));
    let reading = "IOERR error or timeout reading to target instance";
    assert_eq!(show(&here.receive().unwrap()), reading);
    assert!(began.elapsed() >= Duration::from_millis(450));
    drop(listener);
    // Of one where nobody listens, and of what is no port, Redis says the same.
    let writing = "IOERR error or timeout writing to target instance";
    assert_eq!(migrate(&mut here, address, "a 0 1000"), writing);
    for port in ["abc", "0", "99999"] {
        assert_eq!(here.ask(&format!("MIGRATE 127.0.0.1 {port} a 0 1000")), writing, "{port}");
    }
    assert_eq!(other.ask("GET a"), "1");
    // One that confirms the first key, and then hangs up.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut room = [0; 4096];
        let _ = stream.read(&mut room).unwrap();
        stream.write_all(b"+OK\r\n").unwrap();
        let _ = stream.read(&mut room).unwrap();
        stream.write_all(b"+OK\r\n+O").unwrap();
    });
    here.ask("SET b 1");
    assert_eq!(migrate(&mut here, address, "- 0 1000 KEYS a b"), reading);
    target.join().unwrap();
    assert_eq!(other.ask("EXISTS a b"), "1");
    assert_eq!(other.ask("EXISTS b"), "1");
    // One that never ends its line.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert_eq!(migrate(&mut here, address, "b 0 1000"), reading);
    target.join().unwrap();
    assert_eq!(other.ask("EXISTS b"), "1");
}

/// A target that reads a request, calls `before` with it and its number, and answers what that returns.
fn target(
    mut before: impl FnMut(usize, &str) -> String + Send + 'static,
) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut room = [0; 4096];
        for number in 0.. {
            let read = stream.read(&mut room).unwrap_or(0);
            if read == 0 {
                return;
            }
            let request = String::from_utf8_lossy(&room[..read]).into_owned();
            if stream.write_all(before(number, &request).as_bytes()).is_err() {
                return;
            }
        }
    };
    (address, std::thread::spawn(body))
}

#[test]
fn nothing_but_ok_confirms() {
    let mut from = start();
    let mut here = from.client();
    here.ask("MSET a 1 b 2");
    let reading = "IOERR error or timeout reading to target instance";
    for answers in [
        ["HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", ""],
        ["+OK\r\n", "+QUEUED\r\n"],
        ["+OK\r\n", "+OK\r\n:1\r\n"],
        ["+OK\r\n", "$2\r\nOK\r\n"],
        ["+PONG\r\n", "+OK\r\n+OK\r\n"],
    ] {
        let (address, thread) =
            target(move |number, _| (*answers.get(number).unwrap_or(&"")).to_owned());
        assert_eq!(migrate(&mut here, address, "- 0 1000 KEYS a b"), reading, "{answers:?}");
        assert_eq!(here.ask("EXISTS a b"), "2", "{answers:?}");
        await_text(&mut here, "INFO stats", "migrate_cached_sockets:0\r");
        thread.join().unwrap();
    }
    // What it has said too much is not taken for its answer to the next request.
    let (address, thread) =
        target(
            |number, _| {
                if number == 0 { "+OK\r\n".to_owned() } else { "+OK\r\n+OK\r\n".to_owned() }
            },
        );
    assert_eq!(migrate(&mut here, address, "a 0 1000"), "OK");
    await_text(&mut here, "INFO stats", "migrate_cached_sockets:0\r");
    thread.join().unwrap();
    assert_eq!(here.ask("EXISTS a b"), "1");
    from.stop();
}

#[test]
fn a_target_that_trickles_has_no_more_time() {
    let from = start();
    let mut here = from.client();
    here.ask("SET a 1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let trickling = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let began = Instant::now();
        while stream.write_all(b"+").is_ok() {
            assert!(began.elapsed() < Duration::from_secs(20), "it is not waited for");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let reading = "IOERR error or timeout reading to target instance";
    assert_eq!(migrate(&mut here, address, "a 0 300"), reading);
    trickling.join().unwrap();
    assert_eq!(here.ask("GET a"), "1");
}

/// A target that does not answer, and a server that ends meanwhile.
#[test]
fn orders_are_bounded_and_nothing_is_done_for_clients_that_were_ended() {
    let mut from = Running::with(|options| options.threads(2).max_request(100_000), 64 << 20);
    let (mut first, mut second, mut third) = (from.client(), from.client(), from.client());
    first.ask("MSET a 1 b 2 c 3");
    let id = third.ask("CLIENT ID");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let name = "n".repeat(60_000);
    let order = |key: &str, millis: &str| {
        let args = ["MIGRATE", "127.0.0.1", &port, "", "0", millis, "KEYS", key, &name];
        encode(&args.map(str::as_bytes))
    };
    first.send(&order("a", "60000"));
    let (mut stream, _) = listener.accept().unwrap();
    // The second one is too much beside the first.
    second.send(&order("b", "60000"));
    let refused = show(&second.receive().unwrap());
    assert!(refused.starts_with("ERR the requests that wait to be moved take more"), "{refused}");
    third.send(&encode(&[b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"c", b"0", b"60000"]));
    assert_eq!(second.ask(&format!("CLIENT KILL ID {id}")), "1");
    let began = Instant::now();
    while second.ask("CLIENT LIST").contains(&format!("id={id} ")) {
        assert!(began.elapsed() < Duration::from_secs(20), "the third client goes");
    }
    // The first is answered; for the third nothing is sent, for the second there is room.
    let mut room = [0; 4096];
    let _ = stream.read(&mut room).unwrap();
    stream.write_all(b"+OK\r\n").unwrap();
    let _ = stream.read(&mut room).unwrap();
    stream.write_all(b"+OK\r\n").unwrap();
    assert_eq!(show(&first.receive().unwrap()), "OK");
    second.send(&order("b", "60000"));
    let read = stream.read(&mut room).unwrap();
    let request = String::from_utf8_lossy(&room[..read]);
    assert!(request.contains("RESTORE\r\n$1\r\nb\r\n"), "{request}");
    assert_eq!(first.ask("EXISTS a b c"), "2");
    // It ends though the target says nothing.
    from.stop();
    assert!(began.elapsed() < Duration::from_secs(40));
}

#[test]
fn a_key_that_is_deleted_meanwhile_is_deleted_at_the_target() {
    let from = start();
    let (mut here, mut other) = (from.client(), from.client());
    here.ask("MSET a 1 b 2");
    let requests = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&requests);
    let (address, thread) = target(move |number, request| {
        seen.lock().unwrap().push(request.to_owned());
        match number {
            0 => "+OK\r\n".to_owned(),
            1 => {
                assert_eq!(other.ask("DEL a"), "1");
                "+OK\r\n+OK\r\n".to_owned()
            }
            _ => ":1\r\n".to_owned(),
        }
    });
    assert_eq!(migrate(&mut here, address, "- 0 5000 KEYS a b"), "OK");
    assert_eq!(here.ask("DBSIZE"), "0");
    drop(from);
    thread.join().unwrap();
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[2], "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n");
}

#[test]
fn nothing_is_deleted_in_a_pause_that_the_server_does_not_outlive() {
    let mut from = start();
    let (mut here, mut other) = (from.client(), from.client());
    here.ask("SET a 1");
    let (paused, is_paused) = std::sync::mpsc::channel();
    let (address, thread) = target(move |number, _| {
        if number == 1 {
            assert_eq!(other.ask("CLIENT PAUSE 100000 WRITE"), "OK");
            paused.send(()).unwrap();
        }
        "+OK\r\n".to_owned()
    });
    let port = address.port().to_string();
    here.send(&encode(&[b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"a", b"0", b"5000"]));
    is_paused.recv().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    from.stop();
    thread.join().unwrap();
    let from = from.restarted();
    assert_eq!(from.client().ask("GET a"), "1");
}

/// A counter that is incremented while it moves is moved whole, or stays.
#[test]
fn a_write_meanwhile_is_not_lost() {
    let (from, to) = (start(), start());
    let (mut here, mut there) = (from.client(), to.client());
    let mut written = 0_u64;
    let mut moves = 0;
    while moves < 20 {
        let mut writer = from.client();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (count, reply) = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut count = 0_u64;
                while !stop.load(std::sync::atomic::Ordering::SeqCst) || count < 3 {
                    writer.ask("INCR n");
                    count += 1;
                    std::thread::sleep(Duration::from_micros(300));
                }
                count
            });
            let reply = migrate(&mut here, to.address, "n 0 5000 REPLACE");
            stop.store(true, std::sync::atomic::Ordering::SeqCst);
            (writing.join().unwrap(), reply)
        });
        written += count;
        let here_now: u64 = here.ask("GET n").parse().unwrap_or(0);
        let there_now: u64 = there.ask("GET n").parse().unwrap_or(0);
        match reply.as_str() {
            // What came after its deletion began anew.
            "OK" => assert_eq!(here_now + there_now, written),
            "NOKEY" => assert_eq!(here_now, written),
            _ => {
                assert!(reply.starts_with("ERR Target instance has an older value"), "{reply}");
                assert_eq!(here_now, written);
            }
        }
        if reply != "OK" {
            continue;
        }
        moves += 1;
        here.ask("DEL n");
        there.ask("DEL n");
        written = 0;
    }
}

/// To a stock server, if one is installed.
#[test]
fn keys_move_to_redis() {
    let Some(redis) = Redis::start() else {
        println!("not tested: there is no redis-server");
        return;
    };
    let from = start();
    let mut here = from.client();
    here.ask("CONFIG SET dump-version 10");
    for command in
        ["SET s text", "RPUSH l a b", "SADD m x", "HSET h f v", "ZADD z 1 a", "XADD x 5-1 f v"]
    {
        here.ask(command);
    }
    assert_eq!(migrate(&mut here, redis.address, "- 2 5000 KEYS s l m h z x"), "OK");
    assert_eq!(here.ask("DBSIZE"), "0");
    let mut there = Client::connect(redis.address);
    there.ask("SELECT 2");
    assert_eq!(there.ask("DBSIZE"), "6");
    assert_eq!(there.ask("LRANGE l 0 -1"), "[a b]");
    // And back.
    let port = from.address.port().to_string();
    let back: Vec<&[u8]> = vec![
        b"MIGRATE",
        b"127.0.0.1",
        port.as_bytes(),
        b"",
        b"0",
        b"5000",
        b"KEYS",
        b"s",
        b"l",
        b"m",
        b"h",
        b"z",
        b"x",
    ];
    assert_eq!(show(&there.call(&back)), "OK");
    assert_eq!([here.ask("DBSIZE"), here.ask("HGET h f")], ["6", "v"]);
}

/// A server with the certificate of this name, which moves keys by TLS, and its address for that.
fn start_secure(name: &str) -> (Running, SocketAddr) {
    let listener = Listener::bind_tls(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let options = Options::new().tls(files(name, ClientCertificates::Required)).tls_cluster(true);
    let (running, address) = doors::start(listener, options);
    (running, address.unwrap())
}

#[test]
fn keys_move_by_tls() {
    let ((from, _), (to, secure)) = (start_secure("client"), start_secure("server"));
    let (mut here, mut there) = (from.client(), to.client());
    // Values that are larger than any buffer on the way.
    let value: Vec<u8> = (0..5_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    for key in [b"a", b"b", b"c"] {
        here.call(&[b"SET", key, &value]);
    }
    assert_eq!(migrate(&mut here, secure, "- 0 5000 KEYS a b"), "OK");
    // By the connection that was kept.
    assert_eq!(migrate(&mut here, secure, "c 0 5000 COPY"), "OK");
    assert_eq!([here.ask("DBSIZE"), there.ask("DBSIZE")], ["1", "3"]);
    let sent = crate::common::Frame::Text(value);
    for key in [b"a", b"b", b"c"] {
        assert!(there.call(&[b"GET", key]) == sent, "the value is another one");
    }
    await_text(&mut here, "INFO stats", "migrate_cached_sockets:1\r");
    // One that speaks no TLS is not spoken to, nor is one by a connection of the other kind.
    assert!(migrate(&mut here, to.address, "c 0 500 REPLACE").starts_with("IOERR "));
    assert_eq!(here.ask("CONFIG SET tls-cluster no"), "OK");
    assert!(migrate(&mut here, secure, "c 0 500 REPLACE").starts_with("IOERR "));
    assert_eq!(migrate(&mut here, to.address, "c 0 5000 REPLACE"), "OK");
    // A stranger is not let in, and nothing goes to one.
    let (stranger, theirs) = start_secure("stranger");
    let mut other = stranger.client();
    here.ask("SET mine 1");
    other.ask("SET theirs 1");
    assert_eq!(here.ask("CONFIG SET tls-cluster yes"), "OK");
    assert!(migrate(&mut here, theirs, "mine 0 2000").starts_with("IOERR "));
    assert!(migrate(&mut other, secure, "theirs 0 2000").starts_with("IOERR "));
    assert_eq!([here.ask("GET mine"), other.ask("DBSIZE"), there.ask("DBSIZE")], ["1", "1", "3"]);
    let none = start();
    let why = "a certificate is needed, see tls-cert-file";
    let set = none.client().ask("CONFIG SET tls-cluster yes");
    assert!(set.ends_with(why), "{set}");
    from.check();
    to.check();
}

/// A connection that was kept serves nobody once the certificates that let it be made hold no longer.
#[test]
fn kept_connections_do_not_outlive_their_certificates() {
    let ((from, _), (to, secure)) = (start_secure("client"), start_secure("server"));
    let mut here = from.client();
    let path = |file: std::path::PathBuf| file.to_str().expect("a path in UTF-8").to_owned();
    let set = |here: &mut Client, name: &str, signers: &str| {
        let (own, signers) =
            (files(name, ClientCertificates::Required), doors::certificate(signers));
        let (cert, key, signers) = (path(own.cert_file), path(own.key_file), path(signers));
        let command = format!(
            "CONFIG SET tls-cert-file {cert} tls-key-file {key} tls-ca-cert-file {signers}"
        );
        assert_eq!(here.ask(&command), "OK");
    };
    let connecting = "IOERR error or timeout connecting to the client";
    for (name, signers) in [("client", "stranger.pem"), ("stranger", "ca.pem")] {
        here.ask("MSET a 1 b 2");
        assert_eq!(migrate(&mut here, secure, "a 0 5000 REPLACE"), "OK");
        await_text(&mut here, "INFO stats", "migrate_cached_sockets:1\r");
        set(&mut here, name, signers);
        // With TLS 1.3 a client hears after its handshake that it is not let in.
        let answer = migrate(&mut here, secure, "b 0 2000 REPLACE");
        let is_refused = match name {
            "client" => answer == connecting,
            _ => answer.starts_with("IOERR "),
        };
        assert!(is_refused, "with the certificate of {name}, signers of {signers}: {answer}");
        assert_eq!(here.ask("GET b"), "2");
        await_text(&mut here, "INFO stats", "migrate_cached_sockets:0\r");
        set(&mut here, "client", "ca.pem");
    }
    // It is closed though nothing else is moved, and if the files' names stay.
    assert_eq!(migrate(&mut here, secure, "b 0 5000 REPLACE"), "OK");
    await_text(&mut here, "INFO stats", "migrate_cached_sockets:1\r");
    let began = Instant::now();
    set(&mut here, "client", "ca.pem");
    await_text(&mut here, "INFO stats", "migrate_cached_sockets:0\r");
    assert!(began.elapsed() < Duration::from_secs(8), "before it would have been closed anyway");
    from.check();
    to.check();
}

/// To a stock server by TLS, and back.
#[test]
fn keys_move_to_redis_by_tls() {
    let Some((redis, theirs)) = Redis::start_secure("server") else {
        println!("not tested: there is no redis-server with TLS");
        return;
    };
    let (from, ours) = start_secure("client");
    let (mut here, mut there) = (from.client(), Client::connect(redis.address));
    here.ask("CONFIG SET dump-version 10");
    let value: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    here.call(&[b"SET", b"large", &value]);
    for command in ["RPUSH l a b", "HSET h f v", "ZADD z 1 a", "XADD x 5-1 f v"] {
        here.ask(command);
    }
    assert_eq!(migrate(&mut here, theirs, "- 2 5000 KEYS large l h z"), "OK");
    // By the connection that was kept.
    await_text(&mut here, "INFO stats", "migrate_cached_sockets:1\r");
    let before = connections(&mut there);
    assert_eq!(migrate(&mut here, theirs, "x 2 5000"), "OK");
    assert_eq!(connections(&mut there), before);
    assert_eq!(here.ask("DBSIZE"), "0");
    there.ask("SELECT 2");
    assert_eq!([there.ask("DBSIZE"), there.ask("LRANGE l 0 -1")], ["5", "[a b]"]);
    assert!(there.call(&[b"GET", b"large"]) == crate::common::Frame::Text(value.clone()));
    // Its other port speaks no TLS.
    here.ask("SET mine 1");
    assert!(migrate(&mut here, redis.address, "mine 0 2000").starts_with("IOERR "));
    // It lets no stranger in, and none is spoken to.
    let (stranger, strange) = start_secure("stranger");
    let mut other = stranger.client();
    other.ask("SET theirs 1");
    assert!(migrate(&mut other, theirs, "theirs 0 2000").starts_with("IOERR "));
    assert!(migrate(&mut there, strange, "l 0 2000").starts_with("IOERR "));
    assert_eq!([here.ask("GET mine"), other.ask("GET theirs")], ["1", "1"]);
    assert_eq!(migrate(&mut there, ours, "- 0 5000 KEYS large l h z x"), "OK");
    assert_eq!([here.ask("DBSIZE"), here.ask("HGET h f")], ["6", "v"]);
    assert!(here.call(&[b"GET", b"large"]) == crate::common::Frame::Text(value));
    from.check();
}

/// How many connections a stock server has had.
fn connections(redis: &mut Client) -> String {
    let info = redis.ask("INFO stats");
    let line = info.lines().find(|line| line.starts_with("total_connections_received:"));
    line.expect("it is there").to_owned()
}

/// One that says a byte of its handshake now and then.
#[test]
fn a_slow_handshake_is_given_up() {
    let (from, _) = start_secure("client");
    let mut here = from.client();
    here.ask("SET a 1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let slow = std::thread::spawn(move || {
        let mut peer = listener.accept().unwrap().0;
        // The beginning of a long record.
        peer.write_all(&[22, 3, 3, 0x40, 0]).unwrap();
        for _ in 0..300 {
            std::thread::sleep(Duration::from_millis(10));
            if peer.write_all(&[0]).is_err() {
                return;
            }
        }
    });
    let began = Instant::now();
    let answer = "IOERR error or timeout connecting to the client";
    assert_eq!(migrate(&mut here, address, "a 0 300"), answer);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(here.ask("GET a"), "1");
    slow.join().unwrap();
}

pub(crate) struct Redis {
    process: std::process::Child,
    pub(crate) address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Option<Self> {
        let is_there = std::process::Command::new(program()).arg("--version").output().is_ok();
        // Another program may take its port first.
        let started = is_there.then(|| (0..3).find_map(|_| Self::start_with(&[])));
        started.map(|redis| redis.expect("redis-server starts"))
    }

    /// One that speaks TLS, too, with the certificate of this name, to clients and to targets, and its address for that.
    fn start_secure(name: &str) -> Option<(Self, SocketAddr)> {
        (0..3).find_map(|_| Self::start_secure_once(name))
    }

    fn start_secure_once(name: &str) -> Option<(Self, SocketAddr)> {
        let own = files(name, ClientCertificates::Required);
        let path = |file: std::path::PathBuf| file.to_str().expect("a path in UTF-8").to_owned();
        let (cert, key) = (path(own.cert_file), path(own.key_file));
        let signers = path(own.ca_file.expect("a file of signers"));
        let address = free_address();
        let redis = Self::start_with(&[
            "--tls-port",
            &address.port().to_string(),
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &signers,
            "--tls-auth-clients",
            "yes",
            "--tls-cluster",
            "yes",
        ]);
        redis.map(|redis| (redis, address))
    }

    /// `None` if there is no such program, or it does not know these options.
    fn start_with(options: &[&str]) -> Option<Self> {
        let address = free_address();
        let folder = tempfile::tempdir().unwrap();
        let process = std::process::Command::new(program())
            .args(["--port", &address.port().to_string(), "--save", "", "--dir"])
            .arg(folder.path())
            .args(options)
            .stdout(std::process::Stdio::null())
            .spawn()
            .ok()?;
        let mut redis = Redis { process, address, _folder: folder };
        let began = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            if redis.process.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }
}

fn program() -> String {
    std::env::var("PERDURA_REDIS_SERVER").unwrap_or("redis-server".into())
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
