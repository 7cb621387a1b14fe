//! Random commands of all families whose keys have just expired, at each place that a key has: this server is the master,
//! a stock Redis and another server of this kind follow it, and both have the same as it in the end. Replicas go by what
//! they are told, and not by a key's time.

use super::following::told;
use super::replicas::{compared, now};
use super::{Redis, TEMPLATES, Template, families, word};
use crate::common::{Client, ENGINE, Frame, Random, Running, encode, show};
use perdura_testing::{seeds, times};
use std::thread;
use std::time::{Duration, Instant};

/// What it is about is not what a key's expiry may disturb; or a key that is moved to another database is not looked at.
const WITHOUT: [&str; 12] = [
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "UNWATCH",
    "SELECT",
    "SWAPDB",
    "FLUSH",
    "FUNCTION FLUSH",
    "MOVED",
    "CONFIG",
    "PUBLISH",
];

/// Rounds from one comparison to the next.
const ROUNDS: usize = 8;

/// Performs the commands that its arguments are: each is the number of its words, and these.
const SCRIPT: &str = "local at=1 while at<=#ARGV do local words={} local count=tonumber(ARGV[at]) \
    for i=1,count do words[i]=ARGV[at+i] end redis.pcall(unpack(words)) at=at+count+1 end";

fn random_command(random: &mut Random, from: u64) -> Vec<Vec<u8>> {
    let all: [&[Template]; 3] = [families::OTHERS, families::STREAMS, TEMPLATES];
    loop {
        let family = *random.pick(&all);
        let (template, _) = *random.pick(family);
        if !WITHOUT.iter().any(|without| template.starts_with(without)) {
            return template.split(' ').map(|text| word(text, random, from)).collect();
        }
    }
}

fn words(args: &[Vec<u8>]) -> Vec<&[u8]> {
    args.iter().map(Vec::as_slice).collect()
}

fn shown(args: &[Vec<u8>]) -> String {
    let short = |arg: &Vec<u8>| String::from_utf8_lossy(&arg[..arg.len().min(40)]).into_owned();
    args.iter().map(short).collect::<Vec<_>>().join(" ")
}

fn keys_of(client: &mut Client, args: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let question: Vec<&[u8]> =
        [&b"COMMAND"[..], b"GETKEYS"].into_iter().chain(words(args)).collect();
    match client.call(&question) {
        Frame::List(keys) => {
            let text = |key| if let Frame::Text(key) = key { Some(key) } else { None };
            keys.into_iter().filter_map(text).collect()
        }
        _ => Vec::new(),
    }
}

/// Something is there under this key, of any kind, whose time is over in a moment.
fn fill(client: &mut Client, random: &mut Random, key: &[u8], log: &mut Vec<String>) {
    const KINDS: [&[&str]; 8] = [
        &["SET", "5"],
        &["RPUSH", "a", "b", "c"],
        &["SADD", "a", "b", "zz"],
        &["ZADD", "1", "a", "2", "zz"],
        &["HSET", "f1", "5", "f2", "x"],
        &["XADD", "5-5", "f", "v"],
        // What is there already.
        &[],
        &[],
    ];
    let kind = *random.pick(&KINDS);
    if let Some((name, rest)) = kind.split_first() {
        client.call(&[b"DEL", key]);
        let args: Vec<&[u8]> = [name.as_bytes(), key]
            .into_iter()
            .chain(rest.iter().map(|text| text.as_bytes()))
            .collect();
        client.call(&args);
        if *name == "XADD" {
            client.call(&[b"XGROUP", b"CREATE", key, b"g1", b"0"]);
        }
    }
    let expires = random.below(3) > 0;
    if expires {
        client.call(&[b"PEXPIRE", key, b"1"]);
    }
    let name = kind.first().unwrap_or(&"as it is");
    log.push(format!("  {} {name} {expires}", String::from_utf8_lossy(key)));
}

/// Sends commands in one of several ways, and looks at no answer.
fn send(client: &mut Client, random: &mut Random, commands: &[Vec<Vec<u8>>]) -> &'static str {
    let bare = |client: &mut Client, before: &[&[u8]], after: &[&[u8]]| {
        let own: Vec<u8> = commands.iter().flat_map(|args| encode(&words(args))).collect();
        client.send(&[encode_all(before), own, encode_all(after)].concat());
        for _ in 0..commands.len() + before.len() + after.len() {
            client.receive().expect("an answer");
        }
    };
    match random.below(4) {
        0 => {
            for args in commands {
                client.call(&words(args));
            }
            "one by one"
        }
        1 => {
            bare(client, &[], &[]);
            "together"
        }
        2 => {
            bare(client, &[b"MULTI"], &[b"EXEC"]);
            "in EXEC"
        }
        _ => {
            let mut all = vec![b"EVAL".to_vec(), SCRIPT.into(), b"0".to_vec()];
            for args in commands {
                all.push(args.len().to_string().into_bytes());
                all.extend(args.iter().cloned());
            }
            let answer = show(&client.call(&words(&all)));
            assert!(!answer.contains("rror"), "{answer}");
            "in a script"
        }
    }
}

fn encode_all(names: &[&[u8]]) -> Vec<u8> {
    names.iter().flat_map(|name| encode(&[name])).collect()
}

/// Some rounds of commands whose keys have just expired, or have not. Returns what was done.
fn play(client: &mut Client, random: &mut Random, from: u64) -> Vec<String> {
    let mut log = Vec::new();
    for _ in 0..ROUNDS {
        let commands: Vec<_> =
            (0..1 + random.below(4)).map(|_| random_command(random, from)).collect();
        for args in &commands {
            for key in keys_of(client, args) {
                fill(client, random, &key, &mut log);
            }
        }
        thread::sleep(Duration::from_millis(3));
        let how = send(client, random, &commands);
        log.push(format!("{how}:"));
        log.extend(commands.iter().map(|args| shown(args)));
    }
    log
}

/// Waits until both have all.
fn await_both(master: &mut Client, follower: &mut Client, replicas: &str, log: &[String]) {
    master.ask("SET waited-for 1");
    let start = Instant::now();
    while master.ask(&format!("WAIT {replicas} 1000")) != replicas {
        let info = follower.ask("INFO replication");
        let is_given_up = info.contains("given_up:1");
        assert!(!is_given_up && start.elapsed() < Duration::from_secs(60), "{log:#?}\n{info}");
    }
}

#[test]
fn replicas_hear_of_keys_that_have_expired() {
    let redis = Redis::start();
    if redis.is_none() {
        println!("without a stock replica: there is no redis-server");
    }
    let run = |options: perdura_server::Options| options.threads(2).debug_command(true);
    let (master, follower) = (Running::with(run, 64 << 20), Running::with(run, 64 << 20));
    let seed = seeds(now() % 1_000_000, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let (mut theirs, mut ours) = (master.client(), follower.client());
    theirs.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    let place = format!("127.0.0.1 {}", master.address.port());
    let mut stock = redis.as_ref().map(super::following::client_of);
    for replica in [Some(&mut ours), stock.as_mut()].into_iter().flatten() {
        assert_eq!(replica.ask(&format!("REPLICAOF {}", place)), "OK");
    }
    let replicas = if stock.is_some() { "2" } else { "1" };
    await_both(&mut theirs, &mut ours, replicas, &[]);
    let from = now();
    let count = times(if std::env::var_os(ENGINE).is_some() { 40 } else { 100 });
    for turn in 0..count {
        // By one client, whose log says how it came about, or by two at the same time.
        let mut log = play(&mut theirs, &mut random, from);
        if turn % 2 == 1 {
            thread::scope(|scope| {
                let (mut other, mut own) = (master.client(), Random::new(seed + 1 + turn));
                let playing = scope.spawn(move || play(&mut other, &mut own, from));
                log.extend(play(&mut theirs, &mut random, from));
                log.extend(playing.join().expect("the other client"));
            });
        }
        await_both(&mut theirs, &mut ours, replicas, &log);
        let wanted = told(&mut theirs);
        for (name, replica) in [("ours", Some(&mut ours)), ("stock", stock.as_mut())] {
            let Some(replica) = replica else { continue };
            let differences = compared(&told(replica), &wanted).join("\n");
            assert!(differences.is_empty(), "seed {seed}, {name}: {log:#?}\n{differences}");
        }
    }
    master.check();
    follower.check();
}
