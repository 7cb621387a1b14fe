//! How long to wait for others before a sync that serves all who have come.
//!
//! Who waits for a sync goes on at its end, and mostly comes again soon, with something new to be made durable. A sync
//! that begins at once leaves it waiting for the next one: with clients that wait for each answer, two groups of them
//! take turns, and each client waits for two syncs. So the next sync begins when as many have come again as the last one
//! served, or waited beside it; and, if they do not, after a part of a sync's time. (Group commit with a delay, as
//! PostgreSQL's `commit_delay`, but sized by what it has measured, and only while it brings somebody.)

use std::time::{Duration, Instant};

/// Syncs that take less are not waited for: a thread that sleeps comes back no sooner than some 50 µs later.
const SHORTEST: Duration = Duration::from_micros(100);
/// The part of a sync's time that is waited at most.
const PART: u32 = 2;
/// However long syncs take.
const LONGEST: Duration = Duration::from_millis(10);
/// What waiting that brought somebody counts for, and the bounds of the balance; waiting that did not counts for 1.
const BROUGHT: i32 = 2;
const BALANCE: std::ops::RangeInclusive<i32> = -4..=4;
/// While it brings nobody it is tried once in so many syncs.
const SELDOM: u32 = 32;

/// What the last syncs tell of the next one.
#[derive(Debug)]
pub struct Gather {
    /// How many can be expected.
    expected: usize,
    ended: Instant,
    /// A sync's time, in the mean of the last ones.
    took: Duration,
    balance: i32,
    /// Syncs that were not waited for since one was.
    passed: u32,
}

impl Default for Gather {
    fn default() -> Self {
        Gather { expected: 0, ended: Instant::now(), took: Duration::ZERO, balance: 0, passed: 0 }
    }
}

impl Gather {
    /// A sync is over that took this long, counted from when it began. `expected` are those that it served, and those
    /// that came meanwhile.
    pub fn ended(&mut self, took: Duration, expected: usize) {
        self.expected = expected;
        self.ended = Instant::now();
        self.took = if self.took.is_zero() { took } else { (self.took * 3 + took) / 4 };
    }

    /// How many can be expected.
    pub fn expected(&self) -> usize {
        self.expected
    }

    /// Until when to wait for more than those `there`, if at all. Who waits says afterwards what that has
    /// [brought](Self::brought).
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

    /// Whether waiting has brought anybody.
    pub fn brought(&mut self, anybody: bool) {
        let change = if anybody { BROUGHT } else { -1 };
        self.balance = (self.balance + change).clamp(*BALANCE.start(), *BALANCE.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for a test that is held up.
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
    fn is_given_up_where_nobody_comes_and_tried_again() {
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
