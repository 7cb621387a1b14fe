//! Opening, locking, growing and refusing.

mod common;

use common::{block, in_memory};
use perdura_memory::{Backing, Domain, LINE, MapError, MapOptions, Mapped, Memory, PAGE, Survives};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

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
fn what_cannot_be_opened_is_explained() {
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
    // Opened for reading, a directory is found out a step later, with the same answer.
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
fn what_cannot_be_created_is_explained() {
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
    assert!(matches!(error(Mapped::open(&path, small())), MapError::Locked(_)));
    drop(reader);
    Mapped::open(&path, small()).expect("the lock is gone with the reader");
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
    use std::os::unix::fs::MetadataExt;
    let directory = block();
    let path = directory.path().join("pool");
    let file = fs::File::create(&path).expect("file");
    file.set_len(1 << 20).expect("a file of holes");
    drop(file);
    let memory = Mapped::open(&path, small()).expect("open");
    assert_eq!(memory.load(0), 0);
    assert!(fs::metadata(&path).expect("metadata").blocks() * 512 >= 1 << 20);
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
    assert!(memory.describe().contains("in a power cut: may be lost"), "{}", memory.describe());
    assert!(memory.features().to_string().contains("hardware transactions"));
}

#[test]
fn stores_to_a_shared_mapping_are_in_the_page_cache() {
    let directory = block();
    let path = directory.path().join("pool");
    let options = MapOptions { domain: Some(Domain::Process), limit: 0 };
    let memory = Mapped::create(&path, PAGE, options).expect("create");
    memory.store(8, 4);
    // The page cache is what outlives a process, and what other descriptors read.
    assert_eq!(fs::read(&path).expect("read")[8..16], 4_u64.to_ne_bytes());
}
