//! WATCH, with a writer between its last store and its commit.

use crate::faults::{Client, Faults, Held, Running};
use crate::watch::Watch;
use perdura::EngineKind;
use std::time::Duration;

/// The reply to EXEC of a client that began to watch, and read, while another wrote the key.
fn exec_after_a_read_beside_a_writer(engine: EngineKind) -> String {
    let (server, held) = Held::new(engine);
    // Clients go to the two threads in turn.
    let (mut writer, mut watcher) = (server.client(), server.client());
    assert_eq!(writer.ask("SET key 1"), "+OK");

    held.hold(|| writer.send("SET key 2"));
    assert_eq!(watcher.ask("WATCH key"), "+OK");
    assert_eq!(watcher.ask("GET key"), "$1");
    assert_eq!(watcher.line(), "1", "readers go on beside a writer");
    held.let_go();
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
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.is_crash_consistent()) {
        assert_eq!(exec_after_a_read_beside_a_writer(engine), "*-1", "{engine:?}");
    }
}

#[test]
fn who_watches_what_nobody_writes_is_left_alone() {
    let server = Running::new(EngineKind::Redo, Faults::default());
    let (mut writer, mut watcher) = (server.client(), server.client());
    assert_eq!(writer.ask("SET key 1"), "+OK");
    assert_eq!(watcher.ask("WATCH key"), "+OK");
    assert_eq!(writer.ask("SET other 1"), "+OK");
    assert_eq!(exec(&mut watcher), "*1");
    assert_eq!(watcher.line(), "+OK");
    server.stop();
}

/// EXEC's reply after `WATCH key` and then these commands of another client.
fn exec_after(before: &[&str], watched: &str, between: &[&str]) -> String {
    let server = Running::with(EngineKind::Redo, Faults::default(), |o| o.debug_command(true));
    let (mut writer, mut watcher) = (server.client(), server.client());
    let mut tell = |commands: &[&str]| {
        for command in commands {
            match command.strip_prefix("WAIT ") {
                Some(ms) => std::thread::sleep(Duration::from_millis(ms.parse().unwrap())),
                None => assert!(!writer.ask(command).starts_with('-'), "{command}"),
            }
        }
    };
    tell(before);
    assert_eq!(watcher.ask(&format!("WATCH {watched}")), "+OK");
    tell(between);
    assert_eq!(watcher.ask("MULTI"), "+OK");
    assert_eq!(watcher.ask("PING"), "+QUEUED");
    let reply = watcher.ask("EXEC");
    server.stop();
    reply
}

#[test]
fn a_flush_disturbs_watchers_of_keys_that_are_there() {
    for flush in ["FLUSHALL", "FLUSHDB"] {
        assert_eq!(exec_after(&["SET other 1"], "key", &[flush]), "*1", "{flush}, absent");
        assert_eq!(exec_after(&["SET key 1"], "key", &[flush]), "*-1", "{flush}, there");
        assert_eq!(exec_after(&[], "key", &["SET key 1", flush]), "*-1", "{flush}, made and gone");
        let past = ["DEBUG SET-ACTIVE-EXPIRE 0", "SET key 1 PX 1", "WAIT 5"];
        assert_eq!(exec_after(&past, "key", &[flush]), "*1", "{flush}, had expired");
    }
    assert_eq!(exec_after(&["SET key 1"], "key", &["SELECT 1", "FLUSHDB"]), "*1");
    assert_eq!(exec_after(&["SET key 1"], "key", &["SELECT 1", "FLUSHALL"]), "*-1");
}

#[test]
fn each_watched_key_counts_though_they_share_a_slot() {
    let mut names = (0..).map(|n| format!("key:{n}"));
    let other = names.find(|other| Watch::are_together(0, [b"key", other.as_bytes()])).unwrap();
    let set = format!("SET {other} 1");
    assert_eq!(exec_after(&[&set], &format!("key {other}"), &["FLUSHALL"]), "*-1");
}

#[test]
fn a_watched_key_that_expires_counts_as_written() {
    let lazy = "DEBUG SET-ACTIVE-EXPIRE 0";
    assert_eq!(exec_after(&[lazy, "SET key 1 PX 300"], "key", &["WAIT 350"]), "*-1");
    // Removed by a command that finds it expired, and writes nothing else.
    let found = ["WAIT 350", "PERSIST key"];
    assert_eq!(exec_after(&[lazy, "SET key 1 PX 300"], "key", &found), "*-1");
    assert_eq!(exec_after(&["SET key 1 PX 300"], "key", &["WAIT 700"]), "*-1", "by the cron");
    // To Redis, a key that had expired before is unchanged.
    let past = [lazy, "SET key 1 PX 1", "WAIT 5"];
    assert_eq!(exec_after(&past, "key", &[]), "*1");
    assert_eq!(exec_after(&past, "key", &["PERSIST key"]), "*1");
    assert_eq!(exec_after(&past, "key", &["SET key 2"]), "*-1");
}

#[test]
fn an_exec_that_is_refused_ends_the_transaction() {
    let server = Running::new(EngineKind::Redo, Faults::default());
    let (mut client, mut other) = (server.client(), server.client());
    let refused = "-EXECABORT Transaction discarded because of: wrong number of arguments for \
                   'exec' command";
    assert_eq!(client.ask("WATCH key"), "+OK");
    assert_eq!(client.ask("MULTI"), "+OK");
    assert_eq!(client.ask("SET key 1"), "+QUEUED");
    assert_eq!(client.ask("EXEC extra"), refused);
    assert_eq!(client.ask("PING"), "+PONG");
    assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI");
    assert_eq!(client.ask("EXEC extra"), refused);
    assert_eq!(other.ask("SET key 2"), "+OK");
    assert_eq!(exec(&mut client), "*1", "nothing is watched any more");
    assert_eq!(client.line(), "+OK");
    server.stop();
}

/// An EXEC that is answered with nil has changed neither the server nor the client.
#[test]
fn an_exec_that_fails_leaves_settings_as_they_are() {
    let server = Running::new(EngineKind::Redo, Faults::default());
    let (mut writer, mut watcher) = (server.client(), server.client());
    assert_eq!(watcher.ask("WATCH key"), "+OK");
    assert_eq!(writer.ask("SET key 1"), "+OK");
    assert_eq!(watcher.ask("MULTI"), "+OK");
    assert_eq!(watcher.ask("CLIENT SETNAME changed"), "+QUEUED");
    assert_eq!(watcher.ask("SELECT 3"), "+QUEUED");
    assert_eq!(watcher.ask("EXEC"), "*-1");
    assert_eq!(watcher.ask("GET key"), "$1", "database 0 is selected as before");
    assert_eq!(watcher.line(), "1");
    assert_eq!(watcher.ask("CLIENT GETNAME"), "$-1");
    server.stop();
}

/// The reply to EXEC of `queued`, after WATCH of `key`, if `between` is committed after its body and before its commit.
fn exec_around(before: &[&str], key: &str, queued: &str, between: &str) -> String {
    let (server, held) = Held::new(EngineKind::CcStm);
    let (mut writer, mut watcher) = (server.client(), server.client());
    for command in before {
        assert!(!writer.ask(command).starts_with('-'), "{command}");
    }
    assert_eq!(watcher.ask(&format!("WATCH {key}")), "+OK");
    assert_eq!(watcher.ask("MULTI"), "+OK");
    assert_eq!(watcher.ask(queued), "+QUEUED");
    held.hold(|| watcher.send("EXEC"));
    assert!(!writer.ask(between).starts_with('-'), "{between}");
    held.let_go();
    let reply = watcher.line();
    server.stop();
    reply
}

#[test]
fn a_write_between_an_execs_body_and_its_commit_counts() {
    let fields: String = (0..50).map(|n| format!(" {n} {}", "v".repeat(100))).collect();
    let large = format!("HSET key f 0{fields}");
    let members: String = (0..50).map(|n| format!(" 0 {n}")).collect();
    let ranking = format!("ZADD key 0 m{members}");
    let blob = format!("SET key {}", "v".repeat(100));
    for (before, between) in [
        ("SET key 1", "SET key 2"),
        ("SET other 0", "SET key 2"),
        ("SET key 1", "DEL key"),
        ("SET key 1", "FLUSHALL"),
        ("HSET key f 1", "HSET key f 2"),
        (&blob, "SETRANGE key 50 w"),
        (&large, "HSET key f 2"),
        (&large, "HDEL key 3"),
        (&ranking, "ZADD key 7 m"),
        (&ranking, "ZREM key 3"),
    ] {
        let reply = exec_around(&[before], "key", "SET result 1", between);
        assert_eq!(reply, "*-1", "{before}, {between}");
    }
}

#[test]
fn an_exec_that_is_run_again_is_not_disturbed_by_itself() {
    let reply = exec_around(&["SET key 1", "SET n 1"], "key n", "SET key 2", "SET another 1");
    assert_eq!(reply, "*1");
    // INCR has read a key that is written meanwhile, and that is not watched.
    let reply = exec_around(&["SET key 1", "SET n 1"], "key", "MSET key 2 n 2", "INCR n");
    assert_eq!(reply, "*1");
}
