//! WATCH, with a writer between its last store and its commit.

use crate::hooked::{Client, Hooks, Running};
use perdura::EngineKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

/// What a client that began to watch, and read, while another wrote the key gets for its EXEC.
fn exec_after_a_read_beside_a_writer(engine: EngineKind) -> String {
    let held = Arc::new(AtomicBool::new(false));
    let (said, hears) = mpsc::channel();
    let (go_on, waits) = mpsc::channel();
    let (hold, waits) = (Arc::clone(&held), Mutex::new(waits));
    let written = move || {
        if hold.swap(false, Ordering::SeqCst) {
            said.send(()).unwrap();
            waits.lock().unwrap().recv().unwrap();
        }
        Ok(())
    };
    let server = Running::new(engine, Hooks { written: Arc::new(written), ..Hooks::default() });
    // Clients go to the two threads in turn.
    let (mut writer, mut watcher) = (server.client(), server.client());
    assert_eq!(writer.ask("SET key 1"), "+OK");

    held.store(true, Ordering::SeqCst);
    writer.send("SET key 2");
    hears.recv().unwrap();
    assert_eq!(watcher.ask("WATCH key"), "+OK");
    assert_eq!(watcher.ask("GET key"), "$1");
    assert_eq!(watcher.line(), "1", "readers go on beside a writer");
    go_on.send(()).unwrap();
    assert_eq!(writer.line(), "+OK");

    let reply = exec(&mut watcher);
    server.stop();
    reply
}

fn exec(client: &mut Client) -> String {
    assert_eq!(client.ask("MULTI"), "+OK");
    assert_eq!(client.ask("SET key 3"), "+QUEUED");
    client.ask("EXEC")
}

#[test]
fn who_began_to_watch_before_a_commit_is_told() {
    // With the baseline readers wait.
    for engine in EngineKind::ALL.into_iter().filter(|&engine| engine != EngineKind::Volatile) {
        assert_eq!(exec_after_a_read_beside_a_writer(engine), "*-1", "{engine:?}");
    }
}

#[test]
fn who_watches_what_nobody_writes_is_left_alone() {
    let server = Running::new(EngineKind::Redo, Hooks::default());
    let (mut writer, mut watcher) = (server.client(), server.client());
    assert_eq!(writer.ask("SET key 1"), "+OK");
    assert_eq!(watcher.ask("WATCH key"), "+OK");
    assert_eq!(writer.ask("SET other 1"), "+OK");
    assert_eq!(exec(&mut watcher), "*1");
    assert_eq!(watcher.line(), "+OK");
    server.stop();
}
