//! WATCH, MULTI and EXEC of clients that two threads serve at the same time.

use crate::common::{Client, Running};
use std::thread;

/// Clients; they go to the two threads in turn.
const CLIENTS: usize = 6;

/// Rounds of each client.
fn rounds() -> usize {
    perdura_testing::times(150) as usize
}

fn running() -> Running {
    Running::with(|options| options.threads(2), 64 << 20)
}

/// Lets each of the clients work by itself, until all have ended.
fn all(running: &Running, work: impl Fn(usize, &mut Client) + Sync) {
    thread::scope(|scope| {
        for index in 0..CLIENTS {
            let (work, mut client) = (&work, running.client());
            scope.spawn(move || work(index, &mut client));
        }
    });
}

/// Sends a transaction's commands at once. The answer to EXEC.
fn transaction(client: &mut Client, commands: &[String]) -> String {
    let all = ["MULTI"].into_iter().chain(commands.iter().map(String::as_str)).chain(["EXEC"]);
    let all: Vec<String> = all.map(|line| format!("{line}\r\n")).collect();
    client.send(all.concat().as_bytes());
    let mut last = String::new();
    for line in &all {
        last = crate::common::show(&client.receive().expect("an answer"));
        assert!(!last.contains("ERR"), "{line}: {last}");
    }
    last
}

/// Commands that read a counter, and the one that sets it.
type Counter = (&'static str, &'static str);

/// In a string's place in the table, in a block that is written in place, and in larger collections, whose
/// entries no counter changes.
const COUNTERS: [Counter; 4] = [
    ("GET key", "SET key"),
    ("HGET small f", "HSET small f"),
    ("HGET large f", "HSET large f"),
    ("ZSCORE set m", "ZADD set"),
];

fn prepare(client: &mut Client) {
    client.ask("SET key 0");
    client.ask("HSET small f 100000");
    let fields: Vec<String> = (0..50).map(|n| format!("{n} {}", "v".repeat(100))).collect();
    client.ask(&format!("HSET large f 0 {}", fields.join(" ")));
    let members: Vec<String> = (0..50).map(|n| format!("0 {n}")).collect();
    client.ask(&format!("ZADD set 0 m {}", members.join(" ")));
}

#[test]
fn no_update_is_lost_that_watched_what_it_read() {
    let running = running();
    let mut client = running.client();
    prepare(&mut client);
    all(&running, |index, client| {
        for round in 0..rounds() {
            let (get, set) = COUNTERS[(index + round) % COUNTERS.len()];
            let key = get.split(' ').nth(1).unwrap();
            loop {
                client.ask(&format!("WATCH {key}"));
                let value: u64 = client.ask(get).parse().expect("a number");
                let set = match set {
                    "ZADD set" => format!("{set} {} m", value + 1),
                    _ => format!("{set} {}", value + 1),
                };
                if transaction(client, &[set]) != "nil" {
                    break;
                }
            }
        }
    });
    let counts = COUNTERS.map(|(get, _)| client.ask(get).parse::<usize>().expect("a number"));
    assert_eq!(counts.iter().sum::<usize>(), 100_000 + CLIENTS * rounds(), "{counts:?}");
    running.check();
}

/// Each of two watches the key that the other one writes: in any order of the two, one sees the other.
#[test]
fn of_two_that_watch_each_other_one_fails() {
    for collection in ["large", "small"] {
        let running = running();
        let (mut a, mut b) = (running.client(), running.client());
        prepare(&mut a);
        let fields: Vec<String> = (0..50).map(|n| format!("{n} {}", "v".repeat(100))).collect();
        let other = if collection == "large" { fields.join(" ") } else { "x 1".into() };
        a.ask(&format!("HSET other f 0 {other}"));
        for round in 0..rounds() {
            a.ask(&format!("WATCH {collection}"));
            b.ask("WATCH other");
            // In every second round the values are there already.
            let value = round / 2;
            for (client, key) in [(&mut a, "other"), (&mut b, collection)] {
                client.send(format!("MULTI\r\nHSET {key} f {value}\r\nEXEC\r\n").as_bytes());
            }
            let answers = [&mut a, &mut b].map(|client| {
                let answers = [0; 3].map(|_| client.receive().expect("an answer"));
                crate::common::show(&answers[2])
            });
            assert!(
                answers.contains(&"nil".to_owned()),
                "{collection}, round {round}: {answers:?}"
            );
        }
    }
}

/// Accounts that money goes to and fro between.
const ACCOUNTS: usize = 8;
const EACH: i64 = 1000;

#[test]
fn who_reads_sees_whole_transactions() {
    let running = running();
    let mut client = running.client();
    for account in 0..ACCOUNTS {
        client.ask(&format!("SET account:{account} {EACH}"));
    }
    let names: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
    let together = format!("MGET {}", names.join(" "));
    let each: Vec<String> = names.iter().map(|name| format!("GET {name}")).collect();
    let sum = |answer: &str| -> i64 {
        let answer = answer.trim_matches(['[', ']']);
        answer.split(' ').map(|value| value.parse::<i64>().expect("a number")).sum()
    };
    all(&running, |index, client| {
        let mut random = crate::common::Random::new(index as u64);
        for _ in 0..rounds() {
            match index {
                0 => assert_eq!(sum(&client.ask(&together)), EACH * ACCOUNTS as i64),
                1 => assert_eq!(sum(&transaction(client, &each)), EACH * ACCOUNTS as i64),
                _ => {
                    let (from, to) = (random.pick(&names), random.pick(&names));
                    let amount = random.below(100);
                    let commands =
                        [format!("DECRBY {from} {amount}"), format!("INCRBY {to} {amount}")];
                    transaction(client, &commands);
                }
            }
        }
    });
    assert_eq!(sum(&client.ask(&together)), EACH * ACCOUNTS as i64);
    running.check();
}

/// Whatever else meets them, commands of a connection are done in their order, each once.
#[test]
fn commands_of_a_connection_are_done_in_order_and_once() {
    let running = running();
    all(&running, |index, client| {
        const AT_ONCE: usize = 40;
        for round in 0..rounds() / 10 {
            let first = round * AT_ONCE;
            let lines = (first..first + AT_ONCE).map(|n| {
                format!("APPEND own:{index} {n},\r\nINCR shared\r\nSTRLEN own:{index}\r\n")
            });
            client.send(lines.collect::<String>().as_bytes());
            let mut last = 0;
            for _ in 0..AT_ONCE {
                let mut next = || crate::common::show(&client.receive().expect("an answer"));
                let (appended, shared, len) = (next(), next(), next());
                assert_eq!(appended, len);
                let shared = shared.parse().expect("a number");
                assert!(last < shared, "{last} {shared}");
                last = shared;
            }
        }
        let count = rounds() / 10 * AT_ONCE;
        let whole: String = (0..count).map(|n| format!("{n},")).collect();
        assert_eq!(client.ask(&format!("GET own:{index}")), whole);
    });
    let count = CLIENTS * (rounds() / 10) * 40;
    let mut client = running.client();
    assert_eq!(client.ask("GET shared"), count.to_string());
    // Transactions that were run again were counted once.
    let stats = client.ask("INFO commandstats");
    assert!(stats.contains(&format!("cmdstat_incr:calls={count},")), "{stats}");
    running.check();
}

/// Databases change places for all who wait for their keys, and for those who watch them.
#[test]
fn databases_change_places() {
    let running = running();
    let mut client = running.client();
    let mut others = [running.client(), running.client()];
    let play = |client: &mut Client, lines: &[(&str, &str)]| {
        for (line, answer) in lines {
            assert_eq!(client.ask(line), *answer, "{line}");
        }
    };
    for (line, wrong) in [
        ("SWAPDB a b", "ERR invalid first DB index"),
        ("SWAPDB 99 b", "ERR invalid second DB index"),
        ("SWAPDB 0 16", "ERR DB index is out of range"),
        ("SWAPDB -1 0", "ERR DB index is out of range"),
        ("SWAPDB 0", "ERR wrong number of arguments for 'swapdb' command"),
    ] {
        assert_eq!(client.ask(line), wrong);
    }
    play(
        &mut client,
        &[("SET goes 1 PX 100000", "OK"), ("SET stays 1", "OK"), ("SWAPDB 0 0", "OK")],
    );
    play(&mut client, &[("SELECT 1", "OK"), ("SET comes 2", "OK"), ("SET stays 1", "OK")]);
    // One that watches a key that goes, one that watches a key that comes, in the other database.
    play(&mut others[0], &[("WATCH goes", "OK"), ("MULTI", "OK"), ("PING", "QUEUED")]);
    play(&mut others[1], &[("WATCH comes", "OK"), ("MULTI", "OK"), ("PING", "QUEUED")]);
    play(&mut client, &[("SWAPDB 0 1", "OK"), ("KEYS comes", "[]"), ("GET goes", "1")]);
    others.iter_mut().for_each(|other| assert_eq!(other.ask("EXEC"), "nil"));
    assert!(client.ask("PTTL goes").parse::<u64>().is_ok_and(|left| left <= 100_000));
    play(&mut others[0], &[("WATCH nothing", "OK"), ("MULTI", "OK"), ("GET comes", "QUEUED")]);
    play(&mut client, &[("SWAPDB 0 1", "OK"), ("SWAPDB 1 0", "OK")]);
    assert_eq!(others[0].ask("EXEC"), "[2]");
    // One that waits is served by what comes.
    others[1].send(b"BLPOP list 0\r\n");
    while !client.ask("INFO clients").contains("blocked_clients:1") {}
    play(&mut client, &[("RPUSH list element", "1"), ("SWAPDB 0 1", "OK"), ("EXISTS list", "0")]);
    assert_eq!(crate::common::show(&others[1].receive().unwrap()), "[list element]");
    play(&mut client, &[("MULTI", "OK"), ("SWAPDB 1 0", "QUEUED"), ("GET goes", "QUEUED")]);
    play(&mut client, &[("EXEC", "[OK 1]"), ("PEXPIRE goes 1", "1")]);
    running.check();
    let running = running.restarted();
    let mut client = running.client();
    while client.ask("INFO stats").contains("expired_keys:0") {}
    play(
        &mut client,
        &[("GET comes", "2"), ("DBSIZE", "2"), ("SELECT 1", "OK"), ("KEYS *", "[stays]")],
    );
}
