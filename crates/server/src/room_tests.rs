//! What goes to make room is told when it is durable, whatever becomes of the write that it goes for.

use crate::faults::{Faults, Running};
use perdura::{EngineKind, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Whether this is the second one of the server's threads.
fn is_second() -> bool {
    thread::current().name() == Some("worker-1")
}

#[test]
fn evictions_are_told_when_they_are_durable() {
    let [armed, waits] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let written = {
        let (armed, count) = (Arc::clone(&armed), AtomicUsize::new(0));
        // Of all transactions, one of the second thread is committed: the first one that evicts.
        move || match armed.load(Ordering::SeqCst) {
            true if is_second() && count.fetch_add(1, Ordering::SeqCst) == 0 => Ok(()),
            true => Err(Error::TooLarge { needed: 2, available: 1 }),
            false => Ok(()),
        }
    };
    let waiting = {
        let (armed, waits) = (Arc::clone(&armed), Arc::clone(&waits));
        move || {
            while is_second() && armed.load(Ordering::SeqCst) {
                waits.store(true, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    };
    let faults = Faults { written: Arc::new(written), waits: Arc::new(waiting) };
    let server = Running::new(EngineKind::Redo, faults);
    let (mut first, mut second) = (server.client(), server.client());
    let mut listener = server.client();
    let value = "v".repeat(4000);
    let mut number = 0;
    while first.ask(&format!("SET key:{number} {value}")) == "+OK" {
        number += 1;
    }
    let lines = |client: &mut crate::faults::Client, count| {
        (0..count).map(|_| client.line()).collect::<Vec<_>>().join(" ")
    };
    listener.send("SUBSCRIBE __keyevent@0__:evicted");
    assert_eq!(lines(&mut listener, 6), "*3 $9 subscribe $22 __keyevent@0__:evicted :1");
    assert_eq!(first.ask("CONFIG SET notify-keyspace-events Ee"), "+OK");
    armed.store(true, Ordering::SeqCst);
    assert_eq!(first.ask("CONFIG SET maxmemory-policy allkeys-random"), "+OK");
    second.send(&format!("SET one-more {value}"));
    let start = Instant::now();
    while !waits.load(Ordering::SeqCst) {
        assert!(start.elapsed() < Duration::from_secs(20), "nobody waits for durability");
        thread::sleep(Duration::from_millis(1));
    }
    let stream = listener.0.get_ref();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(stream.peek(&mut [0]).is_err(), "it was told too early");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    armed.store(false, Ordering::SeqCst);
    assert!(second.line().starts_with("-ERR"));
    assert!(lines(&mut listener, 7).starts_with("*3 $7 message $22 __keyevent@0__:evicted $"));
    server.stop();
}
