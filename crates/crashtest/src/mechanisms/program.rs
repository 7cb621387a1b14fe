//! The programs on a machine with a mechanism: a structure in a pool, or stores all over the memory, in transactions if
//! the mechanism makes promises about these.

use super::maker::Fitted;
use crate::case::mix;
use crate::engine::AnyFamily;
use crate::life::{Life, Stopped, Watch};
use crate::{Case, Subject};
use perdura_machine::{Machine, Options};
use perdura_memory::random::SplitMix64;
use perdura_memory::{LINE, Memory};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Accesses of each core, in the program that stores all over the memory.
const STEPS: u64 = 150;
/// The lines that most of these go to.
const HOT: u64 = 96;

/// A program, the same each time it runs.
pub(super) enum Program<'a, S: Subject> {
    /// A pool with a structure.
    Pool(Life<'a, S>),
    /// No pool: an engine that is not crash-consistent leaves none that could be opened.
    Stores(Stores<'a>),
}

/// Stores of all kinds, without regard to durability.
pub(super) struct Stores<'a> {
    pub(super) case: &'a Case,
    pub(super) words: Vec<u64>,
    pub(super) seed: u64,
    pub(super) limit: u64,
    pub(super) fitted: Fitted<'a>,
}

impl<S: Subject> Program<'_, S> {
    /// Runs it on a new machine.
    pub(super) fn run(&self, engine: &dyn AnyFamily, watch: Watch<'_>) -> Result<(), Stopped> {
        match self {
            Program::Pool(life) => life.live(engine, Some(watch), None).map(drop),
            Program::Stores(stores) => stores.run(watch),
        }
    }

    /// The initial contents of the memory.
    pub(super) fn words(&self) -> &[u64] {
        match self {
            Program::Pool(life) => &life.world.visible,
            Program::Stores(stores) => &stores.words,
        }
    }

    pub(super) fn seed(&self) -> u64 {
        match self {
            Program::Pool(life) => life.seed,
            Program::Stores(stores) => stores.seed,
        }
    }
}

impl Stores<'_> {
    fn run(&self, watch: Watch<'_>) -> Result<(), Stopped> {
        let Case { cores, schedule, .. } = *self.case;
        let (seed, limit, cores) = (self.seed, self.limit, Some(cores));
        let options = Options { cores, limit, seed, schedule, ..Options::default() };
        let options = self.fitted.fit(self.case, options).map_err(Stopped::Problem)?;
        let machine = Machine::from_words(self.case.config(), self.words.clone(), options);
        let turns = self.fitted.runs_transactions(self.case).then(|| AtomicBool::new(false));
        let turns = turns.as_ref();
        let waits = turns.is_some() && mix(seed, u64::MAX).is_multiple_of(4);
        let programs = (0..machine.cores()).map(|core| match core {
            1 if waits => self.waiting(&machine),
            _ => self.program(&machine, core as u64, turns),
        });
        match machine.run_watched(programs.collect(), watch) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stopped::Watched),
        }
    }

    /// Waits for durability again and again, while other cores' transactions run, whose clocks may be ahead.
    fn waiting<'m>(&self, machine: &'m Machine) -> Box<dyn FnOnce() + 'm> {
        let mut random = SplitMix64::new(mix(self.seed, 1));
        let lines = self.words.len() as u64 * 8 / LINE;
        Box::new(move || {
            for step in 0..STEPS {
                machine.tx_flush();
                // A place where the power can be cut right after the wait.
                machine.store(random.below(lines) * LINE, step);
            }
        })
    }

    /// With `turns`, in transactions, which take turns.
    fn program<'m>(
        &self,
        machine: &'m Machine,
        core: u64,
        turns: Option<&'m AtomicBool>,
    ) -> Box<dyn FnOnce() + 'm> {
        let mut random = SplitMix64::new(mix(self.seed, core));
        let lines = self.words.len() as u64 * 8 / LINE;
        let first = random.below(lines);
        Box::new(move || {
            let mut transaction = turns.map(|turns| Transaction::begin(machine, turns));
            for step in 0..STEPS {
                if transaction.is_some() && random.below(6) == 0 {
                    let how = random.below(8);
                    transaction.take().into_iter().for_each(|running| running.end(how));
                    transaction = turns.map(|turns| Transaction::begin(machine, turns));
                }
                let near = random.below(8) > 0;
                let line = first + random.below(if near { HOT.min(lines) } else { lines });
                let at = line % lines * LINE;
                match random.below(20) {
                    0 => machine.stream(at, &[random.next(); 8]),
                    1 | 2 => machine.write_back(at, LINE),
                    3 => machine.fence(),
                    4..9 => _ = machine.load(at),
                    _ => {
                        machine.store(at + random.below(8) * 8, step << 32 | random.below(1 << 32))
                    }
                }
            }
            transaction.into_iter().for_each(|running| running.end(1));
        })
    }
}

/// A running transaction in hardware.
struct Transaction<'m> {
    machine: &'m Machine,
    turns: &'m AtomicBool,
}

impl<'m> Transaction<'m> {
    /// Waits for its turn. All cores are one thread, and the lock is not in the machine's memory.
    fn begin(machine: &'m Machine, turns: &'m AtomicBool) -> Self {
        for turn in 0.. {
            if !turns.swap(true, Ordering::Relaxed) {
                break;
            }
            machine.pause(turn);
        }
        machine.tx_begin().expect("it has its turn");
        Transaction { machine, turns }
    }

    /// Aborts it, commits it, or commits it and waits for its durability.
    fn end(self, how: u64) {
        match how {
            0 => _ = self.machine.tx_abort(),
            _ => {
                let committed = self.machine.tx_commit();
                if committed.is_ok() && how == 1 {
                    self.machine.tx_flush();
                }
            }
        }
        self.turns.store(false, Ordering::Relaxed);
    }
}
