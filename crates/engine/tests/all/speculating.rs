//! Engines on hardware transactions, on real threads: the hardware is imitated, or the processor's where it has it.

use crate::start_on;
use perdura_engine::area::SMALLEST;
use perdura_engine::{
    Access, Counters, Engine, Error, HtmRedoEngine, HtmUndoEngine, HtmVolatileEngine, Mode, Session,
};
use perdura_memory::random::SplitMix64;
use perdura_memory::speculation::{Emulated, Emulation};
use perdura_memory::{AnyMemory, Ram};
use std::sync::Arc;

const LOG: u64 = SMALLEST;
const PAIRS: u64 = 16;
/// A pair's words are this far apart.
const APART: u64 = 64 * PAIRS;
const BYTES: u64 = LOG + (1 << 16);
const THREADS: u64 = 3;
const ROUNDS: u64 = 3_000;

fn memory(seed: u64, lost_percent: u8) -> AnyMemory {
    let emulation = Emulation { seed, lost_percent, ..Emulation::default() };
    AnyMemory::new(Arc::new(Emulated::new(Ram::new(BYTES), emulation).accepting_unsafe()))
}

/// Runs `body` until it commits; answers whether `body` wanted that, or a rollback.
fn transact<S: Session>(
    session: &mut S,
    mode: Mode,
    mut body: impl FnMut(&mut S) -> Result<bool, Error>,
) -> bool {
    let mut conflicts = 0;
    session.begin(mode);
    loop {
        match body(session) {
            Ok(true) => match session.commit() {
                Ok(ticket) => {
                    session.wait_durable(ticket).expect("durable");
                    return true;
                }
                Err(Error::Conflict) => {}
                Err(error) => panic!("{error}"),
            },
            Ok(false) if !session.has_conflict() => {
                session.abort();
                return false;
            }
            Ok(false) | Err(Error::Conflict) => session.abort(),
            Err(error) => panic!("{error}"),
        }
        conflicts += 1;
        session.begin_again(mode, conflicts);
    }
}

/// Adds one to both words of pairs, which are always equal; rolls back now and then; reads all pairs now and then.
fn count<S: Session>(session: &mut S, thread: u64) -> (u64, Counters) {
    let mut random = SplitMix64::new(thread);
    let mut added = 0;
    for round in 0..ROUNDS {
        let (pair, gives_up) = (random.below(PAIRS), random.below(10) == 0);
        let (one, two) = (LOG + pair * 64, LOG + APART + pair * 64);
        if round % 50 == 0 {
            transact(session, Mode::Read, |session| {
                for pair in 0..PAIRS {
                    let first = session.read_word(LOG + pair * 64)?;
                    let second = session.read_word(LOG + APART + pair * 64)?;
                    assert_eq!(first, second, "half of a transaction");
                }
                Ok(true)
            });
        }
        let committed = transact(session, Mode::Write, |session| {
            let (first, second) = (session.read_word(one)?, session.read_word(two)?);
            assert_eq!(first, second, "half of a transaction");
            session.write_word(one, first + 1)?;
            session.write_word(two, second + 1)?;
            Ok(!gives_up)
        });
        added += u64::from(committed);
    }
    (added, *session.counters())
}

fn sums_are_right<E: Engine<AnyMemory>>(memory: AnyMemory, percent: u8) -> Counters {
    let engine = start_on::<_, E>(memory, LOG);
    let counted: Vec<(u64, Counters)> = std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|thread| {
            let engine = &engine;
            scope.spawn(move || count(&mut engine.session().expect("a session"), thread))
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut all = Counters::default();
    counted.iter().for_each(|(_, counters)| all += *counters);
    let added: u64 = counted.iter().map(|(added, _)| added).sum();
    let mut session = engine.session().expect("a session");
    let mut sums = [0; 2];
    transact(&mut session, Mode::Read, |session| {
        sums = [0; 2];
        for pair in 0..PAIRS {
            sums[0] += session.read_word(LOG + pair * 64)?;
            sums[1] += session.read_word(LOG + APART + pair * 64)?;
        }
        Ok(true)
    });
    assert_eq!(sums, [added; 2], "{} with {percent} % lost", E::NAME);
    all
}

fn both_paths_are_taken<E: Engine<AnyMemory>>() {
    for (seed, percent) in [(1, 0), (2, 5), (3, 50)] {
        let counters = sums_are_right::<E>(memory(seed, percent), percent);
        let (hardware, fallback) = (counters.hardware_commits, counters.hardware_fallbacks);
        let text = format!("{} with {percent} % lost: {counters:?}", E::NAME);
        assert!(hardware > THREADS * ROUNDS / 5, "{text}");
        // A drawn lack of capacity sends a transaction to the lock.
        assert_eq!(percent > 0, counters.hardware_capacity > 0, "{text}");
        assert!(percent < 50 || fallback > THREADS * ROUNDS / 20, "{text}");
        assert!(counters.hardware_cancelled > 0, "{text}");
    }
}

#[test]
fn transactions_of_both_paths_add_up_without_a_log() {
    both_paths_are_taken::<HtmVolatileEngine<AnyMemory>>();
}

#[test]
fn transactions_of_both_paths_add_up_over_undo() {
    both_paths_are_taken::<HtmUndoEngine<AnyMemory>>();
}

#[test]
fn transactions_of_both_paths_add_up_over_redo() {
    both_paths_are_taken::<HtmRedoEngine<AnyMemory>>();
}

/// A memory that speculates, without persistent caches, is refused unless its owner accepts that.
#[test]
fn unlogged_transactions_are_refused_on_transient_caches() {
    use perdura_memory::{Domain, Reference};
    let start = |accepts: bool| {
        let memory = Emulated::new(Reference::new(BYTES, Domain::Transient), Emulation::default());
        let memory = if accepts { memory.accepting_unsafe() } else { memory };
        let memory = Arc::new(AnyMemory::new(Arc::new(memory)));
        HtmUndoEngine::<AnyMemory>::format(&memory, 0..LOG);
        HtmUndoEngine::start(memory, 0..LOG).err()
    };
    assert!(matches!(start(false), Some(Error::NotSafe { engine: "htm-undo", .. })));
    assert!(start(true).is_none());
}
