//! Readers that stay: however little they have read, they hold up neither writers nor other readers, and go on to see
//! one state.

use crate::ram;
use perdura_engine::area::SMALLEST;
use perdura_engine::sums::Places;
use perdura_engine::{Access, Engine, Error, Mode, Result, Session, Sums, Tuning, on_each_engine};
use perdura_memory::random::SplitMix64;
use perdura_memory::{AnyMemory, PAGE};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const DATA: u64 = 4 << 20;
const BYTES: u64 = 5 << 20;
/// Bytes of log: room for more sessions than the smallest.
const LOG: u64 = 4 * SMALLEST;
/// How long a reader is idle at most: the test fails then. What it waits for takes milliseconds.
const IDLE: Duration = Duration::from_secs(5);

/// An engine, with checksums of all pages from `DATA` on if asked for.
fn start<E: Engine<AnyMemory>>(summed: bool) -> Arc<E> {
    let memory = Arc::new(ram(BYTES));
    let log = LOG + E::beside_log(BYTES);
    assert!(log + PAGE <= DATA / 2, "{log} bytes of log");
    E::format(&memory, 0..log);
    let table = DATA / 2 + PAGE;
    let places = Places { catalogue: DATA / 2, table, sums: table + PAGE, pages: DATA, end: BYTES };
    let sums = summed.then(|| Sums::new(&*memory, places));
    E::start_with_sums(memory, 0..log, sums).expect("an empty log")
}

fn word(index: u64) -> u64 {
    DATA + index * 64
}

/// Runs a transaction until it meets no conflict.
fn run<S: Session, R>(session: &mut S, mode: Mode, mut body: impl FnMut(&mut S) -> Result<R>) -> R {
    for conflicts in 0.. {
        match conflicts {
            0 => session.begin(mode),
            _ => session.begin_again(mode, conflicts),
        }
        match body(session) {
            Err(Error::Conflict) => session.abort(),
            other => return other.unwrap(),
        }
    }
    unreachable!("it returns");
}

/// Adds one to the first `words` words.
fn add(session: &mut impl Session, words: u64) {
    let ticket = run(session, Mode::Write, |session| {
        for index in 0..words {
            let value = session.read_word(word(index))?;
            session.write_word(word(index), value + 1)?;
        }
        session.commit()
    });
    session.wait_durable(ticket).unwrap();
}

fn read(session: &mut impl Session, index: u64) -> u64 {
    run(session, Mode::Read, |session| {
        let value = session.read_word(word(index))?;
        session.commit()?;
        Ok(value)
    })
}

/// A reader looks at `looks` words, and is idle until writers and other readers have done all their work.
fn others_go_on<E: Engine<AnyMemory>>(summed: bool, looks: u64) {
    const ROUNDS: u64 = 60;
    const WORDS: u64 = 200;
    let engine = start::<E>(summed);
    let name = E::NAME;
    let mut reader = engine.session().unwrap();
    // The first commit may leave a window open, which this session then reads.
    add(&mut reader, WORDS);
    let (is_done, done) = mpsc::channel();
    std::thread::scope(|scope| {
        reader.begin_unfailing(Mode::Read);
        for index in 0..looks {
            assert_eq!(reader.read_word(word(index)).unwrap(), 1, "{name}");
        }
        let engine = &engine;
        scope.spawn(move || {
            let [mut writer, mut other] = [0; 2].map(|_| engine.session().unwrap());
            for round in 0..ROUNDS {
                add(&mut writer, [1, WORDS][round as usize % 2]);
                assert_eq!(read(&mut other, 0), round + 2, "{name}");
                if round % 20 == 0 {
                    engine.checkpoint().unwrap();
                }
            }
            // Nobody listens if it has taken too long.
            let _ = is_done.send(());
        });
        let done = done.recv_timeout(IDLE);
        // What others have stored since is not seen.
        let seen: Vec<u64> =
            (0..WORDS).map(|index| reader.read_word(word(index)).unwrap()).collect();
        let mut bytes = [0; 8];
        reader.read_bytes(word(3), &mut bytes).unwrap();
        let ended = reader.commit();
        assert!(done.is_ok(), "{name}: they wait for a reader of {looks} words");
        assert!(seen.iter().all(|value| *value == seen[0]), "{name}: {seen:?}");
        assert_eq!(u64::from_ne_bytes(bytes), seen[0], "{name}");
        // One that has looked at nothing may see the state in which it was moved.
        assert!(seen[0] == 1 || looks == 0, "{name}: {seen:?}");
        reader.wait_durable(ended.unwrap()).unwrap();
    });
    assert_eq!([0, WORDS - 1].map(|index| read(&mut reader, index)), [61, 31], "{name}");
    engine.checkpoint().unwrap();
    let last = run(&mut reader, Mode::Write, |session| {
        session.write_word(word(0), 0)?;
        session.commit()
    });
    reader.wait_durable(last).unwrap();
    engine.checkpoint().unwrap();
    assert!(engine.reclaimable() >= last, "{name}: nobody is reading");
}

fn idle<E: Engine<AnyMemory>>() {
    others_go_on::<E>(false, 0);
    others_go_on::<E>(false, 1);
}

#[test]
fn an_idle_reader_holds_nobody_up() {
    on_each_engine!(crash_consistent idle::<AnyMemory>());
}

fn idle_with_sums<E: Engine<AnyMemory>>() {
    if E::KEEPS_CHECKSUMS {
        others_go_on::<E>(true, 1);
    }
}

#[test]
fn an_idle_reader_of_pages_with_checksums_holds_nobody_up() {
    on_each_engine!(crash_consistent idle_with_sums::<AnyMemory>());
}

/// Accounts, whose sum is constant.
const ACCOUNTS: u64 = 64;
const EACH: u64 = 1000;

/// Moves amounts between accounts.
fn transfer(session: &mut impl Session, seed: u64, rounds: u64) {
    let mut random = SplitMix64::new(seed);
    for round in 0..rounds {
        let moves: Vec<[u64; 3]> = (0..1 + random.below(20))
            .map(|_| [random.below(ACCOUNTS), random.below(ACCOUNTS), random.below(9)])
            .collect();
        let awaited = random.below(4);
        let ticket = run(session, Mode::Write, |session| {
            for &[from, to, by] in &moves {
                let value = session.read_word(word(from))?;
                session.write_word(word(from), value.wrapping_sub(by))?;
                let value = session.read_word(word(to))?;
                session.write_word(word(to), value.wrapping_add(by))?;
            }
            if awaited < 2 { session.commit_awaited() } else { session.commit() }
        });
        if awaited < 3 {
            session.wait_durable(ticket).unwrap();
        }
        if round % 100 == 0 {
            session.checkpoint().unwrap();
        }
    }
}

/// The sum, read with pauses.
fn sum(session: &mut impl Session, random: &mut SplitMix64) -> u64 {
    run(session, Mode::Read, |session| {
        let mut sum = 0_u64;
        for index in 0..ACCOUNTS {
            if random.below(2) == 0 {
                sum = sum.wrapping_add(session.read_word(word(index))?);
            } else {
                let mut bytes = [0; 8];
                session.read_bytes(word(index), &mut bytes)?;
                sum = sum.wrapping_add(u64::from_ne_bytes(bytes));
            }
            match random.below(200) {
                0 => std::thread::sleep(Duration::from_micros(random.below(200))),
                1..20 => std::thread::yield_now(),
                _ => {}
            }
        }
        let ticket = session.commit()?;
        session.is_durable(ticket);
        Ok(sum)
    })
}

fn sums_are_constant<E: Engine<AnyMemory>>() {
    for (seed, wait_for_readers_ns) in [(1, Some(0)), (2, Some(3_000)), (3, None)] {
        let engine = start::<E>(seed == 2 && E::KEEPS_CHECKSUMS);
        let share = [None, Some(true)][seed as usize % 2];
        engine.tune(&Tuning { wait_for_readers_ns, share, ..Tuning::default() });
        let mut first = engine.session().unwrap();
        let ticket = run(&mut first, Mode::Write, |session| {
            (0..ACCOUNTS).try_for_each(|index| session.write_word(word(index), EACH))?;
            session.commit()
        });
        first.wait_durable(ticket).unwrap();
        let (over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (engine, over, reads) = (&engine, &over, &reads);
                scope.spawn(move || {
                    let mut session = engine.session().unwrap();
                    let mut random = SplitMix64::new(seed * 100 + reader);
                    while !over.load(Ordering::Relaxed) {
                        let sum = sum(&mut session, &mut random);
                        if sum != ACCOUNTS * EACH {
                            over.store(true, Ordering::Relaxed);
                            panic!("{}, seed {seed}: {sum}", E::NAME);
                        }
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let writers = [1, 2].map(|writer| {
                let (engine, over, reads) = (&engine, &over, &reads);
                scope.spawn(move || {
                    let mut session = engine.session().unwrap();
                    transfer(&mut session, seed * 10 + writer, 400);
                    // Until some reader has had a turn.
                    while reads.load(Ordering::Relaxed) == 0 && !over.load(Ordering::Relaxed) {
                        transfer(&mut session, seed * 10 + writer, 10);
                    }
                })
            });
            let ended = writers.map(|writer| writer.join());
            over.store(true, Ordering::Relaxed);
            ended.into_iter().for_each(|ended| ended.expect("no panic"));
        });
        assert!(reads.into_inner() > 0);
        assert_eq!(sum(&mut first, &mut SplitMix64::new(9)), ACCOUNTS * EACH, "{}", E::NAME);
    }
}

#[test]
fn readers_that_pause_see_constant_sums() {
    on_each_engine!(crash_consistent sums_are_constant::<AnyMemory>());
}
