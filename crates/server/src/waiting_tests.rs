//! Clients that wait, where transactions run concurrently, and a commit is held at the wrong moment.

use crate::command::find;
use crate::faults::{Client, Faults, Held, Running};
use crate::keyspace::Kind;
use crate::listing::Listing;
use crate::protocol::Protocol;
use crate::waiting::{Address, Waiter, Waiting, Waits, Wish};
use perdura::EngineKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Clients, the first on one of the two threads, the others on the other one.
fn clients(server: &Running) -> [Client; 3] {
    let mut all = (0..6).map(|_| server.client());
    let mut next = |skip| all.nth(skip).expect("a client");
    [next(0), next(0), next(1)]
}

/// Returns when so many clients wait.
fn until_blocked(client: &mut Client, count: usize) {
    let (start, wanted) = (Instant::now(), format!("blocked_clients:{count}"));
    loop {
        client.send("INFO clients");
        client.send("PING");
        let mut found = false;
        loop {
            match client.line() {
                line if line == "+PONG" => break,
                line => found |= line == wanted,
            }
        }
        if found {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{count} clients should wait");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The lines of an array of bulk strings.
fn array(client: &mut Client, len: usize) -> Vec<String> {
    assert_eq!(client.line(), format!("*{len}"));
    (0..len)
        .map(|_| {
            client.line();
            client.line()
        })
        .collect()
}

/// Clients are served in the order in which they came, whoever left in between, and came again.
#[test]
fn the_order_of_arrival_holds() {
    let waiting = Waiting::default();
    let come = |id: u64| {
        let address: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
        waiting.add(Waiter {
            to: Address { worker: 0, slot: 0, id },
            client: Arc::new(Listing::new(id, address, address)),
            protocol: Protocol::Resp2,
            db: 0,
            command: find(b"blpop").unwrap(),
            args: [b"blpop".as_slice(), b"a", b"b", b"a", b"0"].into_iter().collect(),
            wish: Wish::new(Kind::List, (1, 3), None),
        });
    };
    (1..=1000).for_each(come);
    for id in (1..=1000).filter(|id| id % 3 != 0) {
        assert!(waiting.unblock(id).is_some());
    }
    come(1);
    let expected: Vec<u64> = (1..=333).map(|id| 3 * id).chain([1]).collect();
    let name = (0, b"b".to_vec());
    let claimed =
        std::iter::from_fn(|| Some(waiting.claim(&name, Some(Kind::List), None)?.1.to.id));
    assert_eq!(claimed.collect::<Vec<_>>(), expected);
    assert_eq!(waiting.count(), expected.len());
    let waits = Waits::default();
    for id in expected {
        assert!(waiting.unblock(id).is_none(), "it is claimed");
        waits.release_unserved(&waiting, id);
        assert!(waiting.wants(0, b"a"));
        assert!(waiting.unblock(id).is_some());
    }
    assert!(!waiting.wants(0, b"a") && !waiting.wants(0, b"b"));
}

/// A client finds nothing, while a transaction that fills its key is about to commit, and has not seen the client.
#[test]
fn a_key_filled_on_the_way_to_the_list_is_seen() {
    for _ in 0..10 {
        let (server, held) = Held::new(EngineKind::CcStm);
        let [mut pusher, mut waiter, mut other] = clients(&server);
        pusher.ask("SET warm 1");
        held.hold(|| pusher.send("RPUSH list a"));
        waiter.send("BLPOP list 0");
        until_blocked(&mut other, 1);
        held.let_go();
        assert_eq!(pusher.line(), ":1");
        assert_eq!(array(&mut waiter, 2), ["list", "a"]);
        until_blocked(&mut other, 0);
        server.stop();
    }
}

/// A client is claimed by a transaction that is not committed in the end, and was passed over meanwhile.
#[test]
fn a_client_claimed_in_vain_is_not_forgotten() {
    let (server, held) = Held::new(EngineKind::CcStm);
    let [mut pusher, mut waiter, mut other] = clients(&server);
    other.ask("SET watched 1");
    waiter.send("BLPOP first second 0");
    until_blocked(&mut other, 1);
    for command in ["WATCH watched", "MULTI", "RPUSH first a"] {
        pusher.ask(command);
    }
    held.hold(|| pusher.send("EXEC"));
    assert_eq!(other.ask("SET watched 2"), "+OK");
    assert_eq!(other.ask("RPUSH second b"), ":1");
    held.let_go();
    assert_eq!(pusher.line(), "*-1");
    assert_eq!(array(&mut waiter, 2), ["second", "b"]);
    assert_eq!(other.ask("EXISTS first second"), ":0");
    server.stop();
}

/// A client whose time ends while it is claimed: it is served, or, if that is not committed, told that its time is over.
#[test]
fn a_time_out_waits_for_the_transaction_that_serves() {
    for in_vain in [false, true] {
        let (server, held) = Held::new(EngineKind::CcStm);
        let [mut pusher, mut waiter, mut other] = clients(&server);
        other.ask("SET watched 1");
        waiter.send("BLPOP list 0.3");
        until_blocked(&mut other, 1);
        for command in ["WATCH watched", "MULTI", "RPUSH list a"] {
            pusher.ask(command);
        }
        held.hold(|| pusher.send("EXEC"));
        std::thread::sleep(Duration::from_millis(600));
        if in_vain {
            assert_eq!(other.ask("SET watched 2"), "+OK");
        }
        held.let_go();
        if in_vain {
            assert_eq!(waiter.line(), "*-1");
            assert_eq!(pusher.line(), "*-1");
        } else {
            assert_eq!(array(&mut waiter, 2), ["list", "a"]);
            assert_eq!(pusher.line(), "*1");
        }
        until_blocked(&mut other, 0);
        assert_eq!(other.ask("EXISTS list"), ":0");
        server.stop();
    }
}

/// The element is taken only when that is durable: until then the waiting client hears nothing.
#[test]
fn a_client_is_answered_when_its_element_is_taken_durably() {
    let (holds, held) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let waits = {
        let (holds, held) = (Arc::clone(&holds), Arc::clone(&held));
        move || {
            while holds.load(Ordering::SeqCst) {
                held.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    };
    let faults = Faults { waits: Arc::new(waits), ..Faults::default() };
    let server = Running::new(EngineKind::Redo, faults);
    let [mut pusher, mut waiter, mut other] = clients(&server);
    waiter.send("BLPOP list 0");
    until_blocked(&mut other, 1);
    holds.store(true, Ordering::SeqCst);
    pusher.send("RPUSH list a");
    let start = Instant::now();
    while !held.load(Ordering::SeqCst) {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing waits for durability");
    }
    let stream = waiter.0.get_ref().try_clone().unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut byte = [0];
    assert!(stream.peek(&mut byte).is_err(), "it was answered too early");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    holds.store(false, Ordering::SeqCst);
    assert_eq!(array(&mut waiter, 2), ["list", "a"]);
    assert_eq!(pusher.line(), ":1");
    server.stop();
}

/// Once the medium has failed, clients that wait do not wait for ever.
#[test]
fn a_failed_medium_ends_all_waits() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let waits = move || match failing.load(Ordering::SeqCst) {
        true => Err(perdura::Error::from(std::io::Error::other("no medium"))),
        false => Ok(()),
    };
    let faults = Faults { waits: Arc::new(waits), ..Faults::default() };
    let server = Running::new(EngineKind::Redo, faults);
    let mut waiters: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for (index, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(["BLPOP list 0", "BLPOP none 0"][index / 2]);
    }
    let mut pusher = server.client();
    until_blocked(&mut pusher, 4);
    fails.store(true, Ordering::SeqCst);
    assert!(pusher.ask("RPUSH list a").starts_with("-ERR persistence failed"));
    for mut waiter in waiters {
        let line = waiter.line();
        assert!(line.is_empty() || line.starts_with('-'), "{line}");
    }
    server.stop();
}
