//! Counters for INFO and for metrics: one set for each thread, so that counting never makes threads wait for
//! each other; sums are made when they are asked for.
//!
//! A transaction may be run again, so its counts are kept in its [`Tally`] until it has committed: counters
//! only ever grow, as monitors expect, except where CONFIG RESETSTAT starts INFO's figures anew.

use crate::command::{Command, all};
use crate::slow_log::SlowCommand;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
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

/// The bucket that a time belongs to.
fn bucket(nanos: u64) -> usize {
    BOUNDS.partition_point(|bound| *bound < nanos)
}

/// How long something took, many times.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [Counter; BOUNDS.len() + 1],
    nanos: Counter,
}

impl Histogram {
    pub(crate) fn add(&self, nanos: u64) {
        self.add_some(nanos, 1);
    }

    /// Adds something that took so long `count` times.
    fn add_some(&self, nanos: u64, count: u64) {
        self.buckets[bucket(nanos)].add(count);
        self.nanos.add(nanos.wrapping_mul(count));
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
    /// Calls of the system that read from clients' sockets, and wrote to them.
    pub(crate) reads: Counter,
    pub(crate) writes: Counter,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) expired: Counter,
    pub(crate) evicted: Counter,
    /// Large values that were freed in steps.
    pub(crate) freed: Counter,
    pub(crate) by_command: ByCommand,
    /// How long commands took.
    pub(crate) took: Histogram,
    /// How long the thread waited for durability, each time.
    pub(crate) waited: Histogram,
    /// Times that the thread looked for something to do: it stands still only while the thread is stuck.
    pub(crate) looks: Counter,
    /// Whether calls are left out of the histograms of their commands.
    leaves_out_times: AtomicBool,
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
    /// The calls by that, for LATENCY HISTOGRAM.
    buckets: [Counter; LOG_BUCKETS],
}

/// Buckets of times up to a power of two of nanoseconds.
pub(crate) const LOG_BUCKETS: usize = 21;
/// The first one's, as a power of two; what takes longer than the last one's is counted there.
const FIRST_POWER: u32 = 10;

fn log_bucket(nanos: u64) -> usize {
    let power = u64::BITS - nanos.saturating_sub(1).leading_zeros();
    (power.saturating_sub(FIRST_POWER) as usize).min(LOG_BUCKETS - 1)
}

/// The end of a bucket in microseconds, as Redis names it: its histograms have seven bits of a number.
pub(crate) fn bucket_end(bucket: usize) -> u64 {
    bucket_end_nanos(bucket) / 1000
}

/// The same in nanoseconds.
pub(crate) fn bucket_end_nanos(bucket: usize) -> u64 {
    let end = 1_u64 << (FIRST_POWER as usize + bucket);
    end + (end >> 7) - 1
}

impl CommandStats {
    /// Adds its calls, each bucket's own.
    pub(crate) fn add_to(&self, calls: &mut [u64; LOG_BUCKETS]) {
        calls.iter_mut().zip(&self.buckets).for_each(|(calls, own)| *calls += own.get());
    }
}

/// For each command, by its number.
#[derive(Debug)]
pub(crate) struct ByCommand(Box<[CommandStats]>);

impl Default for ByCommand {
    fn default() -> Self {
        ByCommand(all().map(|_| CommandStats::default()).collect())
    }
}

/// A command that was called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Called {
    pub(crate) command: &'static Command,
    /// Whether it did its work.
    pub(crate) done: bool,
    pub(crate) nanos: u64,
}

/// Commands that were called, `count` times, with the same outcome.
#[derive(Clone, Copy)]
struct Calls {
    called: Called,
    count: u64,
}

/// A transaction with more calls than this keeps the mean time only of those alike.
const CALLS_MAX: usize = 1 << 14;
/// Slow commands of one transaction that the slow log gets: the first ones.
const SLOW_MAX: usize = 1000;

/// Brief commands that share one look at the clock, at most.
const TOGETHER: usize = 32;
/// While so many take longer than this together, each is timed.
const QUICK: Duration = Duration::from_micros(50);

/// The counts of the transaction under way: they are added to the counters once the transaction has committed.
///
/// Commands that take about the same time, whatever is stored, are timed some together, and each counts as having
/// taken its part. A look at the clock takes as long as a tenth of such a command.
#[derive(Default)]
pub(crate) struct Tally {
    /// The commands that were called; those from `untimed` on are yet to be timed, together.
    called: RefCell<Vec<Calls>>,
    untimed: Cell<usize>,
    /// Those up to here are taken back one by one, if at all: the last mark.
    marked: Cell<usize>,
    /// Errors that are answered, by their [`CODES`].
    errors: Cell<[u64; CODES.len()]>,
    slow: RefCell<Vec<SlowCommand>>,
    keys: Cell<Keys>,
    /// When the last timed command ended, or the transaction's body began.
    looked: Cell<Option<Instant>>,
    /// Commands that may be timed together now.
    together: Cell<usize>,
    /// Whether commands may be timed together at all.
    shares: Cell<bool>,
    /// Whether the next command is the body's last.
    is_last: Cell<bool>,
    /// Whether the transaction is to be run again with [care](Self::need_care).
    needs_care: Cell<bool>,
}

/// What has become of keys that commands looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Keys {
    found: u64,
    missed: u64,
    /// Deleted, since their time had come.
    expired: u64,
    /// Deleted to make room.
    evicted: u64,
    /// Large values, the last of which is freed.
    freed: u64,
}

/// How much a transaction has counted so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct TallyMark {
    called: usize,
    errors: [u64; CODES.len()],
    slow: usize,
    keys: Keys,
}

impl Tally {
    /// A key was looked for.
    pub(crate) fn looked_for(&self, is_there: bool) {
        let mut keys = self.keys.get();
        keys.found += u64::from(is_there);
        keys.missed += u64::from(!is_there);
        self.keys.set(keys);
    }

    /// A key was deleted, since its time had come.
    pub(crate) fn expired(&self) {
        let keys = self.keys.get();
        self.keys.set(Keys { expired: keys.expired + 1, ..keys });
    }

    /// How many expired keys were deleted so far.
    pub(crate) fn expired_so_far(&self) -> u64 {
        self.keys.get().expired
    }

    /// Only so many were.
    pub(crate) fn expired_back_to(&self, expired: u64) {
        self.keys.set(Keys { expired, ..self.keys.get() });
    }

    /// A key was deleted to make room.
    pub(crate) fn evicted(&self) {
        let keys = self.keys.get();
        self.keys.set(Keys { evicted: keys.evicted + 1, ..keys });
    }

    /// The last of a large value is freed.
    pub(crate) fn freed(&self) {
        let keys = self.keys.get();
        self.keys.set(Keys { freed: keys.freed + 1, ..keys });
    }

    /// An error is answered whose reply begins with this code.
    pub(crate) fn error(&self, code: &str) {
        let mut errors = self.errors.get();
        errors[place_of(code)] += 1;
        self.errors.set(errors);
    }

    /// A command was slow.
    pub(crate) fn slow(&self, command: SlowCommand) {
        let mut slow = self.slow.borrow_mut();
        if slow.len() < SLOW_MAX {
            slow.push(command);
        }
    }

    /// A command has failed after it has written, and cannot be undone by itself: the transaction is to be run again, so
    /// that each can.
    pub(crate) fn need_care(&self) {
        self.needs_care.set(true);
    }

    /// Whether that is so.
    pub(crate) fn needs_care(&self) -> bool {
        self.needs_care.get()
    }

    /// The same, once.
    pub(crate) fn takes_care(&self) -> bool {
        self.needs_care.take()
    }

    /// How much was counted so far.
    pub(crate) fn mark(&self) -> TallyMark {
        let called = self.called.borrow().len();
        self.marked.set(called);
        let (errors, slow) = (self.errors.get(), self.slow.borrow().len());
        TallyMark { called, errors, slow, keys: self.keys.get() }
    }

    /// Takes back all counts since `mark`.
    pub(crate) fn back_to(&self, mark: TallyMark) {
        self.called.borrow_mut().truncate(mark.called);
        self.untimed.set(self.untimed.get().min(mark.called));
        self.marked.set(self.marked.get().min(mark.called));
        self.errors.set(mark.errors);
        self.slow.borrow_mut().truncate(mark.slow);
        self.keys.set(mark.keys);
    }

    /// A transaction's body begins, perhaps once more: nothing was counted. `shares` says whether brief commands may be
    /// timed together.
    pub(crate) fn begin(&self, shares: bool) {
        self.back_to(TallyMark::default());
        self.looked.set(Some(Instant::now()));
        self.shares.set(shares);
        self.is_last.set(false);
        if !shares {
            self.together.set(1);
        }
    }

    /// The next command is the body's last: it is timed, and those before it that were not.
    pub(crate) fn begin_last(&self) {
        self.is_last.set(true);
    }

    /// A command that may take long begins: its time is not to have that of others in it.
    pub(crate) fn begin_long(&self) {
        if self.called.borrow().len() > self.untimed.get() {
            self.time();
        }
    }

    /// A command was called, and has ended. A `brief` one may be timed with others. Returns the time of all commands
    /// that were timed now, if any was.
    pub(crate) fn ended(
        &self,
        command: &'static Command,
        done: bool,
        brief: bool,
    ) -> Option<Duration> {
        let mut called = self.called.borrow_mut();
        if called.len() - self.marked.get() > CALLS_MAX {
            self.merge(&mut called);
        }
        called.push(Calls { called: Called { command, done, nanos: 0 }, count: 1 });
        let untimed = called.len() - self.untimed.get();
        if brief && untimed < self.together.get() && !self.is_last.get() {
            return None;
        }
        if !brief {
            // All of the time is this one's: what the others before it took is little beside it.
            self.untimed.set(called.len() - 1);
        }
        drop(called);
        Some(self.time())
    }

    /// The command that has just ended took so long, with those that it has performed.
    pub(crate) fn took(&self, took: Duration) -> Duration {
        if let Some(last) = self.called.borrow_mut().last_mut() {
            last.called.nanos = as_nanos(took);
        }
        took
    }

    /// Merges the calls that were timed since the last mark: those of a command that belong to one bucket of the
    /// histogram. A script may call commands without end.
    fn merge(&self, called: &mut Vec<Calls>) {
        let (first, end) = (self.marked.get(), self.untimed.get());
        let kind = |calls: &Calls| {
            let Called { command, done, nanos } = calls.called;
            (command.number, done, bucket(nanos))
        };
        called[first..end].sort_unstable_by_key(kind);
        let merge_some = |alike: &[Calls]| {
            let count = alike.iter().map(|calls| calls.count).sum();
            let nanos =
                alike.iter().map(|calls| u128::from(calls.called.nanos) * u128::from(calls.count));
            let mean = nanos.sum::<u128>() / u128::from(count);
            let nanos = u64::try_from(mean).unwrap_or(u64::MAX);
            Calls { called: Called { nanos, ..alike[0].called }, count }
        };
        let alike = called[first..end].chunk_by(|one, other| kind(one) == kind(other));
        let merged: Vec<Calls> = alike.map(merge_some).collect();
        self.untimed.set(first + merged.len());
        called.splice(first..end, merged);
    }

    /// The transaction's body ends: commands that were not timed yet are.
    pub(crate) fn end(&self) {
        self.begin_long();
    }

    /// Looks at the clock: the commands since the last look share the time since then.
    fn time(&self) -> Duration {
        let now = Instant::now();
        let since = self.looked.replace(Some(now));
        let took = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let mut called = self.called.borrow_mut();
        let untimed = &mut called[self.untimed.get()..];
        let each = as_nanos(took) / (untimed.len() as u64).max(1);
        untimed.iter_mut().for_each(|one| one.called.nanos = each);
        self.untimed.set(called.len());
        let quick = self.shares.get() && took < QUICK;
        self.together.set(if quick { (2 * self.together.get()).clamp(1, TOGETHER) } else { 1 });
        took
    }

    /// The transaction was committed: counts it. Calls `slow` for each slow command.
    pub(crate) fn settle(&self, stats: &Stats, slow: impl FnMut(SlowCommand)) {
        let mut called = self.called.borrow_mut();
        for same in called.chunk_by(|one, other| one.called == other.called) {
            stats.called(same[0].called, same.iter().map(|calls| calls.count).sum());
        }
        called.clear();
        self.untimed.set(0);
        self.marked.set(0);
        let keys = self.keys.take();
        stats.hits.add(keys.found);
        stats.misses.add(keys.missed);
        stats.expired.add(keys.expired);
        stats.evicted.add(keys.evicted);
        stats.freed.add(keys.freed);
        for (place, count) in self.errors.take().into_iter().enumerate() {
            stats.errors_with(place, count);
        }
        self.slow.borrow_mut().drain(..).for_each(slow);
    }
}

fn as_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The place in [`CODES`] of the code that an error's text begins with.
fn place_of(code: &str) -> usize {
    CODES.iter().position(|known| *known == code).unwrap_or(CODES.len() - 1)
}

/// The codes of error replies that are counted apart; others are counted with the last.
pub(crate) const CODES: [&str; 11] = [
    "BUSYGROUP",
    "EXECABORT",
    "MISCONF",
    "NOAUTH",
    "NOGROUP",
    "NOPERM",
    "NOPROTO",
    "OOM",
    "WRONGPASS",
    "WRONGTYPE",
    "ERR",
];

impl Stats {
    /// The counters of one command.
    pub(crate) fn of(&self, command: &Command) -> &CommandStats {
        &self.by_command.0[command.number]
    }

    /// Whether the histograms of commands have their calls, as `latency-tracking` says.
    pub(crate) fn tracks_times(&self) -> bool {
        !self.leaves_out_times.load(Relaxed)
    }

    pub(crate) fn set_tracks_times(&self, on: bool) {
        self.leaves_out_times.store(!on, Relaxed);
    }

    /// A command was called, `count` times with the same outcome.
    pub(crate) fn called(&self, Called { command, done, nanos }: Called, count: u64) {
        let counters = self.of(command);
        counters.calls.add(count);
        counters.nanos.add(nanos.wrapping_mul(count));
        if self.tracks_times() {
            counters.buckets[log_bucket(nanos)].add(count);
        }
        self.took.add_some(nanos, count);
        if !done {
            counters.failed.add(count);
        }
    }

    /// An error is answered whose reply begins with `code`.
    pub(crate) fn error(&self, code: &str) {
        self.errors_with(place_of(code), 1);
    }

    /// So many errors are answered whose code has this place in [`CODES`].
    fn errors_with(&self, place: usize, count: u64) {
        self.errors.add(count);
        self.codes[place].add(count);
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
            &self.reads,
            &self.writes,
            &self.hits,
            &self.misses,
            &self.expired,
            &self.evicted,
            &self.freed,
        ] {
            counter.restart();
        }
        self.codes.iter().for_each(Counter::restart);
        for CommandStats { calls, rejected, failed, nanos, buckets } in &self.by_command.0 {
            [calls, rejected, failed, nanos].into_iter().chain(buckets).for_each(Counter::restart);
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
    use crate::command::find;
    use crate::protocol::args::OwnedArgs;

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
    fn buckets_are_named_as_redis_names_them() {
        let ends: Vec<u64> = (0..12).map(bucket_end).collect();
        assert_eq!(ends, [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113]);
        let buckets = [0, 1, 1024, 1025, 2048, 1 << 30, u64::MAX].map(log_bucket);
        assert_eq!(buckets, [0, 0, 0, 1, 1, 20, 20]);
    }

    #[test]
    fn reruns_count_once() {
        let (stats, tally) = (Stats::default(), Tally::default());
        let get = find(b"get").expect("a command");
        for _ in 0..3 {
            tally.begin(true);
            tally.looked_for(true);
            tally.ended(get, true, true);
            let mark = tally.mark();
            tally.looked_for(false);
            tally.ended(get, false, false);
            tally.error("OOM");
            tally.back_to(mark);
            tally.end();
        }
        assert_eq!(stats.hits.get(), 0);
        tally.settle(&stats, |_| panic!("nothing is slow"));
        tally.settle(&stats, |_| ());
        assert_eq!((stats.hits.get(), stats.misses.get(), stats.errors.get()), (1, 0, 0));
        assert_eq!((stats.of(get).calls.get(), stats.of(get).failed.get()), (1, 0));
        stats.restart();
        assert_eq!((stats.hits.get(), stats.hits.total()), (0, 1));
    }

    /// A transaction with any number of calls takes bounded memory, and loses no counts.
    #[test]
    fn endless_calls_are_counted_compactly() {
        let (stats, tally) = (Stats::default(), Tally::default());
        let (get, set) = (find(b"get").expect("a command"), find(b"set").expect("a command"));
        tally.begin(true);
        tally.ended(set, true, true);
        let mark = tally.mark();
        for index in 0..1_000_000 {
            tally.ended(if index % 3 == 0 { set } else { get }, index % 5 != 0, true);
            tally.error("OOM");
        }
        assert!(tally.called.borrow().capacity() < 4 * CALLS_MAX);
        tally.back_to(mark);
        assert_eq!(tally.called.borrow().len(), 1);
        for index in 0..1_000_000 {
            tally.ended(if index % 4 == 0 { set } else { get }, index % 5 != 0, true);
            tally.error("OOM");
        }
        let slow = || {
            let args: OwnedArgs = [b"get".as_slice(), b"k"].into_iter().collect();
            SlowCommand::new(get, args.as_args(), &listing(), Duration::ZERO)
        };
        (0..2 * SLOW_MAX).for_each(|_| tally.slow(slow()));
        tally.end();
        let mut count = 0;
        tally.settle(&stats, |_| count += 1);
        assert_eq!(count, SLOW_MAX);
        assert_eq!((stats.of(get).calls.get(), stats.of(set).calls.get()), (750_000, 250_001));
        assert_eq!((stats.of(get).failed.get(), stats.of(set).failed.get()), (150_000, 50_000));
        assert_eq!(
            (stats.errors.get(), stats.codes[place_of("OOM")].get()),
            (1_000_000, 1_000_000)
        );
        let (mut counts, mut nanos) = ([0; BOUNDS.len() + 1], 0);
        stats.took.add_to(&mut counts, &mut nanos);
        assert_eq!(counts.iter().sum::<u64>(), 1_000_001);
    }

    fn listing() -> crate::listing::Listing {
        let address: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
        crate::listing::Listing::new(1, address, address)
    }

    /// Nothing is lost or counted twice when commands are timed together, and those that are not brief are timed alone.
    #[test]
    fn commands_share_looks_at_the_clock() {
        let (stats, tally) = (Stats::default(), Tally::default());
        let (get, keys) = (find(b"get").expect("a command"), find(b"keys").expect("a command"));
        tally.begin(false);
        assert!((0..20).all(|_| tally.ended(get, true, true).is_some()), "each is timed");
        tally.begin(true);
        let timed = (0..10_000).filter(|_| tally.ended(get, true, true).is_some()).count();
        assert!((10_000 / TOGETHER..5_000).contains(&timed), "{timed} looks");
        tally.begin_long();
        std::thread::sleep(Duration::from_millis(2));
        let took = tally.ended(keys, true, false).expect("it is timed");
        assert!(took >= Duration::from_millis(2));
        tally.ended(get, true, true);
        tally.end();
        tally.settle(&stats, |_| ());
        assert_eq!((stats.of(get).calls.get(), stats.of(keys).calls.get()), (10_001, 1));
        assert_eq!(u128::from(stats.of(keys).nanos.get()), took.as_nanos());
        assert!(stats.of(get).nanos.get() < 1_000_000_000);
    }
}
