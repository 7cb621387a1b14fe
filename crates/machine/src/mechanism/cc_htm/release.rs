//! When lines of committing transactions are released. A core whose access would make such a transaction lose waits
//! until then.

use crate::Ps;
use crate::by_number::ByNumber;

/// Number of lines from which it is worth removing those that are released.
const CROWDED: usize = 256;

/// A line of transactions that have committed.
#[derive(Clone, Copy, Default)]
struct LineRelease {
    /// When the last one is released that has stored to it, or only read it.
    stored: Ps,
    read: Ps,
}

/// The lines of transactions that have committed, with the time of their release.
pub(super) struct Releases {
    lines: ByNumber<LineRelease>,
    crowded: usize,
}

impl Releases {
    pub(super) fn new() -> Self {
        Releases { lines: ByNumber::default(), crowded: CROWDED }
    }

    /// When a line is released for a core that loads it or, if it `stores`, for one that stores to it.
    #[inline]
    pub(super) fn until(&self, line: u64, stores: bool) -> Ps {
        let Some(release) = self.lines.get(&line) else { return Ps::default() };
        if stores { release.stored.max(release.read) } else { release.stored }
    }

    /// A transaction that has `stored` to a line, or only read it, releases it at `at`.
    pub(super) fn add(&mut self, line: u64, stored: bool, at: Ps) {
        let release = self.lines.entry(line).or_default();
        let time = if stored { &mut release.stored } else { &mut release.read };
        *time = at.max(*time);
    }

    /// Forgets what is released at `now`, if there is much.
    pub(super) fn forget(&mut self, now: Ps) {
        if self.lines.len() >= self.crowded {
            self.lines.retain(|_, release| release.stored.max(release.read) > now);
            self.crowded = CROWDED.max(2 * self.lines.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_wait_for_readers_and_loads_do_not() {
        let mut releases = Releases::new();
        releases.add(1, false, Ps(20));
        releases.add(1, true, Ps(10));
        assert_eq!((releases.until(1, false), releases.until(1, true)), (Ps(10), Ps(20)));
        assert_eq!(releases.until(2, true), Ps(0));
        (0..CROWDED as u64).for_each(|line| releases.add(line, true, Ps(line)));
        releases.forget(Ps(100));
        assert_eq!((releases.until(100, true), releases.until(101, true)), (Ps(0), Ps(101)));
    }
}
