//! Calls at the wrong time: they are refused or do nothing, and neither hang nor access data that only a transaction
//! may.

use crate::ram;
use perdura_engine::area::SMALLEST;
use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, Engine, Error, Mark, Mode, Result, Session,
    Ticket, Tuning, on_each_engine,
};
use perdura_memory::{AnyMemory, LINE, Memory};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LOG: Range<u64> = 0..16 * SMALLEST;
const DATA: u64 = LOG.end;
const LEN: u64 = DATA + (4 << 20);

fn started<E: Engine<AnyMemory>>() -> (Arc<AnyMemory>, Arc<E>) {
    let memory = Arc::new(ram(LEN));
    E::format(&memory, LOG);
    let engine = E::start(memory.clone(), LOG).unwrap();
    (memory, engine)
}

fn write<S: Session>(session: &mut S, value: u64) -> Result<Ticket> {
    session.begin(Mode::Write);
    session.write_word(DATA, value)?;
    session.write_word(DATA + 4096, value)?;
    session.commit()
}

fn is_invalid<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Invalid(_)))
}

fn outside_of_transactions<E: Engine<AnyMemory>>() {
    let (memory, engine) = started::<E>();
    let mut session = engine.session().unwrap();
    let unbegun = |session: &mut E::Session| {
        assert!(is_invalid(session.commit()), "{}", E::NAME);
        assert!(is_invalid(session.commit_awaited()), "{}", E::NAME);
        assert!(session.write_word(DATA, 1).is_err() && session.write_bytes(DATA, &[1]).is_err());
        assert!(session.write_fresh(DATA, &[1; 8]).is_err());
        session.mark();
        session.rollback_to(Mark(0));
        session.abort();
        // The memory's contents, wherever the committed words may be.
        let mut bytes = [0; 16];
        session.read_bytes(DATA, &mut bytes).unwrap();
        let words = [session.read_word(DATA).unwrap(), session.read_word(DATA + 8).unwrap()];
        assert_eq!(words, [memory.load(DATA), memory.load(DATA + 8)], "{}", E::NAME);
        assert_eq!(bytes, *words.map(u64::to_ne_bytes).as_flattened(), "{}", E::NAME);
    };
    unbegun(&mut session);
    write(&mut session, 1).unwrap();
    write(&mut session, 2).unwrap();
    session.begin(Mode::Read);
    assert_eq!(session.read_word(DATA).unwrap(), 2);
    unbegun_after(&mut session, &unbegun);
    write(&mut session, 3).unwrap();
    unbegun(&mut session);
    session.begin(Mode::Write);
    session.write_word(DATA, 4).unwrap();
    session.abort();
    unbegun(&mut session);
    let counted = session.counters().aborts_user;
    assert_eq!(counted, 1, "{} has had one transaction rolled back", E::NAME);
}

fn unbegun_after<S: Session>(session: &mut S, unbegun: &impl Fn(&mut S)) {
    session.commit().unwrap();
    unbegun(session);
}

#[test]
fn outside_of_transactions_only_the_memory_is_read() {
    on_each_engine!(rolling_back outside_of_transactions::<AnyMemory>());
}

/// The transaction that was running has not happened, and no other one is running.
fn begun_twice<E: Engine<AnyMemory>>() {
    let (_, engine) = started::<E>();
    let [mut session, mut other] = [(); 2].map(|()| engine.session().unwrap());
    write(&mut session, 1).unwrap();
    for (first, second) in [
        (Mode::Write, Mode::Write),
        (Mode::Write, Mode::Read),
        (Mode::Read, Mode::Write),
        (Mode::Read, Mode::Read),
    ] {
        session.begin(first);
        if first == Mode::Write {
            session.write_word(DATA, 99).unwrap();
        }
        session.begin(second);
        assert!(session.write_word(DATA, 98).is_err());
        assert!(is_invalid(session.commit()), "{}: {first:?}, {second:?}", E::NAME);
        // The lock is free, for writers and for sessions that must be alone.
        let ticket = write(&mut other, 2).unwrap();
        other.wait_durable(ticket).unwrap();
        engine.checkpoint().unwrap();
        session.begin(Mode::Read);
        assert_eq!(session.read_word(DATA).unwrap(), 2);
        session.commit().unwrap();
    }
}

#[test]
fn a_transaction_that_is_begun_twice_is_none() {
    on_each_engine!(rolling_back begun_twice::<AnyMemory>());
}

/// Marks of transactions that are over, and invalid marks.
fn stale_marks<E: Engine<AnyMemory>>() {
    let (_, engine) = started::<E>();
    let mut session = engine.session().unwrap();
    session.begin(Mode::Write);
    (0..100).for_each(|word| session.write_word(DATA + word * 8, word).unwrap());
    session.mark();
    (0..100).for_each(|word| session.write_word(DATA + word * 8, 7).unwrap());
    let stale = session.mark();
    session.commit().unwrap();
    for mark in [stale, Mark(0), Mark(3), Mark(usize::MAX)] {
        session.begin(Mode::Write);
        session.write_word(DATA, 8).unwrap();
        session.rollback_to(mark);
        let good = session.mark();
        session.write_word(DATA + 8, 9).unwrap();
        session.rollback_to(good);
        session.write_word(DATA + 16, 10).unwrap();
        session.commit().unwrap();
        session.begin(Mode::Read);
        let words = [1, 2, 3].map(|word| session.read_word(DATA + word * 8).unwrap());
        assert_eq!(words, [7, 10, 7], "{} with {mark:?}", E::NAME);
        session.commit().unwrap();
    }
}

#[test]
fn marks_of_other_transactions_do_no_harm() {
    on_each_engine!(rolling_back stale_marks::<AnyMemory>());
}

/// A session dropped inside a transaction leaves no lock behind.
fn dropped_inside<E: Engine<AnyMemory>>() {
    let (_, engine) = started::<E>();
    let mut session = engine.session().unwrap();
    write(&mut session, 1).unwrap();
    for mode in [Mode::Read, Mode::Write] {
        let mut other = engine.session().unwrap();
        other.begin(mode);
        if mode == Mode::Write {
            other.write_word(DATA, 9).unwrap();
        }
        drop(other);
        let ticket = write(&mut session, 2).unwrap();
        session.wait_durable(ticket).unwrap();
        engine.checkpoint().unwrap();
    }
}

#[test]
fn a_session_may_end_inside_of_a_transaction() {
    on_each_engine!(rolling_back dropped_inside::<AnyMemory>());
}

/// Sessions that read, commit and wait outside transactions, while groups come and go whose overlays are too large to
/// be kept.
fn during_a_write<E: Engine<AnyMemory>>() {
    let (_, engine) = started::<E>();
    engine.tune(&Tuning { group_bytes: Some(1 << 20), ..Tuning::default() });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = engine.session().unwrap();
            for round in 0..300 {
                let mut ticket = Ticket::default();
                for number in 0..8 {
                    session.begin(Mode::Write);
                    for line in 0..200 {
                        let at = DATA + (number * 200 + line) * LINE;
                        session.write_word(at, round).unwrap();
                    }
                    ticket = session.commit().unwrap();
                }
                session.wait_durable(ticket).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let mut session = engine.session().unwrap();
            let mut bytes = [0; 256];
            while !done.load(Ordering::Acquire) {
                session.begin(Mode::Read);
                session.read_word(DATA).unwrap();
                session.commit().unwrap();
                for line in 0..1600 {
                    session.read_word(DATA + line * LINE).unwrap();
                    session.read_bytes(DATA + line * LINE, &mut bytes).unwrap();
                    assert!(session.commit().is_err());
                }
            }
        });
    });
}

#[test]
fn reads_outside_of_transactions_reach_no_overlay_that_is_being_freed() {
    during_a_write::<ArchaptUndoEngine<AnyMemory>>();
    during_a_write::<ArchaptRedoEngine<AnyMemory>>();
}
