//! Databases of SQLite: files with write-ahead logs that are imported into a pool, and databases in a pool whose
//! structure is damaged. An error, or a database that goes out as it came in.

use crate::Target;
use perdura::check::check;
use perdura::{Domain, Options, Pool, Root};
use perdura_sqlite::copy::{export, import};
use perdura_sqlite::{check_root, databases};
use std::path::Path;
use std::sync::LazyLock;
use tempfile::tempdir;

pub(crate) const SQLITE: Target =
    Target { name: "sqlite", run, seeds, words: &["SQLite format 3"] };

/// Bytes of a page of the seeds.
const UNIT: usize = 512;
/// The bytes of an edit: a place, a kind, and a word.
const EDIT: usize = 12;
/// A damaged length may be a large one that the tree bears out: to export it would only take time.
const LONGEST: u64 = 1 << 26;

fn options() -> Options {
    Options::new().size(4 << 20).log(64 << 10).domain(Some(Domain::Process))
}

fn run(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0..128, file)) => come_and_go(file),
        Some((_, edits)) => damage(edits),
        None => {}
    }
}

/// The first bytes are the length of the database's file; the rest of the others is its log.
fn come_and_go(bytes: &[u8]) {
    let Some((length, bytes)) = bytes.split_first_chunk() else { return };
    let (file, log) = bytes.split_at(bytes.len().min(u32::from_le_bytes(*length) as usize));
    let folder = tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("old"), file).expect("room");
    if !log.is_empty() {
        std::fs::write(path("old-wal"), log).expect("room");
    }
    let pool = options().create(path("pool")).expect("a pool");
    match import(&pool, "main", &path("old")) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(moved) => {
            let first = exported(&pool, "main", &path("first"));
            assert_eq!(first.len() as u64, moved.bytes);
            assert_eq!(first[18..20], [1, 1], "it needs no log");
            let again = import(&pool, "again", &path("first")).expect("room");
            assert_eq!((again.bytes, again.from_wal), (moved.bytes, 0));
            assert!(exported(&pool, "again", &path("second")) == first);
        }
    }
    drop(pool);
    is_whole(&path("pool"));
}

fn exported(pool: &Pool, name: &str, to: &Path) -> Vec<u8> {
    export(pool, name, to).expect("to export");
    std::fs::read(to).expect("the export")
}

fn is_whole(pool: &Path) {
    let report = check(pool, &check_root).expect("a pool");
    assert!(report.is_whole(), "{:?}", report.problems);
    assert_eq!(report.unreachable, Some(0));
}

/// A pool with a database, and with a list of pages that an import has replaced.
static POOL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let pool = options().create(path("pool")).expect("a pool");
    std::fs::write(path("old"), database(700)).expect("room");
    import(&pool, "main", &path("old")).expect("a database");
    drop(pool);
    std::fs::read(path("pool")).expect("the pool")
});

/// Each edit changes a word of the header, of the tree, or of a page.
fn damage(edits: &[u8]) {
    let folder = tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("pool"), &*POOL).expect("room");
    let pool = options().open(path("pool")).expect("a pool");
    let mut session = pool.session().expect("a session");
    let edited = session.transaction(|tx| {
        let Some(Root { at, .. }) = tx.root("sqlite:main")? else { return Ok(()) };
        let tree = tx.read_word(at + 24)?;
        for edit in edits.chunks_exact(EDIT).take(16) {
            let place = u64::from(u16::from_le_bytes([edit[1], edit[2]]));
            let word = match edit[0] % 3 {
                0 => at + place % 6 * 8,
                1 => tree + place % 512 * 8,
                _ => tx.read_word(tree).unwrap_or(tree) + place % 64 * 8,
            };
            let value = u64::from_le_bytes(edit[4..].try_into().expect("eight bytes"));
            let value = match edit[3] % 4 {
                0 => value,
                1 => tx.read_word(word)? ^ value,
                2 => tx.read_word(word)?.wrapping_add(value),
                // A cycle, or a node that has another kind.
                _ => [at, tree, word][value as usize % 3],
            };
            tx.write_word(word, value)?;
        }
        Ok(())
    });
    // Not each place is one where anything may be written.
    let _ = edited;
    let listed = databases(&pool);
    let root = session.read(|tx| tx.root("sqlite:main"));
    if let Ok(Some(root)) = root {
        let _ = session.read(|tx| check_root(tx, root, &mut |_| Ok(())));
    }
    drop(session);
    if listed.is_ok_and(|listed| listed.iter().all(|(_, length)| *length <= LONGEST)) {
        let _ = export(&pool, "main", &path("new"));
    }
    drop(pool);
    let _ = check(&path("pool"), &check_root).map(|report| report.is_whole());
}

/// A file of so many pages: a header, and other bytes.
fn database(pages: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..pages * UNIT).map(|at| (at / UNIT + at) as u8).collect();
    bytes[..16].copy_from_slice(b"SQLite format 3\0");
    bytes[16..20].copy_from_slice(&[(UNIT >> 8) as u8, 0, 2, 2]);
    bytes
}

/// A write-ahead log of frames, each with its page and the length after its transaction, or 0.
fn log(magic: u32, frames: &[(u32, u32)]) -> Vec<u8> {
    let sum = |(mut a, mut b): (u32, u32), bytes: &[u8]| {
        for pair in bytes.chunks_exact(8) {
            let word = |at: usize| {
                let word = pair[at..at + 4].try_into().expect("four bytes");
                if magic & 1 == 0 { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) }
            };
            a = a.wrapping_add(word(0)).wrapping_add(b);
            b = b.wrapping_add(word(4)).wrapping_add(a);
        }
        (a, b)
    };
    let mut log = Vec::new();
    for word in [magic, 3_007_000, UNIT as u32, 0, 7, 8] {
        log.extend(word.to_be_bytes());
    }
    let mut sums = sum((0, 0), &log);
    log.extend([sums.0, sums.1].map(u32::to_be_bytes).concat());
    for (page, count) in frames {
        let head = [*page, *count].map(u32::to_be_bytes).concat();
        let data = [*page as u8; UNIT];
        sums = sum(sum(sums, &head), &data);
        log.extend(&head);
        log.extend([7, 8, sums.0, sums.1].map(u32::to_be_bytes).concat());
        log.extend(data);
    }
    log
}

fn seeds() -> Vec<Vec<u8>> {
    let file = |database: &[u8], log: &[u8]| {
        [&[0], &(database.len() as u32).to_le_bytes()[..], database, log].concat()
    };
    let mut edits = vec![128];
    for (of, place, how, value) in
        [(0, 1, 0, 4096), (0, 4, 2, 1), (1, 3, 3, 1), (1, 0, 1, 8), (2, 9, 3, 0)]
    {
        edits.extend([of, place, 0, how]);
        edits.extend(u64::to_le_bytes(value));
    }
    vec![
        file(&database(1), &[]),
        file(&database(40), &[]),
        file(&database(3), &log(0x377f_0682, &[(2, 0), (4, 4), (3, 5), (5, 5), (1, 0)])),
        file(&database(2), &log(0x377f_0683, &[(3, 3), (2, 2)])),
        edits.clone(),
        edits[..13].to_vec(),
    ]
}
