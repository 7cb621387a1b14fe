//! Whether waiting transactions share a record: whichever way was faster lately.
//!
//! Sharing saves fences, but passes lines from core to core: words that one transaction read and another stores. Which
//! costs more cannot be known in advance. So commits that could share are timed: after a stretch of commits made one
//! way, if a trial is due, a stretch is made the other way, and the slower way is dropped; a much slower one after a
//! few commits. Trials become ever rarer as long as they lose.

use perdura_memory::{Domain, Memory};

/// Commits between two readings of the clock.
const STRETCH: u32 = 128;
/// Commits of a trial after which it is abandoned if they were clearly slower.
const PROBE: u32 = 16;
/// Slower by one part in this number is clearly slower.
const CLEARLY: u64 = 4;
/// Stretches between two trials, at first and at most: with the latter, trying a way that is twice as slow costs one
/// commit in 2,048.
const REST: (u32, u32) = (2, 256);
/// The tried way must be faster by one part in this number, or the clock's noise would choose.
const MARGIN: u64 = 32;

/// The choice; the writer's own state.
pub(crate) struct SharingChoice {
    tuned: Option<bool>,
    share: bool,
    /// A trial of the other way is running, and is within its first commits.
    trying: bool,
    probing: bool,
    /// Commits until the clock is read.
    left: u32,
    /// When it was last read, and how long the stretch before took; 0 if unknown.
    looked: u64,
    took: u64,
    /// Stretches until the next trial, and from that trial to the one after.
    rest: u32,
    next_rest: u32,
}

impl SharingChoice {
    /// Where a fence is a device sync, transactions share from the beginning; elsewhere once that was measured to be
    /// faster.
    pub(crate) fn new(domain: Domain) -> Self {
        SharingChoice {
            tuned: None,
            share: domain == Domain::Media,
            trying: false,
            probing: false,
            left: STRETCH,
            looked: 0,
            took: 0,
            rest: REST.0,
            next_rest: REST.0,
        }
    }
}

impl SharingChoice {
    /// Sets the tuning: `None` leaves the choice to measurements.
    pub(crate) fn tune(&mut self, share: Option<bool>) {
        self.tuned = share.or(self.tuned);
    }

    /// Whether the tuning demands sharing.
    #[inline]
    pub(crate) fn always_shares(&self) -> bool {
        self.tuned == Some(true)
    }

    /// Whether a commit that could share does.
    #[inline]
    pub(crate) fn shares<M: Memory>(&mut self, memory: &M) -> bool {
        if let Some(tuned) = self.tuned {
            return tuned;
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = STRETCH;
            self.look(memory.now());
        }
        self.share
    }

    /// A stretch is over.
    #[cold]
    fn look(&mut self, now: u64) {
        let took = now.saturating_sub(self.looked);
        let (first, before) = (self.looked == 0, self.took);
        (self.looked, self.took) = (now.max(1), if first { 0 } else { took });
        if first || before == 0 {
            return;
        }
        if !self.trying {
            self.rest = self.rest.saturating_sub(1);
            if self.rest == 0 {
                (self.trying, self.probing) = (true, true);
                self.share = !self.share;
                self.left = PROBE;
            }
            return;
        }
        let probed = std::mem::take(&mut self.probing);
        if probed && took * u64::from(STRETCH / PROBE) <= before + before / CLEARLY {
            // The rest of the stretch; the clock is read from its beginning.
            (self.left, self.looked, self.took) = (STRETCH - PROBE, now - took, before);
            return;
        }
        self.trying = false;
        if !probed && took < before - before / MARGIN {
            self.next_rest = REST.0;
        } else {
            self.share = !self.share;
            self.next_rest = (self.next_rest * 2).min(REST.1);
            // The next stretch is compared with one of its own kind.
            self.took = before;
        }
        self.rest = self.next_rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes `count` commits, each taking `shared` or `apart` nanoseconds; returns how many shared.
    fn commits(
        choice: &mut SharingChoice,
        now: &mut u64,
        count: u32,
        (shared, apart): (u64, u64),
    ) -> u32 {
        let mut sharing = 0;
        for _ in 0..count {
            *now += if choice.share { shared } else { apart };
            sharing += u32::from(choice.share);
            choice.left -= 1;
            if choice.left == 0 {
                choice.left = STRETCH;
                choice.look(*now);
            }
        }
        sharing
    }

    #[test]
    fn the_faster_way_is_found_and_found_again() {
        assert!(SharingChoice::new(Domain::Media).share);
        let (mut choice, mut now) = (SharingChoice::new(Domain::Transient), 77);
        assert!(!choice.share);
        commits(&mut choice, &mut now, 10 * STRETCH, (200, 100));
        let slow = commits(&mut choice, &mut now, 1000 * STRETCH, (200, 100));
        assert!(slow > 0 && slow <= 20 * PROBE, "{slow}: given up after a few");
        let nearly = commits(&mut choice, &mut now, 1000 * STRETCH, (105, 100));
        assert!(nearly > 0 && nearly <= 20 * STRETCH, "{nearly}: tried to the end");
        commits(&mut choice, &mut now, 600 * STRETCH, (50, 100));
        let fast = commits(&mut choice, &mut now, 1000 * STRETCH, (50, 100));
        assert!(fast >= 980 * STRETCH, "{fast}");
    }

    #[test]
    fn tuning_overrides_measurements() {
        let ram = perdura_memory::Ram::new(64);
        for tuned in [false, true] {
            let mut choice = SharingChoice::new(Domain::Transient);
            choice.tune(Some(tuned));
            choice.tune(None);
            assert!((0..10 * STRETCH).all(|_| choice.shares(&ram) == tuned));
        }
    }
}
