//! Clients of both servers track in all ways while they send the same random commands, one after the other, and must be told
//! the same: nothing too little, and nothing too much.

use super::{Compare, Pair, Redis, TEMPLATES, Template, families};
use crate::common::{Client, Random, Running, show};
use perdura_testing::{seeds, times};
use std::time::{Duration, Instant};

/// How the clients track, each in one way.
const KINDS: &[&str] = &[
    "",
    "NOLOOP",
    "OPTIN",
    "OPTOUT NOLOOP",
    "BCAST",
    "BCAST NOLOOP",
    "BCAST NOLOOP PREFIX k PREFIX stream PREFIX b",
];

/// Commands besides those of the families.
const OWN: &[Template] = &[
    ("CLIENT CACHING YES", Compare::Same),
    ("CLIENT CACHING NO", Compare::Same),
    ("GET key", Compare::Same),
    ("MGET key key key", Compare::Same),
    ("EXISTS key key", Compare::Same),
    ("SET key value", Compare::Same),
    ("DEL key key", Compare::Same),
    ("EXPIRE key 100000", Compare::Same),
    ("EXPIRE key -1", Compare::Same),
    ("SET key value EX 100000", Compare::Same),
    ("GETEX key PX 100000000", Compare::Same),
    ("MULTI", Compare::Same),
    ("EXEC", Compare::Same),
];

/// Whether clients are told the same of a command.
///
/// Not so of keys that expire, which are deleted at other moments; of scripts, in which Redis 7.0 tracks declared keys; of
/// SWAPDB, which here says that all keys are invalid; of XSETID, and of a string that BITFIELD makes longer though its
/// OVERFLOW fails, of which Redis tells nobody; and of XREAD that has waited in vain, or names an option that it has not.
fn is_told_of_alike((template, _): &Template) -> bool {
    let words: Vec<&str> = template.split(' ').collect();
    let has = |others: &[&str]| words.iter().any(|word| others.contains(word));
    let may_fail = words[0] == "XREAD" && has(&["BLOCK", "stream-option"]);
    let expires = has(&["time", "instant", "expire-option"]);
    let is_other = words[0].starts_with("EVAL")
        || ["SWAPDB", "XSETID", "CONFIG", "FUNCTION"].contains(&words[0])
        || words[0] == "BITFIELD" && has(&["OVERFLOW"]);
    !(may_fail || expires || is_other)
}

/// A client of each server, and one more of each that is told what the first one's keys are.
struct Tracker {
    pair: Pair,
    told: [Client; 2],
}

impl Tracker {
    fn new(connect: &mut dyn FnMut(usize) -> Client, kind: &str) -> Self {
        let [ours, theirs] = [0, 1].map(|server| {
            let (mut tracker, mut told) = (connect(server), connect(server));
            told.ask("HELLO 3");
            let id = told.ask("CLIENT ID");
            let command = format!("CLIENT TRACKING ON REDIRECT {id} {kind}");
            assert_eq!(tracker.ask(command.trim_end()), "OK");
            (tracker, told)
        });
        let pair = Pair { ours: ours.0, theirs: theirs.0, queued: Vec::new(), in_multi: false };
        Tracker { pair, told: [ours.1, theirs.1] }
    }
}

/// What a client was told until now.
fn told(client: &mut Client) -> Vec<String> {
    client.send(&crate::common::encode(&[b"PING"]));
    let frames = std::iter::from_fn(|| {
        let text = show(&client.receive().expect("an answer"));
        (text != "PONG").then_some(text)
    });
    frames.collect()
}

/// What a client of this server and what the same of Redis was told by a command. The messages of one are in any order; of
/// this server they may be under way from another thread.
fn both_told([ours, theirs]: &mut [Client; 2]) -> [Vec<String>; 2] {
    let (mut here, mut there) = (told(ours), told(theirs));
    there.sort();
    let began = Instant::now();
    loop {
        here.sort();
        if here == there || began.elapsed() > Duration::from_secs(5) {
            return [here, there];
        }
        here.append(&mut told(ours));
    }
}

fn compare(threads: usize) {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server");
        return;
    };
    let running = Running::with(|options| options.threads(threads), 64 << 20);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = seeds(1, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let mut connect = |server| match server {
        0 => running.client(),
        _ => Client::connect(([127, 0, 0, 1], redis.port).into()),
    };
    let mut trackers: Vec<Tracker> =
        KINDS.iter().map(|kind| Tracker::new(&mut connect, kind)).collect();
    assert_eq!(trackers[0].pair.ours.ask("CONFIG SET dump-version 10"), "OK");
    let families = [TEMPLATES, families::STREAMS, families::OTHERS]
        .map(|family| family.iter().copied().filter(is_told_of_alike).collect::<Vec<Template>>());
    let [plain, streams, others] = families.each_ref().map(Vec::as_slice);
    let templates: &[&[Template]] = &[OWN, OWN, OWN, plain, plain, streams, others];
    let (mut log, mut count) = (Vec::new(), 0);
    for _ in 0..times(6_000) {
        let acting = random.below(trackers.len());
        let pair = &mut trackers[acting].pair;
        pair.step(templates, &mut random, clock.as_millis() as u64, &mut log);
        if let Some(line) = log.last_mut() {
            *line = format!("{}: {line}", KINDS[acting]);
        }
        for (tracker, kind) in trackers.iter_mut().zip(KINDS) {
            let [ours, theirs] = both_told(&mut tracker.told);
            let recent = &log[log.len().saturating_sub(20)..];
            let own = log.iter().rev().filter(|line| line.starts_with(&format!("{kind}: ")));
            let own: Vec<&String> = own.take(60).collect();
            assert_eq!(
                ours, theirs,
                "a client with \"{kind}\" is told this, and by Redis that: {recent:#?}, its own before: {own:#?}"
            );
            count += ours.len();
        }
    }
    println!("{count} messages");
    assert!(count > times(500) as usize, "{count} messages");
    // Nothing is under way.
    std::thread::sleep(Duration::from_millis(50));
    for tracker in &mut trackers {
        assert_eq!(told(&mut tracker.told[0]), [""; 0]);
    }
    running.check();
}

#[test]
fn clients_are_told_what_redis_tells() {
    compare(1);
}

#[test]
fn clients_of_all_threads_are_told_what_redis_tells() {
    compare(3);
}
