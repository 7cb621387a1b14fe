//! Which simulated core runs next.

use perdura_memory::random::SplitMix64;
use serde::{Deserialize, Serialize};

/// How simulated cores take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// The core whose clock is furthest behind goes on; of two with equal clocks, the first.
    Clock,
    /// At random: after about one access in `every`, any core goes on.
    Seeded {
        /// Accesses in a turn, on average.
        every: u32,
    },
}

/// One turn in this many is followed by a preemption.
const PREEMPTED: u64 = 10;
/// The most turns of other cores before a preempted one goes on.
const MOST_TURNS: u64 = 150;

/// Long preemptions of single cores, as an operating system makes them: what other threads do meanwhile is more than a
/// turn or two.
struct Preemptions {
    random: SplitMix64,
    /// The core that had the last turn.
    last: usize,
    /// The preempted core, as a mask, and the turns until it goes on.
    held: u64,
    turns: u64,
}

impl Preemptions {
    /// Returns which of the `runnable` cores may go on: at least one.
    fn choose(&mut self, runnable: u64) -> u64 {
        if self.turns == 0 {
            self.held = 0;
            if self.random.below(PREEMPTED) == 0 {
                (self.held, self.turns) = (1 << self.last, 1 + self.random.below(MOST_TURNS));
            }
        }
        self.turns = self.turns.saturating_sub(1);
        let others = runnable & !self.held;
        if others == 0 { runnable } else { others }
    }
}

/// The scheduler of one machine.
pub(crate) struct Scheduler {
    schedule: Schedule,
    random: SplitMix64,
    /// Accesses left in this turn, of a seeded schedule.
    left: u64,
    preemptions: Option<Preemptions>,
}

impl Scheduler {
    /// If it `preempts`, a seeded schedule now and then lets a core wait for many turns.
    pub(crate) fn new(schedule: Schedule, seed: u64, preempts: bool) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x7363_6865_6475_6c65);
        random.next();
        let preemptions = preempts.then(|| {
            let random = SplitMix64::new(seed ^ 0x7072_6565_6d70_7473);
            Preemptions { random, last: 0, held: 0, turns: 0 }
        });
        Scheduler { schedule, random, left: 0, preemptions }
    }

    pub(crate) fn is_by_the_clock(&self) -> bool {
        self.schedule == Schedule::Clock
    }

    /// Chooses among the `runnable` cores, a mask of at least one, by their clocks. Returns the core, and the clock at
    /// which its turn is over.
    pub(crate) fn next(&mut self, runnable: u64, clock: impl Fn(usize) -> u64) -> (usize, u64) {
        match self.schedule {
            Schedule::Clock => {
                let (mut first, mut others) = ((u64::MAX, 0), u64::MAX);
                for core in cores_in(runnable) {
                    let this = (clock(core), core);
                    if this < first {
                        others = others.min(first.0);
                        first = this;
                    } else {
                        others = others.min(this.0);
                    }
                }
                (first.1, others)
            }
            Schedule::Seeded { every } => {
                let runnable = match &mut self.preemptions {
                    Some(preemptions) => preemptions.choose(runnable),
                    None => runnable,
                };
                let index = self.random.below(u64::from(runnable.count_ones())) as usize;
                self.left = 1 + self.random.below(2 * u64::from(every.max(1)) - 1);
                let core = cores_in(runnable).nth(index).expect("a core");
                if let Some(preemptions) = &mut self.preemptions {
                    preemptions.last = core;
                }
                (core, u64::MAX)
            }
        }
    }

    /// Whether the turn is over after this access.
    #[inline]
    pub(crate) fn is_over(&mut self, clock: u64, horizon: u64) -> bool {
        match self.schedule {
            Schedule::Clock => clock > horizon,
            Schedule::Seeded { .. } => {
                self.left = self.left.saturating_sub(1);
                self.left == 0
            }
        }
    }
}

/// The cores of a mask, ascending.
pub(crate) fn cores_in(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let core = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (core < 64).then_some(core)
    })
}
