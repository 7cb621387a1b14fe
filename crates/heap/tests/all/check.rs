//! Planted damage and garbage: `check` reports it, opening refuses or recovers, nothing panics, nothing is written to
//! a refused pool.

use perdura::check::check;
use perdura::collections::{Blob, Bytes, HashMap, OrderedMap, Vector, kind};
use perdura::superblock::{CATALOGUE, Superblock};
use perdura::{EngineKind, Options, Purpose, Root};
use perdura_memory::Mapped;
use perdura_memory::reference::SplitMix64;
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;

/// A closed pool with one of each collection, and their offsets.
fn sample(folder: &Path) -> (PathBuf, Vec<u64>) {
    let path = folder.join("sample.pool");
    let pool = Options::new().size(4 << 20).create(&path).unwrap();
    let roots = pool
        .session()
        .unwrap()
        .transaction(|tx| {
            let map = HashMap::<u64, Bytes>::create(tx)?;
            let ordered = OrderedMap::<u64, u64>::create(tx)?;
            let vector = Vector::<u64>::create(tx)?;
            for key in 0..500u64 {
                map.insert(tx, key, &[b'v'; 40])?;
                ordered.insert(tx, key, key * 2)?;
                vector.push(tx, key)?;
            }
            let blob = Blob::create(tx, Purpose::Value, b"a blob of some length")?;
            let roots = [
                ("map", kind::HASH_MAP, map.at()),
                ("ordered", kind::ORDERED_MAP, ordered.at()),
                ("vector", kind::VECTOR, vector.at()),
                ("blob", kind::BLOB, blob.at()),
            ];
            for (name, kind, at) in roots {
                tx.set_root(name, Root { at, kind })?;
            }
            Ok(roots.map(|(_, _, at)| at).to_vec())
        })
        .unwrap();
    pool.close().unwrap();
    (path, roots)
}

fn problems(path: &Path) -> Vec<String> {
    check(path, &|_, _, _| Ok(false)).unwrap().problems
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn set(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn a_whole_pool_has_no_problems() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = sample(folder.path());
    let report = check(&path, &|_, _, _| Ok(false)).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    assert_eq!(report.unreachable, Some(0));
    assert_eq!(report.roots.len(), 4);
    assert!(report.blocks > 500);
}

#[test]
fn planted_damages_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, roots) = sample(folder.path());
    let good = std::fs::read(&path).unwrap();
    let superblock = Superblock::read(&Mapped::open_read_only(&path).unwrap()).unwrap();
    let (log, layout) = (superblock.log.start as usize, superblock.layout);
    let entry_of = |at: u64| layout.entry((at - layout.pages) / PAGE as u64) as usize;
    let [map, ordered, vector, blob] = [0, 1, 2, 3].map(|index| roots[index] as usize);
    type Damage<'a> = (&'a str, Box<dyn Fn(&mut Vec<u8>) + 'a>);
    let damages: Vec<Damage<'_>> = vec![
        (
            "one copy of the header",
            Box::new(|b| b[PAGE * (1 - superblock.sequence as usize % 2) + 40] ^= 1),
        ),
        (
            "both copies of the header",
            Box::new(|b| {
                b[40] ^= 1;
                b[PAGE + 40] ^= 1;
            }),
        ),
        ("log header", Box::new(|b| b[log + 20] ^= 1)),
        (
            "both checkpoints",
            Box::new(|b| {
                b[log + 70] ^= 1;
                b[log + 134] ^= 1;
            }),
        ),
        ("page-table entry", Box::new(|b| b[entry_of(map as u64)] = 9)),
        ("page-table class", Box::new(|b| b[entry_of(map as u64) + 1] ^= 0x0F)),
        ("slots that a page does not have", Box::new(|b| b[entry_of(map as u64) + 7] ^= 0x80)),
        ("a taken slot marked free", Box::new(|b| set(b, entry_of(blob as u64) + 8, 0))),
        (
            "a free slot marked taken",
            Box::new(|b| {
                let at = entry_of(blob as u64) + 8;
                let free = !word(b, at);
                set(b, at, !free | 1 << free.trailing_zeros());
            }),
        ),
        ("head of the roots", Box::new(|b| set(b, CATALOGUE as usize, 24))),
        (
            "roots that go round",
            Box::new(|b| {
                let head = word(b, CATALOGUE as usize);
                set(b, head as usize, head);
            }),
        ),
        (
            "a root's name",
            Box::new(|b| {
                let head = word(b, CATALOGUE as usize) as usize;
                b[head + 20] = 0;
            }),
        ),
        (
            "a root's pointer",
            Box::new(|b| {
                let head = word(b, CATALOGUE as usize) as usize;
                set(b, head + 8, u64::MAX - 15);
            }),
        ),
        ("the map's tag", Box::new(|b| b[map] ^= 0xFF)),
        ("the map's second word", Box::new(|b| b[map + 8] ^= 0x55)),
        ("the ordered map's tag", Box::new(|b| b[ordered] ^= 0xFF)),
        ("the ordered map's root node", Box::new(|b| set(b, ordered + 8, 3))),
        ("the vector's length", Box::new(|b| b[vector + 12] ^= 1)),
        ("the blob's length", Box::new(|b| b[blob + 4] ^= 1)),
        ("the end of the file", Box::new(|b| b.truncate(layout.pages as usize - PAGE))),
        ("the last pages", Box::new(|b| b.truncate(layout.pages as usize + PAGE))),
    ];
    let mut unnamed = Vec::new();
    for (name, damage) in &damages {
        let mut bytes = good.clone();
        damage(&mut bytes);
        assert_ne!(bytes, good, "{name} changed nothing");
        let damaged = folder.path().join("damaged.pool");
        std::fs::write(&damaged, &bytes).unwrap();
        if problems(&damaged).is_empty() {
            unnamed.push(*name);
        }
        assert_eq!(std::fs::read(&damaged).unwrap(), bytes, "checking {name} wrote to the file");
    }
    assert!(unnamed.is_empty(), "damages that were not named: {unnamed:?}");
}

/// Random bytes over the header, the log and the page table: opening and checking never panic,
/// and a pool that is refused is left as it was. The seeds are the numbers of the rounds.
#[test]
fn garbage_is_refused_or_survived() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = sample(folder.path());
    let good = std::fs::read(&path).unwrap();
    let superblock = Superblock::read(&Mapped::open_read_only(&path).unwrap()).unwrap();
    for seed in perdura_testing::seeds(0, 150) {
        let mut random = SplitMix64::new(seed);
        let mut bytes = good.clone();
        let regions = [
            0..2 * PAGE as u64,
            superblock.log.start..superblock.log.start + 256,
            superblock.layout.table..superblock.layout.table + 2048,
            CATALOGUE..CATALOGUE + 64,
            superblock.layout.pages..good.len() as u64,
        ];
        for _ in 0..=random.below(6) {
            let region = &regions[random.below(5) as usize];
            let at = region.start + random.below(region.end - region.start);
            bytes[at as usize] = random.next() as u8;
        }
        if random.below(10) == 0 {
            bytes.truncate(random.below(good.len() as u64) as usize);
        }
        let damaged = folder.path().join("garbage.pool");
        std::fs::write(&damaged, &bytes).unwrap();
        let _ = check(&damaged, &|_, _, _| Ok(false));
        for engine in EngineKind::ALL {
            match Options::new().engine(engine).open(&damaged) {
                Ok(pool) => {
                    let mut session = pool.session().unwrap();
                    let _ = session.transaction(|tx| {
                        let at = tx.allocate(Purpose::General, 100)?.at();
                        tx.set_root("new", Root { at, kind: 1000 })
                    });
                    drop((session, pool));
                    std::fs::write(&damaged, &bytes).unwrap();
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    assert!(
                        std::fs::read(&damaged).unwrap() == bytes,
                        "seed {seed}, {engine}: refused ({error}), and written to"
                    );
                }
            }
        }
    }
}
