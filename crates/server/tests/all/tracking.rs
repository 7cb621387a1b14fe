//! CLIENT TRACKING, on servers of several threads, to which clients go in turn.

use crate::common::{Client, Frame, Running, await_text, encode, show};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn start() -> Running {
    Running::with(|options| options.threads(2), 64 << 20)
}

fn received(client: &mut Client) -> String {
    show(&client.receive().expect("a message"))
}

/// A client of the newer protocol that tracks, on a thread, and one on the other thread.
fn pair(server: &Running, options: &str) -> (Client, Client) {
    let (mut tracker, other) = (server.client(), server.client());
    tracker.ask("HELLO 3");
    assert_eq!(tracker.ask(format!("CLIENT TRACKING ON {options}").trim_end()), "OK");
    (tracker, other)
}

#[test]
fn clients_of_all_threads_hear_what_is_invalid() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "");
    let mut beside = server.client();
    for (number, command) in [
        "SET key 1",
        "APPEND key x",
        "DEL key",
        "HSET key f v",
        "EXPIRE key 100",
        "RENAME key other",
        "LPUSH key a",
        "MULTI",
        "EVAL redis.call('del',KEYS[1]) 1 key",
        "COPY other key",
        "MOVE key 3",
    ]
    .into_iter()
    .enumerate()
    {
        tracker.ask("EXISTS key nothing");
        let writer = if number % 2 == 0 { &mut other } else { &mut beside };
        writer.ask(command);
        if command == "MULTI" {
            writer.ask("SET key 5");
            writer.ask("EXEC");
        }
        assert_eq!(received(&mut tracker), "[invalidate [key]]", "{command}");
        // It is told once.
        writer.ask("SADD elsewhere x");
    }
    assert_eq!(tracker.ask("PING"), "PONG");
    for command in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        tracker.ask("GET key");
        other.ask(command);
        assert_eq!(received(&mut tracker), "[invalidate nil]", "{command}");
    }
    assert_eq!(tracker.ask("PING"), "PONG");
    // It expires, and nobody asks for it.
    other.ask("SET key 1 PX 30");
    tracker.ask("GET key");
    assert_eq!(received(&mut tracker), "[invalidate [key]]");
    assert_eq!(tracker.ask("GET key"), "nil");
    await_text(&mut other, "INFO clients", "tracking_clients:1");
    drop(tracker);
    await_text(&mut other, "INFO clients", "tracking_clients:0");
    await_text(&mut other, "INFO stats", "tracking_total_keys:0");
}

#[test]
fn options_say_what_is_tracked() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "OPTIN");
    tracker.ask("GET a");
    assert_eq!(tracker.ask("CLIENT CACHING YES"), "OK");
    // Only the next one, though all are sent together.
    tracker.send(&[encode(&[b"GET", b"b"]), encode(&[b"GET", b"c"])].concat());
    assert_eq!([received(&mut tracker), received(&mut tracker)], ["nil", "nil"]);
    other.ask("MSET a 1 b 2 c 3");
    assert_eq!(received(&mut tracker), "[invalidate [b]]");
    // All of a transaction.
    for (command, answer) in [("CLIENT CACHING YES", "OK"), ("MULTI", "OK"), ("GET a", "QUEUED")] {
        assert_eq!(tracker.ask(command), answer);
    }
    assert_eq!(tracker.ask("MGET b c"), "QUEUED");
    assert_eq!(tracker.ask("EXEC"), "[1 [2 3]]");
    tracker.ask("GET d");
    other.ask("MSET a 1 b 2 c 3 d 4");
    for key in ["a", "b", "c"] {
        assert_eq!(received(&mut tracker), format!("[invalidate [{key}]]"));
    }
    // It may be said within, too.
    for (command, answer) in
        [("MULTI", "OK"), ("CLIENT CACHING YES", "QUEUED"), ("GET a", "QUEUED")]
    {
        assert_eq!(tracker.ask(command), answer);
    }
    assert_eq!(tracker.ask("EXEC"), "[OK 1]");
    tracker.ask("GET d");
    other.ask("MSET a 1 d 4");
    assert_eq!(received(&mut tracker), "[invalidate [a]]");
    assert_eq!(tracker.ask("CLIENT TRACKING OFF"), "OK");
    assert_eq!(tracker.ask("CLIENT TRACKING ON OPTOUT NOLOOP"), "OK");
    assert_eq!(tracker.ask("CLIENT CACHING NO"), "OK");
    tracker.send(&[encode(&[b"GET", b"a"]), encode(&[b"MGET", b"b", b"c"])].concat());
    received(&mut tracker);
    received(&mut tracker);
    tracker.ask("SET b 5");
    other.ask("MSET a 1 b 2 c 3");
    assert_eq!(received(&mut tracker), "[invalidate [c]]");
    assert_eq!(tracker.ask("PING"), "PONG");
}

#[test]
fn scripts_remember_the_keys_that_their_commands_read() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "");
    let script =
        "redis.call('get',KEYS[1]) redis.call('set',KEYS[2],1) return redis.call('get',KEYS[3])";
    tracker.call(&[b"EVAL", script.as_bytes(), b"4", b"a", b"b", b"c", b"d"]);
    // Those that were not declared, too. Nobody knows whether they were being written meanwhile.
    tracker.call(&[b"EVAL_RO", b"return redis.call('get','e')", b"0"]);
    assert_eq!(received(&mut tracker), "[invalidate [e]]");
    other.ask("MSET a 1 b 2 c 3 d 4 e 5");
    assert_eq!(received(&mut tracker), "[invalidate [a]]");
    assert_eq!(received(&mut tracker), "[invalidate [c]]");
    assert_eq!(tracker.ask("PING"), "PONG");
}

/// A transaction writes before anybody tracks, and commits after a client has read the old value.
#[test]
fn the_first_client_that_tracks_hears_of_writes_under_way() {
    let server = start();
    let (mut writer, mut other) = (server.client(), server.client());
    for write in ["redis.call('set',KEYS[1],'new')", "redis.call('flushdb')"] {
        let script = format!("{write} local n=0 while n<1000000 do n=n+1 end");
        let mut is_seen = false;
        for _ in 0..50 {
            other.ask("SET k old");
            other.ask("HELLO 3");
            writer.send(&encode(&[b"EVAL", script.as_bytes(), b"1", b"k"]));
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(other.ask("CLIENT TRACKING ON BCAST"), "OK");
            if other.ask("GET k") == "old" {
                let message = received(&mut other);
                assert!(["[invalidate nil]", "[invalidate [k]]"].contains(&message.as_str()));
                is_seen |= message == "[invalidate nil]";
            }
            writer.receive();
            other.ask("RESET");
            if is_seen {
                break;
            }
        }
        println!("{write}: a write was under way: {is_seen}");
    }
}

#[test]
fn prefixes_are_told_of_in_one_message_for_each_transaction() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "BCAST PREFIX a PREFIX bc NOLOOP");
    other.send(
        &[&b"MULTI"[..], b"MSET a1 1 b 2 bc 3 c 4 a0 5", b"DEL a1", b"EXEC"]
            .map(|line| encode(&line.split(|byte| *byte == b' ').collect::<Vec<_>>()))
            .concat(),
    );
    (0..4).for_each(|_| drop(other.receive()));
    assert_eq!(received(&mut tracker), "[invalidate [a0 a1]]");
    assert_eq!(received(&mut tracker), "[invalidate [bc]]");
    tracker.ask("SET a1 1");
    other.ask("SET ab 1");
    assert_eq!(received(&mut tracker), "[invalidate [ab]]");
    for (command, error) in [
        (
            "BCAST PREFIX ax",
            "ERR Prefix 'ax' overlaps with an existing prefix 'a'. Prefixes for a single client must not overlap.",
        ),
        (
            "BCAST PREFIX x PREFIX xy",
            "ERR Prefix 'x' overlaps with another provided prefix 'xy'. Prefixes for a single client must not overlap.",
        ),
        ("PREFIX x", "ERR PREFIX option requires BCAST mode to be enabled"),
        (
            "OPTIN OPTOUT",
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ),
        ("BCAST OPTIN", "ERR OPTIN and OPTOUT are not compatible with BCAST"),
        ("REDIRECT 12345678", "ERR The client ID you want redirect to does not exist"),
        ("PREFIX", "ERR syntax error"),
    ] {
        assert_eq!(tracker.ask(&format!("CLIENT TRACKING ON {command}")), error);
    }
}

#[test]
fn messages_go_to_another_client() {
    let server = start();
    let (mut tracker, mut listener, mut other) =
        (server.client(), server.client(), server.client());
    let id = listener.ask("CLIENT ID");
    assert_eq!(
        listener.ask("SUBSCRIBE __redis__:invalidate"),
        "[subscribe __redis__:invalidate 1]"
    );
    assert_eq!(tracker.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "OK");
    assert_eq!(tracker.ask("CLIENT GETREDIR"), id);
    tracker.ask("MGET a b");
    other.ask("MSET b 1 a 2");
    for key in ["b", "a"] {
        assert_eq!(received(&mut listener), format!("[message __redis__:invalidate [{key}]]"));
    }
    tracker.ask("GET a");
    other.ask("FLUSHALL");
    assert_eq!(received(&mut listener), "[message __redis__:invalidate nil]");
    let line = |other: &mut Client| {
        let list = other.ask("CLIENT LIST");
        list.lines().find(|line| line.contains(&format!("redir={id} "))).map(str::to_owned)
    };
    assert!(line(&mut other).expect("it is listed").contains(" flags=t "));
    tracker.ask("HELLO 3");
    tracker.ask("GET a");
    drop(listener);
    let gone = format!("id={id} ");
    let began = Instant::now();
    while other.ask("CLIENT LIST").lines().any(|line| line.starts_with(&gone)) {
        assert!(began.elapsed() < Duration::from_secs(20), "it is gone");
    }
    other.ask("SET a 1");
    assert_eq!(received(&mut tracker), format!("[tracking-redir-broken {id}]"));
    assert!(line(&mut other).expect("it is listed").contains(" flags=tR "));
    let info = tracker.ask("CLIENT TRACKINGINFO");
    assert_eq!(info, format!("[flags [on broken_redirect] redirect {id} prefixes []]"));
}

/// Clients that keep what they read, and forget what they are told of, have in the end what the server has, whatever others
/// have written meanwhile.
#[test]
fn nobody_is_left_with_an_old_value() {
    const KEYS: u64 = 8;
    let server = Running::with(|options| options.threads(3), 64 << 20);
    let ends = AtomicBool::new(false);
    let key = |number: u64| format!("key{}", number % KEYS).into_bytes();
    let caches = std::thread::scope(|scope| {
        let trackers: Vec<_> = (0..4_u64)
            .map(|index| {
                let (mut tracker, ends) = (server.client(), &ends);
                scope.spawn(move || {
                    tracker.ask("HELLO 3");
                    let options = if index % 2 == 0 { "" } else { " NOLOOP" };
                    assert_eq!(tracker.ask(&format!("CLIENT TRACKING ON{options}")), "OK");
                    let mut cache: HashMap<Vec<u8>, Frame> = HashMap::new();
                    let mut number = index;
                    while !ends.load(Ordering::SeqCst) {
                        number = number.wrapping_mul(31).wrapping_add(7);
                        let wanted = key(number >> 7);
                        let value = ask(&mut tracker, &mut cache, &[b"GET", &wanted]);
                        cache.insert(wanted, value);
                    }
                    (tracker, cache)
                })
            })
            .collect();
        let writers: Vec<_> = (0..3_u64)
            .map(|index| {
                let mut writer = server.client();
                scope.spawn(move || {
                    for number in 0..3_000_u64 {
                        let wanted = key(number.wrapping_mul(13) + index);
                        match number % 5 {
                            0 => drop(writer.call(&[b"DEL", &wanted])),
                            1 => drop(writer.call(&[b"SET", &wanted, b"1", b"PX", b"2"])),
                            _ => drop(writer.call(&[b"INCR", &wanted])),
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
        // What expires has gone by then.
        std::thread::sleep(Duration::from_millis(300));
        ends.store(true, Ordering::SeqCst);
        let trackers = trackers.into_iter().map(|tracker| tracker.join().expect("it reads"));
        trackers.collect::<Vec<_>>()
    });
    let mut other = server.client();
    std::thread::sleep(Duration::from_millis(200));
    for (mut tracker, mut cache) in caches {
        for _ in 0..3 {
            ask(&mut tracker, &mut cache, &[b"PING"]);
        }
        for (key, value) in cache {
            let now = other.call(&[b"GET", &key]);
            assert_eq!(now, value, "{}", String::from_utf8_lossy(&key));
        }
    }
}

/// A request's answer; what is invalid is forgotten.
fn ask(client: &mut Client, cache: &mut HashMap<Vec<u8>, Frame>, args: &[&[u8]]) -> Frame {
    client.send(&encode(args));
    loop {
        let frame = client.receive().expect("an answer");
        let Frame::List(parts) = &frame else { return frame };
        assert_eq!(parts[0], Frame::Text(b"invalidate".to_vec()));
        let Frame::List(keys) = &parts[1] else { panic!("keys: {frame:?}") };
        for key in keys {
            let Frame::Text(key) = key else { panic!("a key: {key:?}") };
            cache.remove(key);
        }
    }
}

#[test]
fn the_table_of_keys_has_a_limit() {
    let server = start();
    let (mut tracker, mut other) = pair(&server, "");
    for number in 0..50 {
        tracker.ask(&format!("GET key{number}"));
    }
    await_text(&mut other, "INFO stats", "tracking_total_keys:50\r");
    assert_eq!(other.ask("CONFIG SET tracking-table-max-keys 20"), "OK");
    let mut told: Vec<String> = (0..30).map(|_| received(&mut tracker)).collect();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 30);
    await_text(&mut other, "INFO stats", "tracking_total_keys:20\r");
    let request: Vec<Vec<u8>> = (0..100).map(|number| format!("k{number}").into_bytes()).collect();
    let args: Vec<&[u8]> =
        [b"MGET".as_slice()].into_iter().chain(request.iter().map(Vec::as_slice)).collect();
    tracker.call(&args);
    (0..100).for_each(|_| assert!(received(&mut tracker).starts_with("[invalidate ")));
    assert_eq!(tracker.ask("PING"), "PONG");
}
