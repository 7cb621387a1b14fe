//! The latency monitor: what has taken longer than `latency-monitor-threshold`, by the kind of what it was.
//!
//! Kinds are Redis's: commands, brief ones (`fast-command`), and waits for durability, for which Redis's name is
//! `aof-fsync-always`. Each has the last samples, one a second at most.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Samples of a kind that are kept.
const SAMPLES: usize = 160;

/// A moment in seconds since 1970, and the milliseconds that something took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) time: u64,
    pub(crate) millis: u64,
}

/// The samples of a kind, the oldest first; there is one at least.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) samples: VecDeque<Sample>,
    /// The longest of all, also of those that are not kept.
    pub(crate) longest: u64,
}

/// What an analysis says of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Analysis {
    pub(crate) count: u64,
    pub(crate) mean: u64,
    pub(crate) deviation: u64,
    /// Seconds since the oldest sample.
    pub(crate) period: u64,
}

impl Series {
    fn add(&mut self, new: Sample) {
        self.longest = self.longest.max(new.millis);
        match self.samples.back_mut() {
            Some(last) if last.time == new.time => last.millis = last.millis.max(new.millis),
            _ => {
                if self.samples.len() == SAMPLES {
                    self.samples.pop_front();
                }
                self.samples.push_back(new);
            }
        }
    }

    pub(crate) fn analysis(&self, now: u64) -> Analysis {
        let count = (self.samples.len() as u64).max(1);
        let mean = self.samples.iter().map(|one| one.millis).sum::<u64>() / count;
        let deviations = self.samples.iter().map(|one| one.millis.abs_diff(mean));
        let oldest = self.samples.front().map_or(now, |one| one.time);
        let period = now.saturating_sub(oldest).max(1);
        Analysis { count, mean, deviation: deviations.sum::<u64>() / count, period }
    }
}

/// All kinds that there were.
#[derive(Default)]
pub(crate) struct Latency(Mutex<BTreeMap<&'static str, Series>>);

impl Latency {
    fn all(&self) -> MutexGuard<'_, BTreeMap<&'static str, Series>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something of a kind took long.
    pub(crate) fn add(&self, kind: &'static str, sample: Sample) {
        self.all().entry(kind).or_default().add(sample);
    }

    /// All kinds with their samples.
    pub(crate) fn series(&self) -> Vec<(&'static str, Series)> {
        self.all().iter().map(|(kind, series)| (*kind, series.clone())).collect()
    }

    /// The samples of a kind.
    pub(crate) fn of(&self, kind: &[u8]) -> Option<Series> {
        let all = self.all();
        all.iter().find(|(name, _)| name.as_bytes() == kind).map(|(_, series)| series.clone())
    }

    /// Forgets a kind, named in any case of letters, or all. Returns how many there were.
    pub(crate) fn reset(&self, kind: Option<&[u8]>) -> usize {
        let mut all = self.all();
        let before = all.len();
        all.retain(|name, _| kind.is_some_and(|kind| !name.as_bytes().eq_ignore_ascii_case(kind)));
        before - all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_longest_sample() {
        let latency = Latency::default();
        for (time, millis) in [(1, 5), (1, 9), (1, 7), (4, 3)] {
            latency.add("command", Sample { time, millis });
        }
        latency.add("fast-command", Sample { time: 2, millis: 1 });
        let series = latency.of(b"command").expect("samples");
        assert_eq!(series.samples, [Sample { time: 1, millis: 9 }, Sample { time: 4, millis: 3 }]);
        assert_eq!(series.longest, 9);
        let expected = Analysis { count: 2, mean: 6, deviation: 3, period: 10 };
        assert_eq!(series.analysis(11), expected);
        assert_eq!(latency.series().len(), 2);
        assert_eq!((latency.reset(Some(b"other")), latency.reset(Some(b"COMMAND"))), (0, 1));
        assert!(latency.of(b"command").is_none());
        assert_eq!((latency.reset(None), latency.reset(None)), (1, 0));
    }

    #[test]
    fn so_many_samples_are_kept() {
        let mut series = Series::default();
        (0..1000).for_each(|time| series.add(Sample { time, millis: 1000 - time }));
        assert_eq!((series.samples.len(), series.longest), (SAMPLES, 1000));
        assert_eq!(series.samples[0], Sample { time: 840, millis: 160 });
    }
}
