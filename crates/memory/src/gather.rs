//! Group commit: how long to delay a sync so that it serves more waiting threads.
//!
//! A thread that waits for a sync goes on when the sync ends, and mostly returns soon with something new to make
//! durable. If the next sync began at once, that thread would miss it: with clients that wait for each acknowledgement,
//! two groups of threads would take turns, and each client would wait for two syncs. So the next sync begins when as
//! many threads wait as the last sync served or as arrived while it ran; otherwise after a fraction of a sync's time.
//! (Group commit with a delay, as PostgreSQL's `commit_delay`, but sized by measurement, and only while the delay
//! brings more threads.)

use std::time::{Duration, Instant};

/// Shorter syncs are never delayed: a sleeping thread wakes some 50 µs late.
const SHORTEST: Duration = Duration::from_micros(100);
/// A delay is at most a sync's time divided by this.
const PART: u32 = 2;
/// The longest delay, however long syncs take.
const LONGEST: Duration = Duration::from_millis(10);
/// What a delay that brought more threads adds to the balance (one that brought none subtracts 1), and the balance's
/// bounds.
const BROUGHT: i32 = 2;
const BALANCE: std::ops::RangeInclusive<i32> = -4..=4;
/// While delays bring nothing, one in this many syncs is delayed, to try again.
const SELDOM: u32 = 32;

/// What the last syncs tell about the next one.
#[derive(Debug)]
pub struct Gather {
    /// How many threads to expect.
    expected: usize,
    ended: Instant,
    /// A sync's time: a moving average.
    took: Duration,
    balance: i32,
    /// Syncs since the last one that was delayed.
    passed: u32,
}

impl Default for Gather {
    fn default() -> Self {
        Gather { expected: 0, ended: Instant::now(), took: Duration::ZERO, balance: 0, passed: 0 }
    }
}

impl Gather {
    /// A sync has ended that took `took`, from its beginning. `expected` counts the threads that it served and those
    /// that arrived while it ran.
    pub fn ended(&mut self, took: Duration, expected: usize) {
        self.expected = expected;
        self.ended = Instant::now();
        self.took = if self.took.is_zero() { took } else { (self.took * 3 + took) / 4 };
    }

    /// How many threads to expect.
    pub fn expected(&self) -> usize {
        self.expected
    }

    /// Until when to wait for more threads than the `there` that wait already, if at all. A caller that waits reports
    /// afterwards whether that [brought](Self::brought) any.
    pub fn until(&mut self, there: usize) -> Option<Instant> {
        let until = self.ended + (self.took / PART).min(LONGEST);
        if there >= self.expected || self.took < SHORTEST || until <= Instant::now() {
            return None;
        }
        self.passed += 1;
        if self.balance <= *BALANCE.start() && self.passed < SELDOM {
            return None;
        }
        self.passed = 0;
        Some(until)
    }

    /// Reports whether waiting brought more threads.
    pub fn brought(&mut self, more: bool) {
        let change = if more { BROUGHT } else { -1 };
        self.balance = (self.balance + change).clamp(*BALANCE.start(), *BALANCE.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a test can be held up.
    const SYNC: Duration = Duration::from_secs(100);

    #[test]
    fn waits_for_those_that_are_expected_and_for_a_part_of_a_sync() {
        let mut gather = Gather::default();
        assert_eq!(gather.until(0), None, "nothing is known yet");
        gather.ended(SYNC, 3);
        let until = gather.until(2).expect("one is missing");
        let left = until - Instant::now();
        assert!(left <= LONGEST, "{left:?}");
        assert_eq!(gather.until(3), None, "all are there");
        gather.ended(SHORTEST / 2, 3);
        assert!(gather.until(2).is_some(), "the mean is long still");
        (0..60).for_each(|_| gather.ended(SHORTEST / 2, 3));
        assert_eq!(gather.until(2), None, "a fast device");
    }

    #[test]
    fn delays_that_bring_none_are_dropped_and_tried_again() {
        let mut gather = Gather::default();
        let mut waits = 0;
        for _ in 0..10 * SELDOM {
            gather.ended(SYNC, 2);
            if gather.until(1).is_some() {
                waits += 1;
                gather.brought(false);
            }
        }
        assert!((10..=15).contains(&waits), "{waits}");
        for _ in 0..SELDOM {
            gather.ended(SYNC, 2);
            if gather.until(1).is_some() {
                waits = 0;
                gather.brought(true);
            }
        }
        assert_eq!(waits, 0, "it was tried");
        gather.ended(SYNC, 2);
        assert!(gather.until(1).is_some(), "it pays again");
    }
}
