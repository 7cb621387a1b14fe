//! Free memory can be taken: an allocation that finds no room moves other objects first.

use perdura::collections::{Blob, Bytes, Cell, Cursor, HashMap, OrderedMap, Vector, kind};
use perdura::{
    Domain, EngineKind, Error, Handle, Mode, Options, Pool, Purpose, Result, Root, Tx, TxExt,
};
use perdura_memory::reference::SplitMix64;
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

type Hashed = HashMap<u64, Bytes>;
type Ordered = OrderedMap<u64, Bytes>;

fn pool(engine: EngineKind, limit: u64) -> (TempDir, Pool) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().engine(engine).domain(Some(Domain::Process));
    let pool = options.size(limit).log(limit / 8).create(folder.path().join("a.pool")).unwrap();
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
    fn put(self, tx: &mut dyn Tx, name: &str, key: u64, value: &[u8]) -> Result<()> {
        match self {
            Map::Hashed => tx.open_or_create::<Hashed>(name)?.set(tx, key, value).map(drop),
            Map::Ordered => tx.open_or_create::<Ordered>(name)?.set(tx, key, value).map(drop),
        }
    }

    fn set(self, handle: &mut Handle, name: &str, key: u64, value: &[u8]) -> Result<()> {
        handle.transaction(|tx| self.put(tx, name, key, value))
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
    let stays = |key: u64| key.is_multiple_of(33);
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
        for engine in EngineKind::ALL.into_iter().filter(|engine| engine.rolls_back()) {
            takes_larger_values(engine, map, 4 << 20);
        }
    }
}

/// The collection that takes free space, a value of so many bytes at a time.
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
    /// Adds a value.
    fn more(self, tx: &mut dyn Tx, number: u64, len: u64) -> Result<()> {
        // Each append to a long string takes a walk over its pieces.
        let len = if matches!(self, Probe::Blob) { len.max(30_000) } else { len };
        let bytes = vec![number as u8; len as usize];
        match self {
            Probe::Map(map) => map.put(tx, "probe", number, &bytes),
            Probe::Vector if len < 512 => {
                tx.open_or_create::<Vector<[u64; 16]>>("probe")?.push(tx, [number; 16])
            }
            Probe::Vector => {
                tx.open_or_create::<Vector<[u64; 100]>>("probe")?.push(tx, [number; 100])
            }
            Probe::Blob => {
                let old = match tx.root("probe")? {
                    Some(root) => Blob::new(root.at),
                    None => Blob::create(tx, Purpose::Value, b"")?,
                };
                let new = old.append(tx, &bytes)?;
                tx.set_root("probe", Root { at: new.at(), kind: kind::BLOB })
            }
            Probe::Cells => {
                let cells = tx.open_or_create::<HashMap<u64, u64>>("probe")?;
                let cell = Cell::with(tx, [number; 16])?;
                cells.set(tx, number, cell.at()).map(drop)
            }
        }
    }

    /// Adds values until there is no room, several in a transaction while there is much.
    fn fill(self, handle: &mut Handle, len: u64) {
        let (mut number, mut count) = (0, (8_000 / len).clamp(1, 32));
        loop {
            let added = handle.transaction(|tx| {
                (number..number + count).try_for_each(|number| self.more(tx, number, len))
            });
            match added {
                Ok(()) => number += count,
                Err(_) if count > 1 => count = 1,
                Err(error) if error.is_full() => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Maps with values of random sizes, filled and thinned out several times. Returns their contents.
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

/// Whatever was in a pool, nine tenths of its free bytes can be taken; by a vector, whose segments take many adjacent
/// pages, four tenths at least. Among the first 20 histories a vector takes less than nine tenths four times, 0.47
/// to 0.88.
#[test]
fn free_bytes_can_be_taken_after_any_history() {
    let mut short = Vec::new();
    for seed in perdura_testing::seeds(1, 3) {
        let mut random = SplitMix64::new(seed);
        let engines = EngineKind::ALL.into_iter().filter(|kind| kind.rolls_back());
        let engines: Vec<_> = engines.collect();
        let engine = engines[random.below(engines.len() as u64) as usize];
        let (folder, pool) = pool(engine, 32 << 20);
        let mut handle = pool.session().unwrap();
        let maps = history(&mut handle, &mut random);
        drop(handle);
        let path = pool.path().to_owned();
        pool.close().unwrap();
        let len = (8 << random.below(14)) + random.below(100);
        for probe in PROBES {
            let copy = folder.path().join("copy.pool");
            fs::copy(&path, &copy).unwrap();
            let pool = Options::new().domain(Some(Domain::Process)).open(&copy).unwrap();
            let mut handle = pool.session().unwrap();
            let (before, free) = (used(&pool), pool.info().free_bytes);
            probe.fill(&mut handle, len);
            let taken = used(&pool) - before;
            println!("seed {seed}, {engine}, {probe:?}, {len}: {taken} of {free} bytes");
            let tenths = if matches!(probe, Probe::Vector) { 4 } else { 9 };
            if taken * 10 < free * tenths {
                let size = format!("{probe:?} of {len} bytes: {taken} of {free}");
                short.push(format!("seed {seed}, {engine}, {size}"));
            }
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
    assert!(short.is_empty(), "{short:#?}");
}

/// Maps to which only offsets lead are emptied too.
#[test]
fn maps_inside_a_map_are_moved() {
    let (_folder, pool) = pool(EngineKind::Redo, 4 << 20);
    let mut handle = pool.session().unwrap();
    let mut insert = |key: u64, len: usize| {
        handle.transaction(|tx| {
            let maps = tx.open_or_create::<OrderedMap<u64, u64>>("maps")?;
            let inner = match maps.get(tx, key % 7)? {
                Some(at) => Ordered::open(tx, at)?,
                None => {
                    let inner = Ordered::create(tx)?;
                    maps.set(tx, key % 7, inner.at())?;
                    inner
                }
            };
            inner.set(tx, key, &vec![key as u8; len]).map(drop)
        })
    };
    let keys = until_full(|key| insert(key, 100));
    let mut handle = pool.session().unwrap();
    for key in (0..keys).filter(|key| key % 33 != 0) {
        handle
            .transaction(|tx| {
                let maps = tx.open_or_create::<OrderedMap<u64, u64>>("maps")?;
                let at = maps.get(tx, key % 7)?.expect("it is there");
                Ordered::open(tx, at)?.remove(tx, key).map(drop)
            })
            .unwrap();
    }
    drop(handle);
    let (before, free) = (used(&pool), pool.info().free_bytes);
    let more = until_full(|key| insert(keys + key, 1_000));
    let taken = used(&pool) - before;
    assert!(taken * 10 >= free * 9, "{taken} of {free} bytes were taken");
    let mut handle = pool.session().unwrap();
    let mut left = 0;
    handle
        .read(|tx| {
            let maps = tx.open::<OrderedMap<u64, u64>>("maps")?.expect("it is there");
            left = 0;
            for number in 0..7 {
                let at = maps.get(tx, number)?.expect("it is there");
                Ordered::open(tx, at)?.for_each(tx, &mut |key, value| {
                    assert!(value.iter().all(|byte| *byte == key as u8));
                    left += 1;
                    Ok(())
                })?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(left, keys.div_ceil(33) + more);
    drop(handle);
    check(pool);
}

/// A cursor that is kept finds its place after its map's nodes have been moved.
#[test]
fn a_cursor_outlives_moves() {
    let (_folder, pool) = pool(EngineKind::Redo, 4 << 20);
    let mut handle = pool.session().unwrap();
    let keys = until_full(|key| Map::Ordered.set(&mut handle, "map", key, &[1; 100]));
    for key in (0..keys).filter(|key| key % 33 != 0) {
        Map::Ordered.remove(&mut handle, "map", key);
    }
    let next = |handle: &mut Handle, cursor: &mut Cursor<u64, Bytes>| {
        handle.read(|tx| cursor.next(tx)).unwrap().map(|(key, _)| key)
    };
    // A cursor after each entry.
    let mut cursors: Vec<_> = (0..keys.div_ceil(33))
        .map(|number| {
            let from = number * 33;
            let mut cursor =
                handle.read(|tx| tx.open_or_create::<Ordered>("map")?.cursor(tx, from..)).unwrap();
            assert_eq!(next(&mut handle, &mut cursor), Some(from));
            cursor
        })
        .collect();
    let places = |handle: &mut Handle| -> Vec<_> {
        let all = handle.read(|tx| {
            let map = tx.open_or_create::<Ordered>("map")?;
            (0..keys.div_ceil(33)).map(|number| map.slot(tx, number * 33)).collect()
        });
        all.unwrap()
    };
    let before = places(&mut handle);
    until_full(|key| Map::Hashed.set(&mut handle, "other", key, &[1; 1_000]));
    assert_ne!(places(&mut handle), before, "no node was moved");
    for (cursor, number) in cursors.iter_mut().zip(1..) {
        let wanted = Some(number * 33).filter(|key| *key < keys);
        assert_eq!(next(&mut handle, cursor), wanted);
    }
    Map::Ordered.remove(&mut handle, "map", 0);
    let stale = handle.read(|tx| cursors[0].next(tx));
    assert!(matches!(stale, Err(Error::Misuse { .. })), "{stale:?}");
}

/// A transaction begun by a call cannot be run again; the next one finds room.
#[test]
fn the_next_transaction_begun_by_a_call_finds_room() {
    let (_folder, pool) = pool(EngineKind::Redo, 4 << 20);
    let mut handle = pool.session().unwrap();
    let keys = until_full(|key| Map::Hashed.set(&mut handle, "map", key, &[1; 100]));
    for key in (0..keys).filter(|key| key % 33 != 0) {
        Map::Hashed.remove(&mut handle, "map", key);
    }
    let free = pool.info().free_bytes;
    let (mut failed, mut number) = (0, 0);
    while number * 1_024 * 2 < free {
        handle.begin(Mode::Write).unwrap();
        let set = handle.within(|tx| {
            tx.open_or_create::<Hashed>("more")?.set(tx, number, &[2; 1_000]).map(drop)
        });
        match set {
            Ok(()) => {
                handle.commit().unwrap();
                number += 1;
            }
            Err(error) => {
                assert!(error.is_full(), "{error}");
                handle.abort();
                failed += 1;
                assert!(failed < 4, "after {number}");
            }
        }
    }
    assert!(failed > 0, "there was room at once");
}

/// In a pool that is really full, a transaction fails at once.
#[test]
fn a_full_pool_refuses_promptly() {
    let (_folder, pool) = pool(EngineKind::Redo, 4 << 20);
    let mut handle = pool.session().unwrap();
    until_full(|key| Map::Ordered.set(&mut handle, "map", key, &[1; 1_000]));
    for len in [1_000, 3_000, 100_000, 10_000_000] {
        let mut runs = [0; 2];
        for runs in &mut runs {
            let full = handle.transaction(|tx| {
                *runs += 1;
                tx.new_bytes(Purpose::Value, &vec![1; len])
            });
            assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
        }
        assert!(runs[0] <= 2 && runs[1] == 1, "{len} bytes: {runs:?}");
    }
}
