//! When lines on their way to a core arrive.
//!
//! The caches' tags have such a line at once, and data is apart from time; so another access to the line, by the
//! same core or another, learns here when the line is available.

use crate::Ps;
use crate::by_number::ByNumber;

/// Entries of the direct-mapped table, a power of two: more than the fill buffers of many cores.
const NEAR: usize = 1024;
/// Size of `far` from which it is worth removing the lines that have arrived.
const CROWDED: usize = 256;

/// When lines arrive.
pub(crate) struct Arrivals {
    /// By the lower bits of their numbers.
    near: Box<[(u64, Ps); NEAR]>,
    /// Lines whose places in `near` are taken by other lines on their way.
    far: ByNumber<Ps>,
    /// Size of `far` at which it is cleaned up next.
    crowded: usize,
    /// The last arrival of all.
    last: Ps,
}

impl Default for Arrivals {
    fn default() -> Self {
        let near = Box::new([(u64::MAX, Ps::default()); NEAR]);
        Arrivals { near, far: ByNumber::default(), crowded: CROWDED, last: Ps::default() }
    }
}

impl Arrivals {
    /// When `line` arrives; some time not after `now` if it is there.
    #[inline]
    pub(crate) fn of(&self, line: u64, now: Ps) -> Ps {
        if now >= self.last {
            return Ps::default();
        }
        let (here, time) = self.near[line as usize % NEAR];
        if here == line {
            return time;
        }
        if self.far.is_empty() {
            return Ps::default();
        }
        self.far.get(&line).copied().unwrap_or_default()
    }

    /// Records that the line arrives at `time`, or later if a later arrival is already recorded. No core whose time
    /// matters is behind `now`.
    #[inline]
    pub(crate) fn note(&mut self, line: u64, time: Ps, now: Ps) {
        if now >= self.last && !self.far.is_empty() {
            self.far.clear();
        }
        self.last = self.last.max(time);
        let (here, there) = &mut self.near[line as usize % NEAR];
        if *here == line {
            *there = time.max(*there);
            return;
        }
        if *there > now {
            let (other, time) = (*here, *there);
            self.put_far(other, time, now);
        }
        let before = if self.far.is_empty() { None } else { self.far.remove(&line) };
        self.near[line as usize % NEAR] = (line, time.max(before.unwrap_or_default()));
    }

    #[cold]
    fn put_far(&mut self, line: u64, time: Ps, now: Ps) {
        if self.far.len() >= self.crowded {
            self.far.retain(|_, time| *time > now);
            self.crowded = CROWDED.max(2 * self.far.len());
        }
        self.far.insert(line, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_have_come_are_forgotten_and_no_others() {
        let mut arrivals = Arrivals::default();
        // Lines that share one place, a hundred of them on their way at a time.
        for time in 0..10_000u64 {
            let line = |time: u64| time * NEAR as u64;
            arrivals.note(line(time), Ps(time + 100), Ps(time));
            assert!(arrivals.far.len() <= 2 * CROWDED);
            assert_eq!(arrivals.of(line(time), Ps(time)), Ps(time + 100));
            assert_eq!(arrivals.of(line(time.saturating_sub(90)), Ps(time)), Ps(time.max(90) + 10));
        }
        assert_eq!(arrivals.of(9_999 * NEAR as u64, Ps(20_000)), Ps(0));
        arrivals.note(3, Ps(30_000), Ps(20_000));
        assert!(arrivals.far.is_empty());
    }

    #[test]
    fn a_line_that_is_handed_on_comes_later() {
        let mut arrivals = Arrivals::default();
        arrivals.note(1, Ps(50), Ps(0));
        arrivals.note(1 + NEAR as u64, Ps(60), Ps(5));
        arrivals.note(1, Ps(80), Ps(10));
        assert_eq!(arrivals.of(1, Ps(10)), Ps(80));
        assert_eq!(arrivals.of(1 + NEAR as u64, Ps(10)), Ps(60));
        assert_eq!(arrivals.of(2, Ps(10)), Ps(0));
    }
}
