//! Random transactions of several cores that move money, in hardware or under a lock: what they do must be
//! serialisable, and no body may see half of a transfer.

use super::tiny;
use perdura_machine::{Design, Keep, Machine, Options, Schedule};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory, OwnWords};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

type Program<'a> = Box<dyn FnOnce() + 'a>;

const BYTES: usize = 16 << 10;

/// Speculations that have begun, and those that have ended in each way.
pub(crate) fn ends(machine: &Machine) -> (u64, u64) {
    let figures = machine.statistics().mechanism_figures;
    let sum = |of: &dyn Fn(&str) -> bool| {
        figures.iter().filter(|figure| of(figure.0)).map(|figure| figure.1).sum()
    };
    let ended = sum(&|name| name == "commits" || name.starts_with("aborts_"));
    (sum(&|name| name == "speculations"), ended)
}

/// How random programs have run.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) figures: BTreeMap<&'static str, u64>,
    pub(crate) time: u64,
    /// Accounts whose sum is not what it was, seen by a body that was not told of a loss, or at the end.
    pub(crate) wrong: u64,
}

const ACCOUNTS: u64 = 24;
const START: u64 = 100;

/// When a speculation reads the lock's word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LockRead {
    First,
    /// Before it ends.
    Late,
    Never,
}

/// Each core moves money between accounts, each on a line of its own, and now and then adds some of them up: in hardware
/// for a few tries, then under a lock, whose word each speculation should read first.
pub(crate) fn bank(seed: u64, transactions: Box<dyn Design>, reads: LockRead) -> Outcome {
    let cores = 3;
    let options = Options {
        cores: Some(cores),
        keep: Keep::Visible,
        schedule: if seed.is_multiple_of(2) {
            Schedule::Clock
        } else {
            Schedule::Seeded { every: 5 }
        },
        preempts: seed % 4 == 3,
        seed,
        transactions,
        ..Options::default()
    };
    let machine = Machine::new(tiny(Domain::Transient), &[0; BYTES], options);
    let m = &machine;
    (0..ACCOUNTS).for_each(|account| m.store(account * LINE, START));
    let (lock, wrong) = (&OwnWords::new(m, 1), &AtomicUsize::new(0));
    let program = |core: u64| {
        Box::new(move || {
            let mut random = SplitMix64::new(seed * 8 + core);
            for _ in 0..40 {
                let audits = random.below(4) == 0;
                let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                let gives_up = random.below(50) == 0;
                // Returns whether the body was told nothing.
                let body = || {
                    if audits {
                        let few = 4;
                        let mut sum = 0_u64;
                        for account in 0..few {
                            sum = sum.wrapping_add(m.load(account * LINE));
                            if m.lost().is_some() {
                                return false;
                            }
                        }
                        // The first accounts change only among each other: see below.
                        wrong.fetch_add(usize::from(sum != few * START), Ordering::Relaxed);
                        return true;
                    }
                    let (from, to) = if from < 4 { (from, to % 4) } else { (from, 4 + to % 20) };
                    let taken = m.load(from * LINE);
                    if m.lost().is_some() {
                        return false;
                    }
                    m.store(from * LINE, taken.wrapping_sub(1));
                    let had = m.load(to * LINE);
                    if m.lost().is_some() {
                        return false;
                    }
                    m.store(to * LINE, had.wrapping_add(1));
                    true
                };
                let mut done = false;
                for _ in 0..3 {
                    if lock.load(m, 0) != 0 {
                        continue;
                    }
                    m.speculate().expect("it runs none");
                    if reads == LockRead::First && lock.load(m, 0) != 0 || gives_up {
                        m.stop_speculating(1);
                        continue;
                    }
                    body();
                    if reads == LockRead::Late && lock.load(m, 0) != 0 {
                        m.stop_speculating(1);
                        continue;
                    }
                    if m.end_speculation().is_ok() {
                        done = true;
                        break;
                    }
                }
                if !done {
                    let mut turn = 0;
                    while lock.compare_exchange(m, 0, 0, 1).is_err() {
                        m.pause(turn);
                        turn += 1;
                    }
                    body();
                    lock.store(m, 0, 0);
                }
            }
        }) as Program<'_>
    };
    m.run((0..cores as u64).map(program).collect());
    let sum = (0..ACCOUNTS).map(|account| m.load(account * LINE)).fold(0, u64::wrapping_add);
    let wrong = wrong.load(Ordering::Relaxed) as u64 + u64::from(sum != ACCOUNTS * START);
    let (begun, ended) = ends(m);
    assert_eq!(begun, ended, "seed {seed}: causes and commits add up");
    let time = m.time().0;
    Outcome { figures: m.statistics().mechanism_figures.into_iter().collect(), time, wrong }
}
