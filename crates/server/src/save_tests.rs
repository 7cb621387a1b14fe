//! SAVE, while its export is held before its end.

use crate::faults::{Faults, Running};
use perdura::EngineKind;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Whether this thread writes an export.
fn is_saving() -> bool {
    thread::current().name() == Some("save")
}

/// The clients of the saving client's own thread go on, new ones come in, and its next requests are done afterwards.
#[test]
fn a_save_keeps_no_other_client_waiting() {
    let holds = Arc::new(AtomicBool::new(true));
    let held = Arc::clone(&holds);
    let waits = move || {
        while is_saving() && held.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    let faults = Faults { waits: Arc::new(waits), ..Faults::default() };
    let server = Running::with(EngineKind::Redo, faults, |options| options.threads(1));
    let mut saver = server.client();
    assert_eq!(saver.ask("SET key value"), "+OK");
    saver.send("SAVE\r\nINCR a\r\nSAVE\r\nSAVE");
    let mut other = server.client();
    for _ in 0..3 {
        assert_eq!(other.ask("PING"), "+PONG");
    }
    assert_eq!(other.ask("SET other 1"), "+OK");
    let refusal = "-ERR Background save already in progress";
    assert_eq!([other.ask("SAVE"), other.ask("BGSAVE")], [refusal; 2]);
    assert_eq!(other.ask("EXISTS a"), ":0", "what follows SAVE is done before its end");
    // It is answered also if it sends nothing more.
    let stream = saver.0.get_ref();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(stream.peek(&mut [0]).is_err(), "it was answered, or closed, before the end");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    holds.store(false, Ordering::SeqCst);
    assert_eq!([(); 5].map(|()| saver.line()), ["+OK", ":1", "+OK", "+OK", ""]);
    server.stop();
}
