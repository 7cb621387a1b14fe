//! The protocol on the wire: pipelines, limits, passwords, broken and hostile clients.

use crate::common::{Random, Running, encode, show};

#[test]
fn pipelines_are_answered_in_order() {
    let running = Running::start();
    let mut client = running.client();
    let mut bytes = Vec::new();
    for turn in 0..10_000 {
        let number = turn.to_string();
        bytes.extend(encode(&[b"SET", b"key", number.as_bytes()]));
        bytes.extend(encode(&[b"GET", b"key"]));
        if turn % 7 == 0 {
            bytes.extend_from_slice(b"PING inline\r\n");
        }
    }
    let writer = {
        let mut other = client.again();
        std::thread::spawn(move || other.send(&bytes))
    };
    for turn in 0..10_000 {
        assert_eq!(show(&client.receive().unwrap()), "OK");
        assert_eq!(show(&client.receive().unwrap()), turn.to_string());
        if turn % 7 == 0 {
            assert_eq!(show(&client.receive().unwrap()), "inline");
        }
    }
    writer.join().unwrap();
}

#[test]
fn who_does_not_read_is_not_answered_without_end() {
    let running = Running::start();
    let mut client = running.client();
    let value = vec![b'v'; 1 << 20];
    assert_eq!(show(&client.call(&[b"SET", b"large", &value])), "OK");
    const COUNT: usize = 300;
    client.send(&encode(&[b"GET", b"large"]).repeat(COUNT));
    client.send(&encode(&[b"SET", b"after", b"1"]));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut other = running.client();
    let info = other.ask("INFO stats");
    let output = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    assert!(output.unwrap().parse::<usize>().unwrap() < 100 << 20, "{info}");
    // A request that could not be answered was not done either.
    assert_eq!(other.ask("GET after"), "nil");
    for _ in 0..COUNT {
        assert_eq!(show(&client.receive().unwrap()).len(), value.len());
    }
    assert_eq!(show(&client.receive().unwrap()), "OK");
    assert_eq!(other.ask("GET after"), "1");
}

#[test]
fn a_reply_that_is_too_large_is_an_error() {
    let running = Running::with(|options| options.max_reply(1 << 20), 64 << 20);
    let mut client = running.client();
    let value = vec![b'v'; 600 << 10];
    assert_eq!(show(&client.call(&[b"SET", b"large", &value])), "OK");
    let refusal = "ERR the reply is larger than 1048576 bytes, see --max-reply";
    assert_eq!(client.ask("MGET large large"), refusal);
    assert_eq!(client.ask("MGET large none large none"), refusal);
    // The limit is one for each reply, also of those that are sent together.
    client.send(&encode(&[b"GET", b"large"]).repeat(3));
    for _ in 0..3 {
        assert_eq!(show(&client.receive().unwrap()).len(), value.len());
    }
    // In a transaction only the command fails whose part of the reply is too much.
    for command in ["MULTI", "SET key 1", "MGET large large", "STRLEN large", "EXEC"] {
        client.send(&encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
    }
    let answers: Vec<_> = (0..5).map(|_| show(&client.receive().unwrap())).collect();
    assert_eq!(answers[4], format!("[OK {refusal} 614400]"));
    for command in ["MULTI", "SET key 2", "GET large", "GET large", "EXEC"] {
        client.send(&encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
    }
    let answers: Vec<_> = (0..5).map(|_| show(&client.receive().unwrap())).collect();
    assert!(answers[4].starts_with("[OK vvv") && answers[4].ends_with(&format!(" {refusal}]")));
    assert_eq!(client.ask("GET key"), "2");
}

#[test]
fn a_broken_stream_is_closed_after_its_answers() {
    let running = Running::start();
    let mut other = running.client();
    assert_eq!(other.ask("SET key value"), "OK");
    for (bytes, answer) in [
        (
            &b"*1\r\n$4\r\nPING\r\n*x\r\n"[..],
            "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n",
        ),
        (
            b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n:1\r\n",
            "$5\r\nvalue\r\n-ERR Protocol error: expected '$', got ':'\r\n",
        ),
        (b"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"get \"key\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
        (b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n", "+OK\r\n"),
    ] {
        let mut client = running.client();
        client.send(bytes);
        assert_eq!(client.rest(), answer);
    }
    assert_eq!(other.ask("GET key"), "value");
}

#[test]
fn random_bytes_do_no_harm() {
    let running = Running::start();
    let mut other = running.client();
    assert_eq!(other.ask("SET safe value"), "OK");
    let seed = std::process::id().into();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let pieces: [&[u8]; 14] = [
        b"*",
        b"$",
        b"\r\n",
        b"3",
        b"1",
        b"-1",
        b"GET",
        b"zadd",
        b"k",
        b"\0",
        b"\"",
        b"hset",
        b" ",
        b"99999999999",
    ];
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..random.below(60) {
            match random.below(5) {
                0 => bytes.push(random.next() as u8),
                _ => bytes.extend(*random.pick(&pieces)),
            }
        }
        let mut client = running.client();
        client.send(&bytes);
        client.shut();
        client.rest();
    }
    assert_eq!(other.ask("GET safe"), "value");
    running.check();
}

#[test]
fn a_client_that_vanishes_in_the_middle() {
    let running = Running::start();
    for cut in 0..30 {
        let mut client = running.client();
        client.send(&encode(&[b"SET", b"key", b"value"])[..cut]);
    }
    let mut client = running.client();
    client.send(&encode(&[b"SET", b"key", b"value"]));
    client.shut();
    assert_eq!(client.rest(), "+OK\r\n");
    assert_eq!(running.client().ask("GET key"), "value");
}

#[test]
fn a_password() {
    let running = Running::with(|options| options.password("secret"), 64 << 20);
    let mut client = running.client();
    assert_eq!(client.ask("GET key"), "NOAUTH Authentication required.");
    assert!(client.ask("AUTH wrong").starts_with("WRONGPASS"));
    assert!(client.ask("AUTH user secret").starts_with("WRONGPASS"));
    assert!(client.ask("HELLO 3").starts_with("NOAUTH"));
    assert_eq!(client.ask("AUTH secret"), "OK");
    assert_eq!(client.ask("GET key"), "nil");
    let mut client = running.client();
    assert!(client.ask("HELLO 3 AUTH default secret").starts_with("[server redis"));
    let mut client = running.client();
    client.send(b"*100\r\n");
    assert_eq!(client.rest(), "-ERR Protocol error: unauthenticated multibulk length\r\n");
    let mut client = running.client();
    client.send(b"*2\r\n$3\r\nGET\r\n$100000\r\n");
    assert_eq!(client.rest(), "-ERR Protocol error: unauthenticated bulk length\r\n");
}

#[test]
fn no_more_clients_than_allowed() {
    let running = Running::with(|options| options.max_clients(2), 64 << 20);
    let (mut first, mut second) = (running.client(), running.client());
    assert_eq!((first.ask("PING"), second.ask("PING")), ("PONG".into(), "PONG".into()));
    let mut third = running.client();
    assert_eq!(third.rest(), "-ERR max number of clients reached\r\n");
    drop(first);
    // The place is free when the server has noticed.
    let freed = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let mut client = running.client();
        client.send(b"PING\r\n");
        client.receive().is_some_and(|frame| show(&frame) == "PONG")
    });
    assert!(freed);
}

#[test]
fn first_questions_of_clients() {
    let running = Running::start();
    let mut client = running.client();
    assert!(client.ask("INFO").contains("redis_version:"));
    assert_eq!(client.ask("CONFIG GET maxcl*"), "[maxclients 10000]");
    assert_eq!(client.ask("CONFIG GET nothing"), "[]");
    assert!(client.ask("COMMAND COUNT").parse::<u32>().unwrap() > 90);
    assert_eq!(
        client.ask("COMMAND INFO get nosuch"),
        "[[get 2 [readonly fast] 1 1 1 [@read @string @fast] [] [] []] nil]"
    );
    assert_eq!(
        client.ask("COMMAND COUNT x"),
        "ERR wrong number of arguments for 'command|count' command"
    );
    assert!(client.ask("COMMAND DOCS get").starts_with("[get [summary"));
    assert_eq!(client.ask("COMMAND GETKEYS MSET a 1 b 2"), "[a b]");
    assert_eq!(client.ask("CLIENT SETNAME me"), "OK");
    assert_eq!(client.ask("CLIENT GETNAME"), "me");
    assert_eq!(client.ask("CLIENT SETINFO LIB-NAME test"), "OK");
    assert!(client.ask("CLIENT LIST").contains("name=me "));
    assert!(client.ask("CLIENT INFO").contains("lib-name=test "));
    assert_eq!(
        client.ask("CLIENT SETNAME"),
        "ERR wrong number of arguments for 'client|setname' command"
    );
    assert_eq!(client.ask("CLIENT NOSUCH"), "ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.");
    assert!(client.ask("HELLO 3").contains("proto 3"));
    assert!(client.ask("HELLO 4").starts_with("NOPROTO"));
    assert_eq!(client.ask("RESET"), "RESET");
    assert_eq!(client.ask("CLIENT GETNAME"), "nil");
    assert_eq!(client.ask("SELECT 16"), "ERR DB index is out of range");
}

#[test]
fn who_wants_no_reply_gets_none() {
    let running = Running::start();
    let talk = |commands: &[&str]| {
        let mut client = running.client();
        client.send(format!("{}\r\nQUIT\r\n", commands.join("\r\n")).as_bytes());
        client.rest().replace("\r\n", " ")
    };
    for (commands, answers) in [
        (&["CLIENT REPLY ON"][..], "+OK +OK "),
        (&["CLIENT REPLY OFF", "PING", "SET k v", "nosuch"], ""),
        (&["CLIENT REPLY OFF", "SET k v", "GET k", "CLIENT REPLY ON", "GET k"], "+OK $1 v +OK "),
        (&["CLIENT REPLY SKIP", "PING", "PING"], "+PONG +OK "),
        (&["CLIENT REPLY SKIP", "SET k w", "GET k", "GET k"], "$1 w $1 w +OK "),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "GET k", "STRLEN k"], ":1 +OK "),
        (&["CLIENT REPLY SKIP", "nosuch", "PING"], "+PONG +OK "),
        (&["CLIENT REPLY SKIP", "MULTI", "GET k", "EXEC"], "+QUEUED *1 $1 w +OK "),
        (
            &["MULTI", "GET k", "CLIENT REPLY SKIP", "EXEC", "PING"],
            "+OK +QUEUED +QUEUED +PONG +OK ",
        ),
        (&["CLIENT REPLY OFF", "CLIENT REPLY SKIP", "PING", "RESET", "PING"], "+RESET +PONG +OK "),
        (&["CLIENT REPLY x"], "-ERR syntax error +OK "),
        (&["CLIENT REPLY"], "-ERR wrong number of arguments for 'client|reply' command +OK "),
    ] {
        assert_eq!(talk(commands), answers, "{commands:?}");
    }
}

#[test]
fn config_set() {
    let running = Running::start();
    let mut client = running.client();
    let failed = |name: &str, why: &str| {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
    };
    for (command, answer) in [
        ("CONFIG SET save ", "OK"),
        ("CONFIG SET APPENDFSYNC Always", "OK"),
        ("CONFIG SET appendfsync no", &failed("appendfsync", "can't set immutable config")),
        ("CONFIG SET databases 3", &failed("databases", "can't set immutable config")),
        ("CONFIG SET save  save ", &failed("save", "duplicate parameter")),
        (
            "CONFIG SET maxclients 5 nosuch 1",
            "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'",
        ),
        ("CONFIG SET save  timeout", "ERR syntax error"),
        ("CONFIG SET save", "ERR wrong number of arguments for 'config|set' command"),
        (
            "CONFIG SET maxclients 0",
            &failed("maxclients", "argument must be between 1 and 4294967295 inclusive"),
        ),
        ("CONFIG GET maxclients", "[maxclients 10000]"),
        ("CONFIG SET maxclients 1 timeout 0", "OK"),
        ("CONFIG GET maxclients", "[maxclients 1]"),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
    assert_eq!(running.client().rest(), "-ERR max number of clients reached\r\n");
}

#[test]
fn every_error_is_counted_until_the_counters_are_restarted() {
    let running = Running::start();
    let mut client = running.client();
    for (command, answer) in [
        ("nosuch a b", "ERR unknown command 'nosuch', with args beginning with: 'a' 'b' "),
        ("no\0such a\0b", "ERR unknown command 'no', with args beginning with: 'a' "),
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("EXEC", "ERR EXEC without MULTI"),
        ("INCRBY key x", "ERR value is not an integer or out of range"),
        ("MULTI", "OK"),
        ("CONFIG no\0such", "ERR unknown subcommand 'no'. Try CONFIG HELP."),
        ("HSET key", "ERR wrong number of arguments for 'hset' command"),
        ("EXEC", "EXECABORT Transaction discarded because of previous errors."),
        ("MULTI", "OK"),
        ("CONFIG SET no\0such 1", "QUEUED"),
        ("EXEC", "[ERR Unknown option or number of arguments for CONFIG SET - 'no']"),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
    let mut other = running.client();
    other.send(b"*x\r\n");
    other.rest();
    assert!(client.ask("INFO stats").contains("\r\ntotal_error_replies:10\r\n"));
    assert_eq!(client.ask("CONFIG RESETSTAT"), "OK");
    let info = client.ask("INFO stats");
    assert!(info.contains("\r\ntotal_error_replies:0\r\n"), "{info}");
    assert!(info.contains("\r\ntotal_connections_received:0\r\n"), "{info}");
}

#[test]
fn large_values() {
    let running = Running::with(|options| options, 256 << 20);
    let mut client = running.client();
    let value = vec![b'x'; 40 << 20];
    assert_eq!(show(&client.call(&[b"SET", b"large", &value])), "OK");
    assert_eq!(client.ask("STRLEN large"), value.len().to_string());
    assert_eq!(client.ask("GETRANGE large -3 -1"), "xxx");
    assert_eq!(client.ask("SETRANGE large 5 abc"), value.len().to_string());
    assert_eq!(client.ask("APPEND large end"), (value.len() + 3).to_string());
    assert_eq!(client.ask("GETRANGE large 4 8"), "xabcx");
    assert_eq!(show(&client.call(&[b"GET", b"large"])).len(), value.len() + 3);
    assert_eq!(client.ask("SETRANGE other 1000000 x"), "1000001");
    assert!(client.ask("SETRANGE other 536870911 xx").starts_with("ERR string exceeds"));
    running.check();
}
