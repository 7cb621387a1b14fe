//! A forked child cannot use its parent's pool, whatever the engine, and harms nothing: with both living, the child
//! killed, and the parent killed. A program of its own, since children keep all pools of their process in use.

#![allow(missing_docs)]

use perdura::collections::Cell;
use perdura::{Domain, EngineKind, Error, Mode, OpenError, Options, Pool, Purpose, Tx, TxExt};
use perdura_memory::MapError;
use perdura_memory::mapped::forking::Child;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const COMMITS: u64 = 10;

/// One test at a time has pools open, and children.
static ALONE: Mutex<()> = Mutex::new(());

fn engines() -> impl Iterator<Item = (EngineKind, Domain)> {
    let domains = [Domain::Media, Domain::Process, Domain::Transient];
    EngineKind::ALL.into_iter().flat_map(move |engine| domains.map(|domain| (engine, domain)))
}

fn open(path: &Path, engine: EngineKind, domain: Domain) -> Option<Pool> {
    Options::new().size(8 << 20).engine(engine).domain(Some(domain)).open_or_create(path).ok()
}

fn count(tx: &mut dyn Tx) -> perdura::Result<u64> {
    let cell = tx.open_or_create::<Cell<u64>>("count")?;
    let count = cell.get(tx)? + 1;
    cell.set(tx, count)?;
    // Also memory that bypasses the log.
    let fresh = tx.allocate(Purpose::Value, 8000)?;
    tx.write_fresh(fresh, 0, &[count as u8; 8000])?;
    tx.free(fresh.at())?;
    Ok(count)
}

fn forked<T>(result: perdura::Result<T>) -> bool {
    matches!(result, Err(Error::Forked))
}

/// Everything that a child can call; the number of the first call that was not refused.
fn try_all(pool: &Pool, session: &mut perdura::Handle, ticket: perdura::Ticket) -> u8 {
    let refused = [
        forked(session.transaction(|tx| count(tx))),
        forked(session.submit(|tx| count(tx))),
        forked(session.read(|tx| tx.root("count").map(drop))),
        forked(session.begin(Mode::Write)),
        forked(session.wait(ticket)),
        forked(pool.session().map(drop)),
        forked(pool.checkpoint()),
        forked(pool.release_some()),
        forked(pool.release_all()),
        matches!(pool.failure(), Some(Error::Forked)),
        pool.compact(1).is_none(),
        perdura::Memory::grow(pool.memory(), 1 << 30).is_err(),
        forked(pool.clone().close()),
    ];
    refused.iter().position(|refused| !refused).map_or(0, |first| first as u8 + 1)
}

#[test]
fn a_forked_child_is_refused_and_harms_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    for (engine, domain) in engines() {
        let path = folder.path().join(format!("{engine}-{domain}"));
        let Some(pool) = open(&path, engine, domain) else { continue };
        let mut session = pool.session().unwrap();
        let (_, ticket) = session.submit(|tx| count(tx)).unwrap();
        let (both, killed) = (pool.clone(), pool.clone());
        let mut inherited = pool.session().unwrap();
        let child = Child::run(move || {
            let status = try_all(&both, &mut inherited, ticket);
            drop((inherited, both));
            status
        });
        // The parent goes on meanwhile, and beside one that is killed.
        for _ in 0..COMMITS {
            session.transaction(|tx| count(tx)).unwrap();
        }
        assert_eq!(child.unwrap().wait(), Some(0), "{engine}, {domain}");
        let mut inherited = pool.session().unwrap();
        let child = Child::run(move || {
            loop {
                let _ = (inherited.transaction(|tx| count(tx)), killed.checkpoint());
            }
        });
        let child = child.unwrap();
        for _ in 0..COMMITS {
            session.transaction(|tx| count(tx)).unwrap();
        }
        child.kill();
        assert_eq!(child.wait(), None);
        drop(session);
        pool.close().unwrap();
        check(&path, engine, domain, 1 + 2 * COMMITS);
    }
}

fn check(path: &Path, engine: EngineKind, domain: Domain, commits: u64) {
    let pool = open(path, engine, domain).unwrap();
    let mut session = pool.session().unwrap();
    let count = session.read(|tx| tx.open_or_create::<Cell<u64>>("count")?.get(tx)).unwrap();
    assert_eq!(count, commits, "{engine}, {domain}");
    drop(session);
    pool.close().unwrap();
}

/// A transaction that is open at the fork is the parent's: the child can neither go on with it nor commit it.
#[test]
fn an_open_transaction_stays_the_parents() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    for (engine, domain) in engines() {
        let path = folder.path().join(format!("{engine}-{domain}"));
        let Some(pool) = open(&path, engine, domain) else { continue };
        let mut session = pool.session().unwrap();
        session.transaction(|tx| count(tx)).unwrap();
        for goes_on in [false, true] {
            session.begin(Mode::Write).unwrap();
            session.within(count).unwrap();
            let child = Child::run(|| {
                let went_on = goes_on && !forked(session.within(count));
                let committed = match goes_on {
                    true => session.commit().is_ok(),
                    false => !forked(session.commit()),
                };
                u8::from(went_on) + 2 * u8::from(committed)
            });
            assert_eq!(child.unwrap().wait(), Some(0), "{engine}, {domain}, {goes_on}");
            session.commit_awaited().unwrap();
        }
        // In a closure: the child's error reaches its caller.
        let mut child = None;
        let done = session.transaction(|tx| {
            let value = count(tx)?;
            child = Some(Child::run(|| u8::from(!forked(count(tx)) && count(tx).is_ok())).unwrap());
            Ok(value)
        });
        assert_eq!((done.unwrap(), child.unwrap().wait()), (4, Some(0)), "{engine}, {domain}");
        drop(session);
        pool.close().unwrap();
        check(&path, engine, domain, 4);
    }
}

/// The parent dies, and its child lives on: the pool is in use until the child ends, and then has every acknowledged
/// commit.
#[test]
fn a_childs_life_keeps_the_pool_in_use() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let consistent = engines().filter(|(engine, _)| engine.is_crash_consistent());
    for (engine, domain) in consistent.filter(|(_, domain)| *domain == Domain::Transient) {
        let path = folder.path().join(format!("{engine}-{domain}"));
        if open(&path, engine, domain).is_none() {
            continue;
        }
        let ((go_read, mut go), (mut said, said_write)) =
            (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let parent = Child::run(|| {
            let pool = open(&path, engine, domain).unwrap();
            let mut session = pool.session().unwrap();
            let child = Child::run(|| {
                // Until the test lets it go.
                let _ = (&go_read).read(&mut [0]);
                u8::from(forked(pool.checkpoint()))
            });
            for _ in 0..COMMITS {
                session.transaction(|tx| count(tx)).unwrap();
            }
            (&said_write).write_all(&[u8::from(child.is_ok())]).unwrap();
            loop {
                std::thread::park();
            }
        });
        let (parent, mut byte) = (parent.unwrap(), [0]);
        said.read_exact(&mut byte).unwrap();
        parent.kill();
        assert_eq!((parent.wait(), byte), (None, [1]));
        let error = Options::new().open(&path).err().expect("its child lives");
        assert!(matches!(error, OpenError::Map(MapError::Locked(_))), "{error}");
        assert!(error.to_string().contains("forked"), "{error}");
        go.write_all(&[1]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while Options::new().open(&path).is_err() {
            assert!(Instant::now() < deadline, "{engine}, {domain}: still in use");
        }
        check(&path, engine, domain, COMMITS);
    }
}
