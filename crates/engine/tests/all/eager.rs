//! Windows of transactions: which share a record, what becomes of it, and which sessions see it.

use crate::ram;
use perdura_engine::area::SMALLEST;
use perdura_engine::{
    Access, EagerEngine, Engine, Error, Mode, RedoEngine, Session, Ticket, Tuning,
};
use perdura_memory::reference::Cut;
use perdura_memory::{AnyMemory, Domain, LINE, Memory, Reference};
use std::sync::Arc;

const LOG: u64 = 1 << 20;
const LINES: u64 = 4096;

type Eager = EagerEngine<Reference>;

fn started<E: Engine<Reference>>(log: u64, window: u64) -> (Arc<Reference>, Arc<E>) {
    let memory = Arc::new(Reference::new(log + LINES * LINE, Domain::Transient));
    E::format(&memory, 0..log);
    let engine = E::start(memory.clone(), 0..log).unwrap();
    engine.tune(&Tuning { window: Some(window), ..Tuning::default() });
    (memory, engine)
}

/// The offset of the first word of a line behind the log.
fn at(line: u64) -> u64 {
    LOG + line * LINE
}

fn store<S: Session>(session: &mut S, words: &[(u64, u64)]) -> Ticket {
    session.begin(Mode::Write);
    words.iter().for_each(|&(at, value)| session.write_word(at, value).unwrap());
    session.commit().unwrap()
}

fn read<S: Session>(session: &mut S, at: u64) -> u64 {
    session.begin(Mode::Read);
    assert!(matches!(session.write_word(at, 1), Err(Error::ReadOnly)));
    assert_eq!(session.mode(), Mode::Read);
    let value = session.read_word(at).unwrap();
    session.commit().unwrap();
    value
}

/// The first words of some lines after a power cut that loses everything it may.
fn after_cut<const N: usize>(memory: &Reference, lines: [u64; N]) -> [u64; N] {
    let after = memory.after_power_cut(Cut::None);
    Eager::recover(&after, 0..LOG).unwrap();
    lines.map(|line| after.load(at(line)))
}

#[test]
fn a_window_has_one_record_and_one_fence() {
    let (memory, engine) = started::<Eager>(LOG, 16);
    let mut session = engine.session().unwrap();
    let before = *session.counters();
    let tickets: Vec<Ticket> =
        (1..16).map(|round| store(&mut session, &[(at(round % 3), round)])).collect();
    assert_eq!((*session.counters() - before).fences, 0);
    assert!(!session.is_durable(tickets[0]));
    assert_eq!(after_cut(&memory, [0, 1, 2]), [0; 3]);
    let last = store(&mut session, &[(at(3), 16)]);
    assert!(session.is_durable(last) && session.is_durable(tickets[0]), "the window is full");
    let counted = *session.counters() - before;
    assert_eq!((counted.fences, counted.commits, counted.shared), (1, 16, 15));
    assert_eq!(counted.write_backs_log, 2, "a header and four words, with their lines");
    assert_eq!(after_cut(&memory, [0, 1, 2, 3]), [15, 13, 14, 16]);
}

/// A window is waited for before it is full, by its first transaction's ticket, on a session that wrote nothing.
#[test]
fn one_that_is_waited_for_takes_the_window_along() {
    let (memory, engine) = started::<Eager>(LOG, 16);
    let (mut one, mut other) = (engine.session().unwrap(), engine.session().unwrap());
    let first = store(&mut one, &[(at(0), 1)]);
    let second = store(&mut other, &[(at(1), 2)]);
    assert!(!one.is_durable(first) && first < second);
    other.wait_durable(first).unwrap();
    assert!(one.is_durable(second));
    assert_eq!(after_cut(&memory, [0, 1]), [1, 2]);
}

#[test]
fn a_window_of_one_is_redo_logging() {
    let (memory, engine) = started::<Eager>(LOG, 1);
    let (other_memory, redo) = started::<RedoEngine<Reference>>(LOG, 1);
    let (mut session, mut base) = (engine.session().unwrap(), redo.session().unwrap());
    for round in 0..20 {
        let words = [(at(round % 5), round), (at(7), round)];
        let ticket = store(&mut session, &words);
        assert!(session.is_durable(ticket));
        store(&mut base, &words);
    }
    assert_eq!(session.counters(), base.counters());
    assert_eq!(memory.load(at(7)), other_memory.load(at(7)));
}

/// A word of an earlier transaction that was overwritten is restored by an undo, and nothing else: earlier transactions
/// are not undone, and nothing of the undone one stays. (The paper's footnote 4.)
#[test]
fn an_abort_leaves_the_transactions_before_it() {
    for lines in [2, 100] {
        let (memory, engine) = started::<Eager>(LOG, 16);
        let mut session = engine.session().unwrap();
        store(&mut session, &[(at(0), 1), (at(0) + 8, 2)]);
        store(&mut session, &[(at(0), 3)]);
        session.begin(Mode::Write);
        (0..lines).for_each(|line| session.write_word(at(line), 9).unwrap());
        let mark = session.mark();
        session.write_word(at(0) + 8, 9).unwrap();
        session.rollback_to(mark);
        session.write_bytes(at(1), &[9; 64]).unwrap();
        session.abort();
        let words = [at(0), at(0) + 8, at(1)].map(|at| read(&mut session, at));
        assert_eq!(words, [3, 2, 0], "{lines} lines");
        let last = store(&mut session, &[(at(5), 5)]);
        session.wait_durable(last).unwrap();
        assert_eq!(after_cut(&memory, [0, 1, 5]), [3, 0, 5], "{lines} lines");
        assert_eq!(memory.load(at(0) + 8), 2);
    }
}

/// The session that left the window reads in it, without a fence; another one closes it, and there is none for some
/// commits.
#[test]
fn readers_see_what_has_committed() {
    let (memory, engine) = started::<Eager>(LOG, 16);
    let mut session = engine.session().unwrap();
    let first = store(&mut session, &[(at(0), 1)]);
    let fences = session.counters().fences;
    session.begin(Mode::Read);
    assert_eq!(session.read_word(at(0)).unwrap(), 1);
    let seen = session.commit().unwrap();
    assert!(seen >= first && !session.is_durable(seen));
    assert_eq!(session.counters().fences, fences);
    store(&mut session, &[(at(0), 2)]);
    {
        let mut other = engine.session().unwrap();
        assert_eq!(read(&mut other, at(0)), 2);
        assert!(session.is_durable(seen), "it has ended the window");
        assert_eq!(after_cut(&memory, [0]), [2]);
        let third = store(&mut session, &[(at(0), 3)]);
        assert!(session.is_durable(third), "another session has read");
        assert_eq!(read(&mut other, at(0)), 3);
    }
    let mut until_the_next = || {
        let mut tickets =
            (1..10_000).map(|round| (round, store(&mut session, &[(at(0), 3 + round)])));
        let mut other = engine.session().unwrap();
        let (round, _) = tickets.find(|(_, ticket)| !other.is_durable(*ticket)).unwrap();
        drop(tickets);
        assert_eq!(read(&mut session, at(0)), 3 + round);
        assert_eq!(read(&mut other, at(0)), 3 + round);
        round
    };
    let rests: Vec<u64> = (0..12).map(|_| until_the_next()).collect();
    assert!(rests.is_sorted() && rests[0] < 20 && (4096..4200).contains(&rests[11]), "{rests:?}");
}

/// The window is closed before the running transaction, which goes on, and commits or not.
#[test]
fn a_window_ends_inside_of_a_transaction() {
    for commits in [false, true] {
        for checkpoint in [false, true] {
            let (memory, engine) = started::<Eager>(LOG, 16);
            let mut session = engine.session().unwrap();
            store(&mut session, &[(at(0), 1), (at(1), 1)]);
            let before = store(&mut session, &[(at(2), 1)]);
            session.begin(Mode::Write);
            session.write_word(at(1), 2).unwrap();
            session.write_word(at(3), 2).unwrap();
            let mark = session.mark();
            session.write_word(at(2), 2).unwrap();
            if checkpoint {
                session.checkpoint().unwrap();
                assert!(engine.reclaimable() >= before);
            } else {
                session.wait_durable(before).unwrap();
            }
            assert!(session.is_durable(before));
            assert_eq!(after_cut(&memory, [0, 1, 2, 3]), [1, 1, 1, 0]);
            let mut other = engine.session().unwrap();
            assert_eq!(read(&mut other, at(1)), 1, "it need not wait for the running transaction");
            drop(other);
            let words = [0, 1, 2, 3].map(|line| session.read_word(at(line)).unwrap());
            assert_eq!(words, [1, 2, 2, 2]);
            session.rollback_to(mark);
            assert_eq!(session.read_word(at(2)).unwrap(), 1);
            let wanted = if commits {
                let ticket = session.commit_awaited().unwrap();
                assert!(session.is_durable(ticket) && ticket > before);
                [1, 2, 1, 2]
            } else {
                session.abort();
                [1, 1, 1, 0]
            };
            assert_eq!(after_cut(&memory, [0, 1, 2, 3]), wanted);
            assert_eq!([0, 1, 2, 3].map(|line| read(&mut session, at(line))), wanted);
        }
    }
}

/// A transaction that does not fit fails alone.
#[test]
fn too_large_a_transaction_takes_nothing_along() {
    let memory = Arc::new(ram(SMALLEST + (1 << 20)));
    EagerEngine::<AnyMemory>::format(&*memory, 0..SMALLEST);
    let engine = EagerEngine::<AnyMemory>::start(memory.clone(), 0..SMALLEST).unwrap();
    let mut session = engine.session().unwrap();
    let before = store(&mut session, &[(SMALLEST, 1)]);
    session.begin(Mode::Write);
    for word in 0..SMALLEST / 8 {
        session.write_word(SMALLEST + word * 8, 7).unwrap();
    }
    assert!(matches!(session.commit(), Err(Error::TooLarge { .. })));
    assert_eq!(read(&mut session, SMALLEST), 1);
    let after = store(&mut session, &[(SMALLEST + 8, 2)]);
    session.wait_durable(after).unwrap();
    assert!(session.is_durable(before));
    assert_eq!([0, 8, 16].map(|at| memory.load(SMALLEST + at)), [1, 2, 0]);
}

/// No thread waits for it: it is durable all the same, after its time.
#[test]
fn a_window_is_ended_after_its_time() {
    let (memory, engine) = started::<Eager>(LOG, 16);
    let mut session = engine.session().unwrap();
    engine.tune(&Tuning { answer_within_ns: Some(u64::MAX), ..Tuning::default() });
    let ticket = store(&mut session, &[(at(0), 1)]);
    engine.flush_due().unwrap();
    engine.flush_due().unwrap();
    assert!(!session.is_durable(ticket));
    engine.tune(&Tuning { answer_within_ns: Some(0), ..Tuning::default() });
    engine.flush_due().unwrap();
    assert!(session.is_durable(ticket));
    assert_eq!(after_cut(&memory, [0]), [1]);
    engine.flush_due().unwrap();
}

/// Where fences are free, or one serves all anyway, there is no window.
#[test]
fn no_window_where_it_saves_nothing() {
    for domain in [Domain::Persistent, Domain::Process, Domain::Media] {
        let memory = Arc::new(Reference::new(LOG + LINES * LINE, domain));
        Eager::format(&memory, 0..LOG);
        let engine = Eager::start(memory.clone(), 0..LOG).unwrap();
        let mut session = engine.session().unwrap();
        store(&mut session, &[(at(0), 1)]);
        assert_eq!(memory.load(at(0)), 1, "{domain}");
    }
}

/// Threads pass the window on to one another, in a log that is emptied all the time, some of them readers, some with
/// transactions that are rolled back: no sum is wrong, now or after a power cut, and windows do occur.
#[test]
fn threads_share_a_window() {
    for (waits, readers) in [(1, 0), (8, 0), (u64::MAX, 0), (8, 1)] {
        let memory = Arc::new(Reference::new(SMALLEST + 64 * LINE, Domain::Transient));
        Eager::format(&memory, 0..SMALLEST);
        let engine = Eager::start(memory.clone(), 0..SMALLEST).unwrap();
        let counter = |line: u64| SMALLEST + line * LINE;
        let add = |session: &mut <Eager as Engine<Reference>>::Session, line: u64| {
            let value = session.read_word(counter(line)).unwrap();
            session.write_word(counter(line), value + 1).unwrap();
            assert_eq!(session.read_word(counter(line)).unwrap(), value + 1);
        };
        let done = std::thread::scope(|scope| {
            let writers: Vec<_> = (1..4_u64)
                .map(|thread| {
                    let engine = &engine;
                    scope.spawn(move || {
                        let mut session = engine.session().unwrap();
                        for round in 1..=2_000 {
                            session.begin(Mode::Write);
                            add(&mut session, thread);
                            add(&mut session, 0);
                            if round % 7 == thread {
                                session.abort();
                                session.begin(Mode::Write);
                                add(&mut session, thread);
                                add(&mut session, 0);
                            }
                            let ticket = session.commit().unwrap();
                            if round % waits == 0 {
                                session.wait_durable(ticket).unwrap();
                            }
                        }
                        *session.counters()
                    })
                })
                .collect();
            for _ in 0..readers {
                scope.spawn(|| {
                    let mut session = engine.session().unwrap();
                    let mut before = [0; 4];
                    for _ in 0..2_000 {
                        session.begin(Mode::Read);
                        let now =
                            [0, 1, 2, 3].map(|line| session.read_word(counter(line)).unwrap());
                        session.commit().unwrap();
                        assert_eq!(now[0], now[1..].iter().sum::<u64>());
                        assert!(now.iter().zip(before).all(|(now, before)| *now >= before));
                        before = now;
                    }
                });
            }
            let counters: Vec<_> =
                writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            counters.iter().map(|counted| counted.shared).sum::<u64>()
        });
        let mut session = engine.session().unwrap();
        let sums = [0, 1, 2, 3].map(|line| read(&mut session, counter(line)));
        assert_eq!(sums, [6_000, 2_000, 2_000, 2_000], "{waits}");
        assert!(waits == 1 || readers > 0 || done > 3_000, "{waits}: {done} shared");
        engine.checkpoint().unwrap();
        let after = memory.after_power_cut(Cut::None);
        Eager::recover(&after, 0..SMALLEST).unwrap();
        assert_eq!([0, 1, 2, 3].map(|line| after.load(counter(line))), sums);
    }
}
