//! A full disk is told from a full pool: in replies, in INFO, and to the operator.
//!
//! The disk is a small file system of this program's own, in a namespace of its own; where the
//! system does not permit that, the test is skipped, and says so.

use crate::common::{Client, Running};
use perdura_server::{LogFormat, LogLevel};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const DISK: &str = "PERDURA_TEST_SMALL_DISK";

/// Sets keys until one does not fit: how many did, and the refusal.
fn fill(client: &mut Client) -> (u32, String) {
    let value = "v".repeat(100_000);
    for count in 0.. {
        let answer = client.ask(&format!("SET key:{count} {value}"));
        if answer != "OK" {
            return (count, answer);
        }
    }
    unreachable!("nothing is endless")
}

/// Takes all that the disk has left.
fn take_all(filler: &Path) {
    let mut file = fs::File::create(filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

/// The value of a field of INFO.
fn info(client: &mut Client, field: &str) -> String {
    let text = client.ask("INFO");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_default().trim_end().to_owned()
}

#[test]
fn a_full_pool_is_no_failure() {
    let running = Running::with(|options| options, 8 << 20);
    let mut client = running.client();
    let (_, refusal) = fill(&mut client);
    assert_eq!(refusal, "OOM command not allowed when used memory > 'maxmemory'.");
    for field in ["last_write_status", "aof_last_write_status", "rdb_last_bgsave_status"] {
        assert_eq!(info(&mut client, field), "ok");
    }
    assert_eq!(info(&mut client, "errorstat_OOM"), "count=1");
    assert_eq!(info(&mut client, "errorstat_MISCONF"), "");
    client.ask("NONSENSE");
    client.ask("HSET key:1 a b");
    assert_eq!(info(&mut client, "errorstat_ERR"), "count=1");
    assert_eq!(info(&mut client, "errorstat_WRONGTYPE"), "count=1");
    client.ask("CONFIG RESETSTAT");
    assert_eq!(info(&mut client, "errorstat_OOM"), "");
}

/// A script that finds no room undoes its whole EXEC, unless it catches the error.
#[test]
fn a_script_without_room_undoes_its_exec() {
    let running = Running::with(|options| options, 8 << 20);
    let mut client = running.client();
    let big = "redis.call('set', 'big', string.rep('v', 20000000))";
    let caught = "return redis.pcall('set', 'big', string.rep('v', 20000000)).err";
    for (script, is_undone) in [(big, true), (caught, false)] {
        client.ask("MULTI");
        client.ask("SET before x");
        client.call(&[b"EVAL", script.as_bytes(), b"0"]);
        client.ask("SET after x");
        let reply = client.ask("EXEC");
        assert!(reply.contains("OOM command not allowed"), "{reply}");
        assert_eq!(reply.starts_with("OOM"), is_undone, "{reply}");
        let count = if is_undone { "0" } else { "2" };
        assert_eq!(client.ask("EXISTS before after"), count);
    }
}

/// Bytes of INFO's field.
fn bytes(client: &mut Client, field: &str) -> u64 {
    info(client, field).parse().unwrap()
}

#[test]
fn a_full_pool_says_what_takes_its_space() {
    let running = Running::with(|options| options, 8 << 20);
    let mut client = running.client();
    let most = bytes(&mut client, "maxmemory");
    fill(&mut client);
    let value = "v".repeat(1000);
    let refused = |key: &u32| format!("SET small:{key} {value}");
    let count = (0..).find(|key| client.ask(&refused(key)) != "OK").unwrap();
    assert!(count < 1000);
    let used = bytes(&mut client, "used_memory");
    assert!(used > most - most / 50, "{used} of {most} are in use: that is no full pool");
    let parts =
        ["used_memory_dataset", "used_memory_overhead"].map(|part| bytes(&mut client, part));
    assert_eq!(parts.iter().sum::<u64>(), used);
    assert!(bytes(&mut client, "pool_largest_free_bytes") < 100_000);
    let free = ["pool_free_page_bytes", "mem_fragmentation_bytes", "pool_limbo_bytes"];
    let free: u64 = free.iter().map(|part| bytes(&mut client, part)).sum();
    // Limbo is neither in use nor free.
    assert!(used + free <= most + most / 50 && used + free >= most - most / 50, "{used} + {free}");
    let ratio: f64 = info(&mut client, "mem_fragmentation_ratio").parse().unwrap();
    assert!((1.0..1.2).contains(&ratio), "{ratio}");
}

#[test]
fn persistence_is_told_in_one_voice() {
    let running = Running::start();
    let mut client = running.client();
    assert_eq!(client.ask("CONFIG GET appendonly"), "[appendonly yes]");
    assert_eq!(info(&mut client, "aof_enabled"), "1");
    let folder = tempfile::tempdir().unwrap();
    let pool = perdura::Options::new().engine(perdura::EngineKind::Volatile).size(8 << 20);
    let pool = pool.domain(Some(perdura::Domain::Process)).create(folder.path().join("pool"));
    let running = Running::on(pool.unwrap(), |options| options);
    let mut client = running.client();
    assert_eq!(client.ask("CONFIG GET appendonly"), "[appendonly no]");
    assert_eq!(info(&mut client, "aof_enabled"), "0");
}

#[test]
fn a_full_disk_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=16m none \"$0\" || exit 77; \
                  exec \"$1\" --exact full::on_a_small_disk --nocapture";
    let child = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .args([folder.path(), &std::env::current_exe().unwrap()])
        .env(DISK, folder.path())
        .output();
    let output = match child {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: no namespace of its own: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        assert_ne!(output.status.code(), Some(101), "{said}{told}");
        return eprintln!("skipped: no file system of its own: {told}");
    }
    assert!(said.contains("small disk: done"), "{said}{told}");
    // The operator hears of each time once, however many clients do.
    let count = |text: &str| told.matches(text).count();
    assert_eq!(count("WARN the pool cannot grow to"), 2, "{told}");
    assert_eq!(count("No space left on device"), 2, "{told}");
    assert_eq!(count("the pool's file has grown again"), 2, "{told}");
}

/// Only the child of the test above has something to do here.
#[test]
fn on_a_small_disk() {
    let Some(disk) = std::env::var_os(DISK).map(PathBuf::from) else { return };
    assert!(perdura_server::start_logging(LogLevel::Info, LogFormat::Text));
    let filler = disk.join("filler");
    let pool = perdura::Options::new().size(64 << 20).log(2 << 20);
    let pool = pool.domain(Some(perdura::Domain::Process)).create(disk.join("pool")).unwrap();
    let running = Running::on(pool, |options| options);
    let (mut client, mut kept) = (running.client(), 10);
    (0..kept).for_each(|key| {
        assert_eq!(client.ask(&format!("SET key:{key} {}", "v".repeat(100_000))), "OK");
    });
    for _ in 0..2 {
        take_all(&filler);
        let (count, refusal) = fill(&mut client);
        kept = kept.max(count);
        let start = "MISCONF Errors writing to the pool's file: the pool cannot grow to";
        let end =
            "No space left on device (os error 28); free space on its file system, then try again";
        assert!(refusal.starts_with(start) && refusal.ends_with(end), "{refusal}");
        assert!(fill(&mut client).1.starts_with("MISCONF"));
        for field in ["last_write_status", "aof_last_write_status", "rdb_last_bgsave_status"] {
            assert_eq!(info(&mut client, field), "err");
        }
        assert!(info(&mut client, "last_write_error").contains("No space left on device"));
        assert!(!info(&mut client, "errorstat_MISCONF").is_empty());
        // All or nothing, with the true reason; the data can be read and deleted.
        client.ask("MULTI");
        client.ask("SET key:1 lost");
        client.ask(&format!("SET more {}", "v".repeat(5_000_000)));
        assert!(client.ask("EXEC").starts_with("MISCONF"));
        assert_eq!(client.ask("STRLEN key:1"), "100000");
        assert_eq!(client.ask("DEL key:0"), "1");

        fs::remove_file(&filler).unwrap();
        assert_eq!(client.ask(&format!("SET room {}", "v".repeat(1_500_000))), "OK");
        assert_eq!(info(&mut client, "last_write_status"), "ok");
        assert_eq!(client.ask("DEL room"), "1");
        // The operator is told at the next look.
        std::thread::sleep(Duration::from_millis(400));
    }
    // All but the one that was deleted.
    assert!(running.check().keys >= u64::from(kept) - 1);
    println!("small disk: done");
}
