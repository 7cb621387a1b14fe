//! Whose turn it is.

use perdura_memory::random::SplitMix64;
use serde::{Deserialize, Serialize};

/// How simulated cores take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// The core that is furthest behind goes on, as time has it. Of two that are level, the
    /// first.
    Clock,
    /// By chance: after about one access in `every`, any core goes on.
    Seeded {
        /// Accesses in a turn, on average.
        every: u32,
    },
}

/// Decides for one machine.
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

    /// Which of the `runnable` cores goes on, by their clocks; and the clock at which its turn
    /// is over.
    pub(crate) fn next(&mut self, runnable: &[(usize, u64)]) -> (usize, u64) {
        match self.schedule {
            Schedule::Clock => {
                let &(clock, core) = runnable
                    .iter()
                    .map(|&(core, clock)| (clock, core))
                    .collect::<Vec<_>>()
                    .iter()
                    .min()
                    .expect("a core");
                let others = runnable.iter().filter(|(other, _)| *other != core);
                (core, others.map(|(_, clock)| *clock).min().unwrap_or(u64::MAX).max(clock))
            }
            Schedule::Seeded { every } => {
                let index = self.random.below(runnable.len() as u64) as usize;
                self.left = 1 + self.random.below(2 * u64::from(every.max(1)) - 1);
                (runnable[index].0, u64::MAX)
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
