//! Group flushes: the cost of a commit that is waited for at once, and work that a commit never has to do for others.

use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, Engine, Mode, RedoEngine, Session, Ticket,
    Tuning, UndoEngine, on_each_engine,
};
use perdura_memory::{Domain, LINE, Memory, Reference};
use std::sync::Arc;

const LOG: u64 = 1 << 20;
const LINES: u64 = 4096;
const DOMAINS: [Domain; 4] =
    [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process];

fn started<E: Engine<M>, M: Memory>(memory: M) -> Arc<E> {
    E::format(&memory, 0..LOG);
    E::start(Arc::new(memory), 0..LOG).unwrap()
}

fn reference<E: Engine<Reference>>(domain: Domain) -> Arc<E> {
    started(Reference::new(LOG + LINES * LINE, domain))
}

/// Begins a transaction and writes `count` lines from `line` on, a word of each.
fn begin<S: Session>(session: &mut S, line: u64, count: u64) {
    session.begin(Mode::Write);
    for line in line..line + count {
        session.write_word(LOG + line % LINES * LINE, line + 1).unwrap();
    }
}

fn awaited<S: Session>(session: &mut S, line: u64, count: u64) -> Ticket {
    begin(session, line, count);
    let ticket = session.commit_awaited().unwrap();
    session.wait_durable(ticket).unwrap();
    ticket
}

/// Fences and log bytes of the tenth transaction, each being waited for.
fn price<E: Engine<Reference>>(domain: Domain) -> (u64, u64) {
    let engine = reference::<E>(domain);
    let mut session = engine.session().unwrap();
    (0..9).for_each(|line| {
        awaited(&mut session, line, 2);
    });
    let before = *session.counters();
    awaited(&mut session, 9, 2);
    let spent = *session.counters() - before;
    assert_eq!(spent.commits, 1);
    (spent.fences, spent.log_bytes)
}

#[test]
fn waiting_at_once_costs_what_the_engine_below_costs() {
    for domain in [Domain::Transient, Domain::Persistent, Domain::Process] {
        let undo = price::<UndoEngine<Reference>>(domain);
        assert_eq!(price::<ArchaptUndoEngine<Reference>>(domain), undo, "undo on {domain}");
        let redo = price::<RedoEngine<Reference>>(domain);
        assert_eq!(price::<ArchaptRedoEngine<Reference>>(domain), redo, "redo on {domain}");
    }
}

fn takes_all_along<E: Engine<Reference>>(domain: Domain) {
    let engine = reference::<E>(domain);
    let (mut first, mut second) = (engine.session().unwrap(), engine.session().unwrap());
    begin(&mut first, 0, 1);
    let early = first.commit().unwrap();
    let late = awaited(&mut second, 0, 2);
    assert!(early < late, "{} on {domain}", E::NAME);
    assert!(first.is_durable(early) && first.is_durable(late), "{} on {domain}", E::NAME);
    assert_eq!(first.counters().commits + second.counters().commits, 2);
    // And in the other order: nothing is left of the group.
    let alone = awaited(&mut first, 1, 1);
    assert!(alone > late && first.is_durable(alone));
    begin(&mut second, 5, 1);
    second.abort();
    second.begin(Mode::Read);
    assert_eq!(second.read_word(LOG).unwrap(), 1);
    let seen = second.commit().unwrap();
    assert!(seen >= alone && second.is_durable(seen), "{} on {domain}", E::NAME);
}

#[test]
fn waiting_flushes_the_open_group_too() {
    for domain in DOMAINS {
        takes_all_along::<ArchaptUndoEngine<Reference>>(domain);
        takes_all_along::<ArchaptRedoEngine<Reference>>(domain);
    }
}

fn counts_dirt<E: Engine<Reference>>() {
    let engine = reference::<E>(Domain::Transient);
    let mut session = engine.session().unwrap();
    for word in 0..3 {
        session.begin(Mode::Write);
        session.write_word(LOG + word * 8, 1).unwrap();
        session.write_word(LOG + (1 + word) * LINE, 1).unwrap();
        session.commit().unwrap();
    }
    session.checkpoint().unwrap();
    assert_eq!(session.counters().dirtied, [3, 0, 1, 0, 0, 0, 0, 0], "{}", E::NAME);
    assert_eq!(session.counters().write_backs_data, 4);
}

#[test]
fn the_words_of_a_line_are_counted_when_it_leaves() {
    counts_dirt::<ArchaptUndoEngine<Reference>>();
    counts_dirt::<ArchaptRedoEngine<Reference>>();
}

/// Groups of eight lines with a queue of a hundred, and with a log that is filled many times: lines leave one by one,
/// and in batches.
#[test]
fn no_commit_writes_back_for_all_the_others() {
    for (queue_lines, batch) in [(100, 8), (u64::MAX, 512)] {
        let engine = reference::<ArchaptRedoEngine<Reference>>(Domain::Transient);
        engine.tune(&Tuning { queue_lines: Some(queue_lines), ..Tuning::default() });
        let mut session = engine.session().unwrap();
        let (mut most, mut waiting) = (0, 0);
        for group in 0..20_000 {
            let before = *session.counters();
            awaited(&mut session, group * 8, 8);
            let spent = *session.counters() - before;
            most = most.max(spent.write_backs_data);
            waiting = waiting + 8 - spent.write_backs_data - spent.write_backs_saved;
            assert!(queue_lines == u64::MAX || waiting <= 100 + 8, "{waiting} wait");
        }
        assert!(most <= batch + 8, "{most} lines with one group, {queue_lines} may wait");
        assert!(session.counters().checkpoints > 2);
    }
}

/// Threads that wait at once among threads that do not: no ticket is forgotten.
fn threads<E: Engine<Reference>>(domain: Domain) {
    let engine = reference::<E>(domain);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                let mut session = engine.session().unwrap();
                for step in 0..500 {
                    session.begin_unfailing(Mode::Write);
                    let at = LOG + step % 3 * LINE;
                    let value = session.read_word(at).unwrap();
                    session.write_word(at, value + 1).unwrap();
                    if thread % 2 == 0 {
                        let ticket = session.commit_awaited().unwrap();
                        session.wait_durable(ticket).unwrap();
                        assert!(session.is_durable(ticket));
                    } else {
                        session.commit().unwrap();
                    }
                }
            });
        }
    });
    let mut session = engine.session().unwrap();
    session.begin(Mode::Read);
    let sum: u64 = (0..3).map(|line| session.read_word(LOG + line * LINE).unwrap()).sum();
    assert_eq!(sum, 2_000, "{}", E::NAME);
}

#[test]
fn threads_that_wait_and_threads_that_do_not_share_an_engine() {
    for domain in DOMAINS {
        on_each_engine!(crash_consistent threads::<Reference>(domain));
    }
}
