//! Counters for INFO and for metrics: one set for each thread, so that counting never makes threads wait for
//! each other; sums are made when they are asked for.
//!
//! A transaction may be run again, so its counts are kept in its [`Tally`] until it has committed: counters
//! only ever grow, as monitors expect, except where CONFIG RESETSTAT starts INFO's figures anew.

use crate::command::{Command, all};
use crate::slow_log::SlowCommand;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A counter that one thread advances, and any reads or starts anew.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    count: AtomicU64,
    /// Its value when it was last started anew.
    forgotten: AtomicU64,
}

impl Counter {
    /// Adds; only ever from the counter's own thread.
    pub(crate) fn add(&self, count: u64) {
        self.count.store(self.count.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// The count since the last CONFIG RESETSTAT.
    pub(crate) fn get(&self) -> u64 {
        self.count.load(Relaxed).wrapping_sub(self.forgotten.load(Relaxed))
    }

    /// The count since the server's start.
    pub(crate) fn total(&self) -> u64 {
        self.count.load(Relaxed)
    }

    fn restart(&self) {
        self.forgotten.store(self.count.load(Relaxed), Relaxed);
    }
}

/// Upper bounds of a histogram's buckets, in nanoseconds; one more bucket is above all of them.
pub(crate) const BOUNDS: [u64; 19] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// How long something took, many times.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [Counter; BOUNDS.len() + 1],
    nanos: Counter,
}

impl Histogram {
    pub(crate) fn add(&self, nanos: u64) {
        self.buckets[BOUNDS.partition_point(|bound| *bound < nanos)].add(1);
        self.nanos.add(nanos);
    }

    /// Adds its counts, each bucket's own, to `counts`, and the time to `nanos`.
    pub(crate) fn add_to(&self, counts: &mut [u64; BOUNDS.len() + 1], nanos: &mut u64) {
        for (count, bucket) in counts.iter_mut().zip(&self.buckets) {
            *count += bucket.total();
        }
        *nanos += self.nanos.total();
    }
}

/// One thread's counters.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Stats {
    pub(crate) connections: Counter,
    pub(crate) rejected: Counter,
    pub(crate) commands: Counter,
    pub(crate) errors: Counter,
    /// Of these, by their [`CODES`].
    pub(crate) codes: [Counter; CODES.len()],
    pub(crate) transactions: Counter,
    /// Runs of these beyond the first of each: they were in conflict with others.
    pub(crate) conflicts: Counter,
    pub(crate) read_transactions: Counter,
    pub(crate) waits: Counter,
    pub(crate) input: Counter,
    pub(crate) output: Counter,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) expired: Counter,
    pub(crate) by_command: ByCommand,
    /// How long commands took.
    pub(crate) took: Histogram,
    /// How long the thread waited for durability, each time.
    pub(crate) waited: Histogram,
    /// Times that the thread looked for something to do: it stands still only while the thread is stuck.
    pub(crate) looks: Counter,
}

/// The outcome of one command.
#[derive(Debug, Default)]
pub(crate) struct CommandStats {
    pub(crate) calls: Counter,
    /// Refused before it was called: a wrong number of arguments, no password.
    pub(crate) rejected: Counter,
    /// Of the calls, those that answered with an error.
    pub(crate) failed: Counter,
    /// How long the calls took, without the wait for durability.
    pub(crate) nanos: Counter,
}

/// For each command, by its number.
#[derive(Debug)]
pub(crate) struct ByCommand(Box<[CommandStats]>);

impl Default for ByCommand {
    fn default() -> Self {
        ByCommand(all().map(|_| CommandStats::default()).collect())
    }
}

/// The counts of a transaction.
pub(crate) enum Counted {
    /// A key that was looked for was there.
    Hit,
    /// Or was not.
    Miss,
    /// A key was deleted, since its time had come.
    Expired,
    /// A command was called.
    Called(Called),
    /// An error is answered whose reply begins with this code.
    Error(&'static str),
    /// A command took so long that the slow log is to have it.
    Slow(Box<SlowCommand>),
}

/// A command that was called.
#[derive(Clone, Copy)]
pub(crate) struct Called {
    pub(crate) command: &'static Command,
    /// Whether it did its work.
    pub(crate) done: bool,
    pub(crate) took: Duration,
}

/// The counts of the transaction under way: they are added to the counters once the transaction has committed.
#[derive(Default)]
pub(crate) struct Tally {
    counted: RefCell<Vec<Counted>>,
    /// When the last command ended, or the transaction's body began.
    lap: Cell<Option<Instant>>,
}

impl Tally {
    pub(crate) fn add(&self, counted: Counted) {
        self.counted.borrow_mut().push(counted);
    }

    /// How much was counted so far.
    pub(crate) fn mark(&self) -> usize {
        self.counted.borrow().len()
    }

    /// Takes back all counts since `mark`.
    pub(crate) fn back_to(&self, mark: usize) {
        self.counted.borrow_mut().truncate(mark);
    }

    /// A transaction's body begins, perhaps once more: nothing was counted.
    pub(crate) fn begin(&self) {
        self.back_to(0);
        self.lap.set(Some(Instant::now()));
    }

    /// The time since a command ended before, or the body began: one look at the clock for each command.
    pub(crate) fn lap(&self) -> Duration {
        let now = Instant::now();
        let since = self.lap.replace(Some(now));
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// The transaction was committed: counts it. Calls `slow` for each slow command.
    pub(crate) fn settle(&self, stats: &Stats, mut slow: impl FnMut(SlowCommand)) {
        for counted in self.counted.borrow_mut().drain(..) {
            match counted {
                Counted::Hit => stats.hits.add(1),
                Counted::Miss => stats.misses.add(1),
                Counted::Expired => stats.expired.add(1),
                Counted::Called(called) => stats.called(called),
                Counted::Error(code) => stats.error(code),
                Counted::Slow(command) => slow(*command),
            }
        }
    }
}

/// The code of those that are counted apart which an error's text begins with.
pub(crate) fn known(code: &str) -> &'static str {
    CODES.into_iter().find(|known| *known == code).unwrap_or(OTHER)
}

const OTHER: &str = CODES[CODES.len() - 1];

/// The codes of error replies that are counted apart; others are counted with the last.
pub(crate) const CODES: [&str; 8] =
    ["EXECABORT", "MISCONF", "NOAUTH", "NOPROTO", "OOM", "WRONGPASS", "WRONGTYPE", "ERR"];

impl Stats {
    /// The counters of one command.
    pub(crate) fn of(&self, command: &Command) -> &CommandStats {
        &self.by_command.0[command.number]
    }

    /// A command was called.
    pub(crate) fn called(&self, Called { command, done, took }: Called) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let counters = self.of(command);
        counters.calls.add(1);
        counters.nanos.add(nanos);
        self.took.add(nanos);
        if !done {
            counters.failed.add(1);
        }
    }

    /// An error is answered whose reply begins with `code`.
    pub(crate) fn error(&self, code: &str) {
        self.errors.add(1);
        let code = known(code);
        if let Some(place) = CODES.iter().position(|known| *known == code) {
            self.codes[place].add(1);
        }
    }

    /// Counts from zero again.
    pub(crate) fn restart(&self) {
        for counter in [
            &self.connections,
            &self.rejected,
            &self.commands,
            &self.errors,
            &self.transactions,
            &self.conflicts,
            &self.read_transactions,
            &self.waits,
            &self.input,
            &self.output,
            &self.hits,
            &self.misses,
            &self.expired,
        ] {
            counter.restart();
        }
        self.codes.iter().for_each(Counter::restart);
        for CommandStats { calls, rejected, failed, nanos } in &self.by_command.0 {
            [calls, rejected, failed, nanos].into_iter().for_each(Counter::restart);
        }
    }
}

/// The sum of one counter over all threads.
pub(crate) fn sum(stats: &[Stats], pick: impl Fn(&Stats) -> &Counter) -> u64 {
    stats.iter().map(|one| pick(one).get()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_that_it_does_not_exceed() {
        let histogram = Histogram::default();
        for nanos in [0, 1_000, 1_001, 10_000_000_000, u64::MAX / 2] {
            histogram.add(nanos);
        }
        let (mut counts, mut nanos) = ([0; BOUNDS.len() + 1], 0);
        histogram.add_to(&mut counts, &mut nanos);
        let last = BOUNDS.len();
        assert_eq!((counts[0], counts[1], counts[last - 1], counts[last]), (2, 1, 1, 1));
        assert_eq!(nanos, 10_000_002_001 + u64::MAX / 2);
        assert!(BOUNDS.is_sorted());
    }

    #[test]
    fn reruns_count_once() {
        let (stats, tally) = (Stats::default(), Tally::default());
        for _ in 0..3 {
            tally.begin();
            tally.add(Counted::Hit);
            let mark = tally.mark();
            tally.add(Counted::Error("OOM"));
            tally.back_to(mark);
        }
        assert_eq!(stats.hits.get(), 0);
        tally.settle(&stats, |_| panic!("nothing is slow"));
        tally.settle(&stats, |_| ());
        assert_eq!((stats.hits.get(), stats.errors.get()), (1, 0));
        stats.restart();
        assert_eq!((stats.hits.get(), stats.hits.total()), (0, 1));
    }
}
