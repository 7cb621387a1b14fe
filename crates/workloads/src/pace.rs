//! An open loop: operations that are due at fixed times, whatever the system does.
//!
//! A thread that waits during a stall takes no samples of it, so that its percentiles look too
//! good (coordinated omission). Here latency is counted from when an operation should have
//! begun: the time that it stood in line is included.

use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// Closer to the due time than this a thread does not sleep, lest it wakes too late.
const SPIN: Duration = Duration::from_micros(100);
/// No longer than this without a look at who wants to stop.
const NAP: Duration = Duration::from_millis(100);

/// One thread's timetable.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Nanoseconds from one operation to the next.
    tick: f64,
    /// Operations that were due before the next one.
    begun: u64,
    /// When the first is due, in nanoseconds after `start`.
    jitter: f64,
    start: Option<Instant>,
}

impl Pace {
    /// `per_second` operations a second, together with `threads - 1` others. `draw` moves this
    /// thread's first one anywhere within a tick, so that threads do not march in step.
    pub fn new(per_second: f64, threads: usize, draw: u64) -> Self {
        let tick = threads as f64 * 1e9 / per_second;
        let jitter = tick * (draw >> 11) as f64 / (1u64 << 53) as f64;
        Pace { tick, begun: 0, jitter, start: None }
    }

    /// Waits until the next `count` operations are due, as one, or `stopped`; returns when they
    /// are due.
    pub fn wait(&mut self, count: u64, stopped: impl Fn() -> bool) -> Instant {
        let start = *self.start.get_or_insert_with(Instant::now);
        let after = self.jitter + self.tick * self.begun as f64;
        self.begun += count;
        let due = start + Duration::from_nanos(after as u64);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return due;
            }
            if left > 2 * SPIN {
                if stopped() {
                    return due;
                }
                thread::sleep((left - SPIN).min(NAP));
            } else {
                spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_due_at_even_distances() {
        let mut pace = Pace::new(20_000.0, 2, 1 << 63);
        let first = pace.wait(1, || false);
        let times: Vec<Instant> = (0..20).map(|_| pace.wait(1, || false)).collect();
        for (index, due) in times.iter().enumerate() {
            let after = (*due - first).as_nanos() as i128;
            assert!((after - 100_000 * (index as i128 + 1)).abs() <= 2, "{after}");
        }
        // A thread that is late does not wait, and its operations are due when they were.
        thread::sleep(Duration::from_millis(1));
        let late = pace.wait(1, || false);
        assert!(Instant::now() - late >= Duration::from_micros(500));
    }

    #[test]
    fn nobody_waits_for_an_operation_that_is_not_wanted() {
        let mut pace = Pace::new(0.001, 1, 0);
        let first = pace.wait(1, || false);
        let due = pace.wait(1, || true);
        assert!(first.elapsed() < Duration::from_secs(10), "it slept for a whole tick");
        assert!(due - first > Duration::from_secs(900));
    }
}
