//! EXECs and scripts of many commands, many of them in flight when the server is killed: all of each, or nothing.
//!
//! Each worker has keys of its own, and each of its transactions changes all of them by sixteen commands. So after a kill
//! all of its keys must tell the same number of transactions: at least those that were acknowledged, and no more than
//! those that were sent. With the feature `planted`, the module makes each command durable by itself, and this test must notice.

use crate::Random;
use crate::client::{Client, Value};
use crate::server::Server;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How a worker sends its transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Exec,
    Script,
    /// EXECs with a script between other commands.
    Mixed,
    /// EXECs with large replies: the host has replies of earlier turns to send.
    Unread,
    /// A function of a library.
    Function,
    /// EXECs in one packet behind a WAIT. Redis 7.0 performs them between the module's wait and its replies, and calls no
    /// module at their end (docs/cluster.md).
    Waiting,
}

const KINDS: [Kind; 6] =
    [Kind::Exec, Kind::Script, Kind::Mixed, Kind::Unread, Kind::Function, Kind::Waiting];
/// Transactions that a worker sends before it reads replies.
const BATCH: usize = 8;
/// Bytes of the large value. The host sends 64 KiB of it in a turn.
const LARGE: usize = 1 << 20;
const LIBRARY: &str = "#!lua name=own
redis.register_function('step', function(keys, args) local ARGV = args; BODY end)";

struct Worker {
    kind: Kind,
    name: String,
    acknowledged: i64,
    sent: i64,
}

impl Worker {
    fn new(number: usize) -> Self {
        let kind = KINDS[number % KINDS.len()];
        Worker { kind, name: format!("{{x{number}}}"), acknowledged: 0, sent: 0 }
    }

    /// The commands of transaction `number`.
    fn commands(&self, number: i64) -> Vec<Vec<String>> {
        let name = &self.name;
        let text = format!(
            "incr {name}:a|set {name}:gone 1|hincrby {name}:h f 1|rpush {name}:l {number}|ltrim {name}:l -5 -1|\
             zincrby {name}:z 1 m|set {name}:tmp {number}|rename {name}:tmp {name}:b|sadd {name}:s{number} 1|\
             xadd {name}:x maxlen 5 * n {number}|append {name}:t x|getset {name}:d {number}|\
             lpush {name}:d wrongtype|smembers {name}:s{number}|del {name}:s{number} {name}:gone|incr {name}:e"
        );
        text.split('|').map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// All that is sent for transaction `number`, and how many replies it has.
    fn requests(&self, number: i64) -> Vec<Vec<String>> {
        let commands = self.commands(number);
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let as_script = |commands: &[Vec<String>], head: &[&str]| {
            let mut all: Vec<String> = head.iter().map(|word| (*word).to_owned()).collect();
            all.extend(["1".to_owned(), self.name.clone()]);
            all.extend(
                commands
                    .iter()
                    .flat_map(|line| [vec![line.len().to_string()], line.clone()].concat()),
            );
            all
        };
        match self.kind {
            Kind::Script => vec![as_script(&commands, &["eval", BODY])],
            Kind::Function => vec![as_script(&commands, &["fcall", "step"])],
            Kind::Exec | Kind::Mixed | Kind::Unread | Kind::Waiting => {
                let mut all = vec![words("multi")];
                if self.kind == Kind::Waiting {
                    all.insert(0, words("wait 1 1"));
                }
                match self.kind {
                    Kind::Mixed => {
                        all.extend_from_slice(&commands[..4]);
                        all.push(as_script(&commands[4..12], &["eval", BODY]));
                        all.extend_from_slice(&commands[12..]);
                    }
                    _ => all.extend_from_slice(&commands),
                }
                if self.kind == Kind::Unread {
                    all.insert(4, words("get large"));
                }
                all.push(words("exec"));
                all
            }
        }
    }

    /// Sends transactions until the server is gone.
    fn work(&mut self, client: &mut Client, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            let first = self.sent + 1;
            let all: Vec<Vec<Vec<String>>> =
                (first..first + BATCH as i64).map(|number| self.requests(number)).collect();
            self.sent += BATCH as i64;
            // Of a large reply the host sends a part in a turn, and the rest in later ones: transactions arrive in these.
            let pieces = if self.kind == Kind::Unread { BATCH } else { 1 };
            for piece in all.chunks(BATCH / pieces) {
                if client.send_all(piece.iter().flatten()).is_err() {
                    return;
                }
                if pieces > 1 {
                    thread::sleep(Duration::from_millis(3));
                }
            }
            for requests in &all {
                for request in requests {
                    let Ok(reply) = client.receive() else { return };
                    assert!(!matches!(reply, Value::Error(_)), "{request:?}: {reply:?}");
                }
                self.acknowledged += 1;
            }
        }
    }

    /// Returns the halves that are there.
    fn check(&mut self, client: &mut Client) -> Result<(), String> {
        let name = &self.name;
        let mut number = |command: &str| client.run(&command.replace('~', name)).number();
        let counts = [
            number("get ~:a"),
            number("hget ~:h f"),
            number("lindex ~:l -1"),
            number("zscore ~:z m"),
            number("get ~:b"),
            number("strlen ~:t"),
            number("get ~:d"),
            number("get ~:e"),
        ];
        let left = number("exists ~:gone ~:tmp");
        let stream = client.run(&format!("xrevrange {name}:x + - count 1")).list();
        let last = stream
            .into_iter()
            .next()
            .map_or(0, |entry| entry.list().remove(1).list().remove(1).number());
        let (least, most) = (self.acknowledged, self.sent);
        let is_whole =
            counts.iter().all(|count| *count == counts[0]) && last == counts[0] && left == 0;
        if !is_whole || !(least..=most).contains(&counts[0]) {
            return Err(format!(
                "{:?} of {name}: {counts:?}, {last} in the stream, {left} keys that are deleted later in the \
                 transaction; {least} were acknowledged, {most} sent",
                self.kind
            ));
        }
        (self.acknowledged, self.sent) = (counts[0], counts[0]);
        Ok(())
    }
}

/// Performs the commands in ARGV: for each the number of its words, and these.
const BODY: &str = "local at = 1
while at <= #ARGV do
    local count = tonumber(ARGV[at])
    redis.pcall(unpack(ARGV, at + 1, at + count))
    at = at + 1 + count
end
return redis.status_reply('OK')";

/// Kills the server under load so many times. Returns what is there by half, and how many transactions were
/// acknowledged.
fn kills(rounds: u64) -> Result<i64, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new("halves of transactions");
    let mut server = Server::with_module(folder.path(), &[]);
    let mut client = server.client();
    let info = client.run("info server").text();
    let waits_last = !info.contains("redis_version:7.0.");
    let kinds = KINDS.len() - usize::from(!waits_last);
    let mut workers: Vec<Worker> = (0..kinds).map(Worker::new).collect();
    client.run(&format!("set large {}", "v".repeat(LARGE)));
    let library = LIBRARY.replace("BODY", BODY);
    let mut total = 0;
    let loaded = client.ask(&["function", "load", &library]);
    assert_eq!(loaded.expect("a reply"), Value::Text("own".to_owned()));
    for round in 0..rounds {
        let (ends, before) = (AtomicBool::new(false), sum(&workers));
        thread::scope(|scope| {
            for worker in &mut workers {
                let (mut client, ends) = (server.client(), &ends);
                scope.spawn(move || worker.work(&mut client, ends));
            }
            thread::sleep(Duration::from_millis(5 + random.below(80)));
            server.kill();
            ends.store(true, Ordering::Relaxed);
        });
        let acknowledged = sum(&workers) - before;
        total += acknowledged;
        server.restart();
        let mut client = server.client();
        for worker in &mut workers {
            worker.check(&mut client).map_err(|why| format!("kill {round}: {why}"))?;
        }
        if round % 100 == 99 {
            println!("{} kills, {total} transactions acknowledged", round + 1);
        }
    }
    println!("{rounds} kills, {total} transactions acknowledged");
    Ok(total)
}

fn sum(workers: &[Worker]) -> i64 {
    workers.iter().map(|worker| worker.acknowledged).sum()
}

#[test]
#[cfg(not(feature = "planted"))]
fn all_of_a_transaction_or_nothing_is_there() {
    let rounds = perdura_testing::times(20);
    let total = kills(rounds).unwrap_or_else(|why| panic!("{why}"));
    assert!(total > rounds as i64, "only {total} transactions");
}

/// Each command of a transaction is durable by itself: the check must see it.
#[test]
#[cfg(feature = "planted")]
fn halves_are_noticed() {
    let why = kills(100).expect_err("halves are not noticed");
    println!("{why}");
}
