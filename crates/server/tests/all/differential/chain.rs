//! Replicas of a replica, and replicas whose master changes: stock servers and ours, in each place.

use super::Redis;
use super::following::{Killed, client_of, free_address, kept_engine, number, play, told};
use super::replicas::{compared, now};
use crate::common::{Client, Random, Running, await_text, show};
use perdura_testing::{seeds, times};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Stock servers that are told all at once, and keep all of the stream.
const STOCK: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"];

pub(super) fn at(port: u16) -> Client {
    Client::connect(([127, 0, 0, 1], port).into())
}

pub(super) fn follow(port: u16, master: u16) {
    let answer = at(port).ask(&format!("REPLICAOF 127.0.0.1 {master}"));
    assert!(answer.starts_with("OK"), "{answer}");
}

pub(super) fn await_link(port: u16) {
    await_text(&mut at(port), "INFO replication", "master_link_status:up");
}

fn syncs(port: u16) -> (u64, u64) {
    let mut client = at(port);
    (number(&mut client, "stats", "sync_full"), number(&mut client, "stats", "sync_partial_ok"))
}

/// Waits until all have what the master has, and the same.
pub(super) fn settle(master: u16, others: &[u16], what: &str) {
    let mark = format!("{}", now());
    let mut leads = at(master);
    assert_eq!(leads.ask(&format!("SET waited-for {mark}")), "OK", "{what}");
    for port in others {
        let start = Instant::now();
        while at(*port).ask("GET waited-for") != mark {
            let info = at(*port).ask("INFO replication");
            assert!(start.elapsed() < Duration::from_secs(60), "{what}, {port}: {info}");
            thread::sleep(Duration::from_millis(20));
        }
    }
    for port in others {
        let start = Instant::now();
        loop {
            let differences = compared(&told(&mut at(*port)), &told(&mut leads));
            if differences.is_empty() {
                break;
            }
            // Keys expire meanwhile.
            assert!(start.elapsed() < Duration::from_secs(5), "{what}, {port}: {differences:#?}");
            thread::sleep(Duration::from_millis(300));
        }
    }
}

/// Three clients write at random; meanwhile `disturb` is called again and again.
fn load(master: u16, seed: u64, steps: u64, mut disturb: impl FnMut(&mut Random) + Send) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || {
            let mut random = Random::new(seed + 1000);
            while !done.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(50 + random.below(250) as u64));
                disturb(&mut random);
            }
        });
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let mut random = Random::new(seed + client);
                scope.spawn(move || play(&mut at(master), &mut random, steps))
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::Release);
        assert!(ended.iter().all(Result::is_ok), "a client has failed");
    });
}

/// A stock master, this server in the middle, and at the end a stock one and ours: links break, and at last those at the end
/// go on from the master itself, whose stream they know byte for byte.
#[test]
fn a_follower_is_followed() {
    let (Some(master), Some(last)) = (Redis::start_with(&STOCK), Redis::start_with(&STOCK)) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let seed = seeds(now() % 1_000_000, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let [middle, own] = [(); 2].map(|()| Running::with(|options| options.threads(2), 64 << 20));
    let (first, port) = (master.port, middle.address.port());
    play(&mut client_of(&master), &mut Random::new(seed), 500);
    let (mut ours, mut writer) = (middle.client(), at(first));
    ours.ask("SET own 1");
    follow(port, first);
    await_link(port);
    // Another database than the first one is chosen in the stream when the snapshots for the last ones are made.
    writer.ask("SELECT 7");
    writer.ask("SET in-seven 1");
    ours.ask("SELECT 7");
    await_text(&mut ours, "GET in-seven", "1");
    let ends = [last.port, own.address.port()];
    ends.iter().for_each(|end| follow(*end, port));
    ends.into_iter().for_each(await_link);
    writer.ask("SET in-seven 2");
    settle(first, &[port, ends[0], ends[1]], "at first");
    assert!(ours.ask("INFO replication").contains("connected_slaves:2"));
    let whole = syncs(port).0;
    let steps = times(1_500);
    for round in 0..2 {
        load(first, seed + 100 * round + 1, steps, |random| {
            match random.below(4) {
                0 => ours.ask("CLIENT KILL TYPE master"),
                1 => ours.ask("CLIENT KILL TYPE replica"),
                2 => at(ends[0]).ask("CLIENT KILL TYPE master"),
                _ => at(ends[1]).ask("CLIENT KILL TYPE master"),
            };
        });
        settle(first, &[port, ends[0], ends[1]], &format!("round {round}"));
    }
    let (whole_after, parts) = syncs(port);
    assert!(whole_after == whole && parts > 0, "{whole_after} of {whole}, {parts} times gone on");
    let id = |client: &mut Client| {
        let info = client.ask("INFO replication");
        info.lines().find(|line| line.starts_with("master_replid:")).unwrap().to_owned()
    };
    assert_eq!(id(&mut ours), id(&mut at(first)));
    let (whole, parts) = syncs(first);
    ends.iter().for_each(|end| follow(*end, first));
    ends.into_iter().for_each(await_link);
    settle(first, &ends, "by the master itself");
    assert_eq!(syncs(first), (whole, parts + 2));
    // The middle one has other data: those behind it begin anew.
    follow(ends[1], port);
    await_link(ends[1]);
    let new = Running::with(|options| options, 64 << 20);
    new.client().ask("SET new 1");
    follow(port, new.address.port());
    settle(new.address.port(), &[port, ends[1]], "another master");
    assert_eq!(at(ends[1]).ask("DBSIZE"), "2");
    for running in [&middle, &own, &new] {
        running.check();
    }
}

/// The one in the middle is killed at random moments, and so is the last one.
#[test]
fn kills_in_the_middle_leave_all_the_same() {
    if kept_engine().is_none() {
        println!("skipped: nothing outlives a kill under this engine");
        return;
    }
    let seed = seeds(now() % 1_000_000, 1).start;
    println!("replay with PERDURA_TEST_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let pools = ["middle", "last"].map(|name| folder.path().join(name));
    let addresses = [free_address(), free_address()];
    let [middle, last] = addresses.map(|address| address.port());
    let master = Running::with(|options| options.threads(2), 64 << 20);
    let first = master.address.port();
    play(&mut master.client(), &mut Random::new(seed), 300);
    let mut servers = [
        Killed::start(&pools[0], addresses[0], Some(first)),
        Killed::start(&pools[1], addresses[1], Some(middle)),
    ];
    let stock = Redis::start_with(&STOCK);
    let mut ends = vec![middle, last];
    if let Some(stock) = &stock {
        follow(stock.port, middle);
        ends.push(stock.port);
    }
    ends.iter().for_each(|end| await_link(*end));
    let mut kills = [0, 0];
    for round in 0..2 {
        load(first, seed + 100 * round + 1, times(5_000), |random| {
            let which = usize::from(random.below(3) == 0);
            let leads = [first, middle][which];
            servers[which].kill_and_start(&pools[which], Some(leads));
            kills[which] += 1;
        });
        settle(first, &ends, &format!("after {kills:?} kills"));
    }
    let (whole, parts) = syncs(first);
    println!("{kills:?} kills; the master: {whole} snapshots, {parts} times gone on");
    assert!(whole == 1 && kills[0] > 0, "{whole} snapshots, {kills:?} kills");
    drop(servers);
    master.check();
}

/// The one in the middle is started again: its place in the master's stream is in its pool, but the stream before that place is
/// not kept. One behind it that has as much goes on; one that lacks something gets a snapshot, and has the same then.
#[test]
fn a_middle_that_was_started_again_goes_on_or_sends_all() {
    if kept_engine().is_none() {
        println!("skipped: nothing outlives a kill under this engine");
        return;
    }
    let (Some(stock), Some(end)) = (Redis::start_with(&STOCK), Redis::start_with(&STOCK)) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let ours = Running::with(|options| options.threads(2), 64 << 20);
    for first in [ours.address.port(), stock.port] {
        let folder = tempfile::tempdir().unwrap();
        let (pool, address) = (folder.path().join("middle"), free_address());
        let mut middle = Killed::start(&pool, address, Some(first));
        let port = address.port();
        let own = Running::with(|options| options, 64 << 20);
        let ends = [own.address.port(), end.port];
        let nobody = free_address().port();
        let mut writer = at(first);
        let mut write = || {
            for count in 0..50 {
                writer.ask("INCR count");
                writer.ask(&format!("RPUSH list {count}"));
            }
            writer.ask("GET count")
        };
        let join = |others: &[u16], what: &str| {
            others.iter().for_each(|other| follow(*other, port));
            others.iter().for_each(|other| await_link(*other));
            settle(first, &[port, ends[0], ends[1]], what);
        };
        await_link(port);
        write();
        join(&ends, "at first");
        assert_eq!(syncs(port), (2, 0));
        for by_kill in [true, false] {
            let restart = |middle: &mut Killed| match by_kill {
                true => middle.kill_and_start(&pool, Some(first)),
                false => middle.end_and_start(&pool, Some(first)),
            };
            // They lack something, which the one in the middle keeps.
            ends.iter().for_each(|other| follow(*other, nobody));
            write();
            let before = syncs(port);
            join(&ends, "not started again");
            assert_eq!(syncs(port), (before.0, before.1 + 2));
            // They lack nothing.
            restart(&mut middle);
            ends.iter().for_each(|other| await_link(*other));
            settle(first, &[port, ends[0], ends[1]], "started again");
            assert_eq!(syncs(port), (0, 2), "by kill: {by_kill}");
            // They lack something, which is not kept any more.
            ends.iter().for_each(|other| follow(*other, nobody));
            let count = write();
            await_text(&mut at(port), "GET count", &count);
            restart(&mut middle);
            await_link(port);
            join(&ends, "with something missing");
            assert_eq!(syncs(port), (2, 0), "by kill: {by_kill}");
            for port in [port, ends[0], ends[1]] {
                assert_eq!(
                    [at(port).ask("GET count"), at(port).ask("LLEN list")],
                    [(); 2].map(|()| count.clone())
                );
            }
        }
        // The master itself has sent its data once.
        assert_eq!(syncs(first).0, 1);
        ends.iter().for_each(|other| follow(*other, nobody));
        own.check();
    }
    ours.check();
}

/// The master is gone, or becomes a replica: all others go on where they were.
#[test]
fn replicas_go_on_when_the_master_changes() {
    if kept_engine().is_none() {
        println!("skipped: nothing outlives a kill under this engine");
        return;
    }
    let Some(stock) = Redis::start_with(&STOCK) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (pool, address) = (folder.path().join("pool"), free_address());
    let old = Killed::start(&pool, address, None);
    let [one, two, behind] =
        [(); 3].map(|()| Running::with(|options| options.threads(2), 64 << 20));
    let ports = [&one, &two, &behind].map(|running| running.address.port());
    let [first, second, third] = ports;
    [first, second, stock.port].into_iter().for_each(|port| follow(port, address.port()));
    [first, second, stock.port].into_iter().for_each(await_link);
    follow(third, first);
    await_link(third);
    play(&mut old.client(), &mut Random::new(5), 500);
    settle(address.port(), &[first, second, third, stock.port], "at first");
    let info = one.client().ask("INFO replication");
    let field = |info: &str, name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().trim_end().to_owned()
    };
    let (id, place) = (field(&info, "master_replid"), field(&info, "master_repl_offset"));
    old.kill();
    // A replica of the dead master takes its place.
    assert_eq!(one.client().ask("REPLICAOF NO ONE"), "OK");
    let info = one.client().ask("INFO replication");
    assert_eq!(field(&info, "master_replid2"), id);
    let before: u64 = field(&info, "second_repl_offset").parse().unwrap();
    assert!(before > place.parse::<u64>().unwrap(), "{before} and {place}");
    [second, stock.port].into_iter().for_each(|port| follow(port, first));
    [second, third, stock.port].into_iter().for_each(await_link);
    play(&mut one.client(), &mut Random::new(6), 300);
    settle(first, &[second, third, stock.port], "promoted");
    // The snapshot is that of the one behind it, from before.
    assert_eq!(syncs(first), (1, 3));
    // It was killed: what it had more than the new one is not known.
    let back = Killed::start(&pool, address, None);
    follow(address.port(), first);
    settle(first, &[address.port()], "the old master");
    assert_eq!(syncs(first).0, 2);
    back.kill();
    // The master becomes a replica of one of its own, and has nothing more than that one.
    settle(first, &[second, third, stock.port], "before");
    thread::sleep(Duration::from_millis(1200));
    assert_eq!(two.client().ask("REPLICAOF NO ONE"), "OK");
    follow(first, second);
    await_link(first);
    play(&mut two.client(), &mut Random::new(7), 300);
    settle(second, &[first, third, stock.port], "demoted");
    assert_eq!(syncs(second), (0, 1));
    assert_eq!(syncs(first).0, 2);
    // The same with a stock one, which is behind the others.
    assert_eq!(at(stock.port).ask("REPLICAOF NO ONE"), "OK");
    follow(second, stock.port);
    await_link(second);
    settle(stock.port, &[second, first, third], "stock");
    assert_eq!(syncs(stock.port), (0, 1));
    // One that has something more does not keep it.
    assert_eq!(one.client().ask("REPLICAOF NO ONE"), "OK");
    assert_eq!(one.client().ask("SET more 1"), "OK");
    settle(first, &[third], "the one behind");
    follow(first, stock.port);
    await_link(first);
    settle(stock.port, &[second, first, third], "no more");
    assert_eq!(one.client().ask("EXISTS more"), "0");
    assert_eq!(syncs(stock.port).0, 1);
    for running in [&one, &two, &behind] {
        running.check();
    }
}

/// A server says where it can be reached.
#[test]
fn what_is_announced_is_shown() {
    let [master, replica] = [(); 2].map(|()| Running::with(|options| options, 32 << 20));
    let mut client = replica.client();
    for (name, value) in [("ip", "127.0.0.9"), ("port", "4242")] {
        assert_eq!(client.ask(&format!("CONFIG SET replica-announce-{name} {value}")), "OK");
        let shown = format!("[slave-announce-{name} {value}]");
        assert_eq!(client.ask(&format!("CONFIG GET slave-announce-{name}")), shown);
    }
    assert!(client.ask("CONFIG SET replica-announce-port 65536").contains("between 0 and 65535"));
    let mut masters = vec![master.address.port()];
    let stock = Redis::start_with(&STOCK);
    masters.extend(stock.as_ref().map(|stock| stock.port));
    for port in masters {
        follow(replica.address.port(), port);
        await_text(&mut at(port), "INFO replication", "slave0:ip=127.0.0.9,port=4242,");
    }
    let reset: [&[u8]; 6] =
        [b"CONFIG", b"SET", b"replica-announce-ip", b"", b"replica-announce-port", b"0"];
    assert_eq!(show(&client.call(&reset)), "OK");
    // It may have been this master's last.
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    follow(replica.address.port(), master.address.port());
    let own = format!("port={},", replica.address.port());
    await_text(&mut master.client(), "INFO replication", &own);
}
