//! Threads on one engine, with a log so small that it is emptied all the time; and the limits.

use crate::{ram, start_on};
use perdura_engine::area::SMALLEST;
use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, Counters, Engine, Error, Mode, RedoEngine,
    SESSIONS, SWalEngine, Session, Ticket, UndoEachEngine, UndoEngine, Volatile, on_each_engine,
};
use perdura_memory::reference::{Cut, SplitMix64};
use perdura_memory::{AnyMemory, Domain, Memory, Reference};
use std::sync::Arc;

const LOG: u64 = SMALLEST;
/// The shared counter; each thread's own counters follow.
const SHARED: u64 = LOG;
const BYTES: u64 = LOG + (1 << 16);
const THREADS: u64 = 4;
const ROUNDS: u64 = 20_000;

fn start<M: Memory + 'static, E: Engine<M>>(memory: M) -> Arc<E> {
    start_on(memory, LOG)
}

/// A thread's counter number `index`, on a line of its own.
fn own(thread: u64, index: u64) -> u64 {
    SHARED + 64 + (thread * 100 + index) * 64
}

fn read(session: &mut impl Session, at: u64) -> u64 {
    session.begin(Mode::Read);
    let value = session.read_word(at).unwrap();
    let ticket = session.commit().unwrap();
    session.wait_durable(ticket).unwrap();
    value
}

/// Adds 1 to the shared counter and to some of the thread's own; aborts now and then, and waits for one in `waits`
/// commits. Returns how often it did not abort.
fn count<S: Session>(session: &mut S, thread: u64, waits: u64) -> (u64, Counters) {
    let mut random = SplitMix64::new(thread);
    let mut done = 0;
    for round in 0..ROUNDS {
        session.begin(Mode::Write);
        // Sometimes more than a segment of log.
        let width = if round % 500 == 499 { 100 } else { 1 + random.below(6) };
        let places = (0..width).map(|index| own(thread, index)).chain([SHARED]);
        for at in places {
            let value = session.read_word(at).unwrap();
            session.write_word(at, value + 1).unwrap();
            assert_eq!(session.read_word(at).unwrap(), value + 1);
        }
        if random.below(10) == 0 {
            session.abort();
            continue;
        }
        let ticket = session.commit().unwrap();
        done += 1;
        if done % waits == 0 {
            session.wait_durable(ticket).unwrap();
            assert!(session.is_durable(ticket));
        }
    }
    (done, *session.counters())
}

fn sums_are_right<E: Engine<AnyMemory>>() -> Counters {
    sums_are_right_waiting::<E>(1)
}

/// The same with one in `waits` commits waited for.
fn sums_are_right_waiting<E: Engine<AnyMemory>>(waits: u64) -> Counters {
    let engine = start::<_, E>(ram(BYTES));
    let mut all = Counters::default();
    let mut done = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let engine = &engine;
                scope.spawn(move || count(&mut engine.session().unwrap(), thread, waits))
            })
            .collect();
        for (thread, joined) in threads.into_iter().enumerate() {
            let (committed, counters) = joined.join().expect("no panic");
            let mut session = engine.session().unwrap();
            assert_eq!(read(&mut session, own(thread as u64, 0)), committed);
            done += committed;
            all += counters;
        }
    });
    assert_eq!(read(&mut engine.session().unwrap(), SHARED), done);
    assert_eq!((all.commits, all.commits + all.aborts_user), (done, THREADS * ROUNDS));
    all
}

#[test]
fn volatile_counts_right() {
    sums_are_right::<Volatile<AnyMemory>>();
}

#[test]
fn undo_counts_right() {
    let counters = sums_are_right::<UndoEngine<AnyMemory>>();
    assert!(counters.fences >= counters.commits * 3);
}

#[test]
fn s_wal_counts_right() {
    let counters = sums_are_right::<SWalEngine<AnyMemory>>();
    assert!(counters.fences >= counters.commits * 4);
    assert!(counters.checkpoints >= counters.commits, "truncated after each");
}

#[test]
fn undo_each_counts_right() {
    let counters = sums_are_right::<UndoEachEngine<AnyMemory>>();
    assert!(counters.log_bytes >= counters.commits * 2 * 64, "two stores or more in each");
}

#[test]
fn redo_counts_right_through_many_checkpoints() {
    let counters = sums_are_right::<RedoEngine<AnyMemory>>();
    assert!(counters.checkpoints > 10, "{counters:?}");
}

/// The same whether each commit is waited for or none.
#[test]
fn archapt_counts_right_however_few_wait() {
    for waits in [1, 8, 100, u64::MAX] {
        let undo = sums_are_right_waiting::<ArchaptUndoEngine<AnyMemory>>(waits);
        let redo = sums_are_right_waiting::<ArchaptRedoEngine<AnyMemory>>(waits);
        for counters in [undo, redo] {
            let most = if waits < 100 { counters.commits * 4 } else { counters.commits / 10 };
            assert!(counters.fences <= most, "{waits}: {counters:?}");
            // If no commit is waited for, groups have few words to log: these transactions share them.
            assert!(counters.checkpoints > 0 || waits == u64::MAX, "{waits}: {counters:?}");
        }
    }
}

/// The other engines with commits that are not waited for.
#[test]
fn sums_are_right_without_waiting() {
    sums_are_right_waiting::<Volatile<AnyMemory>>(u64::MAX);
    sums_are_right_waiting::<UndoEngine<AnyMemory>>(u64::MAX);
    sums_are_right_waiting::<RedoEngine<AnyMemory>>(u64::MAX);
    sums_are_right_waiting::<SWalEngine<AnyMemory>>(u64::MAX);
}

/// Two rounds of sessions that come and go, each leaving a segment half full.
#[test]
fn segments_of_ended_sessions_come_back() {
    fn run<E: Engine<AnyMemory>>() {
        let engine = start::<_, E>(ram(BYTES));
        for round in 0..200 {
            let mut session = engine.session().unwrap();
            session.begin(Mode::Write);
            session.write_word(SHARED, round).unwrap();
            session.commit().unwrap();
        }
        assert_eq!(read(&mut engine.session().unwrap(), SHARED), 199);
    }
    on_each_engine!(crash_consistent run::<AnyMemory>());
}

/// A transaction that does not fit changes nothing, and does not affect the next one.
#[test]
fn too_large_is_refused_and_harmless() {
    fn run<E: Engine<AnyMemory>>() {
        let engine = start::<_, E>(ram(1 << 20));
        let mut session = engine.session().unwrap();
        for round in 1..4 {
            session.begin(Mode::Write);
            for at in (SHARED..SHARED + 2 * LOG).step_by(8) {
                session.write_word(at, 7).unwrap();
            }
            let error = session.commit().unwrap_err();
            let Error::TooLarge { needed, available } = error else { panic!("{error}") };
            assert!(needed > available && available > 0, "{needed} of {available}");
            assert_eq!(session.counters().aborts_capacity, round);
            assert_eq!(read(&mut session, SHARED), round - 1);

            session.begin(Mode::Write);
            session.write_word(SHARED, round).unwrap();
            session.commit().unwrap();
        }
        // A transaction of the promised size fits, with every session holding a segment. An entry for each line takes
        // two.
        let bytes =
            if ["undo-each", "atlas", "htm-undo"].contains(&E::NAME) { LOG / 4 } else { LOG / 2 };
        session.begin(Mode::Write);
        for at in (SHARED..SHARED + bytes).step_by(8) {
            session.write_word(at, 9).unwrap();
        }
        session.commit().unwrap();
        assert_eq!(read(&mut session, SHARED + bytes - 8), 9);
    }
    on_each_engine!(crash_consistent run::<AnyMemory>());
}

/// As many as promised, whatever the log's size.
#[test]
fn sessions_are_limited_and_come_back() {
    fn run<E: Engine<AnyMemory>>() {
        let engine = start::<_, E>(ram(BYTES));
        let mut sessions: Vec<_> = (0..SESSIONS).map(|_| engine.session().unwrap()).collect();
        let error = engine.session().err().expect("one too many");
        assert!(matches!(error, Error::Sessions { limit: told } if told == SESSIONS as u64));
        sessions.pop();
        assert!(engine.session().is_ok());
    }
    on_each_engine!(run::<AnyMemory>());
}

/// Data written by `write_fresh` only, without any other word, is committed as well.
#[test]
fn a_transaction_of_fresh_memory_alone_is_durable() {
    fn run<E: Engine<Reference>>(domain: Domain) {
        let memory = Arc::new(Reference::new(BYTES * 2, domain));
        E::format(&memory, 0..LOG);
        let engine = E::start(memory.clone(), 0..LOG).unwrap();
        let mut session = engine.session().unwrap();
        for (len, at) in [(8, SHARED), (2000, SHARED + 4096), (70_000, SHARED + 8192)] {
            session.begin(Mode::Write);
            session.write_fresh(at, &vec![len as u8; len]).unwrap();
            let ticket = session.commit().unwrap();
            session.wait_durable(ticket).unwrap();
            for cut in [Cut::None, Cut::All, Cut::Seed(1)] {
                let after = memory.after_power_cut(cut);
                E::recover(&after, 0..LOG).unwrap();
                let mut bytes = vec![0; len];
                after.copy_out(at, &mut bytes);
                assert!(bytes.iter().all(|&byte| byte == len as u8), "{domain}, {len}, {cut:?}");
            }
        }
    }
    for domain in [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process] {
        on_each_engine!(crash_consistent run::<Reference>(domain));
    }
}

/// A checkpoint writes back each line that was stored to, once, and leaves nothing to replay.
#[test]
fn a_checkpoint_writes_each_dirty_line_back_once() {
    let memory = Arc::new(Reference::new(BYTES, Domain::Transient));
    RedoEngine::<Reference>::format(&memory, 0..LOG);
    let engine = RedoEngine::start(memory.clone(), 0..LOG).unwrap();
    let mut session = engine.session().unwrap();
    let mut last = Ticket(0);
    for round in 0..5 {
        session.begin(Mode::Write);
        for line in [0, 1, 2, 70, 500] {
            session.write_word(SHARED + line * 64 + round * 8, round + 1).unwrap();
        }
        last = session.commit().unwrap();
    }
    let recovery = RedoEngine::recover(&memory.after_power_cut(Cut::None), 0..LOG).unwrap();
    assert_eq!(recovery.replayed, 5);
    let before = session.counters().write_backs_data;
    session.checkpoint().unwrap();
    assert_eq!(session.counters().write_backs_data - before, 5);
    assert!(engine.reclaimable() >= last);
    let after = memory.after_power_cut(Cut::None);
    assert_eq!(after.load(SHARED + 500 * 64 + 32), 5);
    assert_eq!(RedoEngine::recover(&after, 0..LOG).unwrap().replayed, 0);
    // Nothing is dirty: the next one has nothing to write.
    session.checkpoint().unwrap();
    assert_eq!(session.counters().write_backs_data - before, 5);
}
