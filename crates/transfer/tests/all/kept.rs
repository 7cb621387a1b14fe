//! A pool that was made once, and is kept: a change that makes it unreadable, or alters its data, is noticed.
//!
//! A change of the pool's format has a new version, and a new file:
//!
//!     PERDURA_RENEW_KEPT=1 cargo test -p perdura-transfer --test all kept::
//!
//! The old file then goes with the version that it is of. A file here is the pool's length, then each line of 64 bytes
//! that is not zero, with its number before it: most of its lines are zero.

use crate::common::*;
use perdura::superblock::VERSION;
use perdura::{EngineKind, Options, Pool};
use perdura_transfer::export::plan;
use perdura_transfer::{Form, Target, copy, copy_pages, export, import};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

const LINE: usize = 64;
const ENTRIES: u64 = 30;
/// Members and fields, and keys besides seven.
const KEYSPACE: (usize, usize) = (90, 5);

fn kept() -> PathBuf {
    let name = format!("tests/kept/pool-{VERSION}.lines");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn fill(pool: &Pool) {
    fill_some_collections(pool, ENTRIES);
    let stream = some_commands(KEYSPACE.0, KEYSPACE.1);
    let mut handle = pool.session().expect("a session");
    perdura_server::transfer::import(&mut stream.as_slice(), &mut handle, &mut on)
        .expect("a keyspace");
}

fn packed(pool: &[u8]) -> Vec<u8> {
    let mut packed = (pool.len() as u32).to_le_bytes().to_vec();
    for (number, line) in pool.chunks(LINE).enumerate() {
        if line.iter().any(|byte| *byte != 0) {
            packed.extend_from_slice(&(number as u32).to_le_bytes());
            packed.extend_from_slice(line);
        }
    }
    packed
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize;
    let mut pool = vec![0; number(&packed[..4])];
    for part in packed[4..].chunks(4 + LINE) {
        let at = number(&part[..4]) * LINE;
        pool[at..at + LINE].copy_from_slice(&part[4..]);
    }
    pool
}

/// The pool that is kept, in a folder of its own.
fn found() -> (TempDir, PathBuf) {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("pool");
    if std::env::var_os("PERDURA_RENEW_KEPT").is_some() {
        let options = Options::new().engine(EngineKind::Redo).size(2 << 20).log(72 << 10);
        let pool = options.create(&path).expect("a pool");
        fill(&pool);
        pool.close().expect("a clean end");
        // A copy has nothing in its log.
        let bare = folder.path().join("bare");
        copy_pages(&source(&path), &Target::new(&bare), &mut on).expect("a copy");
        let bytes = packed(&fs::read(&bare).expect("the pool"));
        fs::create_dir_all(kept().parent().expect("a folder")).expect("a folder");
        fs::write(kept(), bytes).expect("the file");
    }
    let packed = fs::read(kept()).unwrap_or_else(|error| {
        panic!(
            "there is no pool of version {VERSION} among those that are kept ({error}): \
             PERDURA_RENEW_KEPT=1 cargo test -p perdura-transfer --test all kept::"
        )
    });
    fs::write(&path, unpacked(&packed)).expect("the pool");
    (folder, path)
}

#[test]
fn a_pool_that_was_made_once_is_read() {
    let (folder, path) = found();
    let fresh = folder.path().join("fresh");
    let pool = create(&fresh, EngineKind::Redo);
    fill(&pool);
    drop(pool);
    let expected = keyspace(&fresh);
    check(&path);
    assert_eq!(keyspace(&path), expected);
    let copied = folder.path().join("copy");
    copy(&source(&path), &Target::new(&copied), &mut on).expect("a copy");
    for form in [Form::Resp, Form::Json] {
        let source = source(&path);
        let (roots, form) = plan(&source, Some(form)).expect("data");
        let mut bytes = Vec::new();
        export(&source, (&roots, form), &mut bytes, &mut on).expect("an export");
        let target = Target::new(folder.path().join(format!("{form:?}"))).size(Some(8 << 20));
        import(&mut bytes.as_slice(), &target, &mut on).expect("an import");
    }
    assert_eq!(keyspace(&copied), expected);
    assert_eq!(keyspace(&folder.path().join("Resp")), expected);
    for name in ["pool", "copy", "Json"] {
        let pool = Options::new().open(folder.path().join(name)).expect("a pool");
        check_some_collections(&pool, ENTRIES);
    }
}
