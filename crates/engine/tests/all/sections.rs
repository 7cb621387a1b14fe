//! Sections over several locks: what a power cut leaves of them, and their mistakes.

use perdura_engine::area::{Geometry, SMALLEST};
use perdura_engine::{
    Access, AtlasEngine, Engine, Error, Mode, RedoEngine, Result, Session, Ticket,
};
use perdura_memory::image::Cut;
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory, Reference};
use perdura_testing::{seeds, times};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

pub(super) type Atlas = AtlasEngine<Reference>;
pub(super) type AtlasSession = <Atlas as Engine<Reference>>::Session;

const LOG: Range<u64> = 0..SMALLEST;
pub(super) const DATA: u64 = SMALLEST;
const BYTES: u64 = SMALLEST + (64 << 10);

pub(super) fn started(domain: Domain) -> (Arc<Reference>, Arc<Atlas>) {
    let memory = Arc::new(Reference::new(BYTES, domain));
    Atlas::format(&*memory, LOG);
    let engine = Atlas::start(memory.clone(), LOG).unwrap();
    (memory, engine)
}

/// The word at the start of a line.
pub(super) fn word(line: u64) -> u64 {
    DATA + line * LINE
}

/// What a power cut leaves after recovery, of the first words of some lines.
pub(super) fn left(memory: &Reference, cut: Cut, lines: u64) -> Vec<u64> {
    let after = memory.after_power_cut(cut);
    Atlas::recover(&after, LOG).unwrap();
    (0..lines).map(|line| after.load(word(line))).collect()
}

/// Power cuts of each kind, and some at random.
pub(super) fn cuts() -> impl Iterator<Item = Cut> {
    [Cut::None, Cut::All].into_iter().chain((0..times(20)).map(Cut::Seed))
}

/// Runs a section over one lock that stores to the first word of a line.
pub(super) fn store(session: &mut AtlasSession, lock: u64, line: u64, value: u64) -> Ticket {
    session.begin_section().unwrap();
    session.lock(lock).unwrap();
    session.write_word(word(line), value).unwrap();
    session.commit().unwrap()
}

/// B has seen what A has stored, and is complete; A is not. Both are undone, and nobody was told that B is durable.
#[test]
fn a_follower_of_an_incomplete_section_is_undone_with_it() {
    for domain in [Domain::Transient, Domain::Persistent, Domain::Media] {
        let (memory, engine) = started(domain);
        let [mut a, mut b, mut c] = [(); 3].map(|()| engine.session().unwrap());
        a.begin_section().unwrap();
        a.lock(1).unwrap();
        a.lock(2).unwrap();
        a.write_word(word(0), 1).unwrap();
        a.unlock(1).unwrap();
        b.begin_section().unwrap();
        b.lock(1).unwrap();
        assert_eq!(b.read_word(word(0)).unwrap(), 1, "it is stored in place");
        b.write_word(word(0), 2).unwrap();
        b.write_word(word(1), 2).unwrap();
        let ticket = b.commit().unwrap();
        // It has nothing to do with them.
        let other = store(&mut c, 3, 2, 3);
        c.wait_durable(other).unwrap();
        engine.flush_due().unwrap();
        assert!(!b.is_durable(ticket) && engine.reclaimable() < ticket);
        for cut in cuts() {
            assert_eq!(left(&memory, cut, 3), [0, 0, 3], "{domain}, {cut:?}");
        }
        let done = a.commit().unwrap();
        b.wait_durable(ticket).unwrap();
        assert!(b.is_durable(done), "B follows it");
        for cut in cuts() {
            assert_eq!(left(&memory, cut, 3), [2, 2, 3], "{domain}, {cut:?}");
        }
    }
}

/// Both are complete, and only A was waited for: B may be there or not, and A is.
#[test]
fn a_complete_section_stays_without_its_follower() {
    let (memory, engine) = started(Domain::Transient);
    let [mut a, mut b] = [(); 2].map(|()| engine.session().unwrap());
    let first = store(&mut a, 1, 0, 1);
    a.wait_durable(first).unwrap();
    store(&mut b, 1, 0, 2);
    let mut seen = [false; 2];
    for cut in cuts() {
        let value = left(&memory, cut, 1)[0];
        assert!((1..=2).contains(&value), "{cut:?}: {value}");
        seen[value as usize - 1] = true;
    }
    assert_eq!(seen, [true; 2]);
}

/// It follows by way of a section that has stored nothing itself, and by its session's section before.
#[test]
fn a_section_follows_by_way_of_readers_and_of_its_own_session() {
    for by_reader in [false, true] {
        let (memory, engine) = started(Domain::Transient);
        let [mut a, mut b, mut c] = [(); 3].map(|()| engine.session().unwrap());
        a.begin_section().unwrap();
        a.lock(1).unwrap();
        a.write_word(word(0), 1).unwrap();
        a.unlock(1).unwrap();
        b.begin_section().unwrap();
        b.lock(2).unwrap();
        b.lock(1).unwrap();
        assert_eq!(b.read_word(word(0)).unwrap(), 1);
        b.commit().unwrap();
        let last = if by_reader { &mut c } else { &mut b };
        let lock = if by_reader { 2 } else { 3 };
        let ticket = store(last, lock, 1, 1);
        engine.flush_due().unwrap();
        assert!(!last.is_durable(ticket), "by a reader: {by_reader}");
        for cut in cuts() {
            assert_eq!(left(&memory, cut, 2), [0, 0], "by a reader: {by_reader}, {cut:?}");
        }
        a.commit().unwrap();
        c.wait_durable(ticket).unwrap();
        assert_eq!(left(&memory, Cut::None, 2), [1, 1]);
    }
}

/// A transaction follows a section only by its own session: they have no lock in common.
#[test]
fn transactions_and_sections_of_a_session_are_in_order() {
    let (memory, engine) = started(Domain::Transient);
    let [mut a, mut b] = [(); 2].map(|()| engine.session().unwrap());
    a.begin_section().unwrap();
    a.lock(1).unwrap();
    a.write_word(word(0), 1).unwrap();
    a.unlock(1).unwrap();
    store(&mut b, 1, 1, 1);
    let commit = |session: &mut AtlasSession, line: u64| {
        session.begin(Mode::Write);
        session.write_word(word(line), 1).unwrap();
        session.commit().unwrap()
    };
    let follower = commit(&mut b, 2);
    engine.flush_due().unwrap();
    assert!(!b.is_durable(follower));
    // By the lock of transactions.
    let mut c = engine.session().unwrap();
    let later = commit(&mut c, 3);
    engine.flush_due().unwrap();
    assert!(!c.is_durable(later));
    // By what a transaction has read, whether it could have stored anything or not.
    let mut d = engine.session().unwrap();
    let mut last = Ticket(0);
    for mode in [Mode::Write, Mode::Read] {
        d = engine.session().unwrap();
        d.begin(mode);
        assert_eq!(d.read_word(word(3)).unwrap(), 1);
        d.commit().unwrap();
        last = store(&mut d, 9, 4, 1);
        engine.flush_due().unwrap();
        assert!(!d.is_durable(last));
    }
    assert_eq!(left(&memory, Cut::All, 5), [0; 5]);
    a.commit().unwrap();
    d.wait_durable(last).unwrap();
    c.wait_durable(later).unwrap();
    assert_eq!(left(&memory, Cut::None, 5), [1; 5]);
}

/// Each fence and store may be the last one: the section is whole or absent, and whole once it was waited for.
#[test]
fn every_cut_of_a_section_leaves_all_or_nothing() {
    for domain in [Domain::Transient, Domain::Persistent, Domain::Media] {
        let whole = run_cut_at(domain, u64::MAX);
        let events = whole.0.events();
        let mut outcomes = BTreeMap::new();
        for stop in 0..=events - started(domain).0.events() {
            let (memory, durable) = run_cut_at(domain, stop);
            for cut in cuts().take(4 + times(4) as usize) {
                let values = left(&memory, cut, 4);
                let is_whole = values == [1, 2, 3, 4];
                let allowed = is_whole || values == [5; 4] || !durable && values == [0; 4];
                // The lines are 5 before the section, once the first commit is durable.
                assert!(allowed, "{domain}, stopped at {stop}, {cut:?}: {values:?}");
                *outcomes.entry(values).or_insert(0) += 1;
            }
        }
        assert!(outcomes.len() >= 2, "{domain}: {outcomes:?}");
        assert_eq!(left(&whole.0, Cut::None, 4), [1, 2, 3, 4], "{domain}");
    }
}

/// A durable transaction sets four words to 5, and a durable section then sets them to 1, 2, 3, 4. The durable image is
/// that after `stop` events. Returns whether the transaction was durable by then.
fn run_cut_at(domain: Domain, stop: u64) -> (Arc<Reference>, bool) {
    let (memory, engine) = started(domain);
    let before = memory.events();
    memory.cut_after(stop);
    let mut session = engine.session().unwrap();
    session.begin(Mode::Write);
    (0..4).for_each(|line| session.write_word(word(line), 5).unwrap());
    let ticket = session.commit().unwrap();
    session.wait_durable(ticket).unwrap();
    let durable = memory.events() - before <= stop;
    session.begin_section().unwrap();
    session.lock(1).unwrap();
    session.lock(2).unwrap();
    session.write_word(word(0), 1).unwrap();
    session.write_word(word(1), 9).unwrap();
    session.write_word(word(1), 2).unwrap();
    session.unlock(1).unwrap();
    session.write_word(word(2), 3).unwrap();
    session.lock(3).unwrap();
    session.write_bytes(word(3), &4_u64.to_ne_bytes()).unwrap();
    let ticket = session.commit().unwrap();
    session.wait_durable(ticket).unwrap();
    (memory, durable)
}

#[test]
fn each_first_store_to_a_word_costs_a_fence() {
    let (_, engine) = started(Domain::Transient);
    let mut session = engine.session().unwrap();
    let before = *session.counters();
    session.begin_section().unwrap();
    session.lock(1).unwrap();
    for value in 0..10 {
        session.write_word(word(value % 2), value).unwrap();
    }
    let ticket = session.commit().unwrap();
    let after = *session.counters() - before;
    assert_eq!((after.fences, after.write_backs_log, after.write_backs_data), (3, 2, 2));
    session.wait_durable(ticket).unwrap();
    let after = *session.counters() - before;
    assert_eq!((after.fences, after.write_backs_log, after.write_backs_data), (4, 3, 2));
}

#[test]
fn an_aborted_section_leaves_nothing() {
    let (memory, engine) = started(Domain::Transient);
    let [mut session, mut other] = [(); 2].map(|()| engine.session().unwrap());
    let ticket = store(&mut session, 1, 0, 7);
    session.wait_durable(ticket).unwrap();
    session.begin_section().unwrap();
    session.lock(1).unwrap();
    session.write_word(word(0), 8).unwrap();
    let mark = session.mark();
    session.write_word(word(0), 9).unwrap();
    session.write_bytes(word(1), &[1; 200]).unwrap();
    session.rollback_to(mark);
    assert_eq!(session.read_word(word(0)).unwrap(), 8);
    assert_eq!(session.read_word(word(1)).unwrap(), 0);
    session.abort();
    // Its lock is free.
    other.begin_section().unwrap();
    other.lock(1).unwrap();
    assert_eq!(other.read_word(word(0)).unwrap(), 7);
    other.write_word(word(2), 1).unwrap();
    let ticket = other.commit().unwrap();
    other.wait_durable(ticket).unwrap();
    for cut in cuts() {
        assert_eq!(left(&memory, cut, 3), [7, 0, 1], "{cut:?}");
    }
}

/// A section that others have seen in part cannot be rolled back: nothing is committed until recovery has undone it, and
/// those that have seen it.
#[test]
fn a_section_that_fails_after_it_was_seen_is_left_to_recovery() {
    let (memory, engine) = started(Domain::Transient);
    let [mut session, mut other] = [(); 2].map(|()| engine.session().unwrap());
    session.begin_section().unwrap();
    session.lock(1).unwrap();
    session.write_word(word(0), 1).unwrap();
    session.unlock(1).unwrap();
    let seen = store(&mut other, 1, 1, 1);
    session.abort();
    assert!(matches!(other.wait_durable(seen), Err(Error::Io(_))));
    assert!(other.begin_section().is_err());
    other.begin(Mode::Write);
    other.write_word(word(2), 1).unwrap();
    assert!(matches!(other.commit(), Err(Error::Io(_))));
    for cut in cuts() {
        assert_eq!(left(&memory, cut, 3), [0; 3], "{cut:?}");
    }
}

#[test]
fn a_section_that_would_wait_for_itself_is_an_error() {
    let (_, engine) = started(Domain::Transient);
    let mut session = engine.session().unwrap();
    session.begin_section().unwrap();
    session.lock(1).unwrap();
    assert!(matches!(session.lock(1), Err(Error::Deadlock { lock: Some(1), is_own: true })));
    session.unlock(1).unwrap();
    assert!(session.unlock(1).is_err(), "it is not held any more");
    assert!(session.write_word(word(0), 1).is_err(), "no lock is held");
    session.lock(1).unwrap();
    session.write_word(word(0), 1).unwrap();
    session.commit().unwrap();
    assert!(session.lock(1).is_err() && session.unlock(1).is_err(), "no section runs");
    session.begin(Mode::Read);
    assert!(session.begin_section().is_err(), "inside of a transaction");
    let ticket = store(&mut session, 1, 0, 2);
    session.wait_durable(ticket).unwrap();
}

/// Two threads take two locks in opposite orders, again and again: each time one of them, at least, gets an error, runs
/// again, and nobody waits for ever.
#[test]
fn deadlocks_are_found() {
    let (_, engine) = started(Domain::Process);
    let rounds = times(300);
    std::thread::scope(|scope| {
        for locks in [[1, 2], [2, 1]] {
            let mut session = engine.session().unwrap();
            scope.spawn(move || {
                for _ in 0..rounds {
                    while let Err(error) = add_one(&mut session, locks) {
                        assert!(matches!(error, Error::Deadlock { is_own: false, .. }), "{error}");
                    }
                }
            });
        }
    });
    let mut session = engine.session().unwrap();
    assert_eq!(session.read_word(word(0)).unwrap(), 2 * rounds);
}

/// Adds one to a word, with two locks.
fn add_one(session: &mut AtlasSession, locks: [u64; 2]) -> Result<Ticket> {
    session.begin_section()?;
    let body = |session: &mut AtlasSession| {
        for lock in locks {
            session.lock(lock)?;
            std::thread::yield_now();
        }
        let value = session.read_word(word(0))?;
        session.write_word(word(0), value + 1)
    };
    match body(session) {
        Ok(()) => session.commit(),
        Err(error) => {
            session.abort();
            Err(error)
        }
    }
}

/// Recovery is cut short anywhere, and run again.
#[test]
fn recovery_can_be_cut_short() {
    let (memory, engine) = started(Domain::Transient);
    let [mut a, mut b] = [(); 2].map(|()| engine.session().unwrap());
    let ticket = store(&mut a, 1, 3, 1);
    a.wait_durable(ticket).unwrap();
    a.begin_section().unwrap();
    a.lock(1).unwrap();
    (0..3).for_each(|line| a.write_word(word(line), 1).unwrap());
    a.unlock(1).unwrap();
    (0..3).for_each(|line| _ = store(&mut b, 1, line, 2));
    for seed in 0..times(10) {
        let after = memory.after_power_cut(Cut::Seed(seed));
        let whole = after.after_power_cut(Cut::All);
        let before = whole.events();
        assert_eq!(Atlas::inspect(&whole, LOG).unwrap(), Atlas::recover(&whole, LOG).unwrap());
        for stop in 0..whole.events() - before {
            let short = after.after_power_cut(Cut::All);
            short.cut_after(short.events() + stop);
            Atlas::recover(&short, LOG).unwrap();
            let again = short.after_power_cut(Cut::Seed(seed + stop));
            Atlas::recover(&again, LOG).unwrap();
            let values: Vec<u64> = (0..4).map(|line| again.load(word(line))).collect();
            assert_eq!(values, [0, 0, 0, 1], "seed {seed}, stopped at {stop}");
        }
    }
}

/// A record of a durable section that is damaged is noticed, if later records know of it.
#[test]
fn a_section_that_was_durable_is_missed() {
    let (memory, engine) = started(Domain::Transient);
    let mut session = engine.session().unwrap();
    for value in 1..4 {
        let ticket = store(&mut session, 1, 0, value);
        session.wait_durable(ticket).unwrap();
    }
    let geometry = Geometry::read(&*memory, LOG, "atlas").unwrap();
    let salt = geometry.checkpoint(&*memory).unwrap().salt;
    let records = geometry.records(&*memory, salt);
    assert_eq!(records.len(), 6, "two for each section");
    for (index, record) in records.iter().enumerate() {
        let damaged = memory.after_power_cut(Cut::None);
        damaged.store(record.at, damaged.load(record.at) ^ 1 << 20);
        let recovered = Atlas::recover(&damaged, LOG);
        // The last one may not have been durable.
        let is_last = index == records.len() - 1;
        assert!(
            matches!((is_last, &recovered), (true, Ok(_)) | (false, Err(Error::Corrupt { .. }))),
            "record {index}: {recovered:?}"
        );
    }
}

#[test]
fn other_engines_have_no_sections() {
    let memory = Arc::new(Reference::new(BYTES, Domain::Transient));
    RedoEngine::format(&*memory, LOG);
    let mut session = RedoEngine::start(memory, LOG).unwrap().session().unwrap();
    assert!(session.begin_section().is_err() && session.lock(1).is_err());
    assert!(session.unlock(1).is_err() && session.enter_heap().is_ok());
}

/// A random program of three sessions, whose steps are interleaved at random on one thread, with two locks that each guard
/// some lines, nested and passed from hand to hand. After each power cut, at a random event or at the end:
/// the sections that are left are some that follow only one another, and they include those that were durable.
mod random {
    use super::*;

    const LOCKS: u64 = 2;
    /// Lines of each lock.
    const LINES: u64 = 3;
    const SESSIONS: usize = 3;

    /// A section as the model knows it.
    #[derive(Debug, Default)]
    struct Known {
        /// Its stores: line, value.
        stores: Vec<(u64, u64)>,
        /// The sections before it in the order of locks and of its session.
        follows: Vec<usize>,
        /// The event after which it was completed.
        completed: Option<u64>,
        /// The event by which it was durable, if it was waited for.
        durable: Option<u64>,
    }

    /// What one of the sessions does.
    struct Actor {
        session: AtlasSession,
        /// The section that runs, and its locks.
        runs: Option<(usize, Vec<u64>)>,
        /// Whether it has released a lock after a store: it cannot abort any more.
        is_seen: bool,
        last: Option<usize>,
        ticket: Option<(usize, Ticket)>,
    }

    /// What has happened.
    struct History {
        sections: Vec<Known>,
        /// All stores in their order: line, value, section.
        stores: Vec<(u64, u64, usize)>,
    }

    fn run(seed: u64, memory: &Arc<Reference>, engine: &Arc<Atlas>) -> History {
        let mut random = SplitMix64::new(seed);
        let mut history = History { sections: Vec::new(), stores: Vec::new() };
        let mut actors: Vec<Actor> = (0..SESSIONS)
            .map(|_| Actor {
                session: engine.session().unwrap(),
                runs: None,
                is_seen: false,
                last: None,
                ticket: None,
            })
            .collect();
        // Which actor holds a lock, and which section has released it last.
        let mut holders = [None; LOCKS as usize];
        let mut released: [Option<usize>; LOCKS as usize] = [None; LOCKS as usize];
        for step in 0..60 + random.below(60) {
            let number = random.below(SESSIONS as u64) as usize;
            let actor = &mut actors[number];
            let Some((section, held)) = &mut actor.runs else {
                // Waits for an earlier one, flushes, or begins.
                match random.below(6) {
                    0 => engine.flush_due().unwrap(),
                    1 if step % 3 == 0 => engine.checkpoint().unwrap(),
                    _ => {
                        actor.session.begin_section().unwrap();
                        let follows = actor.last.into_iter().collect();
                        history.sections.push(Known { follows, ..Known::default() });
                        actor.runs = Some((history.sections.len() - 1, Vec::new()));
                        actor.is_seen = false;
                    }
                }
                if let Some((section, ticket)) = actor.ticket
                    && actor.session.is_durable(ticket)
                {
                    history.sections[section].durable.get_or_insert(memory.events());
                }
                continue;
            };
            let section = *section;
            match random.below(8) {
                0 | 1 => {
                    let lock = random.below(LOCKS);
                    if holders[lock as usize].is_none() {
                        actor.session.lock(lock).unwrap();
                        held.push(lock);
                        holders[lock as usize] = Some(number);
                        history.sections[section].follows.extend(released[lock as usize]);
                    }
                }
                2 if !held.is_empty() => {
                    let lock = held.remove(random.below(held.len() as u64) as usize);
                    actor.session.unlock(lock).unwrap();
                    holders[lock as usize] = None;
                    released[lock as usize] = Some(section);
                    actor.is_seen |= !history.sections[section].stores.is_empty();
                }
                3 => {
                    let aborts = random.below(4) == 0 && !actor.is_seen;
                    history.sections[section].completed = Some(memory.events());
                    if aborts {
                        actor.session.abort();
                        // It is as if it had stored nothing.
                        history.sections[section].stores.clear();
                        history.stores.retain(|(_, _, of)| *of != section);
                    } else {
                        let ticket = actor.session.commit().unwrap();
                        actor.ticket = Some((section, ticket));
                        if random.below(3) == 0 && is_free(&history, section) {
                            actor.session.wait_durable(ticket).unwrap();
                            history.sections[section].durable = Some(memory.events());
                        }
                    }
                    for lock in held.drain(..) {
                        holders[lock as usize] = None;
                        released[lock as usize] = Some(section);
                    }
                    actor.last = Some(section);
                    actor.runs = None;
                }
                _ if !held.is_empty() => {
                    let lock = held[random.below(held.len() as u64) as usize];
                    let (line, value) = (lock * LINES + random.below(LINES), step + 1);
                    actor.session.write_word(word(line), value).unwrap();
                    history.sections[section].stores.push((line, value));
                    history.stores.push((line, value, section));
                }
                _ => {}
            }
        }
        // Leaked: a session that is dropped would roll its section back, and write.
        actors.into_iter().for_each(|actor| std::mem::forget(actor.session));
        history
    }

    /// Whether it follows no section that runs, so that a wait for it ends.
    fn is_free(history: &History, section: usize) -> bool {
        let (mut next, mut seen) = (vec![section], vec![false; history.sections.len()]);
        while let Some(section) = next.pop() {
            for followed in &history.sections[section].follows {
                if history.sections[*followed].completed.is_none() {
                    return false;
                }
                if !std::mem::replace(&mut seen[*followed], true) {
                    next.push(*followed);
                }
            }
        }
        true
    }

    /// Checks the values after a power cut at `event`. Values are distinct, so that each line tells which section stored to
    /// it last, of those that are left: it is left, and no later one that has stored to the line is.
    fn check(history: &History, values: &[u64], event: u64) -> Result<(), String> {
        let sections = &history.sections;
        let is_complete = |known: &Known| known.completed.is_some_and(|begun| begun <= event);
        let mut left = vec![None; sections.len()];
        for (section, known) in sections.iter().enumerate() {
            if known.durable.is_some_and(|durable| durable <= event) {
                left[section] = Some(true);
            }
        }
        let mut say = |section: usize, is_left: bool, why: String| {
            if left[section].replace(is_left).is_some_and(|before| before != is_left) {
                return Err(format!("section {section} is left, and is not: {why}"));
            }
            Ok(())
        };
        for (line, value) in (0..).zip(values) {
            let of_line = || history.stores.iter().filter(|(at, _, _)| *at == line);
            let last = of_line().position(|(_, stored, _)| stored == value);
            if *value != 0 && last.is_none() {
                return Err(format!("line {line} has {value}, which nobody stored"));
            }
            let owner = last.and_then(|last| of_line().nth(last)).map(|(_, _, owner)| *owner);
            if let Some(owner) = owner {
                say(owner, true, format!("line {line} has its {value}"))?;
            }
            for (_, stored, section) in of_line().skip(last.map_or(0, |last| last + 1)) {
                // A later store of the same section would be there.
                say(*section, false, format!("line {line} has {value}, and not its {stored}"))?;
            }
        }
        for (section, known) in sections.iter().enumerate() {
            if left[section] != Some(true) {
                continue;
            }
            if !is_complete(known) {
                return Err(format!("section {section} is left, and not complete"));
            }
            // Followed sections without stores may be anything; those that they follow count too.
            let (mut next, mut seen) = (known.follows.clone(), vec![false; sections.len()]);
            while let Some(followed) = next.pop() {
                if std::mem::replace(&mut seen[followed], true) {
                    continue;
                }
                if left[followed] == Some(false) || !is_complete(&sections[followed]) {
                    return Err(format!("section {section} is left, without {followed} before it"));
                }
                next.extend(&sections[followed].follows);
            }
        }
        Ok(())
    }

    /// Runs a program, cut at a random event, and checks some images. Returns what is wrong.
    pub(super) fn program(seed: u64, domain: Domain, images: u64) -> Result<(), String> {
        let (memory, engine) = started(domain);
        let history = run(seed, &memory, &engine);
        let (first, last) = (started(domain).0.events(), memory.events());
        let mut random = SplitMix64::new(seed ^ 0x5EED);
        for image in 0..images {
            let stop = if image == 0 { last } else { first + random.below(last - first + 1) };
            let (memory, engine) = started(domain);
            memory.cut_after(stop - first);
            let again = run(seed, &memory, &engine);
            assert_eq!(again.stores, history.stores, "the same seed, the same program");
            for cut in [Cut::None, Cut::All, Cut::Seed(random.next()), Cut::Seed(random.next())] {
                let after = memory.after_power_cut(cut);
                let told =
                    |text: String| format!("seed {seed}, {domain}, at {stop}, {cut:?}: {text}");
                Atlas::recover(&after, LOG).map_err(|error| told(error.to_string()))?;
                let values: Vec<u64> =
                    (0..LOCKS * LINES).map(|line| after.load(word(line))).collect();
                check(&history, &values, stop).map_err(told)?;
            }
        }
        Ok(())
    }
}

#[test]
fn random_programs_leave_closed_sets_of_sections() {
    for seed in seeds(1, 150) {
        let domain = [Domain::Transient, Domain::Persistent, Domain::Media][seed as usize % 3];
        random::program(seed, domain, 8).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Each bug shows within some programs.
#[cfg(feature = "planted")]
#[test]
fn planted_bugs_are_found() {
    use perdura_engine::planted::{Bug, with};
    let bugs = [
        Bug::FollowedUnrecorded,
        Bug::FollowedOverlooked,
        Bug::LogDroppedEarly,
        Bug::SectionDataForgotten,
        Bug::UndoneInOrder,
    ];
    for bug in bugs {
        let found = with(bug, || {
            (1..400).find_map(|seed| random::program(seed, Domain::Transient, 8).err())
        });
        println!("{bug:?}: {}", found.expect("it shows"));
    }
}
