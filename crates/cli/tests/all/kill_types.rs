//! The server, killed with SIGKILL under transactions that change every type, run scripts and call functions, keeps all
//! that it acknowledged, and of each transaction all or nothing.
//!
//! Each connection has keys of its own, and numbers its transactions; what one of them does follows from its number. After
//! a kill the number of the last one is read, and a second server, which is never killed, does the same ones: then all keys
//! must be the same in both.

use crate::kill::Server;
use perdura_memory::reference::SplitMix64;
use perdura_testing::{seeds, times};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

const CONNECTIONS: u64 = 3;

const LIBRARY: &str = "#!lua name=mix
redis.register_function('mix', function(keys, arguments)
  redis.call('hset', keys[1], arguments[1], arguments[2])
  redis.call('zadd', keys[2], #arguments[2], arguments[1])
  return redis.call('hlen', keys[1])
end)";

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client(BufReader::new(stream))
    }

    fn send(&mut self, commands: &[Vec<String>]) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            write!(bytes, "*{}\r\n", command.len())?;
            for part in command {
                write!(bytes, "${}\r\n{part}\r\n", part.len())?;
            }
        }
        self.0.get_mut().write_all(&bytes)
    }

    /// One reply, whatever it is, in one line.
    fn reply(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let len = || line[1..].parse::<i64>().unwrap();
        match line.as_bytes()[0] {
            b'$' | b'*' if len() < 0 => Ok("nil".to_owned()),
            b'$' => {
                let mut bytes = vec![0; len() as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(bytes.escape_ascii().to_string())
            }
            b'*' => {
                let all: Result<Vec<String>, _> = (0..len()).map(|_| self.reply()).collect();
                Ok(format!("[{}]", all?.join(" ")))
            }
            b'+' | b':' => Ok(line[1..].to_owned()),
            _ => panic!("the server answered {line}"),
        }
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(&[words(command)]).unwrap();
        self.reply().unwrap()
    }
}

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// A transaction's commands, between MULTI and EXEC.
fn transaction(connection: u64, number: u64) -> Vec<Vec<String>> {
    let mut random = SplitMix64::new(connection << 48 ^ number);
    let len = if random.below(6) == 0 { 900 + random.below(3000) } else { random.below(90) };
    let text = format!("{number}.{}", "x".repeat(len as usize));
    let c = connection;
    let n = number;
    let mut all = vec![
        "MULTI".to_owned(),
        format!("INCR {c}:last"),
        format!("SET {c}:text:{} {text}", n % 7),
        format!("HSET {c}:hash field{} {text} last {n}", n % 60),
        format!("RPUSH {c}:list {text} {n}"),
        format!("LTRIM {c}:list -40 -1"),
        format!("SADD {c}:set member{} member{}", n % 300, n * 7 % 300),
        format!("SREM {c}:set member{}", n * 11 % 300),
        format!("ZADD {c}:ranks {n} member{}", n % 150),
        format!("SETBIT {c}:bits {} {}", n * 37 % 9000, n % 2),
        format!("BITFIELD {c}:bits INCRBY u16 #{} {n}", n % 40),
        format!("PFADD {c}:sketch {n}"),
        format!("GEOADD {c}:places {} {} place{}", n % 180, n % 80, n % 30),
        format!("XADD {c}:stream MAXLEN 250 {n}-0 text {text} number {n}"),
        format!("XREADGROUP GROUP group consumer{} COUNT 2 STREAMS {c}:stream >", n % 3),
        format!("XACK {c}:stream group {}-0 {}-0", n.saturating_sub(3), n / 2),
        format!("FCALL mix 2 {c}:function {c}:lengths field{} {text}", n % 25),
    ];
    match n % 12 {
        1 => all.push(format!("DEL {c}:text:{}", (n + 3) % 7)),
        2 => all.push(format!("XDEL {c}:stream {}-0", n / 2)),
        3 => all.push(format!("XCLAIM {c}:stream group consumer9 0 {}-0 {}-0", n - 1, n - 2)),
        4 => all.push(format!("COPY {c}:stream {c}:copy REPLACE")),
        5 => all.push(format!("SORT {c}:set ALPHA LIMIT 0 20 STORE {c}:sorted")),
        6 => all.push(format!("XAUTOCLAIM {c}:stream group consumer8 0 - COUNT 3 JUSTID")),
        7 => all.push(format!("RENAME {c}:text:{} {c}:renamed", n % 7)),
        8 => all.push(format!("ZUNIONSTORE {c}:union 2 {c}:ranks {c}:lengths")),
        9 => all.push(format!("XGROUP CREATECONSUMER {c}:stream group extra{}", n % 5)),
        10 => all.push(format!("XTRIM {c}:stream MINID {}", n.saturating_sub(200))),
        11 => all.push(format!("DEL {c}:copy {c}:hash")),
        _ => all.push(format!("EXPIRE {c}:sorted 100000")),
    }
    let mut all: Vec<Vec<String>> = all.iter().map(|command| words(command)).collect();
    // Before its stream has any entry.
    if n == 1 {
        all.insert(1, words(&format!("XGROUP CREATE {c}:stream group $ MKSTREAM")));
    }
    let script = "redis.call('set', KEYS[1], ARGV[1]) \
                  for i = 1, 3 do redis.call('rpush', KEYS[2], ARGV[1] * i) end \
                  redis.call('ltrim', KEYS[2], -9, -1) return redis.call('llen', KEYS[2])";
    all.push(
        ["EVAL", script, "2", &format!("{c}:one"), &format!("{c}:many"), &n.to_string()]
            .map(str::to_owned)
            .to_vec(),
    );
    all.push(words("EXEC"));
    all
}

/// Does a transaction. An error of the connection ends it; an error reply is a panic.
fn perform(client: &mut Client, connection: u64, number: u64) -> std::io::Result<()> {
    let commands = transaction(connection, number);
    client.send(&commands)?;
    for _ in &commands {
        client.reply()?;
    }
    Ok(())
}

/// All that a connection's keys hold.
fn contents(client: &mut Client, connection: u64) -> Vec<String> {
    let c = connection;
    // The order of fields and members is each server's own.
    let sorted = |text: String| {
        let mut words: Vec<&str> = text.trim_matches(['[', ']']).split(' ').collect();
        words.sort_unstable();
        words.join(" ")
    };
    let mut all = Vec::new();
    for number in 0..7 {
        all.push(client.ask(&format!("GET {c}:text:{number}")));
    }
    for command in [
        "GET C:renamed",
        "LRANGE C:list 0 -1",
        "ZRANGE C:ranks 0 -1 WITHSCORES",
        "ZRANGE C:lengths 0 -1 WITHSCORES",
        "ZRANGE C:union 0 -1 WITHSCORES",
        "ZRANGE C:places 0 -1 WITHSCORES",
        "GET C:bits",
        "GET C:sketch",
        "LRANGE C:sorted 0 -1",
        "XRANGE C:stream - +",
        "XREVRANGE C:copy + -",
        "XINFO GROUPS C:stream",
        "XPENDING C:stream group",
        "GET C:one",
        "LRANGE C:many 0 -1",
    ] {
        all.push(client.ask(&command.replace("C:", &format!("{c}:"))));
    }
    for command in ["SMEMBERS C:set", "HGETALL C:hash", "HGETALL C:function"] {
        all.push(sorted(client.ask(&command.replace("C:", &format!("{c}:")))));
    }
    // Without the times.
    client.send(&[words(&format!("XPENDING {c}:stream group - + 1000"))]).unwrap();
    let pending = client.reply().unwrap();
    let without_times = pending.split("] [").map(|one| {
        let parts: Vec<&str> = one.split(' ').collect();
        format!("{} {} {}", parts[0], parts.get(1).unwrap_or(&""), parts.last().unwrap_or(&""))
    });
    all.push(without_times.collect::<Vec<_>>().join(", "));
    all
}

fn last(client: &mut Client, connection: u64) -> u64 {
    client.ask(&format!("GET {connection}:last")).parse().unwrap_or(0)
}

fn compare(killed: &str, other: &str, acknowledged: &mut [u64], seed: u64, round: u64) {
    let (mut client, mut reference) = (Client::connect(killed), Client::connect(other));
    for (connection, acknowledged) in (0..).zip(acknowledged) {
        let number = last(&mut client, connection);
        let told = format!("PERDURA_TEST_SEED={seed}, round {round}, connection {connection}");
        assert!(number >= *acknowledged, "{number} of {acknowledged} are there: {told}");
        for number in last(&mut reference, connection) + 1..=number {
            perform(&mut reference, connection, number).unwrap();
        }
        if number > 0 {
            let (ours, theirs) =
                (contents(&mut client, connection), contents(&mut reference, connection));
            for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                let beginning = |text: &str| text.chars().take(2000).collect::<String>();
                let (ours_shown, theirs_shown) = (beginning(ours), beginning(theirs));
                assert!(
                    ours == theirs,
                    "part {at} after {number}: {told}\n{ours_shown}\n{theirs_shown}"
                );
            }
        }
        *acknowledged = number;
    }
}

fn kill_again_and_again(folder: &Path, engine: &str) {
    let (seed, rounds) = (seeds(1, 1).start, times(3));
    let pool = folder.join("killed.pool");
    let other = Server::start(&folder.join("other.pool"), "redo");
    let mut random = SplitMix64::new(seed);
    let mut acknowledged = vec![0; CONNECTIONS as usize];
    for round in 0..=rounds {
        let server = Server::start(&pool, engine);
        if round == 0 {
            for address in [&server.address, &other.address] {
                let mut client = Client::connect(address);
                let load = ["FUNCTION", "LOAD", LIBRARY].map(str::to_owned).to_vec();
                client.send(&[load]).unwrap();
                assert_eq!(client.reply().unwrap(), "mix");
            }
        }
        compare(&server.address, &other.address, &mut acknowledged, seed, round);
        if round == rounds {
            break;
        }
        thread::scope(|scope| {
            for (connection, acknowledged) in (0..).zip(&mut acknowledged) {
                let mut client = Client::connect(&server.address);
                scope.spawn(move || {
                    while perform(&mut client, connection, *acknowledged + 1).is_ok() {
                        *acknowledged += 1;
                    }
                });
            }
            thread::sleep(Duration::from_millis(20 + random.below(300)));
            server.kill();
        });
    }
    let report = perdura::check::check(&pool, &perdura_server::check_root).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    println!("{engine}: {rounds} kills, {acknowledged:?} transactions, seed {seed}, nothing lost");
}

#[test]
fn all_types_under_redo_on_emulated_persistent_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    kill_again_and_again(folder.path(), "redo");
}

#[test]
fn all_types_under_ccstm_on_emulated_persistent_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    kill_again_and_again(folder.path(), "ccstm");
}

#[test]
fn all_types_under_redo_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path(), "redo");
}
