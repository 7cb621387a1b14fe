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

/// The scheduler of one machine.
pub(crate) struct Scheduler {
    schedule: Schedule,
    random: SplitMix64,
    /// Accesses left in this turn, of a seeded schedule.
    left: u64,
}

impl Scheduler {
    pub(crate) fn new(schedule: Schedule, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x7363_6865_6475_6c65);
        random.next();
        Scheduler { schedule, random, left: 0 }
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
                let index = self.random.below(u64::from(runnable.count_ones())) as usize;
                self.left = 1 + self.random.below(2 * u64::from(every.max(1)) - 1);
                (cores_in(runnable).nth(index).expect("a core"), u64::MAX)
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
