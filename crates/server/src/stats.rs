//! Counters for INFO: one set for each thread, so that counting never makes threads wait for
//! each other; sums are made when somebody asks.

use crate::command::{Command, all};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter that one thread advances, and any reads or starts anew.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    count: AtomicU64,
    /// What it was when it was last started anew.
    forgotten: AtomicU64,
}

impl Counter {
    /// Adds; only ever from the counter's own thread.
    pub(crate) fn add(&self, count: u64) {
        self.count.store(self.count.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Takes one back that was added by mistake; only ever from the counter's own thread.
    pub(crate) fn take_back(&self) {
        self.count.store(self.count.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.count.load(Relaxed).wrapping_sub(self.forgotten.load(Relaxed))
    }

    fn restart(&self) {
        self.forgotten.store(self.count.load(Relaxed), Relaxed);
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
    /// How often one of these was run again, since it had met another one.
    pub(crate) conflicts: Counter,
    pub(crate) read_transactions: Counter,
    pub(crate) waits: Counter,
    pub(crate) input: Counter,
    pub(crate) output: Counter,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) expired: Counter,
    pub(crate) by_command: ByCommand,
}

/// What happened to one command.
#[derive(Debug, Default)]
pub(crate) struct CommandStats {
    pub(crate) calls: Counter,
    /// Refused before it was called: a wrong number of arguments, no password.
    pub(crate) rejected: Counter,
    /// Of the calls, those that answered with an error.
    pub(crate) failed: Counter,
}

/// For each command, by its number.
#[derive(Debug)]
pub(crate) struct ByCommand(Box<[CommandStats]>);

impl Default for ByCommand {
    fn default() -> Self {
        ByCommand(all().map(|_| CommandStats::default()).collect())
    }
}

/// What a transaction counts.
#[derive(Clone, Copy)]
pub(crate) enum Counted {
    /// A key that was looked for was there.
    Hit,
    /// Or was not.
    Miss,
    /// A key was deleted, since its time had come.
    Expired,
    /// A command was called, and whether it did its work.
    Called(&'static Command, bool),
    /// An error is answered whose reply begins with this code.
    Error(&'static str),
}

/// What the transaction under way has counted: taken back if it is run again.
#[derive(Default)]
pub(crate) struct Tally(RefCell<Vec<Counted>>);

impl Tally {
    pub(crate) fn add(&self, stats: &Stats, counted: Counted) {
        stats.count(counted, |counter| counter.add(1));
        self.0.borrow_mut().push(counted);
    }

    /// How much was counted so far.
    pub(crate) fn mark(&self) -> usize {
        self.0.borrow().len()
    }

    /// Takes back what was counted since `mark`.
    pub(crate) fn back_to(&self, stats: &Stats, mark: usize) {
        for counted in self.0.borrow_mut().drain(mark..) {
            stats.count(counted, Counter::take_back);
        }
    }

    /// The transaction was committed: it stays counted.
    pub(crate) fn settle(&self) {
        self.0.borrow_mut().clear();
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

    /// A command was called; `done` says whether it did its work.
    pub(crate) fn called(&self, command: &'static Command, done: bool) {
        self.count(Counted::Called(command, done), |counter| counter.add(1));
    }

    /// An error is answered whose reply begins with `code`.
    pub(crate) fn error(&self, code: &str) {
        self.count(Counted::Error(known(code)), |counter| counter.add(1));
    }

    /// Changes the counters of something.
    fn count(&self, counted: Counted, change: impl Fn(&Counter)) {
        match counted {
            Counted::Hit => change(&self.hits),
            Counted::Miss => change(&self.misses),
            Counted::Expired => change(&self.expired),
            Counted::Called(command, done) => {
                let counters = self.of(command);
                change(&counters.calls);
                if !done {
                    change(&counters.failed);
                }
            }
            Counted::Error(code) => {
                change(&self.errors);
                if let Some(place) = CODES.iter().position(|known| *known == code) {
                    change(&self.codes[place]);
                }
            }
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
        for CommandStats { calls, rejected, failed } in &self.by_command.0 {
            [calls, rejected, failed].into_iter().for_each(Counter::restart);
        }
    }
}

/// The sum of one counter over all threads.
pub(crate) fn sum(stats: &[Stats], pick: impl Fn(&Stats) -> &Counter) -> u64 {
    stats.iter().map(|one| pick(one).get()).sum()
}
