//! This server follows a stock Redis through random commands of all families, with broken connections, and has the same in
//! the end.

use super::Redis;
use super::replicas::{all, compared, now, play};
use crate::common::{Client, ENGINE, Random, Running};
use perdura_testing::{seeds, times};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 3;

fn client_of(redis: &Redis) -> Client {
    Client::connect(([127, 0, 0, 1], redis.port).into())
}

/// All that a server has, but for what Redis 7.0 does not tell its replicas: a consumer that claims nothing, and how many
/// entries a group has read.
fn told(client: &mut Client) -> BTreeMap<(u8, Vec<u8>), String> {
    let mut all = all(client);
    for held in all.values_mut().filter(|held| held.starts_with("stream")) {
        while let Some(end) = held.find(" pel-count 0 pending []]")
            && let Some(start) = held[..end].rfind("[name ")
        {
            held.replace_range(start..end + " pel-count 0 pending []]".len(), "");
        }
        let mut words: Vec<&str> = held.split_whitespace().collect();
        while let Some(at) = words.iter().position(|word| *word == "entries-read" || *word == "lag") {
            words.drain(at..at + 2);
        }
        *held = words.join(" ").replace("[ ", "[").replace(" ]", "]");
    }
    all
}

/// Compares all that both have, once the follower has all.
fn compare(ours: &mut Client, theirs: &mut Client, what: &str) {
    theirs.ask("SET waited-for 1");
    let start = Instant::now();
    while theirs.ask("WAIT 1 1000") != "1" {
        let info = ours.ask("INFO replication");
        let is_given_up = info.contains("given_up:1");
        assert!(!is_given_up && start.elapsed() < Duration::from_secs(60), "{what}: {info}");
    }
    let start = Instant::now();
    loop {
        let differences = compared(&told(ours), &told(theirs));
        if differences.is_empty() {
            return;
        }
        // Keys expire meanwhile.
        assert!(start.elapsed() < Duration::from_secs(5), "{what}: {differences:#?}");
        thread::sleep(Duration::from_millis(300));
    }
}

fn follow(rounds: u64, diskless: &str) {
    let options = ["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0"];
    let Some(redis) = Redis::start_with(&options) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let running = Running::with(|options| options.threads(2), 64 << 20);
    let seed = seeds(now() % 1_000_000, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let steps = times(if std::env::var_os(ENGINE).is_some() { 1_500 } else { 3_000 });
    let (mut theirs, mut ours) = (client_of(&redis), running.client());
    play(&mut theirs, &mut Random::new(seed), steps);
    ours.ask("SET gone-when-a-master-is-followed 1");
    assert_eq!(ours.ask(&format!("REPLICAOF 127.0.0.1 {}", redis.port)), "OK");
    for round in 0..rounds {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (mut here, mut there) = (running.client(), client_of(&redis));
            let (done, mut random) = (&done, Random::new(seed + 1000 + round));
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(100 + random.below(500) as u64));
                    match random.below(3) {
                        0 => here.ask("CLIENT KILL TYPE master"),
                        1 => there.ask("CLIENT KILL TYPE replica"),
                        // Perhaps a new snapshot.
                        _ => there.ask("CONFIG SET repl-backlog-size 16384"),
                    };
                }
            });
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let mut own = client_of(&redis);
                    let mut random = Random::new(seed + 100 * round + client + 1);
                    scope.spawn(move || play(&mut own, &mut random, steps))
                })
                .collect();
            let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            done.store(true, Ordering::Release);
            assert!(ended.iter().all(Result::is_ok), "a client has failed");
        });
        compare(&mut ours, &mut theirs, &format!("round {round}"));
    }
    let info = ours.ask("INFO replication");
    assert!(info.contains("role:slave") && info.contains("master_link_status:up"), "{info}");
    running.check();
}

#[test]
fn a_stock_master_is_followed() {
    follow(2, "yes");
    follow(2, "no");
}
