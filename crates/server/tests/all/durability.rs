//! The data after a restart, when the pool is full, and after much was deleted.

use crate::common::{Client, Running, show};
use std::time::{Duration, Instant};

#[test]
fn everything_is_there_after_a_restart() {
    let running = Running::start();
    let mut client = running.client();
    let long = "v".repeat(100_000);
    for command in [
        "SET short 1",
        &format!("SET long {long}"),
        "HSET small a 1 b 2",
        &format!("HSET large a {long} b 2"),
        "ZADD ranking 1 a 2 b 3 c",
        "SADD members a b",
        "RPUSH elements a b a",
        "XADD stream 1-1 field value",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group one STREAMS stream >",
        "SELECT 3",
        "SET other 1",
    ] {
        assert!(!client.ask(command).contains("ERR"));
    }
    let code = b"#!lua name=lib\nredis.register_function('f', function() return 'called' end)";
    assert_eq!(show(&client.call(&[b"FUNCTION", b"LOAD", code])), "lib");
    let running = running.restarted();
    let mut client = running.client();
    assert_eq!(client.ask("GET short"), "1");
    assert_eq!(client.ask("FCALL f 0"), "called");
    assert_eq!(client.ask("XRANGE stream - +"), "[[1-1 [field value]]]");
    assert_eq!(client.ask("XPENDING stream group"), "[1 1-1 1-1 [[one 1]]]");
    assert_eq!(client.ask("GET long"), long);
    assert_eq!(client.ask("HGETALL small"), "[a 1 b 2]");
    assert_eq!(client.ask("HGET large b"), "2");
    assert_eq!(client.ask("ZRANGE ranking 0 -1 WITHSCORES"), "[a 1 b 2 c 3]");
    assert_eq!(client.ask("SMISMEMBER members a b c"), "[1 1 0]");
    assert_eq!(client.ask("LRANGE elements 0 -1"), "[a b a]");
    assert_eq!(client.ask("DBSIZE"), "8");
    client.ask("SELECT 3");
    assert_eq!(client.ask("GET other"), "1");
    assert_eq!(running.check().keys, 9);
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn expiry_survives_a_restart() {
    let running = Running::start();
    let mut client = running.client();
    client.ask("SET soon 1 PX 300");
    client.ask("HSET later a 1");
    client.ask("EXPIRE later 1000");
    client.ask("SET never 1");
    let running = running.restarted();
    let mut client = running.client();
    let left: i64 = client.ask("TTL later").parse().unwrap();
    assert!((980..=1000).contains(&left), "{left}");
    wait_for("the key to be deleted", || client.ask("DBSIZE") == "2");
    assert_eq!(client.ask("GET soon"), "nil");
    assert!(client.ask("INFO stats").contains("expired_keys:1"));
    assert_eq!(running.check().expiring, 1);
}

#[test]
fn many_keys_expire_by_themselves() {
    let running = Running::start();
    let mut client = running.client();
    for key in 0..5000 {
        client.send(&crate::common::encode(&[
            b"SET",
            format!("k{key}").as_bytes(),
            b"v",
            b"PX",
            b"50",
        ]));
    }
    for _ in 0..5000 {
        assert_eq!(crate::common::show(&client.receive().unwrap()), "OK");
    }
    wait_for("all keys to expire", || client.ask("DBSIZE") == "0");
    assert_eq!(running.check().expiring, 0);
}

fn used(client: &mut Client) -> u64 {
    let info = client.ask("INFO memory");
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_full_pool_loses_nothing() {
    let running = Running::with(|options| options, 8 << 20);
    let mut client = running.client();
    let value = "v".repeat(1000);
    let mut kept = 0;
    let refusal = loop {
        let answer = client.ask(&format!("SET key:{kept} {value}"));
        if answer != "OK" {
            break answer;
        }
        kept += 1;
    };
    assert_eq!(refusal, "OOM command not allowed when used memory > 'maxmemory'.");
    // Of several commands in one transaction, only those that do not fit fail.
    client.send(&crate::common::encode(&[b"SET", b"key:0", b"changed"]));
    client.send(&crate::common::encode(&[b"SET", b"another", value.repeat(100).as_bytes()]));
    client.send(&crate::common::encode(&[b"GET", b"key:0"]));
    let answers: Vec<_> = (0..3).map(|_| crate::common::show(&client.receive().unwrap())).collect();
    assert!(answers[1].starts_with("OOM") && answers[2] == "changed", "{answers:?}");
    for key in 1..kept {
        assert_eq!(client.ask(&format!("GET key:{key}")), value);
    }
    assert_eq!(running.check().keys, kept);
    // EXEC is all or nothing.
    client.ask("MULTI");
    client.ask("SET key:1 lost");
    client.ask(&format!("SET more {}", value.repeat(100)));
    assert!(client.ask("EXEC").starts_with("OOM"));
    assert_eq!(client.ask("GET key:1"), value);
    // Deleting makes room, and a flush needs none.
    for key in 1..kept / 2 {
        assert_eq!(client.ask(&format!("DEL key:{key}")), "1");
    }
    assert_eq!(client.ask(&format!("SET more {value}")), "OK");
    assert_eq!(client.ask("FLUSHALL"), "OK");
    wait_for("room", || client.ask(&format!("SET large {}", value.repeat(100))) == "OK");
    running.check();
}

#[test]
fn full_log_and_full_pool_differ() {
    let running = Running::with(|options| options, 8 << 20);
    let mut client = running.client();
    let pairs: Vec<_> = (0..20_000).map(|key| format!("key:{key} {key}")).collect();
    let refusal = client.ask(&format!("MSET {}", pairs.join(" ")));
    assert!(refusal.starts_with("ERR too large to be done at once"), "{refusal}");
    assert!(refusal.contains("pool create --log"), "{refusal}");
    assert_eq!(client.ask("DBSIZE"), "0");
    assert_eq!(client.ask("SET key value"), "OK");
    running.check();
}

#[test]
fn a_flush_is_quick_and_memory_comes_back() {
    let running = Running::start();
    let mut client = running.client();
    let empty = used(&mut client);
    for key in 0..20_000 {
        client.send(&crate::common::encode(&[
            b"SET",
            format!("k{key}").as_bytes(),
            b"some value of size",
        ]));
        let field = format!("f{key}");
        client.send(&crate::common::encode(&[b"HSET", b"hash", field.as_bytes(), b"value"]));
        client.send(&crate::common::encode(&[b"ZADD", b"set", b"1", field.as_bytes()]));
    }
    for _ in 0..60_000 {
        client.receive().unwrap();
    }
    let full = used(&mut client);
    assert!(full > empty + (1 << 20));
    assert_eq!(client.ask("FLUSHALL"), "OK");
    assert_eq!(client.ask("DBSIZE"), "0");
    assert_eq!(client.ask("SET new 1"), "OK");
    wait_for("the garbage to be freed", || running.check().garbage == 0);
    wait_for("memory to come back", || {
        // Freed memory waits for the log to be emptied.
        running.pool.checkpoint().unwrap();
        used(&mut client) < empty + (full - empty) / 8
    });
    assert_eq!(client.ask("GET new"), "1");
}

#[test]
fn garbage_is_freed_after_a_restart() {
    let running = Running::start();
    let mut client = running.client();
    for key in 0..30_000 {
        let field = format!("f{key}");
        client.send(&crate::common::encode(&[b"HSET", b"hash", field.as_bytes(), b"value"]));
    }
    for _ in 0..30_000 {
        client.receive().unwrap();
    }
    assert_eq!(client.ask("DEL hash"), "1");
    assert_eq!(client.ask("EXISTS hash"), "0");
    let running = running.restarted();
    wait_for("the garbage to be freed", || running.check().garbage == 0);
}
