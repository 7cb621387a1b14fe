//! Opening, locking, growing and refusing.

mod common;

use common::{block, in_memory};
use perdura_memory::{
    Backing, Domain, LINE, LockedFile, MapError, MapOptions, Mapped, Memory, PAGE, Survives,
};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn small() -> MapOptions {
    MapOptions { domain: None, limit: 1 << 20 }
}

fn error<T>(result: Result<T, MapError>) -> MapError {
    match result {
        Ok(_) => panic!("this should have been refused"),
        Err(error) => error,
    }
}

/// The message names the path, and says more than what happened.
fn explains(error: &MapError, path: &Path) {
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()) && text.len() > 40, "{text}");
}

#[test]
fn open_errors() {
    let directory = block();
    let at = |name: &str| directory.path().join(name);
    let open = |name: &str| {
        let found = error(Mapped::open(at(name), small()));
        explains(&found, &at(name));
        let found_read_only = error(Mapped::open_read_only(at(name)));
        assert_eq!(std::mem::discriminant(&found), std::mem::discriminant(&found_read_only));
        found
    };
    assert!(matches!(open("missing"), MapError::NotFound(_)));
    fs::create_dir(at("directory")).expect("directory");
    // Opened for reading, a directory is detected a step later, with the same answer.
    assert!(matches!(open("directory"), MapError::NotAFile { what: "a directory", .. }));
    fs::write(at("empty"), b"").expect("file");
    assert!(matches!(open("empty"), MapError::TooShort { len: 0, .. }));
    fs::write(at("short"), [1; 4095]).expect("file");
    assert!(matches!(open("short"), MapError::TooShort { len: 4095, .. }));
    assert!(fs::read(at("short")).expect("file") == [1; 4095], "a refused file was written to");
    fs::write(at("file"), b"").expect("file");
    assert!(matches!(open("file/below"), MapError::NotFound(_)));
    assert!(matches!(error(Mapped::open("/dev/null", small())), MapError::NotAFile { .. }));
}

#[test]
fn create_errors() {
    let directory = block();
    let at = |name: &str| directory.path().join(name);
    let create = |name: &str, len| {
        let found = error(Mapped::create(at(name), len, small()));
        explains(&found, &at(name));
        found
    };
    assert!(matches!(create("none/pool", PAGE), MapError::NoDirectory(_)));
    assert!(matches!(create("empty", 0), MapError::TooShort { .. }));
    assert!(matches!(create("huge", !0), MapError::NoSpace { .. }));
    assert!(matches!(create("larger than the disk", 1 << 50), MapError::NoSpace { .. }));
    for left in ["empty", "huge", "larger than the disk"] {
        assert!(!at(left).exists(), "'{left}' was left behind");
    }
    fs::write(at("there"), b"precious").expect("file");
    assert!(matches!(create("there", PAGE), MapError::Exists(_)));
    assert_eq!(fs::read(at("there")).expect("file"), b"precious");

    let limit = 1 << 60;
    let found = error(Mapped::create(at("wide"), PAGE, MapOptions { domain: None, limit }));
    assert!(matches!(found, MapError::NoAddressSpace { .. }), "{found}");
    assert!(!at("wide").exists());
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("directory");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_has_its_name_when_it_is_whole() {
    let directory = block();
    let path = directory.path().join("pool");
    let memory = Mapped::prepare(&path, PAGE, small(), Mapped::MODE, None).expect("prepare");
    memory.store(0, 1);
    memory.write_back(0, 8);
    memory.fence();
    assert!(!path.exists());
    assert!(matches!(
        error(Mapped::prepare(&path, PAGE, small(), Mapped::MODE, None)),
        MapError::Locked(_)
    ));
    memory.publish().expect("publish");
    assert_eq!(names(directory.path()), ["pool"]);
    assert!(matches!(error(Mapped::open(&path, small())), MapError::Locked(_)));
    memory.publish().expect("nothing to do");
    drop(memory);
    assert_eq!(Mapped::open(&path, small()).expect("open").load(0), 1);

    let other = directory.path().join("other");
    drop(Mapped::prepare(&other, PAGE, small(), Mapped::MODE, None).expect("prepare"));
    assert_eq!(names(directory.path()), ["pool"], "a file that was not published was left");

    let memory = Mapped::prepare(&other, PAGE, small(), Mapped::MODE, None).expect("prepare");
    fs::write(&other, b"precious").expect("another's file");
    assert!(matches!(memory.publish(), Err(MapError::Exists(_))));
    assert_eq!(fs::read(&other).expect("file"), b"precious");
    drop(memory);
    assert_eq!(names(directory.path()), ["other", "pool"]);
}

/// The leftovers of each step of a creation if its process is killed there.
#[test]
fn leftovers_of_a_creation_are_used_up() {
    let leftovers: [(&str, &[u8]); 4] = [
        ("nothing yet", b""),
        ("a length", &[0; 1 << 16]),
        ("less", &[0; 100]),
        ("more", &[9; 9999]),
    ];
    for (what, bytes) in leftovers {
        let directory = block();
        let at = |name: &str| directory.path().join(name);
        fs::write(at(".pool.perdura-new"), bytes).expect("leftover");
        let memory = Mapped::create(at("pool"), 2 * PAGE, small()).expect(what);
        assert_eq!(memory.len(), 2 * PAGE);
        assert!((0..2 * PAGE).step_by(8).all(|at| memory.load(at) == 0), "{what}");
        assert_eq!(names(directory.path()), ["pool"], "{what}");
    }
}

/// Where a file gets its name by a link, its creator may be killed before the temporary name is gone.
#[test]
fn a_second_name_of_a_whole_file_is_only_taken_away() {
    let directory = block();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("moved"), b"precious").expect("file");
    fs::hard_link(at("moved"), at(".pool.perdura-new")).expect("link");
    Mapped::create(at("pool"), PAGE, small()).expect("create");
    assert_eq!(names(directory.path()), ["moved", "pool"]);
    assert_eq!(fs::read(at("moved")).expect("file"), b"precious");
}

/// Of many that create the same file, one succeeds, and the others leave nothing.
#[test]
fn one_of_many_makers_succeeds() {
    for _ in 0..20 {
        let directory = block();
        let path = directory.path().join("pool");
        let barrier = std::sync::Barrier::new(6);
        let made: Vec<_> = std::thread::scope(|scope| {
            let make = || {
                barrier.wait();
                Mapped::create(&path, PAGE, small())
            };
            let makers: Vec<_> = (0..6).map(|_| scope.spawn(make)).collect();
            makers.into_iter().map(|maker| maker.join().expect("no panic")).collect()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        for failed in made.into_iter().filter_map(Result::err) {
            assert!(matches!(failed, MapError::Exists(_) | MapError::Locked(_)), "{failed}");
        }
        assert_eq!(names(directory.path()), ["pool"]);
    }
}

#[test]
fn an_open_pool_is_locked() {
    let directory = block();
    let path = directory.path().join("pool");
    let memory = Mapped::create(&path, PAGE, small()).expect("create");
    let found = error(Mapped::open(&path, small()));
    assert!(matches!(found, MapError::Locked(_)));
    explains(&found, &path);
    let reader = Mapped::open_read_only(&path).expect("looking is allowed");
    assert!(reader.in_use() && reader.is_read_only());
    drop((memory, reader));

    let reader = Mapped::open_read_only(&path).expect("open");
    assert!(!reader.in_use());
    let opened = Mapped::open(&path, small()).expect("looking hinders nobody");
    assert!(Mapped::open_read_only(&path).expect("look").in_use());
    drop((opened, reader));
}

/// A file that is locked, inspected, and only then mapped, belongs to one opener all the time.
#[test]
fn a_rehearsal_keeps_the_lock_and_writes_nothing() {
    let directory = block();
    let path = directory.path().join("pool");
    drop(Mapped::create(&path, PAGE, small()).expect("create"));
    let locked = LockedFile::open(&path).expect("lock");
    assert!(matches!(error(LockedFile::open(&path)), MapError::Locked(_)));
    let rehearsal = locked.rehearse().expect("rehearse");
    rehearsal.store(0, 1);
    rehearsal.write_back(0, 8);
    rehearsal.fence();
    drop(rehearsal);
    assert!(matches!(error(LockedFile::open(&path)), MapError::Locked(_)), "the lock was lost");
    assert_eq!(locked.map(small(), None).expect("map").load(0), 0);
    LockedFile::open(&path).expect("the lock is gone with the pool");
}

/// Each look takes a lock for a moment, which must not make openers fail.
#[test]
fn openers_succeed_while_many_look() {
    let directory = block();
    let path = directory.path().join("pool");
    drop(Mapped::create(&path, PAGE, small()).expect("create"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    Mapped::open_read_only(&path).expect("look");
                }
            });
        }
        for attempt in 0..300 {
            let opened = Mapped::open(&path, small());
            if let Err(error) = opened {
                done.store(true, Ordering::Relaxed);
                panic!("attempt {attempt}: {error}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_read_only_pool_reaches_nothing() {
    let directory = block();
    let path = directory.path().join("pool");
    let memory = Mapped::create(&path, PAGE, small()).expect("create");
    memory.store(0, 1);
    memory.write_back(0, 8);
    memory.fence();
    drop(memory);
    let reader = Mapped::open_read_only(&path).expect("open");
    assert_eq!(reader.survives(), Survives::Nothing);
    assert_eq!(reader.load(0), 1);
    reader.store(0, 2);
    reader.write_back(0, 8);
    reader.fence();
    assert_eq!(reader.load(0), 2);
    assert!(reader.grow(2 * PAGE).is_err());
    drop(reader);
    assert_eq!(Mapped::open(&path, small()).expect("open").load(0), 1);
}

#[test]
fn growth_beyond_the_limit_or_the_disk_is_an_error() {
    let directory = block();
    let path = directory.path().join("pool");
    let options = MapOptions { domain: None, limit: 1 << 46 };
    let memory = Mapped::create(&path, PAGE, options).expect("create");
    assert_eq!(memory.grow((1 << 46) + 1).expect_err("refused").kind(), ErrorKind::OutOfMemory);
    let full = memory.grow(1 << 43).expect_err("no disk here is that large").kind();
    assert!(matches!(full, ErrorKind::StorageFull | ErrorKind::FileTooLarge), "{full:?}");
    assert_eq!(fs::metadata(&path).expect("metadata").len(), PAGE, "the space was given back");
    memory.grow(2 * PAGE).expect("a little more is still possible");
    assert_eq!(memory.len(), 2 * PAGE);
}

#[test]
fn a_file_of_odd_length_opens_by_whole_lines_and_grows_with_zeros() {
    for domain in [Domain::Media, Domain::Process] {
        let directory = block();
        let path = directory.path().join("pool");
        fs::write(&path, [9; PAGE as usize + 100]).expect("file");
        let options = MapOptions { domain: Some(domain), limit: 1 << 20 };
        let memory = Mapped::open(&path, options).expect("open");
        assert_eq!(memory.len(), PAGE + LINE);
        memory.store(PAGE, 1);
        memory.grow(3 * PAGE).expect("grow");
        let words = [PAGE, PAGE + LINE - 8, PAGE + LINE, PAGE + LINE + 32, 2 * PAGE];
        let nines = u64::from_ne_bytes([9; 8]);
        assert_eq!(words.map(|at| memory.load(at)), [1, nines, 0, 0, 0]);
        drop(memory);
        let memory = Mapped::open(&path, options).expect("open again");
        assert_eq!(words[1..].iter().map(|at| memory.load(*at)).max(), Some(nines));
        assert_eq!(words[2..].iter().map(|at| memory.load(*at)).max(), Some(0));
    }
}

#[test]
fn a_longer_file_than_the_limit_opens_whole() {
    let directory = block();
    let path = directory.path().join("pool");
    drop(Mapped::create(&path, 1 << 20, small()).expect("create"));
    let memory = Mapped::open(&path, MapOptions { domain: None, limit: 0 }).expect("open");
    assert_eq!((memory.len(), memory.limit()), (1 << 20, 1 << 20));
}

#[test]
fn a_sparse_copy_gets_its_space_back() {
    let directory = block();
    let path = directory.path().join("pool");
    let file = fs::File::create(&path).expect("file");
    file.set_len(1 << 20).expect("a file of holes");
    drop(file);
    let memory = Mapped::open(&path, small()).expect("open");
    assert_eq!(memory.load(0), 0);
    assert!(allocated(&path) >= 1 << 20);
}

fn allocated(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).expect("metadata").blocks() * 512
}

/// Blocks outside the file's contents: space beyond its end. They are included in the file's count.
#[test]
fn space_elsewhere_does_not_pass_for_the_contents() {
    use rustix::fs::{FallocateFlags, fallocate};
    const LEN: u64 = 1 << 20;
    let directory = block();
    let path = directory.path().join("pool");
    let file = fs::File::create(&path).expect("file");
    file.write_all_at(&[7; 4096], LEN / 2).expect("some data");
    file.set_len(LEN).expect("holes around it");
    fallocate(&file, FallocateFlags::KEEP_SIZE, LEN, 2 * LEN).expect("space beyond the end");
    assert!(allocated(&path) >= LEN, "the count of blocks says that nothing is missing");
    drop(file);
    let before = allocated(&path);
    let memory = Mapped::open(&path, small()).expect("open");
    assert!(allocated(&path) >= before + LEN - 3 * PAGE, "holes are left: {before}");
    assert_eq!([memory.load(0), memory.load(LEN / 2)], [0, 0x0707_0707_0707_0707]);
}

#[test]
fn tmpfs_emulates_persistent_memory_and_says_so() {
    let Some(directory) = in_memory() else { return };
    let memory = Mapped::create(directory.path().join("pool"), PAGE, small()).expect("create");
    assert_eq!(memory.backing(), Backing::Memory);
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        assert_eq!(memory.domain(), Domain::Transient);
        assert_ne!(memory.features().flush.to_string(), "none");
    }
    assert_eq!(memory.survives(), Survives::Process);
    assert!(
        memory.describe().contains("after a power failure: may be lost"),
        "{}",
        memory.describe()
    );
    assert!(memory.features().to_string().contains("hardware transactions"));
}

#[test]
fn stores_to_a_shared_mapping_are_in_the_page_cache() {
    let directory = block();
    let path = directory.path().join("pool");
    let options = MapOptions { domain: Some(Domain::Process), limit: 0 };
    let memory = Mapped::create(&path, PAGE, options).expect("create");
    memory.store(8, 4);
    // The page cache survives a process, and is what other descriptors read.
    assert_eq!(fs::read(&path).expect("read")[8..16], 4_u64.to_ne_bytes());
}

/// On every domain that the place offers: what is stored is seen, and neither written nor synced.
#[test]
fn an_unflushed_memory_grows_and_promises_nothing() {
    for directory in [Some(block()), in_memory()].into_iter().flatten() {
        let path = directory.path().join("pool");
        let options = MapOptions { domain: None, limit: 4 * PAGE };
        let memory = Mapped::create(&path, PAGE, options).expect("create");
        let domain = memory.domain();
        let memory = memory.unflushed();
        memory.grow(2 * PAGE).expect("grow");
        memory.stream(64, &[7; 8]);
        memory.store(PAGE, 9);
        memory.write_back(0, 2 * PAGE);
        memory.fence();
        assert_eq!([memory.load(72), memory.load(PAGE)], [7, 9]);
        assert_eq!((memory.domain(), memory.survives()), (domain, Survives::Nothing));
        assert_eq!((memory.syncs(), memory.pages_written()), (0, 0));
    }
}
