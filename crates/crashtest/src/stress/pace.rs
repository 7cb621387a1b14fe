//! Delays at call-outs, which widen the windows in which threads may meet.

use perdura_memory::random::SplitMix64;
use std::thread;
use std::time::Duration;

/// Where a thread may be delayed, seldom.
pub(super) struct Pace {
    random: SplitMix64,
}

impl Pace {
    pub(super) fn new(seed: u64) -> Self {
        Pace { random: SplitMix64::new(seed ^ 0x7061_6365) }
    }

    /// Mostly goes on at once.
    pub(super) fn maybe(&mut self) {
        match self.random.below(4096) {
            0 => thread::sleep(Duration::from_micros(20 + self.random.below(400))),
            1..64 => thread::yield_now(),
            _ => {}
        }
    }

    /// Sleeps, up to so many milliseconds.
    pub(super) fn idle(&mut self, most_millis: u64) {
        thread::sleep(Duration::from_micros(self.random.below(most_millis * 1_000)));
    }
}
