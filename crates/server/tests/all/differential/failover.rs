//! FAILOVER, between servers of ours and stock ones: nothing acknowledged is lost.

use super::Redis;
use super::chain::{at, await_link, follow, settle};
use super::following::{Killed, free_address, kept_engine, number};
use super::replicas::signal;
use crate::common::{Running, await_text, show};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Counts until the server is no master any longer. Returns the last number that it has acknowledged.
fn count(port: u16) -> JoinHandle<u64> {
    thread::spawn(move || {
        let mut client = at(port);
        let mut last = client.ask("GET count").parse().unwrap_or(0);
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < Duration::from_secs(60), "it is the master for ever");
            client.send(b"INCR count\r\n");
            // A stock server lets clients wait, and tells them then.
            let answer = client.receive().map_or("gone".to_owned(), |answer| show(&answer));
            match answer.parse() {
                Ok(number) => last = number,
                Err(_) if answer.starts_with("READONLY") => return last,
                Err(_) => panic!("{answer}"),
            }
        }
    })
}

/// The role of a server is this one soon.
fn await_role(port: u16, role: &str) {
    await_text(&mut at(port), "INFO replication", &format!("role:{role}\r\n"));
    await_text(&mut at(port), "INFO replication", "master_failover_state:no-failover");
}

/// `from` hands over to `to` while a client writes.
fn hand_over(from: u16, to: u16, command: &str, others: &[u16]) {
    let counting = count(from);
    thread::sleep(Duration::from_millis(200));
    let whole = number(&mut at(to), "stats", "sync_full");
    assert_eq!(at(from).ask(command), "OK", "{command}");
    await_role(to, "master");
    let last = counting.join().unwrap();
    await_role(from, "slave");
    await_link(from);
    assert!(last > 0);
    assert_eq!(at(to).ask("INCR count"), (last + 1).to_string(), "{command}");
    settle(to, &[&[from], others].concat(), command);
    assert_eq!(number(&mut at(to), "stats", "sync_full"), whole, "{command}");
}

#[test]
fn nothing_is_lost_by_a_failover() {
    let [one, two] = [(); 2].map(|()| Running::with(|options| options.threads(2), 64 << 20));
    let [first, second] = [&one, &two].map(|running| running.address.port());
    assert_eq!(one.client().ask("FAILOVER"), "ERR FAILOVER requires connected replicas.");
    follow(second, first);
    await_link(second);
    for (command, refusal) in [
        ("FAILOVER ABORT", "ERR No failover in progress."),
        ("FAILOVER TIMEOUT 0", "ERR FAILOVER timeout must be greater than 0"),
        ("FAILOVER TIMEOUT x", "ERR value is not an integer or out of range"),
        ("FAILOVER SOON", "ERR syntax error"),
        ("FAILOVER TO 127.0.0.1", "ERR syntax error"),
        ("FAILOVER TO 127.0.0.1 1", "ERR FAILOVER target HOST and PORT is not a replica."),
        (
            "FAILOVER FORCE TIMEOUT 10",
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ),
    ] {
        assert_eq!(one.client().ask(command), refusal, "{command}");
    }
    let text = "ERR FAILOVER is not valid when server is a replica.";
    assert_eq!(two.client().ask("FAILOVER"), text);
    await_text(&mut one.client(), "INFO replication", "state=online");
    hand_over(first, second, "FAILOVER", &[]);
    await_text(&mut two.client(), "INFO replication", "state=online");
    let back = format!("FAILOVER TO 127.0.0.1 {first} TIMEOUT 20000");
    hand_over(second, first, &back, &[]);
    // As a stock one asks.
    let text = "ERR PSYNC FAILOVER can't be sent to a master.";
    assert_eq!(one.client().ask("PSYNC 0123456789012345678901234567890123456789 1 FAILOVER"), text);
    let text = "ERR PSYNC FAILOVER replid must match my replid.";
    assert_eq!(two.client().ask("PSYNC 0123456789012345678901234567890123456789 1 FAILOVER"), text);
    assert!(two.client().ask("ROLE").starts_with("[slave "));
    one.check();
    two.check();
}

#[test]
fn stock_servers_take_over_and_hand_over() {
    let options = ["--repl-diskless-sync-delay", "0"];
    let Some(stock) = Redis::start_with(&options) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let [one, two] = [(); 2].map(|()| Running::with(|options| options.threads(2), 64 << 20));
    let [first, second] = [&one, &two].map(|running| running.address.port());
    [stock.port, second].into_iter().for_each(|port| follow(port, first));
    [stock.port, second].into_iter().for_each(await_link);
    await_text(&mut one.client(), "INFO replication", &format!("port={},state=online", stock.port));
    hand_over(first, stock.port, &format!("FAILOVER TO 127.0.0.1 {}", stock.port), &[second]);
    await_text(&mut at(stock.port), "INFO replication", "state=online");
    let back = format!("FAILOVER TO 127.0.0.1 {first} TIMEOUT 20000");
    hand_over(stock.port, first, &back, &[second]);
    // A replica that does not answer: clients go on writing.
    await_text(&mut one.client(), "INFO replication", &format!("port={},state=online", stock.port));
    signal(&stock, "STOP");
    one.client().ask("SET more 1");
    assert_eq!(one.client().ask(&format!("FAILOVER TO 127.0.0.1 {}", stock.port)), "OK");
    let state = "master_failover_state:waiting-for-sync";
    await_text(&mut one.client(), "INFO replication", state);
    thread::sleep(Duration::from_millis(700));
    assert_eq!(one.client().ask("SET more 2"), "OK");
    assert_eq!(one.client().ask("FAILOVER"), "ERR FAILOVER already in progress.");
    let text = "ERR REPLICAOF not allowed while failing over.";
    assert_eq!(one.client().ask("REPLICAOF 127.0.0.1 1"), text);
    assert_eq!(one.client().ask("FAILOVER ABORT"), "OK");
    await_role(first, "master");
    let start = Instant::now();
    assert_eq!(
        one.client().ask(&format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 300", stock.port)),
        "OK"
    );
    await_role(first, "master");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(one.client().ask("SET more 3"), "OK");
    // It would take over as it is, but cannot be reached.
    let forced = format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 200", stock.port);
    assert_eq!(one.client().ask(&forced), "OK");
    let state = "master_failover_state:failover-in-progress";
    await_text(&mut one.client(), "INFO replication", state);
    assert!(one.client().ask("SET more 4").starts_with("READONLY"));
    await_role(first, "master");
    assert_eq!(one.client().ask("SET more 4"), "OK");
    signal(&stock, "CONT");
    await_text(&mut one.client(), "INFO replication", &format!("port={},state=online", stock.port));
    settle(first, &[second, stock.port], "not forced");
    signal(&stock, "STOP");
    assert_eq!(one.client().ask("SET more 5"), "OK");
    // The server's end ends it.
    assert_eq!(one.client().ask(&format!("FAILOVER TO 127.0.0.1 {}", stock.port)), "OK");
    let mut one = one;
    let start = Instant::now();
    one.stop();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    signal(&stock, "CONT");
    one.check();
    two.check();
}

/// A server that is killed while it hands over comes back as a replica of the one that should have taken over, which is a
/// replica, too. An operator makes it the master again: it has all.
#[test]
fn a_server_that_is_killed_while_it_hands_over_has_all() {
    if kept_engine().is_none() {
        println!("skipped: nothing outlives a kill under this engine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pools = ["one", "two"].map(|name| folder.path().join(name));
    let (first, second) = (free_address(), free_address());
    let mut one = Killed::start(&pools[0], first, None);
    let two = Killed::start(&pools[1], second, Some(first.port()));
    await_link(second.port());
    assert_eq!(one.client().ask("SET known 1"), "OK");
    settle(first.port(), &[second.port()], "before");
    await_text(&mut one.client(), "INFO replication", "state=online");
    two.signal("STOP");
    assert_eq!(one.client().ask("SET unknown 2"), "OK");
    let forced = format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 200", second.port());
    assert_eq!(one.client().ask(&forced), "OK");
    let state = "master_failover_state:failover-in-progress";
    await_text(&mut one.client(), "INFO replication", state);
    // The pool says so before it tries to reach the other one.
    await_text(&mut one.client(), "ROLE", " connecting ");
    one.kill_and_start(&pools[0], None);
    two.signal("CONT");
    // Each asks the other one for a while, and gets nothing from it.
    thread::sleep(Duration::from_millis(2500));
    for server in [&one, &two] {
        await_text(&mut server.client(), "INFO replication", "role:slave");
        assert!(server.client().ask("SET more 1").starts_with("READONLY"));
    }
    let asked = ["GET known", "GET unknown"].map(|command| one.client().ask(command));
    assert_eq!(asked, ["1", "2"]);
    assert_eq!(one.client().ask("REPLICAOF NO ONE"), "OK");
    assert_eq!(one.client().ask("SET more 1"), "OK");
    await_link(second.port());
    settle(first.port(), &[second.port()], "after");
    assert_eq!([two.client().ask("GET unknown"), two.client().ask("GET more")], ["2", "1"]);
}
