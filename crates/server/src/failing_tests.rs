//! A medium that fails: nothing is acknowledged any more, also when it recovers.

use crate::faults::{Faults, Running};
use perdura::{EngineKind, Error};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let waits = move || match failing.load(Ordering::SeqCst) {
        true => Err(Error::Io(io::Error::other("the sync failed"))),
        false => Ok(()),
    };
    let server =
        Running::new(EngineKind::Redo, Faults { waits: Arc::new(waits), ..Faults::default() });

    let refusal = "-ERR persistence failed: nothing is acknowledged any more";
    let mut clients = [server.client(), server.client(), server.client()];
    for client in &mut clients {
        assert_eq!(client.ask("SET key value"), "+OK");
    }
    fails.store(true, Ordering::SeqCst);
    let [first, second, third] = &mut clients;
    assert_eq!(first.ask("SET key other"), refusal);
    assert_eq!(first.0.read(&mut [0]).unwrap(), 0);
    fails.store(false, Ordering::SeqCst);
    assert_eq!(second.ask("GET key"), refusal);
    assert_eq!(third.ask("PING"), refusal);
    assert_eq!(server.client().line(), refusal);
    server.stop();
}
