//! A transaction that stays keeps only memory that it can reach from being reused: others go on in a pool that is
//! little larger than its data.

use perdura::collections::{Bytes, HashMap};
use perdura::{EngineKind, Error, Handle, Mode, Options, Pool, TxExt};
use perdura_memory::Domain;
use std::sync::mpsc;
use std::time::{Duration, Instant};

type Map = HashMap<u64, Bytes>;

/// A pool and its data.
#[derive(Clone, Copy)]
struct Input {
    size: u64,
    keys: u64,
    bytes: usize,
}

const LARGER: Input = Input { size: 32 << 20, keys: 1100, bytes: 1000 };
const SMALLER: Input = Input { size: 16 << 20, keys: 76, bytes: 1000 };

/// The engines whose transactions last while others commit.
fn with_snapshots() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().filter(|kind| kind.is_crash_consistent())
}

fn map(session: &mut Handle) -> Map {
    session.transaction(|tx| tx.open_or_create::<Map>("map")).unwrap()
}

fn check(key: u64, value: &[u8]) {
    assert_eq!(u64::from_ne_bytes(*value.first_chunk().unwrap()), key);
    assert!(value[8..].iter().all(|byte| *byte == value[8]), "{key}: {value:?}");
}

fn read_all(tx: &mut dyn perdura::Tx, map: Map, keys: u64) -> Result<Vec<u8>, Error> {
    let value = |key| {
        let value = map.get(tx, key)?.unwrap();
        check(key, &value);
        Ok(value[8])
    };
    (0..keys).map(value).collect()
}

/// Overwrites values until `is_over`, which is given the number of bytes written.
fn overwrite(
    session: &mut Handle,
    map: Map,
    input: Input,
    mut is_over: impl FnMut(u64) -> bool,
) -> Result<(), Error> {
    let (mut round, mut written) = (0u64, 0);
    while !is_over(written) {
        round += 1;
        let key = round * 7919 % input.keys;
        let mut value = key.to_ne_bytes().to_vec();
        value.resize(input.bytes, (round / input.keys) as u8);
        // Not in place.
        let replace = |tx: &mut dyn perdura::Tx| {
            map.remove(tx, key)?;
            map.insert(tx, key, &value).map(drop)
        };
        let (_, ticket) = session.submit(|tx| replace(tx))?;
        if round % 64 == 0 {
            session.wait(ticket)?;
        }
        written += value.len() as u64;
    }
    Ok(())
}

struct Rig {
    _folder: tempfile::TempDir,
    pool: Pool,
    map: Map,
}

fn rig(engine: EngineKind, domain: Domain, input: Input) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().size(input.size).engine(engine).domain(Some(domain));
    let pool = options.create(folder.path().join("pool")).unwrap();
    let mut session = pool.session().unwrap();
    let map = map(&mut session);
    let all = (input.keys * input.bytes as u64).max(1) * 2;
    overwrite(&mut session, map, input, |written| written >= all).unwrap();
    Rig { _folder: folder, pool, map }
}

/// A reader begins, and is idle until the writer is done. It sees the state in which it began.
fn beside_an_idle_reader(
    engine: EngineKind,
    domain: Domain,
    input: Input,
    is_over: impl FnMut(u64) -> bool + Send,
) {
    let Rig { _folder, pool, map } = rig(engine, domain, input);
    let what = format!("{engine} on {domain}");
    let mut reader = pool.session().unwrap();
    reader.begin(Mode::Read).unwrap();
    let before = reader.within(|tx| read_all(tx, map, input.keys)).unwrap();
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| overwrite(&mut pool.session()?, map, input, is_over));
        writer.join().unwrap()
    });
    written.unwrap_or_else(|error| panic!("{what}: {error}"));
    let info = pool.info();
    assert!(info.oldest_transaction.is_some() && info.pinned_bytes > 0, "{what}: {info:?}");
    let most = 4 * input.keys * (input.bytes as u64 + 300) + (3 << 20);
    assert!(info.pinned_bytes < most, "{what}: {}", info.pinned_bytes);
    let after = reader.within(|tx| read_all(tx, map, input.keys)).unwrap();
    assert_eq!(before, after, "{what}: it sees one state");
    reader.abort();
    pool.checkpoint().unwrap();
    let info = pool.info();
    assert_eq!((info.pinned_bytes, info.oldest_transaction), (0, None), "{what}");
}

/// A transaction of a closure, which may be run again, sleeps meanwhile.
fn beside_a_sleeper(
    engine: EngineKind,
    domain: Domain,
    input: Input,
    is_over: impl FnMut(u64) -> bool,
) {
    let Rig { _folder, pool, map } = rig(engine, domain, input);
    let (is_inside, inside) = mpsc::channel();
    let (is_done, done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let pool = &pool;
        scope.spawn(move || {
            let read = pool.session().unwrap().read(|tx| {
                read_all(tx, map, 3)?;
                let _ = is_inside.send(());
                // Once.
                let _ = done.recv();
                read_all(tx, map, input.keys)
            });
            read.unwrap();
        });
        inside.recv().unwrap();
        let written = overwrite(&mut pool.session().unwrap(), map, input, is_over);
        drop(is_done);
        written.unwrap_or_else(|error| panic!("{engine} on {domain}: {error}"));
    });
}

/// Twice as much as the pool has room for.
fn twice(input: Input) -> impl Fn(u64) -> bool {
    move |written| written >= 2 * input.size
}

#[test]
fn an_idle_reader_does_not_fill_the_pool() {
    for engine in with_snapshots() {
        beside_an_idle_reader(engine, Domain::Process, LARGER, twice(LARGER));
        beside_an_idle_reader(engine, Domain::Process, SMALLER, twice(SMALLER));
    }
}

#[test]
fn a_sleeping_transaction_does_not_fill_the_pool() {
    for engine in with_snapshots() {
        beside_a_sleeper(engine, Domain::Process, LARGER, twice(LARGER));
        beside_a_sleeper(engine, Domain::Process, SMALLER, twice(SMALLER));
    }
}

#[test]
#[ignore = "it takes minutes: 30 s for each engine, input and kind of transaction"]
fn nothing_fills_the_pool_in_half_a_minute() {
    let seconds = perdura_testing::times(30);
    for engine in with_snapshots() {
        for input in [LARGER, SMALLER] {
            let over = || {
                let begun = Instant::now();
                move |_| begun.elapsed() >= Duration::from_secs(seconds)
            };
            beside_an_idle_reader(engine, Domain::Process, input, over());
            beside_a_sleeper(engine, Domain::Process, input, over());
            println!("{engine}: {} MiB ok", input.size >> 20);
        }
    }
}

/// A pool that is full since a reader sees its earlier contents.
#[test]
fn the_error_names_the_transaction() {
    for engine in with_snapshots() {
        let input = Input { size: 8 << 20, keys: 4000, bytes: 1000 };
        let Rig { _folder, pool, map } = rig(engine, Domain::Process, input);
        let mut reader = pool.session().unwrap();
        reader.begin(Mode::Read).unwrap();
        reader.within(|tx| read_all(tx, map, input.keys)).unwrap();
        let begun = Instant::now();
        let mut writer = pool.session().unwrap();
        let error = std::thread::scope(|scope| {
            scope.spawn(|| overwrite(&mut writer, map, input, |_| false)).join().unwrap()
        });
        let error = error.expect_err("it is full");
        let Error::Full { pinned, oldest: Some(oldest), .. } = &error else {
            panic!("{engine}: {error}");
        };
        assert!(*pinned > 500_000 && oldest.age <= begun.elapsed() + Duration::from_secs(5));
        assert!(oldest.on_snapshot && error.to_string().contains("end it"), "{engine}: {error}");
        reader.abort();
        overwrite(&mut writer, map, input, |written| written > 20_000_000).unwrap();
    }
}
