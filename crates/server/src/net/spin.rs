//! Looking for events a little longer before going to sleep.
//!
//! A client that waits for each answer sends its next request some tens of microseconds later,
//! which is about the cost of going to sleep and being woken. So a worker that has just had work
//! looks again for a moment. That is only good while a core has nothing better to do: not with
//! as many workers as cores, and not while something else takes the core away, which shows as
//! a long time between two looks.

use std::time::{Duration, Instant};

/// How long it looks after the last work.
const LONGEST: Duration = Duration::from_micros(100);
/// Between two looks, this is more than a look takes.
const TAKEN_AWAY: Duration = Duration::from_micros(500);
/// How long it does not look, after the core was taken away.
const PAUSE: Duration = Duration::from_millis(100);

/// When to look, and when to sleep.
pub(super) struct Spin {
    allowed: bool,
    /// When there last was work.
    worked: Instant,
    /// The last look, if no work and no sleep came after it.
    looked: Option<Instant>,
    /// No looking before this.
    resume: Instant,
}

impl Spin {
    /// For one of `workers`.
    pub(super) fn new(workers: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let now = Instant::now();
        Spin { allowed: workers < cores, worked: now, looked: None, resume: now }
    }

    /// There was work until now.
    pub(super) fn worked(&mut self) {
        self.worked = Instant::now();
        self.looked = None;
    }

    /// Whether to look once more rather than to sleep.
    pub(super) fn again(&mut self) -> bool {
        if !self.allowed {
            return false;
        }
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked >= TAKEN_AWAY) {
            self.resume = now + PAUSE;
        }
        let again = now - self.worked < LONGEST && now >= self.resume;
        self.looked = again.then_some(now);
        again
    }
}
