//! Masters that are none: whatever they send, the server goes on, and says what is wrong.

use crate::common::{Client, Running, await_text, encode, show};
use crate::handing_over::{Replica, line};
use perdura_server::Options;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A master that answers with these bytes, and then either hangs up or says nothing more.
struct Pretender {
    port: u16,
    met: Arc<AtomicUsize>,
}

impl Pretender {
    /// `play` gets the connection after the greeting, and what the follower asks PSYNC for.
    fn start(play: impl Fn(&mut TcpStream, &str) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, met) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&met);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                for _ in 0..3 {
                    if read(&mut stream).is_none() || stream.write_all(b"+OK\r\n").is_err() {
                        break;
                    }
                }
                if let Some(asked) = read(&mut stream) {
                    play(&mut stream, &asked);
                }
            }
        });
        Pretender { port, met }
    }
}

/// What comes at a time.
fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = [0; 4096];
    let read = stream.read(&mut bytes).ok().filter(|read| *read > 0)?;
    Some(String::from_utf8_lossy(&bytes[..read]).into_owned())
}

const ID: &str = "0123456789012345678901234567890123456789";

/// A snapshot of one key, `a`, with the value 1; its checksum is not computed.
fn snapshot() -> Vec<u8> {
    let mut bytes = b"REDIS0011\xFE\x00\x00\x01a\x011\xFF".to_vec();
    bytes.extend_from_slice(&[0; 8]);
    bytes
}

fn whole(stream: &mut TcpStream, place: u64, rest: &[u8]) {
    let snapshot = snapshot();
    let mut bytes = format!("+FULLRESYNC {ID} {place}\r\n${}\r\n", snapshot.len()).into_bytes();
    bytes.extend_from_slice(&snapshot);
    bytes.extend_from_slice(rest);
    // It may have hung up.
    let _ = stream.write_all(&bytes);
}

/// Commands as a master sends them.
fn commands(lines: &[&str]) -> Vec<u8> {
    let line = |line: &&str| encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    lines.iter().flat_map(line).collect()
}

fn follow(client: &mut Client, port: u16) {
    assert_eq!(client.ask(&format!("REPLICAOF 127.0.0.1 {port}")), "OK");
}

#[test]
fn garbage_is_told_and_tried_again() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    client.ask("SET own 1");
    let endless = [
        b"REDIS0011\xFE\x00\x00\x01a\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF".as_slice(),
        &[b'x'; 4096],
    ];
    let endless = Arc::new(endless.concat());
    type Play = Box<dyn Fn(&mut TcpStream, &str) + Send>;
    let say = |text: &'static str| -> Play {
        Box::new(move |stream, _| drop(stream.write_all(text.as_bytes())))
    };
    let all: [(Play, &str); 9] = [
        (say("-ERR no\r\n"), "the master answers PSYNC with"),
        (say("+FULLRESYNC short 1\r\n"), "the master answers PSYNC with"),
        (say("+CONTINUE\r\n"), "an answer to no question"),
        (
            Box::new(|stream, _| whole(stream, 1, b"*1\r\n$x\r\n")),
            "the master's stream: Protocol error",
        ),
        (Box::new(|stream, _| drop(stream.write_all(&[b'x'; 100_000]))), "what no master says"),
        (
            Box::new(|stream, _| {
                drop(stream.write_all(format!("+FULLRESYNC {ID} 1\r\n$100\r\nREDIS00").as_bytes()));
            }),
            "the master has hung up",
        ),
        (
            Box::new(|stream, _| {
                drop(stream.write_all(
                    format!("+FULLRESYNC {ID} 1\r\n$100\r\nnothing of the kind").as_bytes(),
                ));
            }),
            "this is no snapshot of Redis",
        ),
        (
            Box::new(move |stream, _| {
                drop(stream.write_all(format!("+FULLRESYNC {ID} 1\r\n$EOF:{ID}\r\n").as_bytes()));
                drop(stream.write_all(&endless));
            }),
            "more than 512 MiB",
        ),
        (
            Box::new(|stream, _| {
                drop(stream.write_all(format!("+FULLRESYNC {ID} 1\r\n$EOF:{ID}\r\n").as_bytes()));
                drop(stream.write_all(&[snapshot(), vec![b'9'; 40]].concat()));
                drop(read(stream));
            }),
            "the mark at the snapshot's end is wrong",
        ),
    ];
    for (play, text) in all {
        let master = Pretender::start(play);
        follow(&mut client, master.port);
        await_text(&mut client, "INFO replication", text);
        assert!(client.ask("INFO replication").contains("master_link_given_up:0"));
        // It is tried again.
        let start = Instant::now();
        while master.met.load(Ordering::SeqCst) < 2 {
            assert!(start.elapsed() < Duration::from_secs(30), "{text}: not tried again");
            thread::sleep(Duration::from_millis(20));
        }
    }
    // What is not whole is gone, and nobody sees it.
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    assert_eq!(client.ask("DBSIZE"), "0");
    assert_eq!(client.ask("SET own 2"), "OK");
    // Itself.
    follow(&mut client, server.address.port());
    await_text(&mut client, "INFO replication", "NOMASTERLINK");
    assert_eq!(client.ask("GET own"), "2");
    assert!(client.ask("REPLICAOF 127.0.0.1 x").starts_with("ERR Invalid master port"));
    assert!(client.ask("REPLICAOF 127.0.0.1 0").starts_with("ERR Invalid master port"));
    // Nobody.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    follow(&mut client, free);
    await_text(&mut client, "INFO replication", "refused");
    server.check();
}

#[test]
fn what_this_server_lacks_ends_following() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    for (lines, told) in [
        (["SELECT 0", "INCR a", "NOTHING 0 1"].as_slice(), "cannot perform: NOTHING 0 1"),
        (&["INCR a", "SELECT 16"], "the master uses database 16"),
        (&["INCR a", "LPUSH a x"], "the master has sent LPUSH, which fails here: WRONGTYPE"),
        (&["INCR a", "MULTI", "INCR a", "NOTHING", "EXEC"], "cannot perform: NOTHING"),
        (&["INCR a", "MULTI", "INCR a", "LPUSH a x", "EXEC"], "LPUSH, which fails here"),
        (&["INCR a", "GET"], "cannot perform: GET"),
    ] {
        let bytes = commands(lines);
        let master = Pretender::start(move |stream, _| {
            whole(stream, 7, &bytes);
            drop(read(stream));
            thread::sleep(Duration::from_secs(1));
        });
        follow(&mut client, master.port);
        await_text(&mut client, "INFO replication", told);
        assert!(client.ask("INFO replication").contains("master_link_given_up:1"));
        // What came before is there, and nothing of the transaction.
        assert_eq!(client.ask("GET a"), "2");
        assert!(client.ask("SET a 1").starts_with("READONLY"));
        assert_eq!(master.met.load(Ordering::SeqCst), 1);
        // It is tried again when a client says so.
        follow(&mut client, master.port);
        let start = Instant::now();
        while master.met.load(Ordering::SeqCst) < 2 {
            assert!(start.elapsed() < Duration::from_secs(30), "{told}: not tried again");
            thread::sleep(Duration::from_millis(5));
        }
        client.ask("REPLICAOF NO ONE");
    }
    let master = Pretender::start(|stream, _| {
        let snapshot = b"REDIS0012\xFE\x00\x16\x01h\x00";
        let begin = format!("+FULLRESYNC {ID} 1\r\n${}\r\n", snapshot.len() + 9);
        drop(stream.write_all(&[begin.as_bytes(), snapshot].concat()));
        drop(read(stream));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "INFO replication", "a hash whose fields expire (Redis 7.4)");
    assert!(client.ask("GET a").starts_with("LOADING"));
    assert!(client.ask("EVAL return(1) 0").starts_with("LOADING"));
    assert!(client.ask("INFO").contains("loading:1"));
    server.check();
}

/// The end of a transaction may come later, on another connection.
#[test]
fn a_transaction_is_performed_whole_or_not_at_all() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    let before = commands(&["SELECT 3", "SET a 1"]);
    let part = commands(&["MULTI", "INCR a", "INCR a", "INCR a"]);
    let rest = commands(&["EXEC", "SET b 1"]);
    let expected = 100 + before.len() + 1;
    let master = Pretender::start(move |stream, asked| {
        if asked.contains("$2\r\n-1") {
            whole(stream, 100, &[before.as_slice(), &part].concat());
            thread::sleep(Duration::from_millis(700));
            return;
        }
        assert!(asked.contains(ID) && asked.contains(&format!("\r\n{expected}\r\n")), "{asked}");
        drop(stream.write_all(b"+CONTINUE\r\n"));
        drop(stream.write_all(&[part.as_slice(), &rest].concat()));
        thread::sleep(Duration::from_secs(5));
    });
    follow(&mut client, master.port);
    client.ask("SELECT 3");
    await_text(&mut client, "GET a", "1");
    await_text(&mut client, "GET b", "1");
    assert_eq!(client.ask("GET a"), "4");
    server.check();
}

/// Messages of a master's reach this server's listeners, and clients that wait are served.
#[test]
fn listeners_and_waiting_readers_hear_of_it() {
    let server = Running::with(|options| options.threads(2), 32 << 20);
    let mut client = server.client();
    let master = Pretender::start(move |stream, _| {
        whole(stream, 1, b"");
        thread::sleep(Duration::from_millis(500));
        let said = encode(&[b"PUBLISH", b"news", b"text"]);
        let added = encode(&[b"XADD", b"stream", b"1-1", b"f", b"v"]);
        drop(stream.write_all(&[said, added].concat()));
        thread::sleep(Duration::from_secs(20));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "INFO replication", "master_link_status:up");
    let (mut listener, mut reader) = (server.client(), server.client());
    assert_eq!(listener.ask("SUBSCRIBE news"), "[subscribe news 1]");
    assert_eq!(
        crate::common::show(&{
            reader.send(&encode(&[b"XREAD", b"BLOCK", b"0", b"STREAMS", b"stream", b"0"]));
            reader.receive().unwrap()
        }),
        "[[stream [[1-1 [f v]]]]]"
    );
    assert_eq!(crate::common::show(&listener.receive().unwrap()), "[message news text]");
}

/// Clients that were served hear of it, though the stream ends then.
#[test]
fn what_came_before_garbage_is_told() {
    let server = Running::with(|options| options.threads(2), 32 << 20);
    let [mut client, mut reader] = [(); 2].map(|()| server.client());
    let waits = Arc::<AtomicUsize>::default();
    let may = Arc::clone(&waits);
    let master = Pretender::start(move |stream, asked| {
        if asked.contains("$2\r\n-1") {
            whole(stream, 1, b"");
            while may.load(Ordering::SeqCst) == 0 {
                thread::sleep(Duration::from_millis(5));
            }
            // More than share a transaction.
            let lines = [vec!["XADD stream 1-1 f v"], vec!["INCR a"; 40]].concat();
            drop(stream.write_all(&[commands(&lines), b"*1\r\n$x\r\n".to_vec()].concat()));
        }
        thread::sleep(Duration::from_secs(20));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "INFO replication", "master_link_status:up");
    reader.send(&encode(&[b"XREAD", b"BLOCK", b"0", b"STREAMS", b"stream", b"0"]));
    await_text(&mut client, "INFO clients", "blocked_clients:1");
    waits.store(1, Ordering::SeqCst);
    await_text(&mut client, "GET a", "41");
    let told = crate::common::show(&reader.receive().expect("an answer"));
    assert_eq!(told, "[[stream [[1-1 [f v]]]]]");
    server.check();
}

/// As many commands as share a transaction, and then garbage: the place is behind them.
#[test]
fn what_came_before_garbage_is_not_asked_for_again() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    let lines = commands(&["INCR a"; 16]);
    let end = 100 + lines.len();
    let (says, hears) = mpsc::channel();
    let master = Pretender::start(move |stream, asked| {
        if asked.contains("$2\r\n-1") {
            whole(stream, 100, &[lines.as_slice(), b"*1\r\n$x\r\n"].concat());
            while read(stream).is_some() {}
            return;
        }
        let place = asked.trim_end().rsplit("\r\n").next().unwrap_or_default();
        says.send(place.to_owned()).unwrap();
    });
    follow(&mut client, master.port);
    let asked = hears.recv_timeout(Duration::from_secs(20)).expect("it asks again");
    assert_eq!(asked, (end + 1).to_string());
    assert_eq!(client.ask("GET a"), "17");
    server.check();
}

/// A key whose time is over looks gone, and is there until the master deletes it.
#[test]
fn keys_expire_when_the_master_says_so() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    let first = commands(&[
        "SELECT 0",
        "PEXPIREAT a 1700000000000",
        "APPEND a 2",
        "SET b 1 PXAT 1700000000000",
        "INCR b",
        "SET there 1",
    ]);
    let then = commands(&["PERSIST a", "DEL b", "SET there 2"]);
    let master = Pretender::start(move |stream, _| {
        whole(stream, 1, &first);
        thread::sleep(Duration::from_secs(2));
        drop(stream.write_all(&then));
        thread::sleep(Duration::from_secs(20));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "GET there", "1");
    // Nobody deletes it meanwhile.
    for _ in 0..10 {
        assert_eq!([client.ask("GET a"), client.ask("GET b")], ["nil", "nil"]);
        assert_eq!(client.ask("DBSIZE"), "3");
        thread::sleep(Duration::from_millis(100));
    }
    await_text(&mut client, "GET there", "2");
    assert_eq!([client.ask("GET a"), client.ask("GET b")], ["12", "nil"]);
    assert_eq!([client.ask("TTL a"), client.ask("DBSIZE")], ["-1", "2"]);
    server.check();
}

/// A command that only reads removes an expired key for replicas. If it fails after that, the key is there again.
#[test]
fn a_read_that_fails_removes_nothing_untold() {
    let run = |options: Options| options.threads(1);
    let master = Running::with(|options| run(options).debug_command(true), 32 << 20);
    let follower = Running::with(run, 32 << 20);
    let (mut theirs, mut ours) = (master.client(), follower.client());
    follow(&mut ours, master.address.port());
    await_text(&mut ours, "ROLE", &format!("[slave 127.0.0.1 {} connected", master.address.port()));
    theirs.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    theirs.ask("SET text x");
    let script = "return{redis.pcall('SUNION',KEYS[1],'text'),redis.call('DECR',KEYS[1])}";
    let keys = ["alone", "before", "exec", "script"];
    for key in keys {
        theirs.ask(&format!("SET {key} 5 PX 1"));
        thread::sleep(Duration::from_millis(5));
        let (read, write) = (format!("SUNION {key} text"), format!("DECR {key}"));
        let (sent, answers) = match key {
            "alone" => (commands(&[&read]), 1),
            "before" => (commands(&[&read, &write]), 2),
            "exec" => (commands(&["MULTI", &read, &write, "EXEC"]), 4),
            _ => (encode(&[b"EVAL", script.as_bytes(), b"1", key.as_bytes()]), 1),
        };
        theirs.send(&sent);
        let answers: Vec<_> = (0..answers).map(|_| show(&theirs.receive().unwrap())).collect();
        assert_eq!(answers.concat().matches("WRONGTYPE").count(), 1, "{answers:?}");
    }
    theirs.ask("DECR alone");
    assert_eq!(theirs.ask("WAIT 1 10000"), "1");
    for key in keys {
        let get = format!("GET {key}");
        assert_eq!([theirs.ask(&get), ours.ask(&get)], ["-1", "-1"], "{key}");
    }
}

/// A pause that begins while a script runs does not keep replicas from hearing of the keys that it finds expired.
#[test]
fn a_pause_hides_no_expired_key_from_replicas() {
    let master = Running::with(|options| options.threads(2).debug_command(true), 32 << 20);
    let follower = Running::with(|options| options.threads(1), 32 << 20);
    let (mut theirs, mut ours) = (master.client(), follower.client());
    let mut runner = master.client();
    follow(&mut ours, master.address.port());
    await_text(&mut ours, "ROLE", &format!("[slave 127.0.0.1 {} connected", master.address.port()));
    theirs.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    theirs.ask("SADD other there");
    let rounds = [100_000, 300_000, 1_000_000, 3_000_000];
    for turns in rounds {
        theirs.send(&commands(&[&format!("SADD {turns} gone"), &format!("PEXPIRE {turns} 1")]));
        (0..2).for_each(|_| drop(theirs.receive()));
        thread::sleep(Duration::from_millis(5));
        let script = format!(
            "local n=0 while n<{turns} do n=n+1 end \
             return redis.call('SUNIONSTORE','union-{turns}','{turns}','other')"
        );
        runner.send(&encode(&[b"EVAL", script.as_bytes(), b"0"]));
        thread::sleep(Duration::from_millis(2));
        // It is answered when the script has ended, whose thread is another one; or that is done after the pause.
        assert_eq!(theirs.ask("CLIENT PAUSE 100000 WRITE"), "OK");
        theirs.ask("CLIENT UNPAUSE");
        assert_eq!(show(&runner.receive().unwrap()), "1");
    }
    // Nor does one that an EXEC begins itself.
    theirs.send(&commands(&["SADD gone x", "PEXPIRE gone 1"]));
    (0..2).for_each(|_| drop(theirs.receive()));
    thread::sleep(Duration::from_millis(5));
    for command in ["MULTI", "CLIENT PAUSE 100000 WRITE", "SUNIONSTORE union-own gone other"] {
        theirs.ask(command);
    }
    assert_eq!(theirs.ask("EXEC"), "[OK 1]");
    theirs.ask("CLIENT UNPAUSE");
    theirs.ask("SET last 1");
    assert_eq!(theirs.ask("WAIT 1 10000"), "1");
    let look = "SMEMBERS union-own";
    assert_eq!([theirs.ask(look), ours.ask(look)], ["[there]", "[there]"]);
    for turns in rounds {
        let look = format!("SMEMBERS union-{turns}");
        assert_eq!([theirs.ask(&look), ours.ask(&look)], ["[there]", "[there]"], "{turns}");
    }
}

/// A master that has not begun to send its data may never do so.
#[test]
fn data_is_kept_until_there_is_other_data() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    client.ask("SET own 1");
    let master = Pretender::start(|stream, _| {
        drop(stream.write_all(format!("+FULLRESYNC {ID} 1\r\n").as_bytes()));
        thread::sleep(Duration::from_secs(1));
        drop(stream.write_all(b"$100\r\nREDIS0099 and what is in no version that is read"));
        drop(read(stream));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "INFO replication", "this snapshot has version 99");
    assert!(client.ask("INFO replication").contains("master_link_given_up:1"));
    assert_eq!(client.ask("GET own"), "1");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    assert_eq!(client.ask("INCR own"), "2");
    server.check();
}

/// The master's data comes a second time: nobody waits on for what was, or goes by it.
#[test]
fn a_new_copy_ends_waits_and_watches() {
    let server = Running::with(|options| options.threads(2), 32 << 20);
    let [mut client, mut reader, mut waiter, mut watcher] = [(); 4].map(|()| server.client());
    waiter.send(&encode(&[b"WAIT", b"1", b"0"]));
    await_text(&mut client, "INFO clients", "blocked_clients:1");
    let ready = Arc::<AtomicUsize>::default();
    let may = Arc::clone(&ready);
    let master = Pretender::start(move |stream, _| {
        whole(stream, 1, b"");
        let is_first = may.load(Ordering::SeqCst) == 0;
        while is_first && may.load(Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        if !is_first {
            thread::sleep(Duration::from_secs(20));
        }
    });
    follow(&mut client, master.port);
    let ended = "UNBLOCKED";
    let told = |client: &mut Client| crate::common::show(&client.receive().expect("an answer"));
    let answer = told(&mut waiter);
    assert!(answer.starts_with(ended), "{answer}");
    await_text(&mut client, "INFO replication", "master_link_status:up");
    reader.send(&encode(&[b"XREAD", b"BLOCK", b"0", b"STREAMS", b"none", b"$"]));
    await_text(&mut client, "INFO clients", "blocked_clients:1");
    assert_eq!([watcher.ask("WATCH a"), watcher.ask("MULTI")], ["OK", "OK"]);
    assert_eq!(watcher.ask("GET a"), "QUEUED");
    ready.store(1, Ordering::SeqCst);
    let answer = told(&mut reader);
    assert!(answer.starts_with(ended), "{answer}");
    await_text(&mut client, "INFO replication", "master_link_status:up");
    await_text(&mut client, "GET a", "1");
    assert_eq!(watcher.ask("EXEC"), "nil");
    server.check();
}

/// Masters before Redis 7 may send scripts as such.
#[test]
fn scripts_of_old_masters_are_performed() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    let sha = client.ask("SCRIPT LOAD return(redis.call('incrby',KEYS[1],10))");
    client.ask("SCRIPT FLUSH");
    let bytes = commands(&[
        "SELECT 0",
        "SCRIPT LOAD return(redis.call('incrby',KEYS[1],10))",
        "EVAL return(redis.call('incr',KEYS[1])) 1 a",
        &format!("EVALSHA {sha} 1 a"),
        "SCRIPT FLUSH",
        "PFADD sketch x y",
    ]);
    let master = Pretender::start(move |stream, _| {
        whole(stream, 1, &bytes);
        thread::sleep(Duration::from_secs(20));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "EXISTS sketch", "1");
    assert_eq!(client.ask("GET a"), "12");
    // It reads, for clients of a replica.
    assert_eq!(client.ask("PFCOUNT sketch"), "2");
    assert_eq!(client.ask("EVAL return(redis.call('pfcount',KEYS[1])) 1 sketch"), "2");
    assert_eq!([client.ask("MULTI"), client.ask("PFCOUNT sketch")], ["OK", "QUEUED"]);
    assert_eq!(client.ask("EXEC"), "[2]");
    assert!(client.ask("PFADD sketch z").starts_with("READONLY"));
    server.check();
}

/// A place is noted while a transaction has chosen another database, and its end is still to come.
#[test]
fn the_database_of_a_place_is_the_one_before_a_transaction() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    let pings = commands(&["PING"; 2_000]);
    let part = commands(&["MULTI", "SET a 9", "SELECT 3", "SET b 2"]);
    let rest = commands(&["EXEC"]);
    let master = Pretender::start(move |stream, asked| {
        if asked.contains("$2\r\n-1") {
            let selected = commands(&["SELECT 0"]);
            whole(stream, 100, &[selected.as_slice(), &pings, &part].concat());
            thread::sleep(Duration::from_millis(700));
            return;
        }
        drop(stream.write_all(b"+CONTINUE\r\n"));
        drop(stream.write_all(&[part.as_slice(), &rest].concat()));
        thread::sleep(Duration::from_secs(20));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "GET a", "9");
    client.ask("SELECT 3");
    assert_eq!([client.ask("GET a"), client.ask("GET b")], ["nil", "2"]);
    server.check();
}

/// What a master sends is kept for this server's replicas until it is performed: not without bounds.
#[test]
fn an_endless_transaction_is_given_up() {
    let server = Running::with(|options| options.threads(1).max_request(1 << 20), 32 << 20);
    let mut client = server.client();
    let begun = commands(&["MULTI", "SET a 2"]);
    let pings = commands(&["PING"; 1_000]);
    let master = Pretender::start(move |stream, _| {
        whole(stream, 1, &begun);
        for _ in 0..10_000 {
            if stream.write_all(&pings).is_err() {
                return;
            }
        }
    });
    follow(&mut client, master.port);
    await_text(&mut client, "INFO replication", "is larger than --max-request");
    assert_eq!(client.ask("GET a"), "1");
    // A stream is not that long.
    let master = Pretender::start(|stream, _| {
        drop(stream.write_all(format!("+FULLRESYNC {ID} {}\r\n", u64::MAX).as_bytes()));
        drop(read(stream));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "INFO replication", "the master answers PSYNC with");
    server.check();
}

/// Replicas of a follower that ask for what there is not.
#[test]
fn odd_replicas_of_a_follower_harm_nobody() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    // Empty lines come before an answer that takes its time.
    let ask = |place: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(format!("PSYNC {ID} {place}\r\n").as_bytes()).unwrap();
        line(&mut stream)
    };
    // The longest stream that there is.
    let longest = i64::MAX as u64;
    let master = Pretender::start(move |stream, _| {
        whole(stream, longest, b"");
        drop(stream.write_all(&commands(&["SET a 2"])));
        thread::sleep(Duration::from_secs(20));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "GET a", "2");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    assert!(client.ask("INFO replication").contains("second_repl_offset:-92233720368547757"));
    let master = Pretender::start(move |stream, _| {
        whole(stream, 100, &commands(&["SET a 3"]));
        thread::sleep(Duration::from_secs(20));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "GET a", "3");
    let at = 100 + commands(&["SET a 3"]).len() as i64;
    for (place, answer) in [
        ((at + 1).to_string(), "+CONTINUE"),
        ("101".to_owned(), "+CONTINUE"),
        ("100".to_owned(), "+FULLRESYNC"),
        ("0".to_owned(), "+FULLRESYNC"),
        (i64::MIN.to_string(), "+FULLRESYNC"),
        // It may come, and does not.
        (i64::MAX.to_string(), "+FULLRESYNC"),
        ((at + 2).to_string(), "+FULLRESYNC"),
    ] {
        let said = ask(&place);
        assert!(said.starts_with(answer), "{place}: {said}");
    }
    server.check();
}

/// A client's script keeps others from writing, and so from following: whoever tells the server to follow another master, or
/// none, is told that it is busy, and so is everybody else.
#[test]
fn a_long_script_keeps_nobody_waiting() {
    let server = Running::with(|options| options.threads(2), 32 << 20);
    let [mut client, mut other, mut script] = [(); 3].map(|()| server.client());
    let begun = Arc::<AtomicUsize>::default();
    let goes = Arc::clone(&begun);
    let master = Pretender::start(move |stream, _| {
        whole(stream, 1, b"");
        for count in 0..10_000 {
            let text = format!("SET a {count}");
            let has_begun = goes.load(Ordering::SeqCst) > 0;
            if stream.write_all(&commands(&[&text])).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(if has_begun { 1 } else { 20 }));
        }
    });
    follow(&mut client, master.port);
    await_text(&mut client, "INFO replication", "master_link_status:up");
    assert_eq!(client.ask("CONFIG SET busy-reply-threshold 300"), "OK");
    script.send(&encode(&[b"EVAL", b"while true do end", b"0"]));
    begun.store(1, Ordering::SeqCst);
    let start = Instant::now();
    let answer = loop {
        thread::sleep(Duration::from_millis(150));
        let answer = client.ask(&format!("REPLICAOF 127.0.0.1 {}", master.port + 1));
        if answer.starts_with("BUSY") {
            break answer;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{answer}");
        follow(&mut client, master.port);
    };
    assert!(answer.starts_with("BUSY Redis is busy running a script."), "{answer}");
    let start = Instant::now();
    assert!(other.ask("GET a").starts_with("BUSY"));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(other.ask("SCRIPT KILL"), "OK");
    assert!(crate::common::show(&script.receive().unwrap()).contains("killed"));
    // It goes on.
    let before = client.ask("GET a");
    let start = Instant::now();
    while client.ask("GET a") == before {
        assert!(start.elapsed() < Duration::from_secs(10), "still {before}");
    }
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    server.check();
}

/// A master whose machine answers nothing: whoever ends the server does not wait for it.
#[test]
fn the_end_does_not_wait_for_a_connection() {
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    listen(&socket, 0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
    // Nobody accepts, and no more are let in.
    let held: Vec<_> = (0..8).map(|_| connect()).collect();
    let is_late = |held: &std::io::Result<TcpStream>| {
        held.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
    };
    assert!(held.iter().any(is_late), "all are let in");
    let mut server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    follow(&mut client, address.port());
    await_text(&mut client, "ROLE", "connecting");
    thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    server.stop();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    server.check();
}

/// Reads until the follower says that it has all up to this place, or says something else of what it has at last.
fn acknowledged(stream: &mut TcpStream, place: usize) -> String {
    let (end, mut said) = (format!("\r\n{place}\r\n"), String::new());
    let start = Instant::now();
    while !said.ends_with(&end) && start.elapsed() < Duration::from_secs(10) {
        said += &read(stream).expect("an acknowledgement");
    }
    said.trim_end().rsplit("\r\n").next().unwrap_or_default().to_owned()
}

/// What a master sends that changes nothing counts, and is passed on. If the link breaks, the stream goes on where the data is,
/// and, with replicas, which have the rest as well, at its end.
#[test]
fn idle_bytes_of_a_master_count() {
    for has_replica in [false, true] {
        let server = Running::with(|options| options.threads(1), 32 << 20);
        let mut client = server.client();
        let ping = commands(&["PING"]);
        let first = [commands(&["SELECT 0", "SET a 2"]), b"\n".to_vec(), ping.clone()].concat();
        let then = [ping.as_slice(), b"\r\n\n", &commands(&["SET b 3"])].concat();
        let idle = [b"\n", ping.as_slice(), b"\n"].concat();
        let (at, middle) = (100 + first.len(), 100 + first.len() + then.len());
        let end = middle + idle.len();
        let (says, hears) = mpsc::channel();
        let (goes, may_go) = mpsc::channel();
        let may_go = Mutex::new(may_go);
        let mut parts = vec![(then, middle), (idle.clone(), end)];
        let sent: Vec<u8> = parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let again = [idle, commands(&["SET c 4"])].concat();
        let parts = std::mem::take(&mut parts);
        let master = Pretender::start(move |stream, asked| {
            if asked.contains("$2\r\n-1") {
                whole(stream, 100, &first);
                says.send(acknowledged(stream, at)).unwrap();
                may_go.lock().unwrap().recv().unwrap();
                for (bytes, place) in &parts {
                    stream.write_all(bytes).unwrap();
                    says.send(acknowledged(stream, *place)).unwrap();
                }
                return;
            }
            let place = asked.trim_end().rsplit("\r\n").next().unwrap_or_default();
            says.send(place.to_owned()).unwrap();
            let rest =
                if place == (end + 1).to_string() { commands(&["SET c 4"]) } else { again.clone() };
            stream.write_all(&[b"+CONTINUE\r\n", rest.as_slice()].concat()).unwrap();
            let last = end + commands(&["SET c 4"]).len();
            says.send(acknowledged(stream, last)).unwrap();
            thread::sleep(Duration::from_secs(20));
        });
        let hear = || hears.recv_timeout(Duration::from_secs(20)).expect("the master says");
        follow(&mut client, master.port);
        assert_eq!(hear(), at.to_string());
        let mut replica = has_replica.then(|| Replica::attach(&server));
        goes.send(()).unwrap();
        assert_eq!([hear(), hear()], [middle.to_string(), end.to_string()]);
        let asked = if has_replica { end } else { middle };
        assert_eq!(hear(), (asked + 1).to_string(), "has a replica: {has_replica}");
        assert_eq!(hear(), (end + commands(&["SET c 4"]).len()).to_string());
        assert_eq!(client.ask("MGET a b c"), "[2 3 4]");
        let whole_stream = [sent, commands(&["SET c 4"])].concat();
        if let Some(replica) = &mut replica {
            // Its snapshot may have been taken before the last bytes that change nothing.
            let got = replica.await_part("\r\nc\r\n$1\r\n4\r\n");
            assert!(got.ends_with(&whole_stream), "{}", String::from_utf8_lossy(&got));
        }
        server.check();
    }
}

/// A master's stream that goes on by another name is known by that name after a restart.
#[test]
fn the_stream_s_new_name_is_kept() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    let first = commands(&["SET a 2"]);
    let (middle, end) = (100 + first.len(), 100 + 2 * first.len());
    let name = "f".repeat(40);
    let (says, hears) = mpsc::channel();
    let new = name.clone();
    let master = Pretender::start(move |stream, asked| {
        if asked.contains("$2\r\n-1") {
            whole(stream, 100, &first);
            acknowledged(stream, middle);
            return;
        }
        let words: Vec<&str> =
            asked.split("\r\n").filter(|word| !word.starts_with(['$', '*'])).collect();
        says.send(words.join(" ").trim_end().to_owned()).unwrap();
        let answer = format!("+CONTINUE {new}\r\n");
        stream.write_all(&[answer.as_bytes(), &commands(&["SET a 3"])].concat()).unwrap();
        says.send(acknowledged(stream, end)).unwrap();
        while read(stream).is_some() {}
    });
    let hear = || hears.recv_timeout(Duration::from_secs(20)).expect("the master says");
    follow(&mut client, master.port);
    assert_eq!(hear(), format!("PSYNC {ID} {}", middle + 1));
    assert_eq!(hear(), end.to_string());
    drop(client);
    let server = server.restarted();
    assert_eq!(hear(), format!("PSYNC {name} {}", end + 1));
    server.check();
}

/// A master may say for long only that it is there: the pool is told now and then, so that a server that is started again does
/// not ask for all of that once more.
#[test]
fn the_pool_knows_of_many_idle_bytes() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    let pings = commands(&["PING"; 5_000]);
    let end = 100 + pings.len();
    let (says, hears) = mpsc::channel();
    let master = Pretender::start(move |stream, asked| {
        if asked.contains("$2\r\n-1") {
            whole(stream, 100, &pings);
            says.send(acknowledged(stream, end)).unwrap();
            while read(stream).is_some() {}
            return;
        }
        let place = asked.trim_end().rsplit("\r\n").next().unwrap_or_default();
        says.send(place.to_owned()).unwrap();
        drop(read(stream));
    });
    let hear = || hears.recv_timeout(Duration::from_secs(20)).expect("the master says");
    follow(&mut client, master.port);
    assert_eq!(hear(), end.to_string());
    drop(client);
    let _running = server.restarted();
    let place: usize = hear().parse().unwrap();
    assert!(place <= end + 1 && place + (16 << 10) > end, "{place} of {end}");
}

/// One SCRIPT KILL ends a master's script, also one that shares a transaction with other commands: these are performed.
#[test]
fn a_masters_script_is_killed_once() {
    let server = Running::with(|options| options.threads(1), 32 << 20);
    let mut client = server.client();
    assert_eq!(client.ask("CONFIG SET busy-reply-threshold 200"), "OK");
    let script = encode(&[b"EVAL", b"redis.call('INCR', 'a') while true do end", b"0"]);
    let bytes = [commands(&["SELECT 0", "INCR a", "INCR a"]), script, commands(&["INCR a"])];
    let master = Pretender::start(move |stream, _| {
        whole(stream, 1, &bytes.concat());
        thread::sleep(Duration::from_secs(20));
    });
    follow(&mut client, master.port);
    await_text(&mut client, "PING", "BUSY");
    assert_eq!(client.ask("SCRIPT KILL"), "OK");
    let (start, mut has_ended) = (Instant::now(), false);
    loop {
        let answer = client.ask("INFO replication");
        if answer.contains("master_link_given_up:1") {
            assert!(answer.contains("the master has sent EVAL, which fails here"), "{answer}");
            break;
        }
        // It ends soon. If it ran again, it would be overdue after another 200 ms.
        let is_busy = answer.starts_with("BUSY");
        assert!(!is_busy || !has_ended, "it runs again: {answer}");
        assert!(start.elapsed() < Duration::from_secs(10), "{answer}");
        has_ended |= !is_busy;
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.ask("GET a"), "3");
    server.check();
}
