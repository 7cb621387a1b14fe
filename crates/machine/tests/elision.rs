//! A lock that hardware elides, on machines with and without such hardware: transactions run both ways, and what they
//! do is serialisable.

#![allow(missing_docs)]

mod common;

use common::tiny;
use perdura_machine::mechanism::{CcHtm, CcHtmConfig, Htm, HtmConfig};
use perdura_machine::{Design, Keep, Machine, Options, Plain, Schedule};
use perdura_memory::elision::{Attempts, Delay, ElidedLock, Elision, ElisionCounts, Way};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory};
use std::sync::Mutex;

const CORES: u64 = 3;
const ROUNDS: u64 = 40;
const CELLS: u64 = 12;

/// What a run has counted, and how many bodies have seen two halves of a cell differ.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    counts: Vec<ElisionCounts>,
    torn: u64,
    /// Increments that are missing at the end, or too many.
    missing: u64,
    time: u64,
}

fn htm(interrupt_ns: f64) -> Box<dyn Design> {
    let config = HtmConfig { interrupt_ns, ..HtmConfig::default() };
    Box::new(Htm::new(config, None).expect("figures that make sense"))
}

/// Each cell is two words on two lines that are always equal. A transaction adds one to each word of a cell; with a chance
/// of `forced` in 100 it gives up speculation on the way.
fn run(seed: u64, hardware: Box<dyn Design>, attempts: Attempts, forced: u64) -> Outcome {
    let options = Options {
        cores: Some(CORES as usize),
        keep: Keep::Visible,
        schedule: if seed.is_multiple_of(2) {
            Schedule::Clock
        } else {
            Schedule::Seeded { every: 5 }
        },
        preempts: seed % 4 == 3,
        seed,
        transactions: hardware,
        ..Options::default()
    };
    let machine = Machine::new(tiny(Domain::Transient), &[0; 4096], options);
    let m = &machine;
    let lock = &ElidedLock::new(m);
    let outcome = &Mutex::new(Outcome::default());
    let program = |core: u64| {
        Box::new(move || {
            let (mut random, mut thread) =
                (SplitMix64::new(seed * 8 + core), Elision::new(attempts, Delay::default(), core));
            let mut torn = 0;
            for _ in 0..ROUNDS {
                let (cell, gives_up) = (random.below(CELLS), random.below(100) < forced);
                // In one of the nearest cache's four sets, which has two ways. The lock's line is in the set of every
                // fourth cell: these never fit.
                let (first, second) = (cell * LINE, (CELLS + cell) * LINE);
                loop {
                    let way = lock.enter(m, &mut thread);
                    if gives_up && way == Way::Hardware {
                        m.stream(2048, &[0; 8]);
                    }
                    let one = m.load(first);
                    if m.lost().is_none() {
                        let two = m.load(second);
                        torn += u64::from(m.lost().is_none() && one != two);
                    }
                    m.store(first, one + 1);
                    m.store(second, one + 1);
                    if lock.leave(m, &mut thread, way).is_ok() {
                        break;
                    }
                }
            }
            let mut outcome = outcome.lock().expect("no panic");
            outcome.torn += torn;
            outcome.counts.push(*thread.counts());
        }) as Box<dyn FnOnce() + '_>
    };
    m.run((0..CORES).map(program).collect());
    let total: u64 = (0..CELLS).map(|cell| m.load(cell * LINE)).sum();
    let mut outcome = std::mem::take(&mut *outcome.lock().expect("no panic"));
    (outcome.missing, outcome.time) = (total.abs_diff(CORES * ROUNDS), m.time().0);
    outcome
}

fn sum(counts: &[ElisionCounts], of: impl Fn(&ElisionCounts) -> u64) -> u64 {
    counts.iter().map(of).sum()
}

/// Interrupts never, seldom and in a fifth of the transactions; fallbacks forced or not: 1,000 schedules.
#[test]
fn transactions_of_both_ways_are_serialisable() {
    let (mut hardware, mut locked, mut taken) = (0, 0, 0);
    for seed in 0..1_000 {
        let interrupt_ns = [0.0, 20_000.0, 1_000.0][seed as usize % 3];
        let forced = [0, 20][seed as usize / 3 % 2];
        let outcome = run(seed, htm(interrupt_ns), Attempts::default(), forced);
        assert_eq!((outcome.torn, outcome.missing), (0, 0), "seed {seed}: {outcome:?}");
        let counts = &outcome.counts;
        let ended = sum(counts, |counts| counts.hardware + counts.locked);
        assert_eq!(ended, CORES * ROUNDS, "seed {seed}");
        hardware += sum(counts, |counts| counts.hardware);
        locked += sum(counts, |counts| counts.locked);
        taken += sum(counts, |counts| counts.taken);
    }
    let fifth = (hardware + locked) / 5;
    assert!(hardware > fifth, "{hardware} in hardware, {locked} under the lock");
    assert!(locked * 20 > hardware, "{hardware} in hardware, {locked} under the lock");
    assert!(taken > 0, "a speculation has found the lock taken");
}

/// Durable ones too.
#[test]
fn durable_transactions_of_both_ways_are_serialisable() {
    let (mut hardware, mut locked) = (0, 0);
    for seed in 0..200 {
        let interrupt_ns = [0.0, 20_000.0][seed as usize % 2];
        let config = CcHtmConfig { interrupt_ns, log_bytes: 4096, ..CcHtmConfig::default() };
        let design = Box::new(CcHtm::new(config, None).expect("figures that make sense"));
        let outcome = run(seed, design, Attempts::default(), [0, 20][seed as usize / 2 % 2]);
        assert_eq!((outcome.torn, outcome.missing), (0, 0), "seed {seed}: {outcome:?}");
        hardware += sum(&outcome.counts, |counts| counts.hardware);
        locked += sum(&outcome.counts, |counts| counts.locked);
    }
    assert!(hardware > locked && locked * 20 > hardware, "{hardware}, {locked} under the lock");
}

/// Each cause has its own attempts: a transaction with lack of capacity or an unsupported access takes the lock at once,
/// and one with conflicts after as many as it may have.
#[test]
fn causes_have_their_own_attempts() {
    let patient = Attempts { conflicts: 1_000, interrupts: 1_000, others: 0 };
    for seed in 0..20 {
        let all_forced = run(seed, htm(0.0), patient, 100);
        let counts = &all_forced.counts;
        assert_eq!(sum(counts, |counts| counts.hardware), 0);
        assert_eq!(sum(counts, |counts| counts.others), CORES * ROUNDS, "one try for each");
        let unforced = run(seed, htm(0.0), patient, 0);
        let counts = &unforced.counts;
        let locked = sum(counts, |counts| counts.locked);
        assert_eq!(locked, sum(counts, |counts| counts.capacity));
        assert!((10..60).contains(&locked), "about a quarter of {}: {locked}", CORES * ROUNDS);
    }
}

/// A thread waits after a conflict, and after nothing else.
#[test]
fn conflicts_are_followed_by_a_delay() {
    let mut delayed = 0;
    for seed in 0..20 {
        for thread in &run(seed, htm(1_000.0), Attempts::default(), 20).counts {
            assert!(thread.conflicts > 0 || thread.delayed == 0, "seed {seed}: {thread:?}");
            delayed += thread.delayed;
        }
    }
    assert!(delayed > 0, "some have conflicts");
}

#[test]
fn without_the_hardware_all_take_the_lock() {
    let outcome = run(3, Box::new(Plain), Attempts::default(), 0);
    assert_eq!((outcome.torn, outcome.missing), (0, 0));
    assert_eq!(sum(&outcome.counts, |counts| counts.locked), CORES * ROUNDS);
}

#[test]
fn a_seed_is_a_run() {
    for seed in [4, 5, 7] {
        let again = || run(seed, htm(1_000.0), Attempts::default(), 20);
        assert_eq!(again(), again());
    }
}
