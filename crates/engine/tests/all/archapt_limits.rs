//! Groups at their limits: queues of a few lines, tiny groups, settings that make no sense, failures in the middle, and
//! calls at the wrong time.

use crate::ram;
use perdura_engine::area::SMALLEST;
use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, Engine, Error, Mode, Session, Ticket, Tuning,
};
use perdura_memory::reference::{Cut, SplitMix64};
use perdura_memory::{AnyMemory, Domain, LINE, Memory, Reference};
use std::sync::Arc;

const LOG: std::ops::Range<u64> = 0..SMALLEST;
const LINES: u64 = 24;
const LEN: u64 = SMALLEST + (LINES + 2000) * LINE;
const DOMAINS: [Domain; 4] =
    [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process];

fn started<E: Engine<Reference>>(domain: Domain) -> (Arc<Reference>, Arc<E>) {
    let memory = Arc::new(Reference::new(LEN, domain));
    E::format(&memory, LOG);
    let engine = E::start(memory.clone(), LOG).unwrap();
    (memory, engine)
}

fn at(word: u64) -> u64 {
    SMALLEST + word * 8
}

fn write<S: Session>(session: &mut S, words: impl Iterator<Item = u64>, value: u64) -> Ticket {
    session.begin(Mode::Write);
    words.for_each(|word| session.write_word(at(word), value).unwrap());
    session.commit().unwrap()
}

fn words(memory: &Reference) -> Vec<u64> {
    (0..LINES * 8).map(|word| memory.load(at(word))).collect()
}

const NEVER: Tuning = Tuning {
    queue_lines: None,
    group_bytes: None,
    answer_within_ns: Some(u64::MAX),
    skip: None,
    share: None,
    window: None,
    snapshot_after: None,
    bias_after: None,
    kept_segments: None,
    batches: None,
    wait_for_readers_ns: None,
    fallback_percent: None,
    attempts: None,
    conflict_delay: None,
};

/// Settings from the narrowest to the widest; none of them may cause a panic or a hang.
fn settings() -> impl Iterator<Item = Tuning> {
    let some = |value| Some(value);
    let lines = [0, 1, 3, u64::MAX].map(some);
    let bytes = [0, 1, 64, 200, 1000, u64::MAX].map(some);
    lines.into_iter().flat_map(move |queue_lines| {
        bytes.into_iter().flat_map(move |group_bytes| {
            [0, 1, u64::MAX].map(some).map(|answer_within_ns| Tuning {
                queue_lines,
                group_bytes,
                answer_within_ns,
                skip: None,
                share: None,
                window: None,
                snapshot_after: Some(1),
                bias_after: None,
                kept_segments: None,
                batches: None,
                wait_for_readers_ns: Some(0),
                fallback_percent: None,
                attempts: None,
                conflict_delay: None,
            })
        })
    })
}

/// Random transactions, few of which are waited for, until the power is cut after `events` events. Returns the states
/// after each, and how many were acknowledged.
fn run<E: Engine<Reference>>(
    memory: &Arc<Reference>,
    tuning: &Tuning,
    seed: u64,
    events: u64,
) -> (Vec<Vec<u64>>, usize) {
    E::format(memory, LOG);
    let engine = E::start(memory.clone(), LOG).unwrap();
    engine.tune(tuning);
    let mut sessions = [engine.session().unwrap(), engine.session().unwrap()];
    let mut random = SplitMix64::new(seed);
    let mut states = vec![vec![0; (LINES * 8) as usize]];
    let mut acknowledged = 0;
    memory.cut_after(events);
    for value in 1..=60 {
        let session = &mut sessions[random.below(2) as usize];
        let mut state = states.last().unwrap().clone();
        let touched: Vec<_> = (0..1 + random.below(5)).map(|_| random.below(LINES * 8)).collect();
        touched.iter().for_each(|&word| state[word as usize] = value);
        states.push(state);
        let ticket = write(session, touched.into_iter(), value);
        match random.below(24) {
            0 => session.wait_durable(ticket).unwrap(),
            1 => engine.checkpoint().unwrap(),
            2 => engine.flush_due().unwrap(),
            _ => {}
        }
        if session.is_durable(ticket) && !memory.was_cut() {
            acknowledged = value as usize;
        }
    }
    (states, acknowledged)
}

fn every_cut_leaves_a_prefix<E: Engine<Reference>>() {
    let mut random = SplitMix64::new(1);
    for (tuning, domain) in settings().flat_map(|tuning| DOMAINS.map(|domain| (tuning, domain))) {
        let seed = random.next();
        let all = Reference::new(LEN, domain);
        let all = Arc::new(all);
        run::<E>(&all, &tuning, seed, u64::MAX);
        for _ in 0..6 {
            let events = random.below(all.events());
            let memory = Arc::new(Reference::new(LEN, domain));
            let (states, acknowledged) = run::<E>(&memory, &tuning, seed, events);
            for cut in [Cut::None, Cut::All, Cut::Seed(random.next()), Cut::Seed(random.next())] {
                let after = memory.after_power_cut(cut);
                E::recover(&after, LOG).unwrap();
                let found = words(&after);
                let prefix = states.iter().rposition(|state| *state == found);
                assert!(
                    prefix.is_some_and(|prefix| prefix >= acknowledged),
                    "{} on {domain}, {tuning:?}, seed {seed}, {events} events, {cut:?}: {prefix:?} \
                     of {acknowledged}",
                    E::NAME
                );
            }
        }
    }
}

#[test]
fn every_cut_of_undo_leaves_a_prefix_whatever_the_settings() {
    every_cut_leaves_a_prefix::<ArchaptUndoEngine<Reference>>();
}

#[test]
fn every_cut_of_redo_leaves_a_prefix_whatever_the_settings() {
    every_cut_leaves_a_prefix::<ArchaptRedoEngine<Reference>>();
}

/// A checkpoint inside a transaction that has read a word of the open group, and writes none.
fn a_checkpoint_in_between<E: Engine<Reference>>(domain: Domain) {
    let (_, engine) = started::<E>(domain);
    let mut session = engine.session().unwrap();
    let ticket = write(&mut session, 0..3, 1);
    session.begin(Mode::Write);
    assert_eq!(session.read_word(at(1)).unwrap(), 1);
    session.checkpoint().unwrap();
    let seen = session.commit().unwrap();
    assert!(seen >= ticket && session.is_durable(seen), "{} on {domain}: {seen:?}", E::NAME);
}

#[test]
fn a_checkpoint_inside_of_a_transaction_that_only_reads() {
    for domain in DOMAINS {
        a_checkpoint_in_between::<ArchaptUndoEngine<Reference>>(domain);
        a_checkpoint_in_between::<ArchaptRedoEngine<Reference>>(domain);
    }
}

/// Waiting inside a transaction, on the session that holds the lock, for an earlier one.
fn waits_inside<E: Engine<Reference>>() {
    let (_, engine) = started::<E>(Domain::Transient);
    let mut session = engine.session().unwrap();
    let first = write(&mut session, 0..3, 1);
    session.begin(Mode::Read);
    let refused = session.wait_durable(first);
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    session.commit().unwrap();
    session.begin(Mode::Write);
    session.write_word(at(0), 2).unwrap();
    session.wait_durable(first).unwrap();
    assert!(session.is_durable(first));
    let second = session.commit().unwrap();
    assert!(!session.is_durable(second));
    session.wait_durable(second).unwrap();
}

#[test]
fn a_wait_inside_of_a_transaction_does_not_hang() {
    waits_inside::<ArchaptUndoEngine<Reference>>();
    waits_inside::<ArchaptRedoEngine<Reference>>();
}

/// More transactions than a ticket can tell apart within a group.
fn many_share_a_group<E: Engine<AnyMemory>>() {
    let memory = Arc::new(ram(LEN));
    E::format(&memory, LOG);
    let engine = E::start(memory, LOG).unwrap();
    engine.tune(&NEVER);
    let mut session = engine.session().unwrap();
    let mut last = Ticket(0);
    for value in 1..=(1 << 20) + 10 {
        let ticket = write(&mut session, 0..1, value);
        assert!(ticket > last, "{last:?}, then {ticket:?}");
        last = ticket;
    }
    session.wait_durable(last).unwrap();
    assert_eq!(engine.counters().commits + session.counters().commits, (1 << 20) + 10);
}

#[test]
fn a_group_ends_before_its_tickets_do() {
    many_share_a_group::<ArchaptUndoEngine<AnyMemory>>();
    many_share_a_group::<ArchaptRedoEngine<AnyMemory>>();
}

/// Groups that are closed because they are full must not delay the flush of transactions that are not waited for.
fn in_time<E: Engine<Reference>>(domain: Domain) {
    let (_, engine) = started::<E>(domain);
    let tuning = Tuning { group_bytes: Some(100), ..Tuning::default() };
    engine.tune(&Tuning { answer_within_ns: Some(20), ..tuning });
    let mut session = engine.session().unwrap();
    let first = write(&mut session, 0..1, 1);
    for value in 2..400 {
        write(&mut session, value % 8 * 8..value % 8 * 8 + 1, value);
        engine.flush_due().unwrap();
        if session.is_durable(first) {
            return;
        }
    }
    panic!("{} on {domain}: never durable", E::NAME);
}

#[test]
fn full_groups_put_nothing_off() {
    for domain in DOMAINS {
        in_time::<ArchaptUndoEngine<Reference>>(domain);
        in_time::<ArchaptRedoEngine<Reference>>(domain);
    }
}

/// Work during the engine's own checkpoint is counted for transactions all the same.
fn counts_all<E: Engine<Reference>>(domain: Domain) {
    let (_, engine) = started::<E>(domain);
    engine.tune(&NEVER);
    let mut session = engine.session().unwrap();
    for value in 1..=10 {
        session.begin(Mode::Write);
        session.write_word(at(value), value).unwrap();
        session.write_fresh(at(value * 128), &[1; 512]).unwrap();
        session.commit().unwrap();
    }
    engine.checkpoint().unwrap();
    let mut counters = *session.counters();
    counters += engine.counters();
    assert_eq!((counters.commits, counters.checkpoints), (10, 1));
    assert_eq!(counters.dirty_bytes, 10 * 520, "{} on {domain}", E::NAME);
    let mut again = *session.counters();
    again += engine.counters();
    assert_eq!(again, counters, "looking changes nothing");
    // The next owner of the lines has them alone.
    write(&mut session, 0..1, 11);
    session.checkpoint().unwrap();
    assert_eq!(engine.counters().dirty_bytes, 0);
    assert_eq!(session.counters().dirty_bytes, 10 * 520 + 8);
}

#[test]
fn nothing_is_counted_twice_or_lost() {
    for domain in DOMAINS {
        counts_all::<ArchaptUndoEngine<Reference>>(domain);
        counts_all::<ArchaptRedoEngine<Reference>>(domain);
    }
}

/// A transaction that fits in no log fails alone: those in the group before it are unharmed.
fn only_it_fails<E: Engine<Reference>>(domain: Domain) {
    let (memory, engine) = started::<E>(domain);
    engine.tune(&Tuning { queue_lines: Some(1), ..NEVER });
    let mut session = engine.session().unwrap();
    for value in 1..5 {
        write(&mut session, 0..20, value);
        session.begin(Mode::Write);
        (0..(LINES + 1900) * 8).for_each(|word| session.write_word(at(word), 99).unwrap());
        let error = session.commit().unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        session.begin(Mode::Read);
        assert_eq!(session.read_word(at(19)).unwrap(), value);
        assert_eq!(session.read_word(at(20)).unwrap(), 0);
        session.commit().unwrap();
    }
    engine.checkpoint().unwrap();
    let after = memory.after_power_cut(Cut::None);
    assert_eq!(E::recover(&after, LOG).unwrap(), Default::default());
    assert_eq!((after.load(at(19)), after.load(at(20))), (4, 0));
}

#[test]
fn a_transaction_that_is_too_large_fails_alone() {
    for domain in DOMAINS {
        only_it_fails::<ArchaptUndoEngine<Reference>>(domain);
        only_it_fails::<ArchaptRedoEngine<Reference>>(domain);
    }
}
