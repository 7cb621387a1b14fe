//! Space of a pool's file that is released to the file system, and allocated again.

mod common;

use common::{block, in_memory};
use perdura_memory::conformance::{NEEDS, releases};
use perdura_memory::mapped::record::{Faults, Recorder};
use perdura_memory::{Domain, LockedFile, MapOptions, Mapped, Memory, PAGE};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

fn occupied(path: &Path) -> u64 {
    fs::metadata(path).expect("metadata").blocks() * 512
}

fn options(domain: Domain) -> MapOptions {
    MapOptions { domain: Some(domain), limit: 64 << 20 }
}

#[test]
fn released_pages_are_zero_and_can_be_had_again() {
    let folder = block();
    for domain in [Domain::Media, Domain::Process] {
        let path = folder.path().join(format!("{domain}"));
        let memory = Mapped::create(&path, NEEDS, options(domain)).expect("create");
        assert!(releases(&memory), "{domain}");
        drop(memory);
        // The file has what was stored after the release, and no zeros in its place.
        let memory = Mapped::open(&path, options(domain)).expect("open");
        assert!((8..NEEDS).step_by(8).all(|at| memory.load(at) != 0), "{domain}");
    }
}

/// A load from a hole would take memory there, and be a signal where there is none.
#[test]
fn in_memory_nothing_is_released() {
    let Some(folder) = in_memory() else { return };
    for domain in [Domain::Media, Domain::Process, Domain::Transient] {
        let path = folder.path().join(format!("{domain}"));
        let Ok(memory) = Mapped::create(&path, NEEDS, options(domain)) else { continue };
        assert!(!releases(&memory), "{domain}");
        assert!(occupied(&path) >= NEEDS);
    }
    let path = folder.path().join("sparse");
    fs::File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("a file of holes");
    let locked = LockedFile::open(&path).expect("a file");
    let _memory = locked
        .map_some(options(Domain::Process), None, std::slice::from_ref(&(0..PAGE)))
        .expect("open");
    assert!(occupied(&path) >= 1 << 20);
}

#[test]
fn blocks_go_and_come() {
    const LEN: u64 = 4 << 20;
    let folder = block();
    for domain in [Domain::Media, Domain::Process] {
        let path = folder.path().join(format!("{domain}"));
        let memory = Mapped::create(&path, LEN, options(domain)).expect("create");
        (0..LEN).step_by(PAGE as usize).for_each(|at| memory.store(at, at + 1));
        memory.write_back(0, LEN);
        memory.fence();
        assert!(occupied(&path) >= LEN);
        assert!(memory.release(PAGE..LEN - PAGE).expect("a release"));
        assert!(occupied(&path) <= 64 << 10, "{} bytes are left", occupied(&path));
        assert_eq!(fs::metadata(&path).expect("metadata").len(), LEN);
        memory.secure(PAGE..LEN / 2).expect("space");
        assert!((LEN / 2 - PAGE..LEN * 3 / 4).contains(&occupied(&path)));
        memory.store(PAGE, 5);
        memory.write_back(PAGE, 8);
        memory.fence();
        assert_eq!(
            [0, PAGE, 2 * PAGE, LEN - PAGE].map(|at| memory.load(at)),
            [1, 5, 0, LEN - PAGE + 1]
        );
    }
}

/// Ranges that need no space get none, and are reported as unsecured; the rest gets it.
#[test]
fn holes_are_filled_where_that_is_needed() {
    const LEN: u64 = 1 << 20;
    let folder = block();
    let path = folder.path().join("sparse");
    let file = fs::File::create(&path).expect("a file");
    file.set_len(LEN).expect("a file of holes");
    file.write_all_at(&[7; PAGE as usize], LEN / 2).expect("data");
    drop(file);
    let needed = [0..LEN / 8, LEN - PAGE..LEN];
    let locked = LockedFile::open(&path).expect("a file");
    let memory = locked.map_some(options(Domain::Process), None, &needed).expect("open");
    assert!((LEN / 8 + PAGE..LEN / 4).contains(&occupied(&path)), "{}", occupied(&path));
    let unsecured = memory.unsecured();
    for hole in [LEN / 8..LEN / 2, LEN / 2 + PAGE..LEN - PAGE] {
        let told = unsecured.iter().any(|told| told.start <= hole.start && told.end >= hole.end);
        assert!(told, "{hole:?} is not in {unsecured:?}");
    }
    assert!(unsecured.iter().all(|told| !told.contains(&(LEN / 2))), "{unsecured:?}");
    memory.secure(LEN / 8..LEN).expect("space");
    assert!(occupied(&path) >= LEN);
    assert_eq!(memory.load(LEN / 2), 0x0707_0707_0707_0707);
}

/// A trace of writes and syncs does not record holes: while one is kept, there are none.
#[test]
fn recorded_files_keep_space() {
    let folder = block();
    let recorder =
        Recorder::append_to(folder.path().join("trace"), Faults::default()).expect("a trace");
    let path = folder.path().join("pool");
    let memory =
        Mapped::prepare(&path, NEEDS, options(Domain::Media), Mapped::MODE, Some(recorder))
            .expect("create");
    memory.publish().expect("a name");
    memory.store(PAGE, 1);
    assert!(!memory.release(PAGE..2 * PAGE).expect("no release"));
    assert_eq!(memory.load(PAGE), 1);
    let looked = Mapped::open_read_only(&path).expect("open");
    assert!(!looked.release(0..PAGE).expect("no release"));
    assert!(looked.unsecured().is_empty() && looked.secure(0..PAGE).is_ok());
}
