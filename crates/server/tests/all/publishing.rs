//! Publishing, on a server of two threads, to which clients go in turn.

use crate::common::{Client, Frame, Running, encode, show};
use std::time::{Duration, Instant};

fn start() -> Running {
    Running::with(|options| options.threads(2), 64 << 20)
}

fn received(client: &mut Client) -> String {
    show(&client.receive().expect("a message"))
}

/// A client on each of the two threads, the second of them subscribed.
fn pair(server: &Running, command: &str, answer: &str) -> (Client, Client) {
    let (publishes, mut listens) = (server.client(), server.client());
    assert_eq!(listens.ask(command), answer);
    (publishes, listens)
}

#[test]
fn messages_reach_the_clients_of_all_threads() {
    let server = start();
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("SUBSCRIBE news"), "[subscribe news 1]");
        assert_eq!(client.ask("PSUBSCRIBE n*"), "[psubscribe n* 2]");
    }
    let mut publisher = server.client();
    for number in 0..100 {
        assert_eq!(publisher.ask(&format!("PUBLISH news {number}")), "8");
    }
    for client in &mut clients {
        for number in 0..100 {
            assert_eq!(received(client), format!("[message news {number}]"));
            assert_eq!(received(client), format!("[pmessage n* news {number}]"));
        }
    }
    assert_eq!(publisher.ask("PUBLISH other x"), "0");
    assert_eq!(publisher.ask("PUBSUB CHANNELS"), "[news]");
    assert_eq!(publisher.ask("PUBSUB NUMSUB news other"), "[news 4 other 0]");
    assert_eq!(publisher.ask("PUBSUB NUMPAT"), "1");
    drop(clients);
    let began = Instant::now();
    while publisher.ask("PUBLISH news x") != "0" {
        assert!(began.elapsed() < Duration::from_secs(20), "they are gone");
    }
    assert_eq!(publisher.ask("PUBSUB CHANNELS"), "[]");
    assert_eq!(publisher.ask("PUBSUB NUMPAT"), "0");
}

#[test]
fn a_client_that_listens_sends_few_commands() {
    let server = start();
    let mut client = server.client();
    for (command, answer) in [
        ("SUBSCRIBE a", "[subscribe a 1]"),
        ("PING", "[pong ]"),
        ("PING x", "[pong x]"),
        (
            "GET a",
            "ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context",
        ),
        ("SSUBSCRIBE s", "[ssubscribe s 1]"),
        ("UNSUBSCRIBE", "[unsubscribe a 0]"),
        ("UNSUBSCRIBE", "[unsubscribe nil 0]"),
        ("SUNSUBSCRIBE s", "[sunsubscribe s 0]"),
        ("PUNSUBSCRIBE none", "[punsubscribe none 0]"),
        ("GET a", "nil"),
        ("SUBSCRIBE a", "[subscribe a 1]"),
        ("RESET", "RESET"),
        ("PUBLISH a x", "0"),
        ("GET a", "nil"),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
    // With RESP3 messages are no replies.
    client.ask("HELLO 3");
    client.send(&encode(&[b"SUBSCRIBE", b"a"]));
    assert_eq!(received(&mut client), "[subscribe a 1]");
    assert_eq!(client.ask("SET k v"), "OK");
    assert_eq!(client.ask("PUBLISH a x"), "1");
    assert_eq!(received(&mut client), "[message a x]");
}

#[test]
fn transactions_and_scripts_publish_when_they_are_done() {
    let server = start();
    let (mut publisher, mut listener) = pair(&server, "SUBSCRIBE c", "[subscribe c 1]");
    publisher.ask("MULTI");
    publisher.ask("PUBLISH c 1");
    publisher.ask("SET k v");
    publisher.ask("PUBLISH c 2");
    assert_eq!(publisher.ask("EXEC"), "[1 OK 1]");
    assert_eq!(received(&mut listener), "[message c 1]");
    assert_eq!(received(&mut listener), "[message c 2]");
    let script = b"redis.call('publish','c','3') error('x')";
    let failed = show(&publisher.call(&[b"EVAL", script, b"0"]));
    assert!(failed.starts_with("ERR user_script:1: x"), "{failed}");
    let script = b"redis.call('incr','n') return redis.call('publish','c','4')";
    assert_eq!(show(&publisher.call(&[b"EVAL", script, b"0"])), "1");
    // Of the script that has failed nothing is heard.
    assert_eq!(received(&mut listener), "[message c 4]");
    let script = b"return redis.call('publish','c','5')";
    let refused = show(&publisher.call(&[b"EVAL_RO", script, b"0"]));
    assert!(refused.starts_with("ERR Write commands are not allowed"), "{refused}");
}

#[test]
fn events_of_keys_are_published() {
    let server = start();
    let (mut client, mut listener) = pair(&server, "PSUBSCRIBE __key*", "[psubscribe __key* 1]");
    assert_eq!(client.ask("CONFIG GET notify-keyspace-events"), "[notify-keyspace-events ]");
    assert_eq!(client.ask("CONFIG SET notify-keyspace-events KEA"), "OK");
    assert_eq!(client.ask("CONFIG GET notify-keyspace-events"), "[notify-keyspace-events AKE]");
    assert!(client.ask("CONFIG SET notify-keyspace-events q").contains("Invalid event class"));
    for (command, events) in [
        ("SET a 1", "set:a"),
        ("SET a 1 EX 100", "set:a expire:a"),
        ("GET a", ""),
        ("INCR a", "incrby:a"),
        ("SET a 1 NX", ""),
        ("PERSIST a", "persist:a"),
        ("EXPIRE a 100", "expire:a"),
        ("EXPIRE a -1", "del:a"),
        ("MSET a 1 b 2", "set:a set:b"),
        ("RENAME a c", "rename_from:a rename_to:c"),
        ("DEL b c none", "del:b del:c"),
        ("RPUSH l 1 2", "rpush:l"),
        ("LMOVE l m LEFT RIGHT", "rpush:m lpop:l"),
        ("RPOPLPUSH l m", "lpush:m rpop:l del:l"),
        ("LMOVE m m LEFT RIGHT", "rpush:m lpop:m"),
        ("BRPOPLPUSH m m 0", "lpush:m rpop:m"),
        ("RPOPLPUSH m l", "lpush:l rpop:m"),
        ("BLMOVE l m LEFT LEFT 0", "lpush:m lpop:l del:l"),
        ("LPOP m", "lpop:m"),
        ("BLPOP m 0", "lpop:m del:m"),
        ("SADD s a", "sadd:s"),
        ("SMOVE s t a", "srem:s del:s sadd:t"),
        ("SINTERSTORE t none t", "del:t"),
        ("HSET h f v", "hset:h"),
        ("HDEL h f", "hdel:h del:h"),
        ("ZADD z 1 a", "zadd:z"),
        ("ZINCRBY z 1 a", "zincr:z"),
        ("ZPOPMIN z", "zpopmin:z del:z"),
        ("SETEX e 100 v", "set:e expire:e"),
        ("GETDEL e", "del:e"),
        ("SET p v PX 30", "set:p expire:p"),
        ("PUBLISH __keyend x", "END"),
    ] {
        client.ask(command);
        for event in events.split_ascii_whitespace() {
            if event == "END" {
                // Meanwhile the key has expired, or does so now.
                let message = received(&mut listener);
                assert_eq!(message, "[pmessage __key* __keyend x]");
                continue;
            }
            let (event, key) = event.split_once(':').expect("a name and a key");
            let space = format!("[pmessage __key* __keyspace@0__:{key} {event}]");
            let named = format!("[pmessage __key* __keyevent@0__:{event} {key}]");
            assert_eq!(received(&mut listener), space, "{command}");
            assert_eq!(received(&mut listener), named, "{command}");
        }
    }
    assert_eq!(received(&mut listener), "[pmessage __key* __keyspace@0__:p expired]");
}

/// A command that fails after it has removed an expired key leaves it there: it expires once.
#[test]
fn a_key_expires_once() {
    let server = Running::with(|options| options.threads(1).debug_command(true), 32 << 20);
    let (mut client, mut listener) = pair(&server, "PSUBSCRIBE *", "[psubscribe * 1]");
    client.ask("CONFIG SET notify-keyspace-events Ex");
    client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    client.ask("SET key 1 PX 1");
    std::thread::sleep(std::time::Duration::from_millis(5));
    for _ in 0..3 {
        assert_eq!(client.ask("RENAME key other"), "ERR no such key");
    }
    let info = client.ask("INFO stats");
    assert!(info.contains("expired_keys:0\r"), "{info}");
    assert_eq!(client.ask("DEL key"), "0");
    client.ask("PUBLISH end 1");
    assert_eq!(received(&mut listener), "[pmessage * __keyevent@0__:expired key]");
    assert_eq!(received(&mut listener), "[pmessage * end 1]");
    let info = client.ask("INFO stats");
    assert!(info.contains("expired_keys:1\r"), "{info}");
}

#[test]
fn a_client_that_reads_no_messages_is_disconnected() {
    let server = start();
    let (mut publisher, listener) = pair(&server, "SUBSCRIBE c", "[subscribe c 1]");
    let message = vec![b'x'; 1 << 20];
    let began = Instant::now();
    let mut sent = 0;
    while show(&publisher.call(&[b"PUBLISH", b"c", &message])) == "1" {
        sent += 1;
        assert!(began.elapsed() < Duration::from_secs(60), "{sent} MiB are kept for it");
    }
    // The system keeps some of them, too.
    assert!((30..100).contains(&sent), "{sent} MiB");
    drop(listener);
    assert_eq!(publisher.ask("PING"), "PONG");
}

/// Commands that read tell of keys that are not there, and of new ones those that make them.
#[test]
fn keys_that_are_missed_or_new_are_told() {
    let server = start();
    let (mut client, mut listener) = pair(&server, "PSUBSCRIBE __key*", "[psubscribe __key* 1]");
    assert_eq!(client.ask("CONFIG SET notify-keyspace-events Em"), "OK");
    assert_eq!(client.ask("CONFIG GET notify-keyspace-events"), "[notify-keyspace-events Em]");
    for (command, missed) in [
        ("GET k", "k"),
        ("MGET k l", "k l"),
        ("EXISTS k", "k"),
        ("TTL k", "k"),
        ("TYPE k", "k"),
        ("HGET k f", "k"),
        ("LRANGE k 0 1", "k"),
        ("XRANGE k - +", "k"),
        ("GETEX k", "k"),
        ("GETSET g v", "g"),
        ("SET s v GET", "s"),
        ("GETDEL d", "d"),
        ("EVAL return(redis.call('get','e')) 0", "e"),
        // These tell of nothing.
        ("OBJECT ENCODING k", ""),
        ("MEMORY USAGE k", ""),
        ("DEL k", ""),
        ("LPOP k", ""),
        ("GET s", ""),
        ("GET last", "last"),
    ] {
        client.ask(command);
        for key in missed.split_whitespace() {
            assert_eq!(
                received(&mut listener),
                format!("[pmessage __key* __keyevent@0__:keymiss {key}]"),
                "{command}"
            );
        }
    }
    assert_eq!(client.ask("CONFIG SET notify-keyspace-events En"), "OK");
    for (command, new) in [
        ("SET new 1", "new"),
        ("SET new 2", ""),
        ("LPUSH list a", "list"),
        ("COPY list other", "other"),
    ] {
        client.ask(command);
        if !new.is_empty() {
            let told = received(&mut listener);
            assert_eq!(told, format!("[pmessage __key* __keyevent@0__:new {new}]"), "{command}");
        }
    }
}

/// A client that monitors is told of all commands, of any thread, as Redis tells of them.
#[test]
fn monitors_see_what_is_performed() {
    let running = Running::with(|options| options.threads(2).password("secret"), 64 << 20);
    let [mut monitor, mut client, mut other] = [(); 3].map(|()| {
        let mut client = running.client();
        assert_eq!(client.ask("AUTH secret"), "OK");
        client
    });
    assert_eq!(monitor.ask("MONITOR"), "OK");
    let told = |monitor: &mut Client| {
        let line = show(&monitor.receive().expect("a line"));
        let (time, rest) = line.split_once(' ').expect("a time");
        assert!(time.parse::<f64>().is_ok_and(|time| time > 1.7e9), "{line}");
        // Whose it is differs from run to run.
        match rest.split_once("] ") {
            Some((by, what)) if by.ends_with("lua") => format!("{by} {what}"),
            Some((by, what)) => format!("{} {what}", by.split(' ').next().unwrap_or_default()),
            None => panic!("{line}"),
        }
    };
    client.call(&[b"SET", b"a", b"1\n\"\xff"]);
    assert_eq!(told(&mut monitor), r#"[0 "SET" "a" "1\n\"\xff""#);
    other.ask("SELECT 3");
    assert_eq!(told(&mut monitor), r#"[3 "SELECT" "3""#);
    other.ask("GET a");
    assert_eq!(told(&mut monitor), r#"[3 "GET" "a""#);
    // Errors of commands, too, but no command that is not there, none of administration, and no password.
    for line in
        ["NOTHING a", "CONFIG GET port", "CLIENT LIST", "SET a", "LPUSH a 1", "AUTH default x"]
    {
        client.ask(line);
    }
    assert_eq!(told(&mut monitor), r#"[0 "LPUSH" "a" "1""#);
    assert_eq!(told(&mut monitor), r#"[0 "AUTH" "(redacted)" "(redacted)""#);
    client.ask("HELLO 2 AUTH default secret SETNAME me");
    let hello = r#"[0 "HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "me""#;
    assert_eq!(told(&mut monitor), hello);
    for line in ["MULTI", "SET b 1", "EXEC", "MULTI", "NOTHING", "EXEC"] {
        client.ask(line);
    }
    client.ask("EVAL return(redis.call('set',KEYS[1],1)) 1 c");
    for line in [
        r#"[0 "MULTI""#,
        r#"[0 "SET" "b" "1""#,
        r#"[0 "exec""#,
        r#"[0 "MULTI""#,
        r#"[0 "EXEC""#,
        r#"[0 "EVAL" "return(redis.call('set',KEYS[1],1))" "1" "c""#,
        r#"[0 lua "set" "c" "1""#,
    ] {
        assert_eq!(told(&mut monitor), line);
    }
    // It reads no data itself, and is as before after RESET.
    assert!(client.ask("CLIENT LIST").contains(" flags=O "));
    assert_eq!(monitor.ask("GET a"), "ERR Replica can't interact with the keyspace");
    assert_eq!(monitor.ask("PING"), "PONG");
    assert_eq!(told(&mut monitor), r#"[0 "PING""#);
    assert_eq!(monitor.ask("RESET"), "RESET");
    assert_eq!(monitor.ask("AUTH secret"), "OK");
    assert!(!client.ask("CLIENT LIST").contains(" flags=O "));
    client.ask("SET b 2");
    assert_eq!(monitor.ask("GET b"), "2");
    monitor.ask("MONITOR");
    drop(monitor);
    running.check();
}

/// Lines for monitors have room of their own: no command fails since there is none left, and the monitor is told.
#[test]
fn a_monitor_makes_no_command_fail() {
    let server = start();
    let (mut client, mut monitor) = pair(&server, "MONITOR", "OK");
    let (_, _listener) = pair(&server, "SUBSCRIBE c", "[subscribe c 1]");
    assert_eq!(client.ask("CONFIG SET notify-keyspace-events KEA"), "OK");
    assert_eq!(client.ask("MULTI"), "OK");
    let value = vec![0; 64 << 10];
    for number in 0..300 {
        let field = format!("f{number}");
        let queued = client.call(&[b"HSET", b"h", field.as_bytes(), &value]);
        assert_eq!(show(&queued), "QUEUED");
    }
    let Frame::List(replies) = client.call(&[b"EXEC"]) else { panic!("it was not done") };
    assert!(replies.iter().all(|reply| *reply == Frame::Integer(1)), "a command has failed");
    let mut lines = 0;
    while !received(&mut monitor).ends_with("... (commands that follow are not shown)") {
        lines += 1;
    }
    assert!((100..300).contains(&lines), "{lines} lines");
    assert_eq!(client.ask("PUBLISH c x"), "1");
    assert!(received(&mut monitor).ends_with(r#" "PUBLISH" "c" "x""#), "later ones are shown");
}

#[test]
fn one_monitors_once_and_outside_of_transactions() {
    let server = start();
    let mut client = server.client();
    for (command, answer) in [
        ("MULTI", "OK"),
        ("MONITOR", "QUEUED"),
        ("SET a 1", "QUEUED"),
        ("EXEC", "[ERR MONITOR isn't allowed for DENY BLOCKING client OK]"),
        ("GET a", "1"),
        ("MONITOR", "OK"),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
    client.send(&encode(&[b"MONITOR"]));
    assert_eq!(client.ask("PING"), "PONG", "the second MONITOR has no answer");
}
