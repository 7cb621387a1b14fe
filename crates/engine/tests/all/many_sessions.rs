//! Many more sessions than a small log has segments: they hand these over, and find one whenever they commit.

use crate::ram;
use perdura_engine::area::SMALLEST;
use perdura_engine::{
    Access, CcStmEngine, Engine, Error, Mode, RedoEngine, Session, Ticket, Tuning, on_each_engine,
};
use perdura_memory::random::SplitMix64;
use perdura_memory::reference::Cut;
use perdura_memory::{AnyMemory, Domain, Memory, Reference};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

/// 16 segments of 4 KiB, of which four are kept.
const LOG: u64 = SMALLEST;
const SEGMENT: u64 = 4096;
/// Bytes of log that a transaction can always have.
const AVAILABLE: u64 = 12 * SEGMENT;
/// More than fit in the log.
const WORDS: u64 = 8192;
const BYTES: u64 = LOG + WORDS * 8;

fn at(word: u64) -> u64 {
    LOG + word * 8
}

fn start<M: Memory + 'static, E: Engine<M>>(memory: &Arc<M>, kept: Option<u64>) -> Arc<E> {
    E::format(memory, 0..LOG);
    let engine = E::start(memory.clone(), 0..LOG).expect("an empty log");
    engine.tune(&Tuning { kept_segments: kept, ..Tuning::default() });
    engine
}

/// Commits `body` once it meets no conflict.
fn transact<S: Session>(
    session: &mut S,
    mut body: impl FnMut(&mut S) -> Result<(), Error>,
) -> Ticket {
    let mut conflicts = 0;
    loop {
        match conflicts {
            0 => session.begin(Mode::Write),
            _ => session.begin_again(Mode::Write, conflicts),
        }
        match body(session).and_then(|()| session.commit_awaited()) {
            Ok(ticket) => return ticket,
            Err(Error::Conflict) => {
                session.abort();
                conflicts += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sessions that commit in random order, some of them several parts, come and go, and lose their power: everything
/// acknowledged is there.
fn outlive_power<E: Engine<Reference>>(domain: Domain, kept: Option<u64>, seed: u64) {
    const SESSIONS: usize = 40;
    let memory = Arc::new(Reference::new(BYTES, domain));
    let engine: Arc<E> = start(&memory, kept);
    let mut random = SplitMix64::new(seed);
    let mut sessions: Vec<_> = (0..SESSIONS).map(|_| engine.session().unwrap()).collect();
    let mut model = vec![0; WORDS as usize];
    for value in 1..400 {
        let chosen = random.below(SESSIONS as u64) as usize;
        if random.below(20) == 0 {
            sessions.remove(chosen);
            sessions.push(engine.session().unwrap());
        }
        let session = &mut sessions[chosen];
        let words = match random.below(12) {
            0 => 1500,
            1 => 300,
            _ => 1 + random.below(20),
        };
        let first = random.below(WORDS - words);
        let ticket = transact(session, |session| {
            (first..first + words).try_for_each(|word| session.write_word(at(word), value))
        });
        model[first as usize..(first + words) as usize].fill(value);
        if random.below(3) == 0 {
            sessions[random.below(SESSIONS as u64) as usize].wait_durable(ticket).unwrap();
            for cut in [Cut::None, Cut::All, Cut::Seed(value)] {
                if random.below(6) == 0 {
                    let after = memory.after_power_cut(cut);
                    E::recover(&after, 0..LOG).unwrap();
                    let found: Vec<_> = (0..WORDS).map(|word| after.load(at(word))).collect();
                    assert!(found == model, "{} {domain} {kept:?} {seed}, {cut:?}", E::NAME);
                }
            }
        }
    }
}

#[test]
fn power_cut() {
    for seed in 0..3 {
        for kept in [None, Some(0), Some(1)] {
            for domain in [Domain::Transient, Domain::Persistent, Domain::Media] {
                on_each_engine!(crash_consistent outlive_power::<Reference>(domain, kept, seed));
            }
        }
    }
}

/// Threads that all write, on their own words and a common one, while others read: no update is lost, and none fails.
#[test]
fn writers_find_a_segment() {
    const WRITERS: u64 = 60;
    const ROUNDS: u64 = 60;
    fn run<E: Engine<AnyMemory>>() {
        let memory = Arc::new(ram(BYTES));
        let engine: Arc<E> = start(&memory, None);
        let over = AtomicBool::new(false);
        let all_there = Barrier::new(WRITERS as usize + 20);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|thread| {
                    let (engine, all_there) = (&engine, &all_there);
                    scope.spawn(move || {
                        let mut session = engine.session().unwrap();
                        all_there.wait();
                        for round in 1..=ROUNDS {
                            let ticket = transact(&mut session, |session| {
                                let common = session.read_word(at(0))?;
                                session.write_word(at(0), common + 1)?;
                                // Now and then too much for one segment.
                                let words = if round % 20 == thread % 20 { 600 } else { 10 };
                                let own = at(64 + thread * 8);
                                session.write_word(own, round)?;
                                (2048..2048 + words)
                                    .try_for_each(|word| session.write_word(at(word), round))
                            });
                            session.wait_durable(ticket).unwrap();
                        }
                    })
                })
                .collect();
            for _ in 0..20 {
                let (engine, over, all_there) = (&engine, &over, &all_there);
                scope.spawn(move || {
                    let mut session = engine.session().unwrap();
                    all_there.wait();
                    let mut last = 0;
                    while !over.load(Ordering::Relaxed) {
                        session.begin(Mode::Read);
                        let seen = session.read_word(at(0));
                        let ended = seen.and_then(|seen| session.commit().map(|_| seen));
                        match ended {
                            Ok(seen) => {
                                assert!(seen >= last);
                                last = seen;
                            }
                            Err(Error::Conflict) => session.abort(),
                            Err(error) => panic!("{error}"),
                        }
                        std::thread::yield_now();
                    }
                });
            }
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            over.store(true, Ordering::Relaxed);
        });
        let mut session = engine.session().unwrap();
        session.begin(Mode::Read);
        assert_eq!(session.read_word(at(0)).unwrap(), WRITERS * ROUNDS, "{}", E::NAME);
        for thread in 0..WRITERS {
            assert_eq!(session.read_word(at(64 + thread * 8)).unwrap(), ROUNDS);
        }
    }
    on_each_engine!(crash_consistent run::<AnyMemory>());
}

/// What a transaction may have at most is there for any of many sessions, after all of them have written.
#[test]
fn as_much_log_as_promised() {
    fn run<E: Engine<AnyMemory>>(kept: Option<u64>) {
        let memory = Arc::new(ram(BYTES));
        let engine: Arc<E> = start(&memory, kept);
        let mut sessions: Vec<_> = (0..100).map(|_| engine.session().unwrap()).collect();
        for session in &mut sessions {
            transact(session, |session| session.write_word(at(0), 1));
        }
        let mut write = |session: usize, words: u64, value: u64| {
            let session = &mut sessions[session];
            session.begin(Mode::Write);
            (0..words).try_for_each(|word| session.write_word(at(word), value)).unwrap();
            session.commit_awaited()
        };
        for session in [0, 3, 4, 99] {
            let error = write(session, WORDS, 2).expect_err("more than the log");
            assert!(matches!(error, Error::TooLarge { available: AVAILABLE, .. }), "{error}");
            // A line takes nine words of log, and the log of a part up to twenty for itself; or it takes two lines.
            let fits = match E::NAME {
                "undo-each" | "atlas" | "htm-undo" => AVAILABLE / 128 * 8 - 64,
                _ => AVAILABLE / SEGMENT * ((SEGMENT / 8 - 20) / 9) * 8 - 64,
            };
            write(session, fits, session as u64).unwrap();
        }
    }
    for kept in [None, Some(0), Some(2)] {
        on_each_engine!(crash_consistent run::<AnyMemory>(kept));
    }
}

/// Segments are not used up by sessions that commit once each: the log is emptied as seldom as for one session.
#[test]
fn handed_over_segments_are_filled() {
    fn run<E: Engine<AnyMemory>>() {
        let checkpoints = |sessions: usize| {
            let memory = Arc::new(ram(BYTES));
            let engine: Arc<E> = start(&memory, None);
            let mut all: Vec<_> = (0..sessions).map(|_| engine.session().unwrap()).collect();
            for round in 0..6000 {
                transact(&mut all[round % sessions], |session| session.write_word(at(0), 1));
            }
            all.iter().map(|session| session.counters().checkpoints).sum::<u64>()
        };
        let (one, many) = (checkpoints(1), checkpoints(500));
        assert!(one > 5 && (one..=one + one / 3).contains(&many), "{}: {one}, {many}", E::NAME);
    }
    run::<RedoEngine<AnyMemory>>();
    run::<CcStmEngine<AnyMemory>>();
}
