//! The engine `plain`: it stores and nothing else, and reports when it would have to roll something back.

use crate::ram;
use perdura_engine::area::SMALLEST;
use perdura_engine::{
    Access, Engine, Error, Mark, Mode, PlainEngine, Result, SeqEngine, Session, Ticket, Volatile,
};
use perdura_memory::{AnyMemory, Domain, Memory, Reference};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOG: u64 = SMALLEST;
const DATA: u64 = LOG;
const LEN: u64 = LOG + (1 << 16);

type Plain = PlainEngine<AnyMemory>;

fn started() -> (Arc<AnyMemory>, Arc<Plain>) {
    let memory = Arc::new(ram(LEN));
    Plain::format(&memory, 0..LOG);
    let engine = Plain::start(memory.clone(), 0..LOG).expect("an area");
    (memory, engine)
}

fn put(session: &mut impl Session, at: u64, value: u64) -> Result<Ticket> {
    session.begin(Mode::Write);
    session.write_word(at, value)?;
    session.commit_awaited()
}

#[test]
fn stores_in_place() {
    let (memory, engine) = started();
    let mut session = engine.session().unwrap();
    session.begin(Mode::Write);
    session.write_word(DATA, 5).unwrap();
    assert_eq!((memory.load(DATA), session.read_word(DATA).unwrap()), (5, 5));
    session.write_bytes(DATA + 9, &[7; 3]).unwrap();
    session.write_bytes(DATA + 60, &[8; 200]).unwrap();
    session.write_fresh(DATA + 1024, &[9; 300]).unwrap();
    let ticket = session.commit().unwrap();
    assert!(session.is_durable(ticket));
    let mut bytes = [0; 300];
    memory.copy_out(DATA + 9, &mut bytes[..4]);
    assert_eq!(bytes[..4], [7, 7, 7, 0]);
    memory.copy_out(DATA + 60, &mut bytes);
    assert_eq!((bytes[199], bytes[200]), (8, 0));
    assert_eq!(session.counters().commits, 1);
    engine.checkpoint().unwrap();
}

/// Threads that count: the lock is the same as in the other engines.
#[test]
fn transactions_are_isolated() {
    let (memory, engine) = started();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut session = engine.session().unwrap();
                for _ in 0..5_000 {
                    session.begin(Mode::Write);
                    let value = session.read_word(DATA).unwrap();
                    session.write_word(DATA, value + 1).unwrap();
                    session.write_word(DATA + 512, value + 1).unwrap();
                    session.commit().unwrap();
                    session.begin(Mode::Read);
                    let both = [DATA, DATA + 512].map(|at| session.read_word(at).unwrap());
                    assert_eq!(both[0], both[1]);
                    session.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(memory.load(DATA), 20_000);
}

/// A transaction that ends without a commit and has stored nothing has done no harm.
#[test]
fn empty_rollback() {
    let (_, engine) = started();
    let mut session = engine.session().unwrap();
    put(&mut session, DATA, 1).unwrap();
    for mode in [Mode::Read, Mode::Write] {
        session.begin(mode);
        session.abort();
        session.begin(mode);
        session.begin(mode);
        let mut other = engine.session().unwrap();
        other.begin(mode);
        drop(other);
    }
    session.begin(Mode::Write);
    session.write_word(DATA, 2).unwrap();
    let mark = session.mark();
    session.rollback_to(mark);
    session.rollback_to(Mark(usize::MAX));
    session.write_fresh(DATA + 1024, &[9; 300]).unwrap();
    session.rollback_to(mark);
    session.commit().unwrap();
    put(&mut session, DATA, 3).unwrap();
    engine.checkpoint().unwrap();
}

/// However a transaction that has stored is rolled back: nothing is committed from then on, nor reported as durable.
#[test]
fn after_a_rollback_of_what_has_stored_nothing_is_committed() {
    type Ending = fn(&Arc<Plain>, <Plain as Engine<AnyMemory>>::Session);
    let endings: [(&str, Ending); 6] = [
        ("an abort", |_, mut session| session.abort()),
        ("a second beginning", |_, mut session| session.begin(Mode::Read)),
        ("a session that ends", |_, session| drop(session)),
        ("a panic", |_, session| {
            let panics = AssertUnwindSafe(move || {
                let _session = session;
                std::panic::resume_unwind(Box::new("as planned"));
            });
            assert!(catch_unwind(panics).is_err());
        }),
        ("a rollback to the beginning", |_, mut session| {
            session.rollback_to(Mark(0));
            assert!(session.commit().is_err());
        }),
        ("a rollback to a mark", |_, mut session| {
            let mark = session.mark();
            session.write_bytes(DATA + 8, &[1; 100]).unwrap();
            session.rollback_to(mark);
            assert!(session.commit_awaited().is_err());
        }),
    ];
    for (what, end) in endings {
        let (memory, engine) = started();
        let mut session = engine.session().unwrap();
        session.begin(Mode::Write);
        session.write_word(DATA, 1).unwrap();
        end(&engine, session);
        let mut other = engine.session().unwrap();
        let refused = |result: Result<Ticket>| match result {
            Err(Error::Invalid(text)) => {
                assert!(text.contains("'plain' and 'seq' cannot undo"), "{text}")
            }
            other => panic!("{what}: {other:?}"),
        };
        refused(put(&mut other, DATA, 2));
        other.abort();
        assert_eq!(memory.load(DATA), 1, "{what}: nothing more is stored");
        other.begin(Mode::Write);
        assert!(
            other.write_bytes(DATA, &[3; 100]).is_err() && other.write_fresh(DATA, &[3]).is_err()
        );
        refused(other.commit());
        other.begin(Mode::Read);
        refused(other.commit());
        refused(engine.checkpoint().map(|()| Ticket(0)));
        // Others are not kept waiting.
        let mut third = engine.session().unwrap();
        third.begin(Mode::Write);
        third.abort();
    }
}

/// Only a clean close makes anything durable, as with `volatile`.
#[test]
fn a_checkpoint_makes_everything_durable() {
    fn run<E: Engine<Reference>>(domain: Domain) {
        let memory = Arc::new(Reference::new(LEN, domain));
        E::format(&memory, 0..LOG);
        let engine = E::start(memory.clone(), 0..LOG).unwrap();
        let mut session = engine.session().unwrap();
        (0..50).for_each(|word| _ = put(&mut session, DATA + word * 72, word).unwrap());
        engine.checkpoint().unwrap();
        let left =
            Reference::from_image(&memory.power_cut(perdura_memory::reference::Cut::None), domain);
        assert!((0..50).all(|word| left.load(DATA + word * 72) == word), "{} on {domain}", E::NAME);
    }
    for domain in [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process] {
        run::<PlainEngine<Reference>>(domain);
        run::<SeqEngine<Reference>>(domain);
        run::<Volatile<Reference>>(domain);
    }
}

/// Nothing keeps writers apart under `seq`, not even on one thread; a checkpoint waits for all of them.
#[test]
fn sequential_programs_run_side_by_side() {
    let memory = Arc::new(Reference::new(LEN, Domain::Transient));
    SeqEngine::<Reference>::format(&memory, 0..LOG);
    let engine = SeqEngine::start(memory.clone(), 0..LOG).unwrap();
    let mut sessions = [(); 2].map(|()| engine.session().unwrap());
    for (session, word) in sessions.iter_mut().zip(1..) {
        session.begin(Mode::Write);
        session.write_word(DATA + word * 64, word).unwrap();
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            engine.checkpoint().unwrap();
            is_done.store(true, Ordering::SeqCst);
        });
        for (session, (word, serial)) in sessions.iter_mut().zip([(3, 1), (4, 2)]) {
            std::thread::sleep(Duration::from_millis(50));
            assert!(!is_done.load(Ordering::SeqCst), "a transaction is running");
            session.write_word(DATA + word * 64, word).unwrap();
            session.commit().unwrap();
            assert_eq!(session.serial(), Some(serial));
        }
    });
    let left = memory.power_cut(perdura_memory::reference::Cut::None);
    let left = Reference::from_image(&left, Domain::Transient);
    assert!((1..=4).all(|word| left.load(DATA + word * 64) == word));
}
