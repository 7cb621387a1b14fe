//! `import_redis`: what a Redis leaves, or is writing, becomes the same keyspace here.
//!
//! Needs `redis-server`; without it the tests that start one say so and pass. `PERDURA_TEST_SEED=n` replays a failure.

use crate::common::{Client, Random, Running};
use perdura_server::transfer::{Loaded, TransferError, import_redis};
use perdura_testing::seeds;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A Redis with an append-only file, which is killed with the test.
struct Redis {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Redis {
    fn start(options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "yes"])
            .args(["--appendfsync", "no", "--dir"])
            .arg(folder.path())
            .args(options)
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            println!("skipped: there is no redis-server");
            return None;
        };
        let redis = Redis { child, port, folder };
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "redis-server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }

    fn client(&self) -> Client {
        Client::connect(([127, 0, 0, 1], self.port).into())
    }

    fn files(&self) -> PathBuf {
        self.folder.path().join("appendonlydir")
    }

    /// Waits until a rewrite of the file is over.
    fn settle(client: &mut Client) {
        while client.ask("INFO persistence").contains("aof_rewrite_in_progress:1") {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn import(path: &Path) -> Result<(Running, u64, u64), TransferError> {
    let (running, loaded) = load(path)?;
    Ok((running, loaded.keys, loaded.left_out))
}

fn load(path: &Path) -> Result<(Running, Loaded), TransferError> {
    let folder = tempfile::tempdir().unwrap();
    let options = perdura::Options::new().size(64 << 20).domain(Some(perdura::Domain::Process));
    let pool = options.open_or_create(folder.path().join("pool")).unwrap();
    let loaded = import_redis(path, &pool, &mut |_| true)?;
    let mut running = Running::on(pool, |options| options);
    running.adopt(Some(folder));
    running.check();
    Ok((running, loaded))
}

/// A random command that writes, of one of all types.
fn command(random: &mut Random) -> String {
    let key = random.below(6);
    let (a, b, n) = (random.below(30), random.below(1000), random.below(5) + 1);
    let long = "x".repeat(random.below(100) * random.below(20));
    match random.below(46) {
        0 => format!("SET s:{key} {b}"),
        1 => format!("SET s:{key} v{long}"),
        2 => format!("SET s:{key} {b} EX {}", a + 1000),
        3 => format!("SET s:{key} {b} PX 1"),
        4 => format!("APPEND s:{key} {a}"),
        5 => format!("INCRBY i:{key} {b}"),
        6 => format!("INCRBYFLOAT f:{key} 0.{b}"),
        7 => format!("SETRANGE s:{key} {a} {b}"),
        8 => format!("SETBIT bits:{key} {b} 1"),
        9 => format!("HSET h:{key} f{a} {b}{long} g{b} 1"),
        10 => format!("HDEL h:{key} f{a}"),
        11 => format!("HINCRBY hi:{key} f{a} {b}"),
        12 => format!("RPUSH l:{key} {a} {b} {long}x"),
        13 => format!("LPUSH l:{key} {b}"),
        14 => format!("LPOP l:{key} {n}"),
        15 => format!("LINSERT l:{key} BEFORE {a} {b}"),
        16 => format!("LTRIM l:{key} 0 50"),
        17 => format!("LSET l:{key} 0 {b}"),
        18 => format!("SADD set:{key} {a} {b}"),
        19 => format!("SADD set:{key} m{a} {long}m"),
        20 => format!("SPOP set:{key} {n}"),
        21 => format!("SREM set:{key} {a}"),
        22 => format!("SUNIONSTORE set:{key} set:{} set:{}", a % 6, b % 6),
        23 => format!("ZADD z:{key} {b} m{a} 1.5 n{b}"),
        24 => format!("ZINCRBY z:{key} {a} m{a}"),
        25 => format!("ZPOPMIN z:{key} {n}"),
        26 => format!("ZREMRANGEBYRANK z:{key} 0 1"),
        27 => format!("ZUNIONSTORE z:{key} 2 z:{} z:{} WEIGHTS 1 0.5", a % 6, b % 6),
        28 => format!("XADD x:{key} * f{a} {b} g {long}y"),
        29 => format!("XADD x:{key} MAXLEN ~ 20 * f {b}"),
        30 => format!("XTRIM x:{key} MAXLEN {a}"),
        31 => format!("XGROUP CREATE x:{key} g{n} 0 MKSTREAM"),
        32 => format!("XREADGROUP GROUP g{n} c{} COUNT 3 STREAMS x:{key} >", a % 3),
        33 => format!("XGROUP DESTROY x:{key} g{n}"),
        34 => format!("XAUTOCLAIM x:{key} g{n} c{} 0 0 COUNT 2", a % 3),
        35 => format!("XGROUP SETID x:{key} g{n} $"),
        36 => format!("PFADD hll:{key} {a} {b}"),
        37 => format!("GEOADD geo:{key} {}.5 {}.25 m{a}", a, b % 80),
        38 => format!("DEL {}:{key}", ["s", "h", "l", "set", "z", "x"][a % 6]),
        39 => format!("PEXPIRE {}:{key} {}", ["s", "h", "l", "set", "z", "x"][a % 6], 900_000 + b),
        40 => format!("PERSIST {}:{key}", ["s", "h", "l"][a % 3]),
        41 => format!("RENAME s:{key} s:{}", a % 6),
        42 => format!("COPY l:{key} l:{} REPLACE", a % 6),
        43 => format!("SELECT {}", a % 3),
        44 => format!(
            "EVAL return{{redis.call('incr',KEYS[1]),redis.call('rpush',KEYS[2],ARGV[1])}} 2 i:{key} l:{key} {b}"
        ),
        _ => format!("GETDEL s:{key}"),
    }
}

fn fill(client: &mut Client, random: &mut Random, count: usize) {
    for _ in 0..count {
        if random.below(20) == 0 {
            client.ask("MULTI");
            (0..random.below(5)).for_each(|_| drop(client.ask(&command(random))));
            client.ask("EXEC");
        }
        client.ask(&command(random));
        if random.below(200) == 0 {
            client.ask("BGREWRITEAOF");
        }
    }
}

/// A key's value, as both answer it.
fn value(client: &mut Client, key: &str) -> Vec<String> {
    let kind = client.ask(&format!("TYPE {key}"));
    let sorted = |text: String| {
        let mut words: Vec<&str> = text.trim_matches(['[', ']']).split(' ').collect();
        words.sort_unstable();
        words.join(" ")
    };
    let mut found = vec![kind.clone(), client.ask(&format!("PEXPIRETIME {key}"))];
    match kind.as_str() {
        "string" => found.push(client.ask(&format!("GET {key}"))),
        "list" => found.push(client.ask(&format!("LRANGE {key} 0 -1"))),
        "set" => found.push(sorted(client.ask(&format!("SMEMBERS {key}")))),
        "hash" => {
            found.push(sorted(client.ask(&format!("HKEYS {key}"))));
            found.push(sorted(client.ask(&format!("HVALS {key}"))));
        }
        "zset" => found.push(client.ask(&format!("ZRANGE {key} 0 -1 WITHSCORES"))),
        "stream" => {
            found.push(client.ask(&format!("XRANGE {key} - +")));
            let info = client.ask(&format!("XINFO STREAM {key}"));
            let from = info.find("last-generated-id").unwrap();
            found.push(info[from..].split(" first-entry").next().unwrap().to_owned());
            found.push(client.ask(&format!("XINFO GROUPS {key}")));
            for group in 1..6 {
                found.push(client.ask(&format!("XPENDING {key} g{group}")));
                let pending = format!("XPENDING {key} g{group} - + 1000");
                // Without how long entries have been pending.
                let pending = client.ask(&pending);
                let entries = pending.trim_matches(['[', ']']).split("] [");
                let kept = entries.map(|entry| {
                    let words: Vec<_> = entry.split(' ').collect();
                    match words.as_slice() {
                        [id, consumer, _, count] => format!("{id} {consumer} {count}"),
                        _ => entry.to_owned(),
                    }
                });
                found.push(kept.collect::<Vec<_>>().join(" "));
            }
        }
        _ => {}
    }
    found
}

fn compare(redis: &mut Client, own: &mut Client, seed: u64) {
    for db in 0..3 {
        let select = format!("SELECT {db}");
        assert_eq!((redis.ask(&select), own.ask(&select)), ("OK".into(), "OK".into()));
        let keys = |client: &mut Client| {
            let text = client.ask("KEYS *");
            let mut keys: Vec<String> =
                text.trim_matches(['[', ']']).split(' ').map(str::to_owned).collect();
            keys.sort_unstable();
            keys
        };
        let expected = keys(redis);
        assert_eq!(keys(own), expected, "seed {seed}, database {db}");
        for key in expected.iter().filter(|key| !key.is_empty()) {
            for (own, expected) in value(own, key).into_iter().zip(value(redis, key)) {
                assert_eq!(own, expected, "seed {seed}: {key} of database {db}");
            }
        }
    }
    assert_eq!(own.ask("FUNCTION LIST WITHCODE"), redis.ask("FUNCTION LIST WITHCODE"));
}

const LIBRARY: &str = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";

#[test]
fn all_that_redis_has_is_there() {
    for (index, seed) in seeds(1, 4).enumerate() {
        let preamble = if index % 2 == 0 { "yes" } else { "no" };
        let times = ["--aof-timestamp-enabled", "yes", "--enable-debug-command", "yes"];
        let options = [["--aof-use-rdb-preamble", preamble].as_slice(), &times].concat();
        let Some(redis) = Redis::start(&options) else { return };
        let (mut client, mut random) = (redis.client(), Random::new(seed));
        client.call(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
        fill(&mut client, &mut random, 1500);
        Redis::settle(&mut client);
        let (running, ..) = import(&redis.files()).unwrap();
        // With what Redis itself makes of its files: it does not write all of what it knows of groups.
        assert_eq!(client.ask("DEBUG LOADAOF"), "OK");
        compare(&mut client, &mut running.client(), seed);
    }
}

#[test]
fn snapshots_are_read() {
    for seed in seeds(100, 2) {
        let Some(redis) = Redis::start(&["--appendonly", "no"]) else { return };
        let (mut client, mut random) = (redis.client(), Random::new(seed));
        client.call(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
        fill(&mut client, &mut random, 1000);
        // A set, a list, a hash and a sorted set that are no longer small, and are made piece by piece.
        for number in 0..2000 {
            let long = [0; 6].map(|_| format!("{:016x}", random.next())).concat();
            client.ask(&format!("SADD set:large m{number}{long}"));
            client.ask(&format!("RPUSH l:large {number}{long}"));
            client.ask(&format!("HSET h:large f{number} {number}{long}"));
            client.ask(&format!("ZADD z:large {number}.{number} m{number}{long}"));
            client.ask(&format!("SADD ints:large {number}"));
        }
        client.ask("PEXPIREAT h:large 9999999999999");
        assert_eq!(client.ask("SAVE"), "OK");
        let snapshot = redis.folder.path().join("dump.rdb");
        let (running, ..) = import(&snapshot).unwrap();
        compare(&mut client, &mut running.client(), seed);
        // Whatever is damaged is told, at worst.
        let bytes = std::fs::read(&snapshot).unwrap();
        let damaged = redis.folder.path().join("damaged");
        for round in 0..20 {
            let mut bytes = bytes.clone();
            match round % 2 {
                0 => bytes.truncate(random.below(bytes.len())),
                _ => {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            std::fs::write(&damaged, &bytes).unwrap();
            let found = import(&damaged);
            assert!(found.is_err(), "seed {seed}, round {round}");
        }
    }
}

/// What Redis writes while its folder is read is there or not, and nothing else is missing.
#[test]
fn a_living_redis_is_read() {
    let Some(redis) = Redis::start(&[]) else { return };
    let mut client = redis.client();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (redis, stop) = (&redis, &stop);
        let writer = scope.spawn(move || {
            let mut client = redis.client();
            let mut number = 0;
            // At least until the file was written anew.
            while number <= 300 || !stop.load(std::sync::atomic::Ordering::Relaxed) {
                client.ask("MULTI");
                client.ask(&format!("SET a {number}"));
                client.ask(&format!("SET b {number}"));
                client.ask(&format!("RPUSH list {number}"));
                client.ask("EXEC");
                if number % 300 == 0 {
                    client.ask("BGREWRITEAOF");
                }
                number += 1;
            }
            number
        });
        /// Lets the writer end, also when the test fails.
        struct Stop<'a>(&'a std::sync::atomic::AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let ends = Stop(stop);
        for _ in 0..8 {
            let before: i64 = client.ask("LLEN list").parse().unwrap();
            let (running, ..) = import(&redis.files()).unwrap();
            let mut own = running.client();
            let count: i64 = own.ask("LLEN list").parse().unwrap();
            assert!(count >= before, "{count} of {before}");
            if count > 0 {
                let last = own.ask("LINDEX list -1");
                assert_eq!([own.ask("GET a"), own.ask("GET b")], [last.clone(), last]);
            }
            if count > 2 {
                assert_eq!(own.ask("LRANGE list 0 2"), client.ask("LRANGE list 0 2"));
            }
        }
        drop(ends);
        assert!(writer.join().unwrap() > 300);
    });
}

/// A file of commands.
fn file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("commands.aof");
    let lines = text.lines().filter(|line| !line.is_empty()).map(|line| {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        if line.starts_with('#') {
            format!("{line}\r\n").into_bytes()
        } else {
            crate::common::encode(&args)
        }
    });
    std::fs::write(&path, lines.flatten().collect::<Vec<_>>()).unwrap();
    path
}

#[test]
fn ends_that_are_missing_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(
        folder.path(),
        "#TS:1700000000\nSELECT 0\nSET a 1\nMULTI\nSET a 2\nSET b 2\nEXEC\nINCR a",
    );
    let bytes = std::fs::read(&path).unwrap();
    let group = bytes.windows(5).position(|five| five == b"MULTI").unwrap() - 8;
    let after = bytes.windows(4).position(|four| four == b"INCR").unwrap() - 8;
    for len in [
        0,
        5,
        group - 1,
        group,
        group + 3,
        group + 40,
        after - 1,
        after,
        after + 5,
        bytes.len() - 1,
    ] {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let (running, _, left_out) = import(&path).unwrap();
        let mut client = running.client();
        let expected = match len {
            _ if len >= after => ("2", "2"),
            _ if len >= group => ("1", "nil"),
            _ => ("nil", "nil"),
        };
        if len == group - 1 || len >= group {
            assert_eq!(
                (client.ask("GET a").as_str(), client.ask("GET b").as_str()),
                match len {
                    _ if len == group - 1 => ("nil", "nil"),
                    _ => expected,
                },
                "{len} bytes"
            );
        }
        assert_eq!(left_out == 0, [0, group, after].contains(&len), "{len} bytes: {left_out}");
    }
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(import(&path).unwrap().0.client().ask("GET a"), "3");
}

/// A key whose time is over by now may have been prolonged by a later command.
#[test]
fn nothing_expires_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    // Long enough for the server to look for keys to delete several times.
    let between = "INCR n\n".repeat(100_000);
    let path = file(
        folder.path(),
        &format!(
            "SET a 1 PXAT 1700000000000\nPERSIST a\nSET b 1 PXAT 1700000000000\nAPPEND b 2\n{between}\
             PEXPIREAT b 9999999999999\nSET c 1\nPEXPIREAT c 1700000000000"
        ),
    );
    let mut client = import(&path).map(|(running, ..)| (running.client(), running)).unwrap();
    let client = &mut client.0;
    assert_eq!([client.ask("GET a"), client.ask("GET b"), client.ask("GET c")], ["1", "12", "nil"]);
}

#[test]
fn errors_say_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = |text: &str| import(&file(folder.path(), text)).map(drop).unwrap_err().to_string();
    let place = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n".len();
    assert_eq!(
        wrong("SET a 1\nNOTHING x\nSET b 1"),
        format!("at byte {place}: ERR unknown command 'NOTHING', with args beginning with: 'x' ")
            .trim_end()
            .to_owned()
    );
    assert!(wrong("SET a 1\nLPUSH a 1").contains("WRONGTYPE"));
    assert!(wrong("MULTI\nSET a 1\nLPUSH a 1\nEXEC").contains("WRONGTYPE"));
    assert!(wrong("SELECT 99").contains("DB index is out of range"));
    for line in
        ["CLIENT REPLY OFF", "BLPOP a 0", "REPLICAOF 127.0.0.1 1", "SHUTDOWN", "CONFIG SET a b"]
    {
        assert!(wrong(line).contains("is no command that changes data"), "{line}");
    }
    let path = folder.path().join("garbage");
    for garbage in
        ["nothing of the kind", "*1\r\n$x\r\n", "REDIS00xx", "REDIS0099", "REDIS0011\u{1}"]
    {
        std::fs::write(&path, garbage).unwrap();
        assert!(import(&path).is_err(), "{garbage:?}");
    }
    // A hash whose fields expire.
    std::fs::write(&path, b"REDIS0012\x16\x01h\x00").unwrap();
    let error = import(&path).map(drop).unwrap_err().to_string();
    assert!(error.contains("the key 'h' holds a hash whose fields expire (Redis 7.4)"), "{error}");
    let error = import(folder.path()).map(drop).unwrap_err().to_string();
    assert!(
        error.contains("there is no manifest in it: give Redis's folder appendonlydir"),
        "{error}"
    );
    std::fs::write(folder.path().join("a.manifest"), "file gone seq 1 type b\n").unwrap();
    let error = import(folder.path()).map(drop).unwrap_err().to_string();
    assert!(error.contains("a file that its manifest names is not there"), "{error}");
}

/// A command that fails is found while later files are read.
#[test]
fn errors_name_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "file a.base seq 1 type b\nfile a.1 seq 1 type i\nfile a.2 seq 2 type i\n";
    std::fs::write(folder.path().join("a.manifest"), manifest).unwrap();
    for (name, text) in
        [("a.base", "SET a 1\nSET b 1"), ("a.1", "SET c 1\nLPUSH a 1"), ("a.2", "SET d 1")]
    {
        std::fs::rename(file(folder.path(), text), folder.path().join(name)).unwrap();
    }
    let place = "*3\r\n$3\r\nSET\r\n$1\r\nc\r\n$1\r\n1\r\n".len();
    let error = import(folder.path()).map(drop).unwrap_err().to_string();
    assert!(error.starts_with(&format!("at byte {place}: WRONGTYPE ")), "{error}");
    assert!(error.ends_with(" (in a.1)"), "{error}");
}

/// Redis before 7 writes a script once, and its digest from then on, however many others come in between.
#[test]
fn scripts_are_known_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let script = "EVAL return{redis.call('incr','n')} 0";
    let others = (0..600).map(|number| format!("EVAL return({number}) 0\n")).collect::<String>();
    let again = "EVALSHA 79731460b13b4a53e67fdb92b564545b6bdcf476 0";
    let path = file(folder.path(), &format!("{script}\n{others}{again}"));
    let (running, ..) = import(&path).unwrap();
    assert_eq!(running.client().ask("GET n"), "2");
}

/// Redis before 6.2.6 could write collections with nothing in them, which later ones leave out.
#[test]
fn empty_collections_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = b"REDIS0009\xfe\x00\x00\x01k\x01v".to_vec();
    let intset = b"\x08\x02\0\0\0\0\0\0\0".as_slice();
    let ziplist = b"\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff".as_slice();
    // A list, a set, a sorted set in two forms, a hash, a set of integers, a list of ziplists without any, and with an empty one.
    let chain = [b"\x01".as_slice(), ziplist].concat();
    let values: [(u8, &[u8]); 10] = [
        (1, b"\0"),
        (2, b"\0"),
        (3, b"\0"),
        (5, b"\0"),
        (4, b"\0"),
        (11, intset),
        (13, ziplist),
        (12, ziplist),
        (14, b"\0"),
        (14, &chain),
    ];
    for (number, (kind, value)) in (b'0'..).zip(values) {
        bytes.extend_from_slice(b"\xfc\0\0\0\0\0\0\0\x7f");
        bytes.extend_from_slice(&[kind, 2, b'e', number]);
        bytes.extend_from_slice(value);
    }
    bytes.extend_from_slice(b"\x02\x01s\x01\x01m\xff\0\0\0\0\0\0\0\0");
    let path = folder.path().join("dump.rdb");
    std::fs::write(&path, bytes).unwrap();
    let (running, loaded) = load(&path).unwrap();
    assert_eq!((loaded.keys, loaded.empty), (2, 10));
    let mut client = running.client();
    assert_eq!([client.ask("GET k"), client.ask("SMEMBERS s")], ["v", "[m]"]);
}
