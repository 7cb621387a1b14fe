//! Calls on a pool by a thread that is inside a transaction on it: refused, or done, but never waiting forever.

use super::in_time;
use perdura::{Counters, EngineKind, Error, Mode, Options, Pool, Purpose, TxExt};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn refuses_to_wait(pool: &Pool) -> perdura::Result<()> {
    assert!(matches!(pool.checkpoint(), Err(Error::Nested)), "{}", pool.engine());
    assert!(matches!(pool.clone().close(), Err(Error::Nested)), "{}", pool.engine());
    // These wait for no transaction.
    assert!(pool.counters().commits < 100 && pool.info().usage.free_page_bytes > 0);
    pool.session().map(drop)
}

fn with_pool(engine: EngineKind, body: impl FnOnce(Pool) + Send + 'static) {
    in_time(&engine.to_string(), move || {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().size(8 << 20).engine(engine);
        let pool = options.create(folder.path().join("a.pool")).unwrap();
        let mut handle = pool.session().unwrap();
        // With an engine that groups commits, a group that is not written yet.
        handle.submit(|tx| tx.new_bytes(Purpose::General, &[1; 8])).unwrap();
        drop(handle);
        body(pool);
    });
}

#[test]
fn a_pool_does_not_wait_for_the_calling_threads_own_transaction() {
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.rolls_back()) {
        with_pool(engine, |pool| {
            let mut handle = pool.session().unwrap();
            handle.read(|_| refuses_to_wait(&pool)).unwrap();
            pool.checkpoint().unwrap();
            handle.transaction(|_| refuses_to_wait(&pool)).unwrap();
            handle.submit(|tx| tx.new_bytes(Purpose::General, &[2; 8])).unwrap();
            handle.submit_read(|_| refuses_to_wait(&pool)).unwrap();
            let failed = handle.transaction(|tx| tx.abort::<()>("on purpose"));
            assert!(failed.is_err());
            pool.checkpoint().unwrap();
            for mode in [Mode::Read, Mode::Write] {
                handle.begin(mode).unwrap();
                refuses_to_wait(&pool).unwrap();
                handle.within(|_| refuses_to_wait(&pool)).unwrap();
                refuses_to_wait(&pool).unwrap();
                handle.commit().unwrap();
                pool.checkpoint().unwrap();
                handle.begin(mode).unwrap();
                assert!(handle.within(|tx| tx.abort::<()>("on purpose")).is_err());
                refuses_to_wait(&pool).unwrap();
                assert!(handle.commit().is_err());
                pool.checkpoint().unwrap();
                handle.begin(mode).unwrap();
                handle.abort();
                pool.checkpoint().unwrap();
                handle.begin(mode).unwrap();
                let panics =
                    std::panic::AssertUnwindSafe(|| handle.within::<()>(|_| panic!("planned")));
                assert!(std::panic::catch_unwind(panics).is_err());
                pool.checkpoint().unwrap();
                let mut other = pool.session().unwrap();
                other.begin(mode).unwrap();
                drop(other);
                pool.checkpoint().unwrap();
            }
            drop(handle);
            pool.close().unwrap();
        });
    }
}

/// Another thread's transaction is waited for, if need be, and causes no refusal.
#[test]
fn a_pool_waits_for_other_threads_transactions() {
    for engine in EngineKind::ALL {
        with_pool(engine, |pool| {
            let (inside, is_inside) = mpsc::channel();
            let other = pool.clone();
            let reads = thread::spawn(move || {
                let mut handle = other.session().unwrap();
                let read = handle.read(|_| {
                    inside.send(()).unwrap();
                    thread::sleep(Duration::from_millis(30));
                    Ok(())
                });
                read.unwrap();
            });
            is_inside.recv().unwrap();
            pool.checkpoint().unwrap();
            assert_ne!(pool.counters(), Counters::default());
            reads.join().unwrap();
        });
    }
}
