//! Copies equal their sources, whatever engine and size they have.

use crate::common::*;
use perdura::{EngineKind, Options, Pool, Root};
use perdura_transfer::{Error, Target, copy, copy_pages};
use std::fs;
use std::path::Path;
use tempfile::tempdir;

/// A pool with everything, and gaps.
fn sample(path: &Path) {
    let pool = create(path, EngineKind::Redo);
    fill_keyspace(&pool);
    fill_collections(&pool);
    pool.close().expect("a clean end");
}

fn open(path: &Path) -> Pool {
    Options::new().open(path).expect("a pool")
}

#[test]
fn a_copy_has_everything_with_each_engine() {
    let folder = tempdir().expect("a folder");
    let old = folder.path().join("old");
    sample(&old);
    let (before, keys) = (fs::read(&old).expect("the pool"), keyspace(&old));
    for engine in EngineKind::ALL {
        let new = folder.path().join(format!("new-{engine}"));
        let target = Target::new(&new).engine(Some(engine));
        let copied = copy(&source(&old), &target, &mut on).expect("a copy");
        assert_eq!((copied.roots, copied.keys, copied.offsets_kept), (6, KEYS, false));
        assert_eq!(copied.entries, 4 * COUNT + 1);
        check(&new);
        assert_eq!(keyspace(&new), keys, "{engine}");
        let pool = open(&new);
        assert_eq!(pool.engine(), engine);
        check_collections(&pool);
    }
    assert_eq!(fs::read(&old).expect("the pool"), before, "the source was written to");
}

#[test]
fn a_copy_may_be_larger_or_smaller() {
    let folder = tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    sample(&old);
    // Larger than the old one could be opened with.
    for size in [64 << 20, 3 << 20] {
        let target = Target::new(&new).size(Some(size)).force(true);
        copy(&source(&old), &target, &mut on).expect("a copy");
        let pool = open(&new);
        assert_eq!(pool.info().own_limit, size);
        check_collections(&pool);
        drop(pool);
        assert_eq!(keyspace(&new), keyspace(&old));
    }
    let pool = open(&old);
    let value = vec![b'v'; 2 << 20];
    let text = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n", value.len());
    let stream = [text.as_bytes(), &value, b"\r\n"].concat();
    let mut handle = pool.session().expect("a session");
    perdura_server::transfer::import(&mut stream.as_slice(), &mut handle, &mut on).expect("room");
    drop((handle, pool));
    let target = Target::new(folder.path().join("small")).size(Some(1 << 20));
    let error = copy(&source(&old), &target, &mut on).expect_err("too small");
    assert!(matches!(error, Error::TooSmall { .. }), "{error}");
    assert!(!target.path.exists());
}

#[test]
fn a_copy_with_checksums_has_them() {
    let folder = tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let pool = Options::new().size(16 << 20).checksums(true).create(&old).expect("a pool");
    fill_collections(&pool);
    drop(pool);
    for keep_offsets in [false, true] {
        let target = Target::new(&new).force(true);
        let source = source(&old);
        match keep_offsets {
            true => copy_pages(&source, &target, &mut on),
            false => copy(&source, &target, &mut on),
        }
        .expect("a copy");
        check(&new);
        let pool = open(&new);
        assert!(pool.info().checksums);
        check_collections(&pool);
    }
}

#[test]
fn offsets_are_kept_where_that_is_asked_for() {
    let folder = tempdir().expect("a folder");
    let old = folder.path().join("old");
    sample(&old);
    let pool = open(&old);
    let mut handle = pool.session().expect("a session");
    let own = handle.transaction(|tx| {
        let at = perdura::TxExt::new_bytes(tx, perdura::Purpose::General, b"a program's own")?;
        tx.set_root("own", Root { at, kind: 1000 })?;
        Ok(at)
    });
    let own = own.expect("room");
    drop(handle);
    drop(pool);
    let target = Target::new(folder.path().join("no"));
    let error = copy(&source(&old), &target, &mut on).expect_err("an unknown root").to_string();
    assert!(error.contains("'own' is of kind 1000") && error.contains("--keep-offsets"), "{error}");
    assert!(!target.path.exists());
    for engine in EngineKind::ALL {
        let new = folder.path().join(format!("new-{engine}"));
        let target = Target::new(&new).engine(Some(engine)).size(Some(30 << 20));
        let copied = copy_pages(&source(&old), &target, &mut on).expect("a copy");
        assert!(copied.offsets_kept && copied.roots == 7);
        let pool = open(&new);
        assert_eq!((pool.engine(), pool.info().own_limit), (engine, 30 << 20));
        check_collections(&pool);
        let mut handle = pool.session().expect("a session");
        let found = handle.read(|tx| {
            let mut bytes = [0; 15];
            let at = tx.root("own")?.expect("the root").at;
            tx.read_bytes(at, &mut bytes)?;
            Ok((at, bytes))
        });
        assert_eq!(found.expect("a read"), (own, *b"a program's own"));
        // And it grows.
        handle.transaction(|tx| tx.allocate(perdura::Purpose::General, 9 << 20)).expect("room");
        drop((handle, pool));
        assert_eq!(keyspace(&new), keyspace(&old));
    }
    for size in [1 << 20, 1 << 40] {
        let target = Target::new(folder.path().join("no")).size(Some(size));
        let error = copy_pages(&source(&old), &target, &mut on).expect_err("a size");
        assert!(matches!(error, Error::Size(_)), "{error}");
        assert!(!target.path.exists());
    }
}

#[test]
fn objects_behind_values_are_not_lost_unsaid() {
    let folder = tempdir().expect("a folder");
    let old = folder.path().join("old");
    let pool = create(&old, EngineKind::Redo);
    let mut handle = pool.session().expect("a session");
    handle
        .transaction(|tx| {
            let map = perdura::collections::HashMap::<u64, u64>::create(tx)?;
            let hidden = perdura::TxExt::new_bytes(tx, perdura::Purpose::General, b"hidden")?;
            map.set(tx, 1, hidden)?;
            tx.set_root("map", Root { at: map.at(), kind: 2 })
        })
        .expect("room");
    drop((handle, pool));
    let target = Target::new(folder.path().join("new"));
    let error = copy(&source(&old), &target, &mut on).expect_err("something hidden");
    assert!(matches!(error, Error::Hidden { blocks: 1, .. }), "{error}");
    copy_pages(&source(&old), &target, &mut on).expect("a copy of the pages");
    check_named(&target.path);
}

/// Maps inside a map, a string and an object behind a pointer, all by their offsets.
#[test]
fn collections_inside_collections_are_no_leak() {
    use perdura::collections::{Blob, Bytes, HashMap, OrderedMap, Vector};
    let folder = tempdir().expect("a folder");
    let old = folder.path().join("old");
    let pool = create(&old, EngineKind::Redo);
    let mut handle = pool.session().expect("a session");
    let leaked =
        |report: &perdura::check::Report| report.unreachable.unwrap() - report.by_offset.blocks;
    handle
        .transaction(|tx| {
            let outer = HashMap::<u64, u64>::create(tx)?;
            tx.set_root("outer", Root { at: outer.at(), kind: 2 })?;
            let inner = OrderedMap::<Bytes, u64>::create(tx)?;
            let vector = Vector::<u64>::create(tx)?;
            let string = Blob::create(tx, perdura::Purpose::General, &[7; 3000])?;
            outer.set(tx, 1, inner.at())?;
            for key in 0..100_u64 {
                inner.set(tx, &[key as u8; 40], key)?;
            }
            inner.set(tx, b"vector", vector.at())?;
            vector.push(tx, string.at())?;
            let own = perdura::TxExt::new_bytes(tx, perdura::Purpose::General, b"own")?;
            outer.set(tx, 2, own).map(drop)
        })
        .expect("room");
    drop((handle, pool));
    let report = perdura::check::check(&old, &|_, _, _| Ok(false)).expect("a check");
    assert!(report.is_whole(), "{:?}", report.problems);
    let found = report.by_offset;
    let kinds = [found.hash_maps, found.ordered_maps, found.vectors, found.strings, found.objects];
    assert_eq!((kinds, leaked(&report)), ([0, 1, 1, 1, 1], 0));
    assert!(
        report.notes.iter().any(|note| note.contains("1 ordered map, 1 vector, 1 byte string"))
    );
    let target = Target::new(folder.path().join("new"));
    let error = copy(&source(&old), &target, &mut on).expect_err("offsets").to_string();
    assert!(error.contains("1 ordered map") && error.contains("--keep-offsets"), "{error}");
    copy_pages(&source(&old), &target, &mut on).expect("a copy of the pages");
    let copied = perdura::check::check(&target.path, &|_, _, _| Ok(false)).expect("a check");
    assert!(copied.is_whole() && copied.by_offset == found);
    // Without its offset, it has leaked.
    let pool = open(&old);
    let mut handle = pool.session().expect("a session");
    handle
        .transaction(|tx| {
            let outer = tx.root("outer")?.expect("the root").at;
            HashMap::<u64, u64>::new(outer).remove(tx, 1).map(drop)
        })
        .expect("a removal");
    drop((handle, pool));
    let report = perdura::check::check(&old, &|_, _, _| Ok(false)).expect("a check");
    assert!(report.problems[0].contains("leaked"), "{:?}", report.problems);
    assert!(leaked(&report) > 100);
}

/// The new pool, and an export, are open to no more users than their sources.
#[test]
fn permissions_are_the_source_s() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().expect("a folder");
    let old = folder.path().join("old");
    drop(create(&old, EngineKind::Redo));
    std::fs::set_permissions(&old, PermissionsExt::from_mode(0o600)).expect("permissions");
    let mode = |path: &Path| path.metadata().expect("a file").permissions().mode() & 0o777;
    let (new, pages) =
        (Target::new(folder.path().join("new")), Target::new(folder.path().join("pages")));
    copy(&source(&old), &new, &mut on).expect("a copy");
    copy_pages(&source(&old), &pages, &mut on).expect("a copy");
    assert_eq!((mode(&new.path), mode(&pages.path)), (0o600, 0o600));
}

fn check_named(path: &Path) {
    let pool = open(path);
    let mut handle = pool.session().expect("a session");
    let found = handle.read(|tx| {
        let map = tx.root("map")?.expect("the root").at;
        let map = perdura::collections::HashMap::<u64, u64>::new(map);
        let mut bytes = [0; 6];
        let at = map.get(tx, 1)?.expect("an entry");
        tx.read_bytes(at, &mut bytes)?;
        Ok(bytes)
    });
    assert_eq!(&found.expect("a read"), b"hidden");
}

#[test]
fn an_unclean_pool_is_copied_as_it_would_be_recovered() {
    let folder = tempdir().expect("a folder");
    let (old, left) = (folder.path().join("old"), folder.path().join("left"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    // As a process that is killed leaves it.
    fs::copy(&old, &left).expect("a copy");
    let before = fs::read(&left).expect("the pool");
    for (index, keep_offsets) in [false, true].into_iter().enumerate() {
        let target = Target::new(folder.path().join(format!("new{index}")));
        let source = source(&left);
        match keep_offsets {
            true => copy_pages(&source, &target, &mut on),
            false => copy(&source, &target, &mut on),
        }
        .expect("a copy");
        drop(source);
        check_collections(&open(&target.path));
    }
    assert_eq!(fs::read(&left).expect("the pool"), before);
    drop(pool);
}
