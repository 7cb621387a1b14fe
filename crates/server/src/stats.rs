//! Counters for INFO: one set for each thread, so that counting never makes threads wait for
//! each other; sums are made when somebody asks.

use crate::command::{Command, all};
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

/// As which of the [`CODES`] an error reply was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCode(usize);

/// The codes of error replies that are counted apart; others are counted with the last.
pub(crate) const CODES: [&str; 8] =
    ["EXECABORT", "MISCONF", "NOAUTH", "NOPROTO", "OOM", "WRONGPASS", "WRONGTYPE", "ERR"];

impl Stats {
    /// The counters of one command.
    pub(crate) fn of(&self, command: &Command) -> &CommandStats {
        &self.by_command.0[command.number]
    }

    /// A command was called; `done` says whether it did its work.
    pub(crate) fn called(&self, command: &Command, done: bool) {
        let counters = self.of(command);
        counters.calls.add(1);
        counters.failed.add(u64::from(!done));
    }

    /// An error is answered whose reply begins with `code`.
    pub(crate) fn error(&self, code: &str) -> ErrorCode {
        self.errors.add(1);
        let known = CODES.iter().position(|known| *known == code);
        let code = ErrorCode(known.unwrap_or(CODES.len() - 1));
        self.codes[code.0].add(1);
        code
    }

    /// A call that was counted will be made again, or not at all; it had been answered with an error that was
    /// counted so, if with any.
    pub(crate) fn uncalled(&self, command: &Command, code: Option<ErrorCode>) {
        let counters = self.of(command);
        counters.calls.take_back();
        if let Some(code) = code {
            counters.failed.take_back();
            self.errors.take_back();
            self.codes[code.0].take_back();
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
