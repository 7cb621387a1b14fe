//! A pool whose file is deleted, replaced, moved or cut short while it is open: nothing is acknowledged any more, and the
//! error says what happened, in the words of docs/errors.md.

use perdura::collections::Cell;
use perdura::{Domain, Error, Options, Pool, TxExt};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const TABLE: &str = include_str!("../../../../docs/errors.md");

fn commit(pool: &Pool) -> perdura::Result<()> {
    pool.session()?.transaction(|tx| tx.open_or_create::<Cell<u64>>("count")?.set(tx, 1))
}

/// The error of commits once the pool's own thread has looked.
fn failure(pool: &Pool) -> Error {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match commit(pool) {
            Err(error) => return error,
            Ok(()) => assert!(Instant::now() < deadline, "it commits for ever"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn deleted(path: &Path) {
    fs::remove_file(path).unwrap();
}

fn replaced(path: &Path) {
    let other = path.with_extension("other");
    fs::copy(path, &other).unwrap();
    fs::rename(other, path).unwrap();
}

fn moved(path: &Path) {
    fs::rename(path, path.with_extension("moved")).unwrap();
}

/// Beyond the memory touched here: the last page.
fn cut_short(path: &Path) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(fs::metadata(path).unwrap().len() - 4096).unwrap();
}

type Case = (fn(&Path), &'static str);

#[test]
fn nothing_is_acknowledged_on_a_file_that_is_lost() {
    let cases: [Case; 4] = [
        (deleted, "was deleted while the pool was open"),
        (replaced, "was replaced by another file while the pool was open"),
        (moved, "was moved away while the pool was open"),
        (cut_short, "was cut short while the pool was open"),
    ];
    for folder in [tempfile::tempdir().ok(), tempfile::tempdir_in("/dev/shm").ok()] {
        let Some(folder) = folder else { continue };
        for domain in [Domain::Media, Domain::Transient, Domain::Process] {
            for (index, (harm, words)) in cases.iter().enumerate() {
                let path = folder.path().join(format!("{domain}-{index}"));
                let options = Options::new().size(8 << 20).domain(Some(domain));
                let Ok(pool) = options.create(&path) else { continue };
                commit(&pool).unwrap();
                assert!(pool.failure().is_none());
                harm(&path);
                let error = failure(&pool);
                assert!(matches!(error, Error::Io(_)), "{error}");
                assert!(error.to_string().contains(words), "{domain}: {error}");
                assert!(TABLE.contains(words), "docs/errors.md does not have '{words}'");
                // The contents can still be read, and the pool is not said to be closed.
                let mut session = pool.session().unwrap();
                let count =
                    session.submit_read(|tx| tx.open_or_create::<Cell<u64>>("count")?.get(tx));
                assert_eq!(count.unwrap().0, 1);
                drop(session);
                pool.close().unwrap_err();
            }
        }
    }
}

/// It is noticed at the latest when the pool is closed.
#[test]
fn a_pool_without_its_file_is_not_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = Options::new().size(8 << 20).domain(Some(Domain::Process)).create(&path).unwrap();
    commit(&pool).unwrap();
    deleted(&path);
    let error = pool.close().unwrap_err();
    assert!(error.to_string().contains("was deleted"), "{error}");
}
