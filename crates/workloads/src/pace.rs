//! An open loop: operations that are due at fixed times, whatever the system does.
//!
//! A thread that waits during a stall takes no samples of it, so that its percentiles look too
//! good (coordinated omission). Here latency is counted from when an operation should have
//! begun: the time that it was queued is included.

use crate::Progress;
use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// Closer to the due time than this a thread does not sleep, since it might wake too late.
const SPIN: Duration = Duration::from_micros(100);
/// The longest sleep, after which a thread checks whether it should stop.
const NAP: Duration = Duration::from_millis(50);

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

    /// How many operations are due while a thread sleeps at most.
    pub fn per_nap(&self) -> u64 {
        (NAP.as_nanos() as f64 / self.tick) as u64
    }

    /// Waits until the next `count` operations are due, as one: when the first of them is.
    /// Returns when that was; `None` if the run was to stop meanwhile.
    pub fn wait(&mut self, count: u64, progress: &Progress) -> Option<Instant> {
        let start = *self.start.get_or_insert_with(Instant::now);
        let after = self.jitter + self.tick * self.begun as f64;
        self.begun += count;
        let due = start + Duration::from_nanos(after as u64);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(due);
            }
            if left <= 2 * SPIN {
                spin_loop();
            } else if progress.is_stopped() {
                return None;
            } else {
                thread::sleep((left - SPIN).min(NAP));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_due_at_even_distances() {
        let (mut pace, progress) = (Pace::new(20_000.0, 2, 1 << 63), Progress::default());
        let mut wait = |count| pace.wait(count, &progress).expect("it is not stopped");
        let first = wait(1);
        let times: Vec<Instant> = (0..20).map(|_| wait(1)).collect();
        for (index, due) in times.iter().enumerate() {
            let after = (*due - first).as_nanos() as i128;
            assert!((after - 100_000 * (index as i128 + 1)).abs() <= 2, "{after}");
        }
        // Several in a transaction are due when the first of them is, and the next one after them.
        let (several, next) = (wait(5), wait(1));
        assert!((next - several).as_nanos().abs_diff(500_000) <= 2);
        // A thread that is late does not wait, and its operations are due when they were.
        thread::sleep(Duration::from_millis(1));
        let late = wait(1);
        assert!(Instant::now() - late >= Duration::from_micros(500));
    }

    #[test]
    fn a_thread_that_waits_for_long_can_be_stopped() {
        let (mut pace, progress) = (Pace::new(0.001, 1, 0), Progress::default());
        assert!(pace.wait(1, &progress).is_some(), "the first is due at once");
        let begun = Instant::now();
        thread::scope(|scope| {
            let thread = scope.spawn(|| pace.wait(1, &progress));
            thread::sleep(NAP / 2);
            progress.stop();
            assert!(thread.join().unwrap().is_none());
        });
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
