//! Looking for events a little longer before going to sleep.
//!
//! A client that waits for each answer sends its next request some tens of microseconds later,
//! which is about the cost of going to sleep and being woken. So a worker that has just had work
//! looks again for a moment. That is only good while a core has nothing better to do: not with
//! as many workers as cores; not while something else takes the core away, which shows as
//! a long time between two looks; and not while it is in vain, perhaps since the clients themselves
//! wait for the core: after some vain attempts there is none for a while, and longer each time.

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

/// When to look, and when to sleep.
pub(super) struct Spin {
    allowed: bool,
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
        Spin { allowed, worked: now, looked: None, resume: now, vain: 0 }
    }

    /// There was work until `now`.
    pub(super) fn worked(&mut self, now: Instant) {
        if self.looked.take().is_some() {
            self.vain = 0;
        }
        self.worked = now;
    }

    /// Whether to look once more, at `now`, rather than to sleep.
    pub(super) fn again(&mut self, now: Instant) -> bool {
        if !self.allowed {
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
        let (start, mut spin) = (now, Spin::among(true, now));
        let (mut all, mut requests) = (0, 0);
        while now < start + Duration::from_secs(1) {
            spin.worked(now);
            all += looks(&mut spin, &mut now);
            requests += 1;
            now += 300 * MICRO;
        }
        assert!(requests > 2_000 && (30..300).contains(&all), "{all} looks, {requests} requests");
        // Once it finds work, it looks each time.
        now += PAUSE;
        for _ in 0..10 {
            spin.worked(now);
            assert!(spin.again(now));
            now += 20 * MICRO;
        }
        spin.worked(now);
        assert_eq!((looks(&mut spin, &mut now), spin.vain), (10, 1));
    }

    #[test]
    fn none_while_the_core_is_taken_away() {
        let mut now = Instant::now();
        let mut spin = Spin::among(true, now);
        assert!(spin.again(now));
        now += TAKEN_AWAY;
        assert!(!spin.again(now));
        now += PAUSE - MICRO;
        spin.worked(now);
        assert!(!spin.again(now) && spin.again(now + MICRO));
        assert!(!Spin::among(false, now).again(now));
    }
}
