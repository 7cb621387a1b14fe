//! Table I's undo log of *Persistence and Synchronization*: what it costs, and what of its log counts.

use perdura_engine::area::{Geometry, SMALLEST};
use perdura_engine::{
    Access, Counters, Engine, Error, Mode, SWalEngine, Session, UndoEachEngine, UndoEngine,
};
use perdura_memory::reference::Cut;
use perdura_memory::{Domain, LINE, Memory, Ram, Reference};
use std::sync::Arc;

type UndoEach = UndoEachEngine<Reference>;

const LOG: std::ops::Range<u64> = 0..SMALLEST;

fn memory(domain: Domain) -> Arc<Reference> {
    Arc::new(Reference::new(SMALLEST + 64 * LINE, domain))
}

/// The offset of a word that is alone in its line.
fn word(index: u64) -> u64 {
    SMALLEST + index * LINE
}

/// Swaps `swaps` pairs of words, each on a line of its own.
fn swap(session: &mut impl Session, swaps: u64) {
    session.begin(Mode::Write);
    for pair in 0..swaps {
        let (one, other) = (word(2 * pair), word(2 * pair + 1));
        let values = [one, other].map(|at| session.read_word(at).unwrap());
        session.write_word(one, values[1]).unwrap();
        session.write_word(other, values[0]).unwrap();
    }
    let ticket = session.commit_awaited().unwrap();
    session.wait_durable(ticket).unwrap();
}

/// What a transaction of `swaps` swaps counts.
fn counted<E: Engine<Reference>>(domain: Domain, swaps: u64) -> Counters {
    let memory = memory(domain);
    E::format(&*memory, LOG);
    let mut session = E::start(memory, LOG).unwrap().session().unwrap();
    session.begin(Mode::Write);
    (0..64).for_each(|index| session.write_word(word(index), index + 1).unwrap());
    session.commit().unwrap();
    let before = *session.counters();
    swap(&mut session, swaps);
    *session.counters() - before
}

/// Fences; lines of the log, its marks included; lines of data.
fn costs<E: Engine<Reference>>(domain: Domain, swaps: u64) -> [u64; 3] {
    let counters = counted::<E>(domain, swaps);
    let log = counters.write_backs_log + counters.write_backs_metadata;
    assert_eq!(log + counters.write_backs_data, counters.write_backs());
    [counters.fences, log, counters.write_backs_data]
}

/// The figures of docs/stm.md. Each store has an entry and a fence; lines, and the end, have one each.
#[test]
fn each_store_costs_a_fence() {
    let each = |swaps| costs::<UndoEach>(Domain::Transient, swaps);
    assert_eq!([1, 4, 16].map(each), [[4, 3, 2], [10, 9, 8], [34, 33, 32]]);
    let undo = |swaps| costs::<UndoEngine<Reference>>(Domain::Transient, swaps);
    assert_eq!([1, 4, 16].map(undo), [[3, 2, 2], [3, 4, 8], [3, 10, 32]]);
    // Table I's redo log, with eager truncation.
    let redo = |swaps| costs::<SWalEngine<Reference>>(Domain::Transient, swaps);
    assert_eq!([1, 4, 16].map(redo), [[4, 3, 2], [4, 5, 8], [4, 11, 32]]);
}

/// Stores keep their order there: only the acknowledgement waits.
#[test]
fn persistent_caches_need_no_order() {
    for domain in [Domain::Persistent, Domain::Process] {
        assert_eq!([1, 16].map(|swaps| costs::<UndoEach>(domain, swaps)), [[1, 0, 0]; 2]);
    }
}

/// A line that is stored whole is one store; words that are stored twice are stored once.
#[test]
fn stores_are_those_of_a_processor() {
    let memory = memory(Domain::Transient);
    UndoEach::format(&*memory, LOG);
    let mut session = UndoEach::start(memory, LOG).unwrap().session().unwrap();
    let mut fences = |bytes: &[u8], twice: bool| {
        let before = session.counters().fences;
        session.begin(Mode::Write);
        for _ in 0..1 + u32::from(twice) {
            session.write_bytes(word(1), bytes).unwrap();
        }
        session.commit().unwrap();
        session.counters().fences - before
    };
    assert_eq!(fences(&[1; 64], false), 1 + 2);
    assert_eq!(fences(&[2; 64 + 24], false), 1 + 3 + 2);
    assert_eq!(fences(&[3; 24], true), 3 + 2);
}

/// Entries of a long transaction lie behind those of the next, short one: they are not taken back with it.
#[test]
fn stale_entries() {
    let run = |events: u64| {
        let memory = memory(Domain::Transient);
        UndoEach::format(&*memory, LOG);
        let mut session = UndoEach::start(memory.clone(), LOG).unwrap().session().unwrap();
        let mut write = |words: u64, value: u64| {
            session.begin(Mode::Write);
            (0..words).for_each(|index| session.write_word(word(index), value).unwrap());
            session.commit().unwrap();
        };
        write(40, 1);
        let before = memory.events();
        memory.cut_after(events);
        write(3, 2);
        (memory.events() - before, memory)
    };
    let (events, _) = run(u64::MAX);
    let mut rolled_back = 0;
    for event in 0..=events {
        for cut in [Cut::None, Cut::All, Cut::Seed(event)] {
            let after = run(event).1.after_power_cut(cut);
            rolled_back += UndoEach::recover(&after, LOG).unwrap().rolled_back;
            let values: Vec<u64> = (0..40).map(|index| after.load(word(index))).collect();
            let last = values[0];
            assert!(last == 2 || last == 1 && event < events, "{event}: {values:?}");
            assert!(values[..3].iter().all(|value| *value == last), "{event}: {values:?}");
            assert!(values[3..].iter().all(|value| *value == 1), "{event}: {values:?}");
        }
    }
    assert!(rolled_back > 10, "{rolled_back}");
}

/// What a power cut leaves `events` events into the commit of five stores, and how many events that has.
fn five_stores_cut_after(events: u64) -> (Reference, u64) {
    let memory = memory(Domain::Persistent);
    UndoEach::format(&*memory, LOG);
    let mut session = UndoEach::start(memory.clone(), LOG).unwrap().session().unwrap();
    session.begin(Mode::Write);
    (0..5).for_each(|index| session.write_word(word(index), 1).unwrap());
    let before = memory.events();
    memory.cut_after(events);
    session.commit().unwrap();
    (memory.after_power_cut(Cut::All), memory.events() - before)
}

/// An entry that is missing between others was durable: that is damage, which no crash leaves.
#[test]
fn a_missing_entry_is_damage() {
    let (committed, events) = five_stores_cut_after(u64::MAX);
    let first = Geometry::read(&committed, LOG, "undo-each").unwrap().segment(0).start;
    assert_eq!(UndoEach::inspect(&committed, LOG).unwrap().rolled_back, 0);
    // The last moment at which it was not committed.
    let mut unfinished = (0..events).rev().map(|events| five_stores_cut_after(events).0);
    let is_unfinished = |left: &Reference| UndoEach::inspect(left, LOG).unwrap().rolled_back == 1;
    let unfinished = unfinished.find(is_unfinished).expect("entries");
    unfinished.store(first + 2 * LINE, 0);
    let error = UndoEach::inspect(&unfinished, LOG).unwrap_err();
    assert!(matches!(error, Error::Corrupt { at, .. } if at == first + 3 * LINE), "{error}");
}

/// Entries are numbered with 16 bits.
#[test]
fn too_many_stores_are_refused() {
    const DATA: u64 = 16 << 20;
    const STORES: u64 = 1 << 16;
    let ram = Arc::new(Ram::new(DATA + STORES * LINE));
    UndoEachEngine::<Ram>::format(&*ram, 0..DATA);
    let mut session = UndoEachEngine::<Ram>::start(ram, 0..DATA).unwrap().session().unwrap();
    let mut write = |stores: u64| {
        session.begin(Mode::Write);
        (0..stores).for_each(|index| session.write_word(DATA + index * LINE, 1).unwrap());
        session.commit()
    };
    let error = write(STORES).unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { needed, available } if needed > available),
        "{error}"
    );
    assert!(write(STORES - 1).is_ok());
}
