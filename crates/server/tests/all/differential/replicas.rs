//! A stock Redis follows this server through random commands of all families, by several clients, with broken connections,
//! and has the same in the end.

use super::families;
use super::{Compare, Redis, TEMPLATES, Template, meaning, word};
use crate::common::{Client, ENGINE, Frame, Random, Running, show};
use perdura_testing::{seeds, times};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Clients that write at the same time.
const CLIENTS: u64 = 3;
/// How soon the replica is to be where the server is.
const LONGEST: Duration = Duration::from_secs(120);

pub(super) fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_millis() as u64
}

/// Sends random commands, and looks at no answer.
fn play(client: &mut Client, random: &mut Random, steps: u64) {
    play_without(client, random, steps, "MOVED");
}

/// The same, without commands that begin so.
pub(super) fn play_without(client: &mut Client, random: &mut Random, steps: u64, without: &str) {
    let all: [&[Template]; 3] = [families::OTHERS, families::STREAMS, TEMPLATES];
    let from = now();
    for _ in 0..steps {
        let family = *random.pick(&all);
        let (template, _) = *random.pick(family);
        let is_rare = template.starts_with("FLUSH") || template.starts_with("FUNCTION FLUSH");
        if template.starts_with("MOVED")
            || template.starts_with(without)
            || is_rare && random.below(20) > 0
        {
            continue;
        }
        let args: Vec<Vec<u8>> = template.split(' ').map(|text| word(text, random, from)).collect();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        client.call(&args);
    }
    client.ask("DISCARD");
}

/// What a key holds, and when it expires.
fn held(client: &mut Client, key: &[u8]) -> String {
    let kind = client.call(&[b"TYPE", key]);
    let (args, compare): (Vec<&[u8]>, _) = match show(&kind).as_str() {
        "string" => (vec![b"GET", key], Compare::Same),
        "list" => (vec![b"LRANGE", key, b"0", b"-1"], Compare::Same),
        "set" => (vec![b"SMEMBERS", key], Compare::Unordered),
        "hash" => (vec![b"HGETALL", key], Compare::Pairs),
        "zset" => (vec![b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"], Compare::Same),
        "stream" => (vec![b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"], Compare::Info),
        _ => return "nothing".to_owned(),
    };
    let value = client.call(&args);
    let time = client.call(&[b"PEXPIRETIME", key]);
    format!("{} {} {}", show(&kind), meaning(&value, compare), show(&time))
}

/// All keys of all databases, and the libraries of functions.
pub(super) fn all(client: &mut Client) -> BTreeMap<(u8, Vec<u8>), String> {
    let mut all = BTreeMap::new();
    for db in 0..16_u8 {
        client.ask(&format!("SELECT {db}"));
        let keys = client.call(&[b"KEYS", b"*"]);
        let Frame::List(keys) = keys else { panic!("no keys: {}", show(&keys)) };
        for key in keys {
            let Frame::Text(key) = key else { panic!("no key") };
            let held = held(client, &key);
            if held != "nothing" {
                all.insert((db, key), held);
            }
        }
    }
    client.ask("SELECT 0");
    all.insert((16, b"functions".to_vec()), client.ask("FUNCTION LIST WITHCODE"));
    all
}

/// The differences.
pub(super) fn compared(
    ours: &BTreeMap<(u8, Vec<u8>), String>,
    theirs: &BTreeMap<(u8, Vec<u8>), String>,
) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let differ = names.into_iter().filter(|name| ours.get(name) != theirs.get(name));
    let shown = differ.map(|name| {
        let key = String::from_utf8_lossy(&name.1);
        format!("{} {key}\nours:   {:?}\ntheirs: {:?}", name.0, ours.get(name), theirs.get(name))
    });
    shown.collect()
}

/// Breaks the connection of the replica now and then.
fn disturb(client: &mut Client, random: &mut Random, done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(200 + random.below(800) as u64));
        client.ask("CLIENT KILL TYPE master");
    }
}

/// Waits until the replica has all that this client has written.
pub(super) fn await_replica(ours: &mut Client) {
    ours.ask("SET waited-for 1");
    let start = Instant::now();
    while ours.ask("WAIT 1 1000") != "1" {
        assert!(start.elapsed() < LONGEST, "no replica: {}", ours.ask("INFO replication"));
    }
}

fn follow(rounds: u64) {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server");
        return;
    };
    let running = Running::with(|options| options.threads(3), 64 << 20);
    let clock = now();
    let seed = seeds(clock % 1_000_000, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let steps = times(if std::env::var_os(ENGINE).is_some() { 1_500 } else { 4_000 });
    let mut theirs = Client::connect(([127, 0, 0, 1], redis.port).into());
    let mut ours = running.client();
    play(&mut ours, &mut Random::new(seed), steps);
    let address = running.address;
    theirs.ask(&format!("REPLICAOF {} {}", address.ip(), address.port()));
    for round in 0..rounds {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut breaks = Client::connect(([127, 0, 0, 1], redis.port).into());
            let done = &done;
            scope.spawn(move || {
                disturb(&mut breaks, &mut Random::new(seed + 1000 + round), done);
            });
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let mut own = running.client();
                    let mut random = Random::new(seed + 100 * round + client + 1);
                    scope.spawn(move || play(&mut own, &mut random, steps))
                })
                .collect();
            let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            done.store(true, Ordering::Release);
            assert!(ended.iter().all(Result::is_ok), "a client has failed");
        });
        // By a client whose writes come last.
        await_replica(&mut ours);
        let start = Instant::now();
        loop {
            let differences = compared(&all(&mut ours), &all(&mut theirs));
            if differences.is_empty() {
                break;
            }
            // Keys expire meanwhile.
            assert!(start.elapsed() < Duration::from_secs(5), "round {round}: {differences:#?}");
            thread::sleep(Duration::from_millis(300));
        }
    }
    let info = theirs.ask("INFO replication");
    assert!(info.contains("master_link_status:up"), "{info}");
    running.check();
}

#[test]
fn a_stock_redis_follows() {
    follow(3);
}

/// Commands that do something else when they are performed again, later, or by another version. `~` is a pause after which
/// short times are over; the first part of a line with `|` is performed by a client that waits, until another one performs
/// the second.
const NAMED: &[&str] = &[
    "SET a 1 EX 100",
    "SET a 2 KEEPTTL",
    "SET b 3 PX 100000 NX",
    "SETEX b 100 1",
    "PSETEX b 100000 1",
    "GETEX b EX 50",
    "GETEX b PERSIST",
    "EXPIRE b 77",
    "EXPIRE b 10 NX",
    "PEXPIRE b 1234567 GT",
    "EXPIRE b -1",
    "INCRBYFLOAT f 0.1",
    "INCRBYFLOAT f 3.0e-5",
    "HINCRBYFLOAT h f 0.1",
    "SADD s a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4 5 6 7 8 9",
    "SPOP s",
    "SPOP s 5",
    "EVAL return(redis.call('spop',KEYS[1],3)) 1 s",
    "EVAL redis.call('set',KEYS[1],redis.call('time')[2])redis.call('incr',KEYS[2]) 2 clock n",
    "EVAL redis.call('set',KEYS[1],1)return(redis.call('nothing')) 1 undone",
    "SADD s2 only",
    "SPOP s2 10",
    "SELECT 3",
    "SET in-three 1",
    "MULTI",
    "SET in-three 2",
    "INCR in-three",
    "EXEC",
    "MOVE in-three 5",
    "SWAPDB 5 6",
    "SELECT 0",
    "SWAPDB 3 0",
    "SWAPDB 0 3",
    "COPY a copied DB 3",
    "RPUSH l 1 2 3 4 5 6 7 8 9",
    "BLPOP none l 1",
    "BRPOP none l 1",
    "BLMOVE l m LEFT RIGHT 1",
    "BRPOPLPUSH l m 1",
    "BLMPOP 1 2 none l LEFT COUNT 2",
    "ZADD z 1 a 2 b 3 c 4 d 5 e 6 f",
    "BZPOPMIN none z 1",
    "BZPOPMAX none z 1",
    "BZMPOP 1 2 none z MIN",
    "BLPOP w1 w2 0|RPUSH w2 x y z",
    "BLMOVE w3 w4 RIGHT LEFT 0|RPUSH w3 x y z",
    "BZPOPMIN w5 w6 0|ZADD w6 1 x 2 y",
    "XADD t * f v",
    "XADD t NOMKSTREAM * f v g w",
    "XADD t MAXLEN 280 * f v",
    "XTRIM t MAXLEN ~ 40",
    "XADD t MAXLEN ~ 20 * f v",
    "XGROUP CREATE t g 0",
    "XREADGROUP GROUP g c1 COUNT 1 STREAMS t >",
    "XREADGROUP GROUP g c2 NOACK COUNT 1 STREAMS t >",
    "XADD t * f last",
    "XREADGROUP GROUP g c2 COUNT 5 STREAMS t >",
    "XAUTOCLAIM t g c3 0 0 COUNT 1",
    "XADD t2 9999999999999-7 f v",
    "XGROUP CREATE t2 g 0",
    "XREADGROUP GROUP g c1 STREAMS t2 >",
    "XCLAIM t2 g c4 0 9999999999999-7 IDLE 5000 RETRYCOUNT 9",
    "XDEL t2 9999999999999-7",
    "XAUTOCLAIM t2 g c5 0 0",
    "XGROUP CREATE t2 streams 0",
    "XREADGROUP GROUP streams c STREAMS t2 >",
    "XADD t2 9999999999999-8 f v",
    "XREADGROUP GROUP streams streams STREAMS t2 >",
    "XDEL t2 9999999999999-8",
    "XREADGROUP GROUP streams streams STREAMS t2 0",
    "SADD weighed b a c d e",
    "SORT weighed BY none_* ALPHA STORE sorted",
    "FUNCTION LOAD #!lua\tname=one\nredis.register_function('one',function(keys)return(redis.call('set',keys[1],redis.call('time')[2]))end)",
    "FCALL one 1 called",
    "FUNCTION DELETE one",
    "XREADGROUP GROUP g c9 BLOCK 0 STREAMS t2 >|XADD t2 9999999999999-9 f v",
    "SET gone 5 PX 1",
    "~",
    "INCR gone",
    "SADD gone-set x y",
    "PEXPIRE gone-set 1",
    "SADD other z",
    "~",
    "SUNIONSTORE union gone-set other",
    "SET gone-too 7 PX 1",
    "~",
    "COPY gone-too copied-not",
    "SELECT 3",
    "SET moved 1 PX 1",
    "SELECT 0",
    "SET moved 2",
    "~",
    "MOVE moved 3",
    "SET moved 4 PX 1",
    "~",
    "MOVE moved 3",
    "PFADD hll a b c",
    "PFMERGE hll2 hll",
    "GEOADD geo 13.361389 38.115556 P 15.087269 37.502669 C",
    "GEOADD ties 1 1 a 1 1 b 1 1 c 1 1 d 1 1 e 1 1 f 1.00001 1 g 0.99999 1 h 1 1.00001 i",
    "GEOSEARCHSTORE near ties FROMLONLAT 1 1 BYRADIUS 200 km COUNT 4",
    "GEOSEARCHSTORE near ties FROMLONLAT 1 1 BYRADIUS 200 km COUNT 4 ANY STOREDIST",
    "GEORADIUS ties 1 1 200 km COUNT 3 STORE unused STORE near",
    "GEORADIUSBYMEMBER ties a 200 km COUNT 3 DESC STOREDIST near",
    "SORT weighed ALPHA STORE unused STORE sorted",
    "GEOSEARCHSTORE near geo FROMLONLAT 15 37 BYRADIUS 200 km ASC",
    "BITFIELD bits SET u8 0 255 INCRBY i5 100 1",
    "DEL a",
    "FLUSHDB",
];

pub(super) fn signal(redis: &Redis, name: &str) {
    let id = redis.child.id().to_string();
    let done = Command::new("kill").args(["-s", name, &id]).status();
    assert!(done.is_ok_and(|status| status.success()), "kill -s {name}");
}

#[test]
fn what_is_drawn_or_timed_is_named() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server");
        return;
    };
    let running = Running::with(|options| options.threads(2).debug_command(true), 64 << 20);
    let mut theirs = Client::connect(([127, 0, 0, 1], redis.port).into());
    let (mut ours, address) = (running.client(), running.address);
    let mut looks = running.client();
    ours.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    ours.ask("SET there-before 1 EX 1000");
    (0..300).for_each(|_| drop(ours.ask("XADD t 1-* f v")));
    theirs.ask(&format!("REPLICAOF {} {}", address.ip(), address.port()));
    await_replica(&mut looks);
    let mut in_multi = false;
    for line in NAMED {
        if *line == "~" {
            thread::sleep(Duration::from_millis(20));
            continue;
        }
        let (line, fills) = line.split_once('|').map_or((*line, None), |(a, b)| (a, Some(b)));
        // The replica gets it later than it was done.
        signal(&redis, "STOP");
        match fills {
            None => drop(ours.ask(line)),
            Some(fills) => thread::scope(|scope| {
                let mut waits = running.client();
                let waiting = scope.spawn(move || waits.ask(line));
                while !looks.ask("INFO clients").contains("blocked_clients:1") {
                    thread::sleep(Duration::from_millis(2));
                }
                ours.ask(fills);
                waiting.join().unwrap();
            }),
        }
        thread::sleep(Duration::from_millis(5));
        signal(&redis, "CONT");
        in_multi = line == "MULTI" || in_multi && line != "EXEC";
        if in_multi {
            continue;
        }
        let start = Instant::now();
        loop {
            await_replica(&mut looks);
            let differences = compared(&all(&mut looks), &all(&mut theirs));
            if differences.is_empty() {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(1), "after {line}: {differences:#?}");
        }
    }
    running.check();
}
