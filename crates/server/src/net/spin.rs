//! Looking for events a little longer before going to sleep, where that is found to be better.
//!
//! A client that waits for each answer sends its next request some tens of microseconds later. Where going to sleep and
//! being woken takes as long, a worker that has just had work should look again for a moment. Where it takes little, as
//! when the client and the worker take turns on one core, looking is bad: it keeps the client from that core, or has it
//! woken on another one, which in a virtual machine may take longer than all else. So it is measured: how long it takes
//! from one work's end to the next work, with looking and without. Without is the rule, and from time to time the
//! other way is tried for some works.
//!
//! Nor is there any looking with as many workers as cores; while something else takes the core away, which shows as
//! a long time between two looks; and while it is in vain: after some vain attempts there is none for a while, and longer
//! each time.

use std::time::{Duration, Instant};

/// How long it looks after the last work.
const LONGEST: Duration = Duration::from_micros(100);
/// Between two looks, this is more than a look takes.
const TAKEN_AWAY: Duration = Duration::from_micros(500);
/// How long it does not look, after the core was taken away, and at most after vain attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// Vain attempts in a row before there is a pause,
const VAIN: u32 = 3;
/// which is this long at first, and twice as long after each more.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Works by which a way is judged.
const WORKS: u32 = 32;
/// A longer time without work is the client's, and no reason to judge by.
const OWN: Duration = Duration::from_millis(1);
/// How long the better way is kept before the other one is tried.
const KEPT: Duration = Duration::from_millis(250);

/// A way of waiting for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Sleep,
    Look,
}

impl Way {
    const fn other(self) -> Self {
        match self {
            Way::Sleep => Way::Look,
            Way::Look => Way::Sleep,
        }
    }
}

/// When to look, and when to sleep.
pub(super) struct Spin {
    allowed: bool,
    /// The better way, as far as that is known, and the one that is being gone.
    better: Way,
    way: Way,
    /// When the other one is tried.
    tries: Instant,
    /// Times without work that were measured, and their sum.
    count: u32,
    sum: Duration,
    /// The sums of [`WORKS`] such times with each way, once they are known.
    sums: [Option<Duration>; 2],
    /// When there last was work.
    worked: Instant,
    /// The last look, if no work and no sleep came after it.
    looked: Option<Instant>,
    /// No looking before this.
    resume: Instant,
    /// Attempts in a row that have found no work.
    vain: u32,
}

impl Spin {
    /// For one of `workers`.
    pub(super) fn new(workers: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Spin::among(workers < cores, Instant::now())
    }

    fn among(allowed: bool, now: Instant) -> Self {
        Spin {
            allowed,
            better: Way::Sleep,
            way: Way::Sleep,
            tries: now,
            count: 0,
            sum: Duration::ZERO,
            sums: [None; 2],
            worked: now,
            looked: None,
            resume: now,
            vain: 0,
        }
    }

    /// There was work from `began` until `now`.
    pub(super) fn worked(&mut self, began: Instant, now: Instant) {
        if self.looked.take().is_some() {
            self.vain = 0;
        }
        let without = began.saturating_duration_since(self.worked);
        self.worked = now;
        if !self.allowed || without >= OWN {
            return;
        }
        self.sum += without;
        self.count += 1;
        if self.count == WORKS {
            self.judge(now);
        }
    }

    /// The way that was gone is judged, and the next one chosen.
    fn judge(&mut self, now: Instant) {
        self.sums[self.way as usize] = Some(self.sum);
        let was_tried = self.way != self.better;
        if let [Some(asleep), Some(looking)] = self.sums {
            // It takes a core: that must be worth it.
            self.better = if looking * 5 < asleep * 4 { Way::Look } else { Way::Sleep };
        }
        if was_tried {
            self.tries = now + KEPT;
        }
        self.way = if now >= self.tries { self.better.other() } else { self.better };
        (self.count, self.sum) = (0, Duration::ZERO);
    }

    /// Whether to look once more, at `now`, rather than to sleep.
    pub(super) fn again(&mut self, now: Instant) -> bool {
        if !self.allowed || self.way == Way::Sleep {
            return false;
        }
        if self.looked.is_some_and(|looked| now.saturating_duration_since(looked) >= TAKEN_AWAY) {
            self.resume = now + PAUSE;
        }
        let again = now >= self.resume && now.saturating_duration_since(self.worked) < LONGEST;
        if !again && self.looked.is_some() {
            self.vain += 1;
            let pause = self.vain.checked_sub(VAIN).map(|more| FIRST_PAUSE * (1 << more.min(7)));
            self.resume = self.resume.max(now + pause.unwrap_or_default().min(PAUSE));
        }
        self.looked = again.then_some(now);
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    /// One that looks.
    fn looking(now: Instant) -> Spin {
        Spin {
            better: Way::Look,
            way: Way::Look,
            tries: now + 1000 * PAUSE,
            ..Spin::among(true, now)
        }
    }

    /// Looks from `now` on, once in ten microseconds, as long as it should. The number of looks.
    fn looks(spin: &mut Spin, now: &mut Instant) -> u32 {
        let mut looks = 0;
        while spin.again(*now) {
            looks += 1;
            *now += 10 * MICRO;
        }
        looks
    }

    #[test]
    fn vain_attempts_become_rare() {
        let mut now = Instant::now();
        let (start, mut spin) = (now, looking(now));
        let (mut all, mut requests) = (0, 0);
        while now < start + Duration::from_secs(1) {
            spin.worked(now, now);
            all += looks(&mut spin, &mut now);
            requests += 1;
            now += 300 * MICRO;
        }
        assert!(requests > 2_000 && (30..300).contains(&all), "{all} looks, {requests} requests");
        // Once it finds work, it looks each time.
        now += PAUSE;
        for _ in 0..10 {
            spin.worked(now, now);
            assert!(spin.again(now));
            now += 20 * MICRO;
        }
        spin.worked(now, now);
        assert_eq!((looks(&mut spin, &mut now), spin.vain), (10, 1));
    }

    #[test]
    fn none_while_the_core_is_taken_away() {
        let mut now = Instant::now();
        let mut spin = looking(now);
        assert!(spin.again(now));
        now += TAKEN_AWAY;
        assert!(!spin.again(now));
        now += PAUSE - MICRO;
        spin.worked(now, now);
        assert!(!spin.again(now) && spin.again(now + MICRO));
        assert!(!Spin::among(false, now).again(now));
    }

    /// Works of 5 us for a second; the times without are these, asleep and looking. How many of them were waited for by
    /// looking, in the second half.
    fn share_of_looks(spin: &mut Spin, now: &mut Instant, asleep: u32, looking: u32) -> f64 {
        let (half, end) = (*now + 5 * PAUSE, *now + 10 * PAUSE);
        let (mut looks, mut all) = (0, 0);
        while *now < end {
            let looked = spin.again(*now);
            if *now > half {
                looks += u32::from(looked);
                all += 1;
            }
            *now += MICRO * if looked { looking } else { asleep };
            spin.worked(*now, *now + 5 * MICRO);
            *now += 5 * MICRO;
        }
        f64::from(looks) / f64::from(all)
    }

    #[test]
    fn the_better_way_is_found_and_found_again() {
        let mut now = Instant::now();
        let mut spin = Spin::among(true, now);
        assert!(share_of_looks(&mut spin, &mut now, 20, 40) < 0.05);
        assert!(share_of_looks(&mut spin, &mut now, 20, 18) < 0.05, "it is not worth a core");
        assert!(share_of_looks(&mut spin, &mut now, 120, 20) > 0.95);
        assert!(share_of_looks(&mut spin, &mut now, 15, 30) < 0.05);
        assert_eq!(share_of_looks(&mut Spin::among(false, now), &mut now, 120, 20), 0.0);
    }
}
