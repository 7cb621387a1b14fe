//! Mistakes that a program can make: each is an error at once, distinct from damage, and leaves the pool intact.

mod inside;
mod nested;
mod savepoints;
mod stale;
mod types;

use perdura::check::check;
use perdura::{EngineKind, Error, Options, Pool, Purpose, Root, Tx, TxExt};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

pub(super) fn options() -> Options {
    Options::new().size(16 << 20).log(1 << 20)
}

/// Runs `body` on a thread of its own, and fails if it hangs.
fn in_time(what: &str, body: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let runs = thread::spawn(move || {
        body();
        let _ = tell.send(());
    });
    let ended = told.recv_timeout(Duration::from_secs(30));
    assert!(!matches!(ended, Err(mpsc::RecvTimeoutError::Timeout)), "{what}: hangs");
    runs.join().unwrap_or_else(|_| panic!("{what}"));
}

fn pool_on(engine: EngineKind, path: &Path) -> Pool {
    options().engine(engine).create(path).expect("a pool")
}

/// Runs `test` on a pool of each engine, and checks afterwards that the pool is intact.
pub(super) fn on_every_engine(test: impl Fn(&Pool)) {
    let folder = tempfile::tempdir().expect("a folder");
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.rolls_back()) {
        let path = folder.path().join(format!("{engine}.pool"));
        let pool = pool_on(engine, &path);
        // There is a root of a kind that the check does not know: no block is counted as leaked.
        let mut handle = pool.session().expect("a session");
        let root = |tx: &mut dyn Tx| {
            let at = tx.new_bytes(Purpose::General, b"own")?;
            tx.set_root("own", Root { at, kind: 1000 })
        };
        handle.transaction(|tx| root(tx)).expect("a root");
        drop(handle);
        test(&pool);
        pool.close().expect("a pool that can be closed");
        let report = check(&path, &|_, _, _| Ok(false)).expect("a pool that can be checked");
        assert!(report.is_whole(), "{engine}: {:?}", report.problems);
    }
}

#[track_caller]
fn is_misuse<T: std::fmt::Debug>(result: &perdura::Result<T>) {
    let error = result.as_ref().expect_err("a mistake");
    assert!(error.is_misuse() && !error.is_damage() && !error.is_full(), "{error:?}");
    assert!(!error.to_string().contains("the pool is damaged"), "{error}");
}

#[track_caller]
fn is_damage<T: std::fmt::Debug>(result: &perdura::Result<T>) {
    let error = result.as_ref().expect_err("damage");
    assert!(matches!(error, Error::Corrupt { .. }) && error.is_damage(), "{error:?}");
    assert!(!error.is_misuse() && error.to_string().contains("the pool is damaged"), "{error}");
}
