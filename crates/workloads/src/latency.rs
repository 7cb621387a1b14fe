//! Latencies: a histogram for each kind of operation and thread, three digits, nanoseconds.
//!
//! Reading the clock twice costs 40 to 50 ns, a good part of a small transaction. So only about
//! one operation in [`Plan::sample_every`](crate::Plan::sample_every) is timed. The gaps are
//! random, so that they do not fall in step with something periodic, such as a log's recycling. In
//! an open loop ([`Pace`]) all are timed. Where transactions return before they are durable
//! ([`window`](crate::window)), the session reports when they are.

use crate::Progress;
use crate::answers::Answers;
use crate::pace::Pace;
use crate::random::splitmix64;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Instant;

/// The longest latency recorded; longer ones count as this: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Operations between two reports of progress, at most.
const REPORT_EVERY: u64 = 256;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds are valid")
}

/// Latencies of one kind of operation, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    /// The kind of operation.
    pub kind: &'static str,
    /// How many were timed.
    pub samples: u64,
    /// The median.
    pub p50_ns: u64,
    /// 99 in 100 are below.
    pub p99_ns: u64,
    /// 999 in 1,000 are below.
    pub p999_ns: u64,
    /// The longest of the timed ones.
    pub max_ns: u64,
}

/// Counts one thread's operations, and times some of them.
pub struct Recorder<'p> {
    every: u64,
    until_next: u64,
    draws: u64,
    histograms: Vec<Histogram<u64>>,
    done: u64,
    reported: u64,
    report_every: u64,
    progress: &'p Progress,
    pace: Option<Pace>,
    answers: Option<Answers>,
}

impl<'p> Recorder<'p> {
    /// A recorder for `kinds` kinds of operations that times one in `every` (0: none).
    pub fn new(kinds: usize, every: u32, seed: u64, progress: &'p Progress) -> Self {
        let histograms = if every == 0 { Vec::new() } else { vec![histogram(); kinds] };
        let mut recorder = Recorder {
            every: u64::from(every),
            until_next: 0,
            draws: seed,
            histograms,
            done: 0,
            reported: 0,
            report_every: REPORT_EVERY,
            progress,
            pace: None,
            answers: None,
        };
        recorder.draw_gap();
        recorder
    }

    /// Begins operations at fixed times, and times every one from when it was due.
    pub fn paced(mut self, pace: Pace) -> Self {
        self.report_every = pace.per_nap().clamp(1, REPORT_EVERY);
        self.pace = Some(pace);
        self.every = 1;
        self.until_next = 1;
        self
    }

    /// Counts latencies up to the acknowledgement that `answers` reports, if any, rather than to an
    /// operation's return.
    pub fn answered_by(&mut self, answers: Option<Answers>) {
        self.answers = answers;
    }

    /// Whether the thread should begin another operation: false once the run is to stop.
    #[inline]
    pub fn go_on(&mut self) -> bool {
        if self.done - self.reported < self.report_every {
            return true;
        }
        self.report();
        !self.progress.is_stopped()
    }

    fn report(&mut self) {
        self.progress.advance(self.done - self.reported);
        self.reported = self.done;
    }

    /// Does one operation of the given kind.
    #[inline]
    pub fn operation<R>(&mut self, kind: usize, body: impl FnOnce() -> R) -> R {
        self.operations(kind, 1, body)
    }

    /// Does `count` operations in one transaction, which is timed as a whole.
    #[inline]
    pub fn operations<R>(&mut self, kind: usize, count: u64, body: impl FnOnce() -> R) -> R {
        self.done += count;
        if self.until_next > 1 {
            self.until_next -= 1;
            return body();
        }
        self.timed(kind, count, body)
    }

    #[inline(never)]
    fn timed<R>(&mut self, kind: usize, count: u64, body: impl FnOnce() -> R) -> R {
        let start = match &mut self.pace {
            None => Instant::now(),
            Some(pace) => match pace.wait(count, self.progress) {
                Some(due) => due,
                // It begins before it is due: there is nothing to time.
                None => return body(),
            },
        };
        let result = body();
        match &self.answers {
            None => record(&mut self.histograms, kind, start.elapsed().as_nanos() as u64),
            Some(answers) => answers.expect(kind, start),
        }
        self.record_answered();
        self.draw_gap();
        result
    }

    /// Records the operations acknowledged meanwhile.
    fn record_answered(&mut self) {
        if let Some(answers) = &self.answers {
            answers.take_known(|kind, ns| record(&mut self.histograms, kind, ns));
        }
    }

    /// The next gap: random, `every` on average.
    fn draw_gap(&mut self) {
        self.draws = splitmix64(self.draws);
        self.until_next = match self.every {
            0 => u64::MAX,
            1 => 1,
            every => 1 + self.draws % (2 * every - 1),
        };
    }

    /// Operations done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The recorded latencies, one histogram for each kind.
    pub fn finish(mut self) -> (u64, Vec<Histogram<u64>>) {
        self.report();
        self.record_answered();
        (self.done, self.histograms)
    }
}

fn record(histograms: &mut [Histogram<u64>], kind: usize, nanoseconds: u64) {
    if let Some(histogram) = histograms.get_mut(kind) {
        histogram.saturating_record(nanoseconds.max(1));
    }
}

/// Adds up threads' records, and reads off the percentiles of the kinds that occurred.
pub fn summarise(
    kinds: &'static [&'static str],
    threads: impl IntoIterator<Item = Vec<Histogram<u64>>>,
) -> Vec<Latencies> {
    let mut total = vec![histogram(); kinds.len()];
    for thread in threads {
        for (sum, part) in total.iter_mut().zip(&thread) {
            sum.add(part).expect("histograms of the same bounds add up");
        }
    }
    let occurred = kinds.iter().zip(&total).filter(|(_, histogram)| !histogram.is_empty());
    occurred.map(|(kind, histogram)| latencies(kind, histogram)).collect()
}

/// The same of all kinds together; `None` if nothing was timed.
pub fn overall(threads: &[Vec<Histogram<u64>>]) -> Option<Latencies> {
    let mut total = histogram();
    for part in threads.iter().flatten() {
        total.add(part).expect("histograms of the same bounds add up");
    }
    (!total.is_empty()).then(|| latencies("all", &total))
}

fn latencies(kind: &'static str, histogram: &Histogram<u64>) -> Latencies {
    Latencies {
        kind,
        samples: histogram.len(),
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        p999_ns: histogram.value_at_quantile(0.999),
        max_ns: histogram.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(every: u32, operations: u64) -> u64 {
        let progress = Progress::default();
        let mut recorder = Recorder::new(1, every, 9, &progress);
        for _ in 0..operations {
            recorder.operation(0, || ());
        }
        let (done, histograms) = recorder.finish();
        assert_eq!(done, operations);
        let together = overall(std::slice::from_ref(&histograms)).map_or(0, |all| all.samples);
        let sampled = summarise(&["it"], [histograms]);
        let sampled = sampled.first().map_or(0, |latencies| latencies.samples);
        assert_eq!(together, sampled);
        sampled
    }

    #[test]
    fn times_the_share_it_was_asked_to() {
        assert_eq!(samples(0, 10_000), 0);
        assert_eq!(samples(1, 10_000), 10_000);
        let sampled = samples(16, 160_000);
        assert!((9_500..10_500).contains(&sampled), "{sampled}");
    }
}
