//! A pool whose keyspace has a header of version 3 opens, and becomes one of today's: it is served, and gets streams and
//! functions.
//!
//! `tests/kept/keyspace-3.lines` was made by the server of commit 724af981, the last one that wrote that version, and copied by
//! its `pool copy`, so that nothing is in its log: the pool's length, then each line of 64 bytes that is not zero, with its
//! number before it.

use crate::common::{Client, Running};
use perdura::Pool;
use std::path::Path;

const LINE: usize = 64;
const PACKED: &[u8] = include_bytes!("../kept/keyspace-3.lines");

fn unpacked() -> Vec<u8> {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap()) as usize;
    let mut pool = vec![0; number(&PACKED[..4])];
    for part in PACKED[4..].chunks(4 + LINE) {
        let at = number(&part[..4]) * LINE;
        pool[at..at + LINE].copy_from_slice(&part[4..]);
    }
    pool
}

/// The version in the keyspace's header.
fn version(pool: &Pool) -> u64 {
    let mut session = pool.session().unwrap();
    let read = |tx: &mut perdura::PoolTx<'_>| {
        let root = tx.root("redis")?.expect("a keyspace");
        Ok(tx.read_word(root.at)? & 0xFFFF)
    };
    session.read(read).unwrap()
}

fn open(path: &Path) -> Pool {
    perdura::Options::new().open(path).unwrap()
}

/// All that the pool had when it was made.
fn check_contents(client: &mut Client) {
    let numbers = |count: usize, of: &dyn Fn(usize) -> String| {
        (0..count).map(of).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(client.ask("DBSIZE"), "16");
    for (command, reply) in [
        ("MGET text number", "[v 42]".to_owned()),
        ("GET long", "x".repeat(300)),
        ("GET expires", "e".to_owned()),
        ("HMGET hash f g", "[v w]".to_owned()),
        ("HLEN fields", "45".to_owned()),
        ("HGET fields field44", "value".repeat(18)),
        ("LRANGE short 0 -1", "[a b c]".to_owned()),
        ("LRANGE blobs 0 -1", format!("[{} z]", "z".repeat(900))),
        (
            "LRANGE list 0 -1",
            format!("[{}]", numbers(48, &|n| format!("element{n}{}", "y".repeat(85)))),
        ),
        ("SCARD integers", "20".to_owned()),
        ("SISMEMBER integers 19", "1".to_owned()),
        ("SMISMEMBER set a b c", "[1 1 0]".to_owned()),
        ("SCARD members", "45".to_owned()),
        ("ZCARD ranks", "30".to_owned()),
        ("ZRANGE ranks 0 2 WITHSCORES", "[member0 0 member13 1 member26 2]".to_owned()),
        ("PFCOUNT sketch", "50".to_owned()),
        ("GEODIST places Palermo Catania KM", "165.6790".to_owned()),
        ("BITCOUNT bits", "1".to_owned()),
        ("GETBIT bits 77", "1".to_owned()),
    ] {
        let found = client.ask(command);
        assert_eq!(found, reply, "{command}");
    }
    let left: i64 = client.ask("TTL expires").parse().unwrap();
    assert!((1..=100_000_000).contains(&left), "{left}");
    for member in 0..45 {
        let name = format!("member{member}{}", "m".repeat(88));
        assert_eq!(client.ask(&format!("SISMEMBER members {name}")), "1");
    }
    assert_eq!(client.ask("SELECT 3"), "OK");
    assert_eq!(client.ask("GET other"), "database");
    assert_eq!(client.ask("SELECT 0"), "OK");
}

#[test]
fn a_keyspace_of_version_3_becomes_one_of_today() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    std::fs::write(&path, unpacked()).unwrap();
    let pool = open(&path);
    assert_eq!(version(&pool), 3);
    let mut running = Running::on(pool, |options| options);
    running.adopt(Some(folder));
    running.check();
    let mut client = running.client();
    check_contents(&mut client);
    assert_eq!(version(&running.pool), 4);
    // What it could not have.
    assert_eq!(client.ask("XADD stream 1-1 f v"), "1-1");
    assert_eq!(client.ask("XGROUP CREATE stream group 0"), "OK");
    let code = b"#!lua name=lib\nredis.register_function('f', function() return redis.call('xlen', 'stream') end)";
    client.call(&[b"FUNCTION", b"LOAD", code]);
    for command in ["RPUSH list last", "RPOP list", "SADD set c", "SREM set c", "DEL gone"] {
        client.ask(command);
    }
    let running = running.restarted();
    running.check();
    let mut client = running.client();
    assert_eq!(client.ask("FCALL f 0"), "1");
    assert_eq!(client.ask("DEL stream"), "1");
    check_contents(&mut client);
    // All of it can be freed.
    for command in ["FLUSHALL", "FUNCTION FLUSH", "SET k v"] {
        assert_eq!(client.ask(command), "OK");
    }
    let running = running.restarted();
    running.check();
    assert_eq!(running.client().ask("GET k"), "v");
}
