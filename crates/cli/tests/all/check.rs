//! `pool check` finds planted damage, and writes nothing.

use crate::common::{arg, fail, run, succeed, text};
use perdura::collections::{Bytes, HashMap, OrderedMap, kind};
use perdura::superblock::{CATALOGUE, Superblock, VERSION};
use perdura::{EngineKind, Options, Root, Tx};
use perdura_memory::Mapped;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

/// A pool with two collections, and the offsets of interesting words.
struct Sample {
    _folder: TempDir,
    path: PathBuf,
    map: u64,
    tree: u64,
    superblock: Superblock,
}

fn sample(engine: EngineKind) -> Sample {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let pool = Options::new().engine(engine).size(8 << 20).create(&path).expect("a pool");
    let (map, tree) =
        pool.session().expect("a session").transaction(|tx| fill(tx)).expect("contents");
    pool.close().expect("a clean end");
    let superblock = read_header(&path);
    Sample { _folder: folder, path, map, tree, superblock }
}

fn fill(tx: &mut dyn Tx) -> perdura::Result<(u64, u64)> {
    let map = HashMap::<Bytes, Bytes>::create(tx)?;
    let tree = OrderedMap::<u64, u64>::create(tx)?;
    for key in 0..200u64 {
        map.set(tx, format!("key {key}").as_bytes(), &[b'v'; 100])?;
        tree.set(tx, key, key)?;
    }
    tx.set_root("map", Root { at: map.at(), kind: kind::HASH_MAP })?;
    tx.set_root("tree", Root { at: tree.at(), kind: kind::ORDERED_MAP })?;
    Ok((map.at(), tree.at()))
}

fn read_header(path: &Path) -> Superblock {
    Superblock::read(&Mapped::open_read_only(path).expect("a file")).expect("a header")
}

/// Flips bits of the word at `at`.
fn damage(path: &Path, at: u64, bits: u64) {
    let mut bytes = fs::read(path).expect("the pool");
    let word = &mut bytes[at as usize..at as usize + 8];
    let changed = u64::from_le_bytes((&*word).try_into().expect("eight bytes")) ^ bits;
    word.copy_from_slice(&changed.to_le_bytes());
    fs::write(path, bytes).expect("the pool");
}

/// Checks a damaged pool. Returns the output.
fn faults(path: &Path) -> String {
    let before = fs::read(path).expect("the pool");
    let output = run(&["pool", "check", arg(path)]);
    assert_eq!(fs::read(path).expect("the pool"), before, "the check wrote to the pool");
    assert_eq!(output.status.code(), Some(1), "nothing was found: {}", text(&output.stdout));
    let complaint = text(&output.stderr);
    assert!(complaint.starts_with("error: ") && complaint.lines().count() == 1, "{complaint}");
    text(&output.stdout)
}

#[test]
fn a_sound_pool_is_sound() {
    for engine in EngineKind::ALL {
        let sample = sample(engine);
        let printed = succeed(&["pool", "check", arg(&sample.path)]);
        assert!(printed.contains("2 named"), "{printed}");
        assert!(printed.contains("named roots lead to all of them"), "{printed}");
        assert!(printed.contains("no problem found"), "{printed}");
    }
}

#[test]
fn planted_damages_are_found() {
    type Place = fn(&Sample) -> u64;
    let places: [(&str, Place, u64); 7] = [
        ("the page table", |sample| sample.superblock.layout.table, 0xFF00),
        ("a page's slots", |sample| sample.superblock.layout.entry(0) + 8, 1),
        ("the head of the roots", |_| CATALOGUE, 8),
        ("a hash map's tag", |sample| sample.map, 1 << 40),
        ("a hash map's count", |sample| sample.map + 24, u64::MAX),
        ("an ordered map's tag", |sample| sample.tree, 1 << 40),
        ("an ordered map's root", |sample| sample.tree + 8, 0x40),
    ];
    for (what, place, bits) in places {
        let sample = sample(EngineKind::Redo);
        damage(&sample.path, place(&sample), bits);
        let found = faults(&sample.path);
        assert!(found.contains("PROBLEM"), "{what}: {found}");
    }
}

#[test]
fn one_copy_of_the_header_is_enough_and_two_are_not_there() {
    let sample = sample(EngineKind::Undo);
    damage(&sample.path, 64, 1);
    damage(&sample.path, 4096 + 64, 1);
    assert!(faults(&sample.path).contains("header"));
    // Back to one damaged copy.
    damage(&sample.path, 64, 1);
    assert!(faults(&sample.path).contains("the other one is whole"));
    succeed(&["pool", "info", arg(&sample.path)]);
}

#[test]
fn a_truncated_pool_is_found() {
    let sample = sample(EngineKind::Redo);
    let file = fs::OpenOptions::new().write(true).open(&sample.path).expect("the pool");
    file.set_len(sample.superblock.layout.pages).expect("a shorter file");
    assert!(faults(&sample.path).contains("PROBLEM"));
    file.set_len(sample.superblock.layout.pages - 4096).expect("a shorter file");
    assert!(faults(&sample.path).contains("truncated"));
    file.set_len(100).expect("a shorter file");
    fail(&["pool", "check", arg(&sample.path)]);
}

#[test]
fn another_version_is_refused() {
    let sample = sample(EngineKind::Redo);
    for copy in [0, 4096] {
        damage(&sample.path, copy + 8, 0x40);
    }
    let complaint = fail(&["pool", "check", arg(&sample.path)]);
    let version = format!("version {}", VERSION ^ 0x40);
    assert!(complaint.contains(&version), "{complaint}");
}

/// Whichever single byte of its first pages changes: no panic, no hang, no write.
#[test]
fn any_flipped_byte_of_the_header_is_survived() {
    let sample = sample(EngineKind::Redo);
    let good = fs::read(&sample.path).expect("the pool");
    for at in (0..256).step_by(7).chain((8192..8208).step_by(3)) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x5A;
        fs::write(&sample.path, &bytes).expect("the pool");
        for what in ["check", "info"] {
            let output = run(&["pool", what, arg(&sample.path)]);
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 1)), "byte {at}: {}", text(&output.stderr));
            assert!(!text(&output.stderr).contains("fault in perdura"), "byte {at}");
        }
        assert_eq!(fs::read(&sample.path).expect("the pool"), bytes, "byte {at}");
    }
}
