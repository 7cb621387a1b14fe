//! Group commit: transactions that are waited for while others wait to enter share a record.

use crate::is_concurrent;
use perdura_engine::{Access, Counters, Engine, Mode, Session, Ticket, Tuning, on_each_engine};
use perdura_memory::reference::Cut;
use perdura_memory::{Domain, LINE, Memory, Reference};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

const LOG: u64 = 1 << 20;

fn started<E: Engine<Reference>>(domain: Domain) -> (Arc<Reference>, Arc<E>) {
    let memory = Arc::new(Reference::new(LOG + 64 * LINE, domain));
    E::format(&memory, 0..LOG);
    let engine = E::start(memory.clone(), 0..LOG).unwrap();
    engine.tune(&Tuning { share: Some(true), ..Tuning::default() });
    (memory, engine)
}

fn add<S: Session>(session: &mut S, line: u64) {
    let at = LOG + line * LINE;
    let value = session.read_word(at).unwrap();
    session.write_word(at, value + 1).unwrap();
}

/// The cost of two transactions, the second of which waits to enter while the first commits: each adds to a line of its
/// own, and to a common one. `between` sees the memory after the first.
fn two<E: Engine<Reference>>(
    memory: &Reference,
    engine: &Arc<E>,
    between: impl Fn(&Reference, &E::Session, Ticket) + Sync,
) -> [Counters; 2] {
    let arrives = AtomicBool::new(false);
    scope(|scope| {
        let mut first = engine.session().unwrap();
        first.begin(Mode::Write);
        let second = scope.spawn(|| {
            let mut second = engine.session().unwrap();
            arrives.store(true, Ordering::Release);
            second.begin(Mode::Write);
            add(&mut second, 1);
            add(&mut second, 2);
            let ticket = second.commit_awaited().unwrap();
            second.wait_durable(ticket).unwrap();
            assert!(second.is_durable(ticket));
            *second.counters()
        });
        while !arrives.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // It will be at the lock soon.
        sleep(Duration::from_micros(200));
        add(&mut first, 0);
        add(&mut first, 2);
        let ticket = first.commit_awaited().unwrap();
        between(memory, &first, ticket);
        first.wait_durable(ticket).unwrap();
        assert!(first.is_durable(ticket));
        [*first.counters(), second.join().unwrap()]
    })
}

/// The fences of [`two`], in a run where the second was at the lock in time, and running when it was its turn.
fn fences<E: Engine<Reference>>(domain: Domain) -> u64 {
    let tries = (0..40).filter_map(|_| {
        let (memory, engine) = started::<E>(domain);
        let counters = two(&memory, &engine, |_, _, _| {});
        assert_eq!(counters[0].commits + counters[1].commits, 2);
        // Both are durable, whatever the power cut loses.
        let after = memory.after_power_cut(Cut::None);
        E::recover(&after, 0..LOG).unwrap();
        assert_eq!([0, 1, 2].map(|line| after.load(LOG + line * LINE)), [1, 1, 2], "{}", E::NAME);
        (counters[0].shared > 0).then_some(counters[0].fences + counters[1].fences)
    });
    tries.min().unwrap_or_else(|| panic!("{} on {domain}: nothing was shared", E::NAME))
}

#[test]
fn two_that_wait_share_a_record_and_its_fences() {
    use perdura_engine::{ArchaptRedoEngine, ArchaptUndoEngine, RedoEngine, UndoEngine};
    assert_eq!(fences::<RedoEngine<_>>(Domain::Transient), 1);
    assert_eq!(fences::<UndoEngine<_>>(Domain::Transient), 3);
    assert_eq!(fences::<UndoEngine<_>>(Domain::Media), 3);
    assert_eq!(fences::<ArchaptRedoEngine<_>>(Domain::Transient), 1);
    assert_eq!(fences::<ArchaptUndoEngine<_>>(Domain::Transient), 3);
    assert_eq!(fences::<ArchaptUndoEngine<_>>(Domain::Media), 3);
}

/// If sharing is not wanted, or of no use, each has its own record.
#[test]
fn nothing_is_shared_where_that_is_no_gain() {
    fn run<E: Engine<Reference>>(domain: Domain, share: Option<bool>) {
        if is_concurrent::<_, E>() {
            return; // The two may meet, and one of them must run again.
        }
        if E::SECTIONS {
            return; // Durability is left for later.
        }
        let (memory, engine) = started::<E>(domain);
        engine.tune(&Tuning { share, ..Tuning::default() });
        let counters = two(&memory, &engine, |_, session, ticket| {
            assert!(session.is_durable(ticket), "{} on {domain}", E::NAME);
        });
        assert_eq!(counters[0].commits + counters[1].commits, 2);
    }
    on_each_engine!(crash_consistent run::<Reference>(Domain::Transient, Some(false)));
    on_each_engine!(crash_consistent run::<Reference>(Domain::Persistent, None));
}

/// If set to share, transactions that are not waited for have one record until one is, on one core too: all of them are
/// durable then, and none before.
#[test]
fn transactions_that_are_not_waited_for_share_if_set() {
    fn run<E: Engine<Reference>>(share: Option<bool>) -> u64 {
        let (memory, engine) = started::<E>(Domain::Transient);
        engine.tune(&Tuning { share, ..Tuning::default() });
        let mut session = engine.session().unwrap();
        let before = session.counters().fences;
        let tickets: Vec<Ticket> = (0..20)
            .map(|round| {
                session.begin(Mode::Write);
                add(&mut session, round % 3);
                session.commit().unwrap()
            })
            .collect();
        let values = |memory: &Reference| [0, 1, 2].map(|line| memory.load(LOG + line * LINE));
        let recovered = || {
            let after = memory.after_power_cut(Cut::None);
            E::recover(&after, 0..LOG).unwrap();
            values(&after)
        };
        if share == Some(true) {
            assert!(!session.is_durable(tickets[0]), "{}", E::NAME);
            assert_eq!(recovered(), [0; 3], "{}", E::NAME);
        }
        session.wait_durable(tickets[0]).unwrap();
        assert!(session.is_durable(tickets[19]), "{}: all of one group", E::NAME);
        assert_eq!(recovered(), [7, 7, 6], "{}", E::NAME);
        session.counters().fences - before
    }
    use perdura_engine::{RedoEngine, UndoEngine};
    assert_eq!(run::<RedoEngine<_>>(Some(true)), 1);
    assert_eq!(run::<UndoEngine<_>>(Some(true)), 3);
    assert_eq!(run::<UndoEngine<_>>(Some(false)), 60, "three for each");
}

/// Words of a transaction that has joined and is not waited for, its session gone, are durable after a checkpoint: a
/// closed pool keeps them.
#[test]
fn a_checkpoint_keeps_what_has_joined() {
    fn run<E: Engine<Reference>>() {
        let (memory, engine) = started::<E>(Domain::Transient);
        let mut session = engine.session().unwrap();
        session.begin(Mode::Write);
        add(&mut session, 0);
        let ticket = session.commit().unwrap();
        drop(session);
        engine.checkpoint().unwrap();
        assert!(engine.session().unwrap().is_durable(ticket), "{}", E::NAME);
        let after = memory.after_power_cut(Cut::None);
        E::recover(&after, 0..LOG).unwrap();
        assert_eq!(after.load(LOG), 1, "{}", E::NAME);
    }
    on_each_engine!(crash_consistent run::<Reference>());
}

/// The same after a session's checkpoint: memory that the joined transactions freed may be reused.
#[test]
fn a_sessions_checkpoint_keeps_what_has_joined() {
    fn run<E: Engine<Reference>>() {
        let (memory, engine) = started::<E>(Domain::Transient);
        let mut session = engine.session().unwrap();
        session.begin(Mode::Write);
        add(&mut session, 0);
        let ticket = session.commit().unwrap();
        session.checkpoint().unwrap();
        assert!(session.is_durable(ticket) && engine.reclaimable() >= ticket, "{}", E::NAME);
        let after = memory.after_power_cut(Cut::None);
        E::recover(&after, 0..LOG).unwrap();
        assert_eq!(after.load(LOG), 1, "{}", E::NAME);
    }
    on_each_engine!(crash_consistent run::<Reference>());
}

/// One transaction writes, is waited for and durable, while `second` wants to begin one on another thread; returns the
/// first one's ticket, and the result of the second.
fn while_another_waits<E: Engine<Reference>, R: Send>(
    engine: &Arc<E>,
    second: impl FnOnce(&Arc<E>, &mut E::Session) -> R + Send,
) -> (Ticket, R) {
    let arrives = AtomicBool::new(false);
    scope(|scope| {
        let mut first = engine.session().unwrap();
        first.begin(Mode::Write);
        let second = scope.spawn(|| {
            let mut session = engine.session().unwrap();
            arrives.store(true, Ordering::Release);
            session.begin(Mode::Write);
            second(engine, &mut session)
        });
        while !arrives.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        sleep(Duration::from_millis(30));
        add(&mut first, 0);
        let ticket = first.commit_awaited().unwrap();
        let came_to = second.join().unwrap();
        first.wait_durable(ticket).unwrap();
        assert!(first.is_durable(ticket), "{}", E::NAME);
        (ticket, came_to)
    })
}

/// A transaction that has joined is not durable until the next one is.
#[test]
fn a_transaction_that_waits_alone_leads() {
    fn run<E: Engine<Reference>>() {
        if is_concurrent::<_, E>() {
            return; // It waits for nothing.
        }
        let (memory, engine) = started::<E>(Domain::Transient);
        // It enters, and leaves without a commit.
        let (_, seen) = while_another_waits(&engine, |_, session| {
            let seen = session.read_word(LOG).unwrap();
            session.abort();
            seen
        });
        assert_eq!(seen, 1, "{}", E::NAME);
        let after = memory.after_power_cut(Cut::None);
        E::recover(&after, 0..LOG).unwrap();
        assert_eq!(after.load(LOG), 1, "{}", E::NAME);
    }
    on_each_engine!(crash_consistent run::<Reference>());
}

/// A checkpoint inside a transaction includes the transactions that have joined before it, and the transaction goes on.
#[test]
fn a_checkpoint_within_writes_down_what_has_joined() {
    fn run<E: Engine<Reference>>() {
        if is_concurrent::<_, E>() {
            return; // It waits for nothing.
        }
        let (memory, engine) = started::<E>(Domain::Transient);
        let (joined, freed) = while_another_waits(&engine, |engine, session| {
            add(session, 1);
            session.checkpoint().unwrap();
            let freed = engine.reclaimable();
            add(session, 0);
            let ticket = session.commit_awaited().unwrap();
            session.wait_durable(ticket).unwrap();
            freed
        });
        assert!(freed >= joined, "{}", E::NAME);
        let after = memory.after_power_cut(Cut::None);
        E::recover(&after, 0..LOG).unwrap();
        assert_eq!([0, 1].map(|line| after.load(LOG + line * LINE)), [2, 1], "{}", E::NAME);
    }
    on_each_engine!(crash_consistent run::<Reference>());
}
