//! What is free can be taken: an allocation that finds no room moves other objects first.
//!
//! `PERDURA_ROOM_SEED` is the first seed, 1 unless given, `PERDURA_ROOM_HISTORIES` how many histories are tried, 20
//! unless given.

use perdura::collections::{Blob, Bytes, Cell, HashMap, OrderedMap, Vector, kind};
use perdura::{Domain, EngineKind, Handle, Options, Pool, Purpose, Result, Root, TxExt};
use perdura_memory::reference::SplitMix64;
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

type Hashed = HashMap<u64, Bytes>;
type Ordered = OrderedMap<u64, Bytes>;

fn pool(engine: EngineKind, limit: u64) -> (TempDir, Pool) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().engine(engine).domain(Some(Domain::Process));
    let pool = options.size(limit).log(512 << 10).create(folder.path().join("a.pool")).unwrap();
    (folder, pool)
}

/// Bytes of objects.
fn used(pool: &Pool) -> u64 {
    pool.checkpoint().unwrap();
    pool.info().used_bytes
}

/// Calls `more` with 0, 1, 2 … until there is no room. Returns how often it succeeded.
fn until_full(mut more: impl FnMut(u64) -> Result<()>) -> u64 {
    for number in 0.. {
        match more(number) {
            Ok(()) => {}
            Err(error) if error.is_full() => return number,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

/// The two kinds of map.
#[derive(Clone, Copy, Debug)]
enum Map {
    Hashed,
    Ordered,
}

impl Map {
    fn set(self, handle: &mut Handle, name: &str, key: u64, value: &[u8]) -> Result<()> {
        handle.transaction(|tx| match self {
            Map::Hashed => tx.open_or_create::<Hashed>(name)?.set(tx, key, value).map(drop),
            Map::Ordered => tx.open_or_create::<Ordered>(name)?.set(tx, key, value).map(drop),
        })
    }

    fn remove(self, handle: &mut Handle, name: &str, key: u64) {
        handle
            .transaction(|tx| match self {
                Map::Hashed => tx.open_or_create::<Hashed>(name)?.remove(tx, key).map(drop),
                Map::Ordered => tx.open_or_create::<Ordered>(name)?.remove(tx, key).map(drop),
            })
            .unwrap();
    }

    fn get(self, handle: &mut Handle, name: &str, key: u64) -> Option<Vec<u8>> {
        handle
            .read(|tx| match self {
                Map::Hashed => tx.open_or_create::<Hashed>(name)?.get(tx, key),
                Map::Ordered => tx.open_or_create::<Ordered>(name)?.get(tx, key),
            })
            .unwrap()
    }
}

fn check(pool: Pool) {
    let path = pool.path().to_owned();
    pool.close().unwrap();
    let report = perdura::check::check(&path, &|_, _, _| Ok(false)).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
}

/// Filled with small values, nearly all removed, filled with larger ones.
fn takes_larger_values(engine: EngineKind, map: Map, limit: u64) {
    let (_folder, pool) = pool(engine, limit);
    let mut handle = pool.session().unwrap();
    let small = |key: u64| vec![key as u8; 100];
    let keys = until_full(|key| map.set(&mut handle, "map", key, &small(key)));
    let stays = |key: u64| key % 33 == 0;
    (0..keys).filter(|key| !stays(*key)).for_each(|key| map.remove(&mut handle, "map", key));
    let (before, free) = (used(&pool), pool.info().free_bytes);
    assert!(free > limit / 2, "{engine}, {map:?}: only {free} bytes are free");
    let large = |key: u64| vec![key as u8; 1_000];
    let more = until_full(|key| map.set(&mut handle, "map", keys + key, &large(key)));
    let taken = used(&pool) - before;
    println!("{engine}, {map:?}: {taken} of {free} bytes were taken");
    assert!(taken * 10 >= free * 9, "{engine}, {map:?}: {taken} of {free} bytes were taken");
    for key in 0..keys {
        let wanted = stays(key).then(|| small(key));
        assert_eq!(map.get(&mut handle, "map", key), wanted, "{engine}, {map:?}, {key}");
    }
    for key in 0..more {
        assert_eq!(map.get(&mut handle, "map", keys + key), Some(large(key)));
    }
    drop(handle);
    check(pool);
}

#[test]
fn a_nearly_empty_pool_takes_larger_values() {
    for map in [Map::Hashed, Map::Ordered] {
        takes_larger_values(EngineKind::Redo, map, 16 << 20);
        for engine in EngineKind::ALL {
            if engine != EngineKind::Plain {
                takes_larger_values(engine, map, 4 << 20);
            }
        }
    }
}

/// What free space is taken by, a value of so many bytes at a time.
#[derive(Clone, Copy, Debug)]
enum Probe {
    Map(Map),
    Vector,
    Blob,
    Cells,
}

const PROBES: [Probe; 5] =
    [Probe::Map(Map::Hashed), Probe::Map(Map::Ordered), Probe::Vector, Probe::Blob, Probe::Cells];

impl Probe {
    fn more(self, handle: &mut Handle, number: u64, len: u64) -> Result<()> {
        let bytes = vec![number as u8; len as usize];
        match self {
            Probe::Map(map) => map.set(handle, "probe", number, &bytes),
            Probe::Vector if len < 128 => {
                handle.transaction(|tx| tx.open_or_create::<Vector<u64>>("probe")?.push(tx, number))
            }
            Probe::Vector => handle.transaction(|tx| {
                tx.open_or_create::<Vector<[u64; 100]>>("probe")?.push(tx, [number; 100])
            }),
            Probe::Blob => handle.transaction(|tx| {
                let old = match tx.root("probe")? {
                    Some(root) => Blob::new(root.at),
                    None => Blob::create(tx, Purpose::Value, b"")?,
                };
                let new = old.append(tx, &bytes)?;
                tx.set_root("probe", Root { at: new.at(), kind: kind::BLOB })
            }),
            Probe::Cells => handle.transaction(|tx| {
                let cells = tx.open_or_create::<HashMap<u64, u64>>("probe")?;
                let cell = Cell::with(tx, [number; 16])?;
                cells.set(tx, number, cell.at()).map(drop)
            }),
        }
    }
}

/// Maps with values of random sizes, filled and thinned out several times. Returns what is in them.
fn history(
    handle: &mut Handle,
    random: &mut SplitMix64,
) -> Vec<(Map, String, BTreeMap<u64, Vec<u8>>)> {
    let mut maps: Vec<_> = (0..1 + random.below(3))
        .map(|number| {
            let kind = [Map::Hashed, Map::Ordered][random.below(2) as usize];
            (kind, format!("map {number}"), BTreeMap::new())
        })
        .collect();
    for _ in 0..1 + random.below(3) {
        let most = [150, 1_500, 6_000, 60_000][random.below(4) as usize];
        until_full(|_| {
            let chosen = random.below(maps.len() as u64) as usize;
            let (map, name, contents) = &mut maps[chosen];
            let (key, len) = (random.next() >> 20, 30 + random.below(most));
            let value = vec![key as u8; len as usize];
            map.set(handle, name, key, &value)?;
            contents.insert(key, value);
            Ok(())
        });
        let gone = 60 + random.below(40);
        let in_a_row = random.below(4) == 0;
        for (map, name, contents) in &mut maps {
            let all = contents.len() as u64;
            let mut number = 0;
            contents.retain(|key, _| {
                number += 1;
                let stays = match in_a_row {
                    true => number * 100 > all * gone,
                    false => random.below(100) >= gone,
                };
                if !stays {
                    map.remove(handle, name, *key);
                }
                stays
            });
        }
    }
    maps
}

/// Whatever was in a pool, nine tenths of its free bytes can be taken.
#[test]
fn free_bytes_can_be_taken_after_any_history() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
    };
    let first = number("PERDURA_ROOM_SEED", 1);
    for seed in first..first + number("PERDURA_ROOM_HISTORIES", 20) {
        let mut random = SplitMix64::new(seed);
        let engines = EngineKind::ALL.into_iter().filter(|kind| *kind != EngineKind::Plain);
        let engines: Vec<_> = engines.collect();
        let engine = engines[random.below(engines.len() as u64) as usize];
        let (folder, pool) = pool(engine, 16 << 20);
        let mut handle = pool.session().unwrap();
        let maps = history(&mut handle, &mut random);
        drop(handle);
        let path = pool.path().to_owned();
        pool.close().unwrap();
        let len = 1 << random.below(17);
        for probe in PROBES {
            let copy = folder.path().join("copy.pool");
            fs::copy(&path, &copy).unwrap();
            let pool = Options::new().domain(Some(Domain::Process)).open(&copy).unwrap();
            let mut handle = pool.session().unwrap();
            let (before, free) = (used(&pool), pool.info().free_bytes);
            until_full(|number| probe.more(&mut handle, number, len));
            let taken = used(&pool) - before;
            println!("seed {seed}, {engine}, {probe:?}, {len}: {taken} of {free} bytes");
            assert!(
                taken * 10 >= free * 9,
                "seed {seed}, {engine}, {probe:?} of {len} bytes: {taken} of {free} bytes were taken"
            );
            for (map, name, contents) in &maps {
                for (key, value) in contents {
                    assert_eq!(map.get(&mut handle, name, *key).as_ref(), Some(value));
                }
            }
            drop(handle);
            check(pool);
            fs::remove_file(&copy).unwrap();
        }
    }
}
