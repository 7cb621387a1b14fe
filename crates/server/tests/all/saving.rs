//! BGSAVE writes the data of one moment, while others write.

use crate::common::{Client, Running, show};
use perdura_server::transfer::import;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn export_of(running: &Running) -> PathBuf {
    running.pool.path().with_file_name("pool.export")
}

fn info(client: &mut Client, field: &str) -> String {
    let text = client.ask("INFO persistence");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_default().trim_end().to_owned()
}

/// Saves, and waits until that is over. Whether it went well.
fn save(client: &mut Client) -> bool {
    assert_eq!(client.ask("BGSAVE"), "Background saving started");
    let start = Instant::now();
    while info(client, "rdb_bgsave_in_progress") == "1" {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    info(client, "rdb_last_bgsave_status") == "ok"
}

/// A server on a pool that was made of an export.
fn imported(export: &Path) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let pool = perdura::Options::new().size(64 << 20).domain(Some(perdura::Domain::Process));
    let pool = pool.create(folder.path().join("pool")).unwrap();
    let mut file = fs::File::open(export).unwrap();
    import(&mut file, &mut pool.session().unwrap(), &mut |_| true).expect("a whole export");
    let mut running = Running::on(pool, |options| options);
    running.adopt(Some(folder));
    running
}

#[test]
fn an_export_has_everything() {
    let running = Running::start();
    let mut client = running.client();
    let before = client.ask("LASTSAVE");
    for command in [
        "SET text value",
        "SET soon gone PX 1",
        "HSET hash a 1 b 2",
        "ZADD set 1.5 a inf b",
        "SADD members a b",
        "RPUSH elements a b a",
        "XADD stream 1-1 field value",
        "XADD stream 2-0 other value",
        "XDEL stream 1-1",
        "XGROUP CREATE stream group 0 ENTRIESREAD 7",
        "XREADGROUP GROUP group one STREAMS stream >",
        "XGROUP CREATECONSUMER stream group two",
        "XGROUP CREATE empty group $ MKSTREAM",
        "SET expires 1 PXAT 4000000000000",
        "SELECT 9",
        "SET other 1",
    ] {
        assert!(!client.ask(command).contains("ERR"), "{command}");
    }
    let code = b"#!lua name=lib\nredis.register_function('f', function(keys) return #keys end)";
    assert_eq!(show(&client.call(&[b"FUNCTION", b"LOAD", code])), "lib");
    std::thread::sleep(Duration::from_millis(1100));
    assert!(save(&mut client));
    assert!(client.ask("LASTSAVE") > before);
    assert_eq!(info(&mut client, "rdb_last_save_time"), client.ask("LASTSAVE"));
    let copy = imported(&export_of(&running));
    let mut client = copy.client();
    assert_eq!(client.ask("GET text"), "value");
    assert_eq!(client.ask("EXISTS soon"), "0");
    assert_eq!(client.ask("HGETALL hash"), "[a 1 b 2]");
    assert_eq!(client.ask("ZRANGE set 0 -1 WITHSCORES"), "[a 1.5 b inf]");
    assert_eq!(client.ask("PEXPIRETIME expires"), "4000000000000");
    assert_eq!(client.ask("SMISMEMBER members a b c"), "[1 1 0]");
    assert_eq!(client.ask("LRANGE elements 0 -1"), "[a b a]");
    assert_eq!(client.ask("XRANGE stream - +"), "[[2-0 [other value]]]");
    let info = client.ask("XINFO STREAM stream");
    assert!(info.contains("max-deleted-entry-id 1-1 entries-added 2"), "{info}");
    assert_eq!(client.ask("XPENDING stream group"), "[1 2-0 2-0 [[one 1]]]");
    assert!(client.ask("XINFO GROUPS stream").contains("consumers 2"));
    assert_eq!(client.ask("XREADGROUP GROUP group one STREAMS empty >"), "nil");
    assert_eq!(client.ask("FCALL f 2 a b"), "2");
    assert_eq!(client.ask("DBSIZE"), "8");
    client.ask("SELECT 9");
    assert_eq!(client.ask("GET other"), "1");
    assert_eq!(client.ask("BGSAVE SCHEDULE"), "Background saving started");
    assert!(client.ask("BGSAVE NOW").contains("syntax error"));
}

#[test]
fn save_answers_when_the_export_is_there() {
    let running = Running::start();
    let mut client = running.client();
    assert_eq!(client.ask("SET key value"), "OK");
    assert_eq!(client.ask("SAVE"), "OK");
    assert_eq!(imported(&export_of(&running)).client().ask("GET key"), "value");
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("SAVE"), "ERR Command not allowed inside a transaction");
    assert_eq!(client.ask("DISCARD"), "OK");
    // A directory in its way.
    fs::remove_file(export_of(&running)).unwrap();
    fs::create_dir(export_of(&running)).unwrap();
    let refusal = client.ask("SAVE");
    assert!(refusal.starts_with("ERR the export failed: "), "{refusal}");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
    let told = info(&mut client, "rdb_last_bgsave_error");
    assert!(refusal.ends_with(&told) && !told.is_empty(), "{told}");
}

/// What a client has sent before SAVE is answered before the export ends, and what comes after it is done when it has.
#[test]
fn requests_around_a_save_keep_their_order() {
    let running = Running::with(|options| options.threads(1), 64 << 20);
    let mut client = running.client();
    let writes = |client: &mut Client| -> usize {
        let text = client.ask("INFO stats");
        let line = text.lines().find_map(|line| line.strip_prefix("total_writes_processed:"));
        line.unwrap().trim_end().parse().unwrap()
    };
    let before = writes(&mut client);
    client.send("SET a 1\r\nSAVE\r\nSAVE\r\nINCR a\r\nSAVE\r\n".as_bytes());
    let answers = (0..5).map(|_| show(&client.receive().unwrap())).collect::<Vec<_>>();
    assert_eq!(answers, ["OK", "OK", "OK", "2", "OK"]);
    // The answer to INFO, and not one for all that follows.
    assert!(
        writes(&mut client) >= before + 4,
        "an answer came after a save that it could come before"
    );
}

/// A sum that moves between keys in one transaction is in an export once: the total of all keys is the same at any
/// moment.
#[test]
fn an_export_is_of_one_moment() {
    const ACCOUNTS: usize = 64;
    let running = Running::with(|options| options.threads(2), 64 << 20);
    let mut client = running.client();
    for number in 0..3000 {
        client.ask(&format!("SET filler:{number} {number}"));
    }
    client.ask("SET token:0 here");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (running, stop) = (&running, &stop);
            scope.spawn(move || {
                let mut client = running.client();
                let mut number = thread;
                while !stop.load(Ordering::Relaxed) {
                    number += 7919;
                    let (from, to) = (number % ACCOUNTS, number / 3 % ACCOUNTS);
                    client.ask("MULTI");
                    client.ask(&format!("INCRBY account:{from} -5"));
                    client.ask(&format!("INCRBY account:{to} 2"));
                    client.ask(&format!("HINCRBY hash:{to} field 2"));
                    client.ask(&format!("ZINCRBY set:{from} 1 member"));
                    // The table grows and shrinks meanwhile.
                    client.ask(&format!("SET new:{} 1", number % 4000));
                    client.ask(&format!("DEL new:{}", number / 2 % 4000));
                    if thread == 0 {
                        client.ask(&format!(
                            "RENAME token:{} token:{}",
                            number / 7919 - 1,
                            number / 7919
                        ));
                    }
                    client.ask("EXEC");
                }
            });
        }
        for round in 0..6 {
            assert!(save(&mut client), "round {round}");
            check_sum(&export_of(&running));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn check_sum(export: &Path) {
    let copy = imported(export);
    let mut client = copy.client();
    let mut sums: HashMap<String, i64> = HashMap::new();
    let mut tokens = 0;
    let keys = client.ask("KEYS *");
    for key in keys.trim_matches(['[', ']']).split(' ') {
        let kind = key.split(':').next().unwrap_or_default().to_owned();
        let value = match kind.as_str() {
            "account" => client.ask(&format!("GET {key}")),
            "hash" => client.ask(&format!("HGET {key} field")),
            "set" => client.ask(&format!("ZSCORE {key} member")),
            "token" => {
                tokens += 1;
                continue;
            }
            _ => continue,
        };
        *sums.entry(kind).or_default() += value.parse::<i64>().expect(&value);
    }
    let of = |kind| sums.get(kind).copied().unwrap_or_default();
    assert_eq!(of("account") + of("hash"), -of("set"), "{sums:?}");
    assert_eq!(tokens, 1, "a key that is renamed is there once");
    assert_eq!(client.ask("EXISTS filler:0 filler:2999"), "2");
}

#[test]
fn a_flush_ends_an_export_or_comes_after_it() {
    let running = Running::start();
    let mut client = running.client();
    for round in 0..5 {
        for number in 0..2000 {
            client.ask(&format!("SET key:{number} {number}"));
        }
        let _ = fs::remove_file(export_of(&running));
        assert_eq!(client.ask("BGSAVE"), "Background saving started");
        std::thread::sleep(Duration::from_millis(round));
        assert_eq!(client.ask("FLUSHALL"), "OK");
        client.ask("SET after 1");
        while info(&mut client, "rdb_bgsave_in_progress") == "1" {
            std::thread::sleep(Duration::from_millis(1));
        }
        if info(&mut client, "rdb_last_bgsave_status") == "ok" {
            let copy = imported(&export_of(&running));
            let size = copy.client().ask("DBSIZE");
            assert!(["0", "1", "2000", "2001"].contains(&size.as_str()), "a part: {size}");
        } else {
            assert!(!export_of(&running).exists());
        }
    }
}

#[test]
fn an_end_of_the_server_ends_an_export() {
    let mut running = Running::start();
    let mut client = running.client();
    for number in 0..3000 {
        client.ask(&format!("SET key:{number} {number}"));
    }
    assert_eq!(client.ask("BGSAVE"), "Background saving started");
    running.stop();
    let folder = running.pool.path().parent().unwrap();
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("part")).collect();
    assert!(left.is_empty(), "{left:?}");
    if export_of(&running).exists() {
        assert_eq!(imported(&export_of(&running)).client().ask("DBSIZE"), "3000");
    }
}
