//! Two nested transactions of one thread on one pool: the thread would wait for itself.

use super::{in_time, on_every_engine, options};
use perdura::{Engine, Error, Handle, Heap, Mode, Pool, Purpose, TxExt, Visitor};
use perdura_memory::Mapped;
use std::thread;

/// Every way into a transaction on another handle is refused.
fn refuses(handle: &mut Handle) {
    let nested = |result: perdura::Result<()>| assert!(matches!(result, Err(Error::Nested)));
    nested(handle.transaction(|_| Ok(())));
    nested(handle.read(|_| Ok(())));
    nested(handle.submit(|_| Ok(())).map(drop));
    nested(handle.submit_read(|_| Ok(())).map(drop));
    nested(handle.begin(Mode::Write));
    nested(handle.begin(Mode::Read));
    nested(handle.wait(perdura::Ticket(0)));
}

/// A session made from the heap, and the heap's own calls.
struct ByHeap;

impl Visitor for ByHeap {
    type Output = ();

    fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) {
        let mut session = heap.session().expect("a session");
        assert!(matches!(session.transaction(|_| Ok(())), Err(Error::Nested)), "{}", E::NAME);
        assert!(matches!(session.read(|_| Ok(())), Err(Error::Nested)), "{}", E::NAME);
        assert!(matches!(heap.checkpoint(), Err(Error::Nested)), "{}", E::NAME);
        assert!(matches!(heap.empty_log(), Err(Error::Nested)), "{}", E::NAME);
        assert!(matches!(heap.flush_due(), Err(Error::Nested)), "{}", E::NAME);
    }
}

fn refuses_all(pool: &Pool, other: &mut Handle) -> perdura::Result<()> {
    refuses(other);
    refuses(&mut pool.clone().session()?);
    pool.visit(ByHeap);
    Ok(())
}

/// It works again.
fn works(handle: &mut Handle) {
    handle.transaction(|tx| tx.new_bytes(Purpose::General, &[1; 8])).expect("a transaction");
    let ticket = handle.submit(|_| Ok(())).expect("a transaction").1;
    handle.wait(ticket).expect("a wait");
    handle.begin(Mode::Write).expect("a transaction");
    handle.commit().expect("a commit");
}

#[test]
fn one_inside_of_the_other_is_refused_at_once() {
    in_time("a nested transaction", || {
        on_every_engine(|pool| {
            let (mut outer, mut inner) = (pool.session().unwrap(), pool.session().unwrap());
            outer.transaction(|_| refuses_all(pool, &mut inner)).unwrap();
            works(&mut inner);
            outer.read(|_| refuses_all(pool, &mut inner)).unwrap();
            works(&mut inner);
            for mode in [Mode::Read, Mode::Write] {
                outer.begin(mode).unwrap();
                refuses_all(pool, &mut inner).unwrap();
                outer.within(|_| refuses_all(pool, &mut inner)).unwrap();
                outer.commit().unwrap();
                works(&mut inner);
                outer.begin(mode).unwrap();
                outer.abort();
                works(&mut inner);
            }
            let failed = outer.transaction(|tx| tx.abort::<()>("on purpose"));
            assert!(failed.is_err());
            works(&mut inner);
            let panics = std::panic::AssertUnwindSafe(|| {
                let _ = outer.transaction(|_| -> perdura::Result<()> { panic!("planned") });
            });
            assert!(std::panic::catch_unwind(panics).is_err());
            works(&mut inner);
        });
    });
}

#[test]
fn other_pools_and_other_threads_are_not_meant() {
    in_time("a nested transaction", || {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| options().create(folder.path().join(name)).unwrap());
        let mut on_a = a.session().unwrap();
        on_a.transaction(|_| {
            let mut on_b = b.session()?;
            works(&mut on_b);
            on_b.transaction(|_| {
                refuses(&mut a.session()?);
                refuses(&mut b.session()?);
                Ok(())
            })?;
            works(&mut on_b);
            refuses(&mut a.session()?);
            Ok(())
        })
        .unwrap();
        works(&mut a.session().unwrap());
        on_a.read(|_| {
            let a = a.clone();
            let reads = thread::spawn(move || a.session()?.read(|_| Ok(())));
            reads.join().expect("no panic")
        })
        .unwrap();
    });
}

/// A transaction begun by a call belongs to the thread that used it last.
#[test]
fn a_transaction_may_be_given_to_another_thread() {
    in_time("a nested transaction", || {
        on_every_engine(|pool| {
            let mut handle = pool.session().unwrap();
            handle.begin(Mode::Write).unwrap();
            refuses(&mut pool.session().unwrap());
            let also = pool.clone();
            let ends = thread::spawn(move || {
                handle.within(|tx| tx.new_bytes(Purpose::General, &[2; 8])).unwrap();
                refuses(&mut also.session().unwrap());
                handle.commit().unwrap();
                works(&mut handle);
                handle.begin(Mode::Read).unwrap();
                handle
            });
            let mut handle = ends.join().expect("no panic");
            // The transaction comes back: with another open here, its commit would be waited for.
            let mut own = pool.session().unwrap();
            own.begin(Mode::Read).unwrap();
            assert!(matches!(handle.within(|_| Ok(())), Err(Error::Nested)));
            assert!(matches!(handle.commit(), Err(Error::Nested)));
            own.commit().unwrap();
            handle.abort();
            works(&mut handle);
            works(&mut own);
        });
    });
}

/// Dropping the last handle of a pool inside another handle's transaction does not wait either.
#[test]
fn a_pool_that_is_dropped_inside_waits_for_nothing() {
    struct Erased;
    impl Visitor for Erased {
        type Output = perdura::AnySession;

        fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> perdura::AnySession {
            heap.session().expect("a session").erased()
        }
    }
    in_time("a nested transaction", || {
        let folder = tempfile::tempdir().unwrap();
        for engine in perdura::EngineKind::ALL {
            let path = folder.path().join(engine.name());
            let mut pool = Some(options().engine(engine).create(&path).unwrap());
            let mut session = pool.as_ref().unwrap().visit(Erased);
            session
                .transaction(|_| {
                    drop(pool.take());
                    Ok(())
                })
                .unwrap();
        }
    });
}
