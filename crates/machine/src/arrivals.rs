//! Lines on their way to a core: from when on each is there.
//!
//! The caches' tags have such a line at once, and data is apart from time; so another access to it, of the
//! same core or of another, must be told when the line can be had.

use crate::Ps;
use crate::controller::ByNumber;

/// Lines from which on it is worth looking which of them have come.
const CROWDED: usize = 256;

/// When lines arrive.
#[derive(Default)]
pub(crate) struct Arrivals {
    times: ByNumber<Ps>,
    /// The last of them.
    last: Ps,
    /// Lines at which it is looked next.
    crowded: usize,
}

impl Arrivals {
    /// When `line` is there; the beginning of time if that is over at `now`.
    #[inline]
    pub(crate) fn of(&self, line: u64, now: Ps) -> Ps {
        if now >= self.last {
            return Ps::default();
        }
        self.times.get(&line).copied().unwrap_or_default()
    }

    /// The line is there from `time` on. No core is behind `now`, as far as time matters.
    pub(crate) fn note(&mut self, line: u64, time: Ps, now: Ps) {
        if now >= self.last {
            self.times.clear();
        } else if self.times.len() >= self.crowded.max(CROWDED) {
            self.times.retain(|_, time| *time > now);
            self.crowded = 2 * self.times.len();
        }
        self.last = self.last.max(time);
        let there = self.times.entry(line).or_default();
        *there = time.max(*there);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_have_come_are_forgotten_and_no_others() {
        let mut arrivals = Arrivals::default();
        for line in 0..10_000u64 {
            arrivals.note(line, Ps(line + 100), Ps(line));
            assert!(arrivals.times.len() <= 2 * CROWDED);
            assert_eq!(arrivals.of(line, Ps(line)), Ps(line + 100));
            assert_eq!(arrivals.of(line.saturating_sub(90), Ps(line)), Ps(line.max(90) + 10));
        }
        assert_eq!(arrivals.of(9_999, Ps(20_000)), Ps(0));
        arrivals.note(3, Ps(30_000), Ps(20_000));
        assert_eq!(arrivals.times.len(), 1);
    }

    #[test]
    fn a_line_that_is_handed_on_comes_later() {
        let mut arrivals = Arrivals::default();
        arrivals.note(1, Ps(50), Ps(0));
        arrivals.note(1, Ps(80), Ps(10));
        assert_eq!(arrivals.of(1, Ps(10)), Ps(80));
        assert_eq!(arrivals.of(2, Ps(10)), Ps(0));
    }
}
