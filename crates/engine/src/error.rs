//! What can go wrong inside a transaction.

use crate::pins::Oldest;
use perdura_memory::mapped::Unusable;
use perdura_memory::{Domain, HardwareAbort};
use std::{fmt, io};

/// Why a transaction could not go on. In every case, the transaction is rolled back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program passed an offset, a handle or a cursor that fits nothing in the pool. Nothing was changed, and
    /// nothing indicates that the pool is damaged.
    #[error(
        "{}{what} at offset {at:#x}: what was passed is stale, or of another pool, and nothing says that this one is damaged; pass what this pool gave (if the offset was read from the pool itself, run `perdura pool check` on it)", of(.root)
    )]
    Misuse {
        /// Name of the root that leads there, if it was opened by its name.
        root: Option<Box<str>>,
        /// What was found, or not found.
        what: &'static str,
        /// Where, in bytes from the pool's start.
        at: u64,
    },
    /// A collection is of another kind, or has keys or values of other types, than the program expects. The pool is not
    /// damaged.
    #[error(
        "{}what is at offset {at:#x} is not a {expected}, but a collection of another kind or of other types; open it with the types that it was made with", of(.root)
    )]
    WrongType {
        /// Name of the root that leads there, if it was opened by its name.
        root: Option<Box<str>>,
        /// What the program expected.
        expected: Box<str>,
        /// Where, in bytes from the pool's start.
        at: u64,
    },
    /// The calling thread has a transaction open on the pool, on this handle or on another.
    #[error(
        "this thread has a transaction open on the pool, for which the call would wait for ever: commit or abort it first, or use it"
    )]
    Nested,
    /// The process was forked after it had opened the pool, and this is the child: the pool is the parent's.
    #[error("{}", Unusable::Forked)]
    Forked,
    /// The engine could not keep its promises on such a memory.
    #[error(
        "the engine {engine} is not crash-sync-safe on the domain {domain}: {why}; take another engine, or a memory whose caches outlive a power cut"
    )]
    NotSafe {
        /// The engine's name.
        engine: &'static str,
        /// The memory's domain.
        domain: Domain,
        /// What would be wrong.
        why: &'static str,
    },
    /// The memory's hardware has refused to commit the transaction. Its stores are undone.
    #[error("the memory's hardware has aborted the transaction: {0}")]
    Hardware(HardwareAbort),
    /// Another transaction has changed what this one has read, or wants to store to. It has to run again, which
    /// `transaction` does by itself if the body passes this error on.
    #[error(
        "another transaction has changed what this one has read: hand this error on from the transaction's body, and it is run again"
    )]
    Conflict,
    /// A section would wait for a lock for ever: it holds that itself, or the sections that it would wait for wait for it.
    #[error("the section would wait for ever for {}: {}", of_lock(*.lock), of_circle(*.is_own))]
    Deadlock {
        /// The lock; `None` for that of transactions.
        lock: Option<u64>,
        /// Whether the section holds it itself.
        is_own: bool,
    },
    /// The engine has no sections.
    #[error(
        "the engine {engine} has no sections over several locks: use transactions, or create the pool with the engine atlas"
    )]
    NoSections {
        /// The engine's name.
        engine: &'static str,
    },
    /// The pool's contents violate their format.
    #[error("the pool is damaged: {what} at offset {at:#x}; run `perdura pool check` on it")]
    Corrupt {
        /// What was found, or not found.
        what: &'static str,
        /// Where, in bytes from the pool's start.
        at: u64,
    },
    /// Lines whose write-back had been skipped were lost, and cannot be restored.
    #[error(
        "some of {lines} lines that had been left to the caches were lost in the crash (the first is at offset {at:#x}), and their checksums cannot restore them; go back to a backup, and use an engine that skips no write-back where this must not happen"
    )]
    Lost {
        /// Lines of which some are lost.
        lines: u64,
        /// The first of them, in bytes from the pool's start.
        at: u64,
    },
    /// There is no room for an allocation.
    #[error(
        "the pool is full: {requested} bytes were asked for; {}free something, or reopen it with a larger limit", held_back(*.pinned, *.oldest)
    )]
    Full {
        /// Bytes asked for.
        requested: u64,
        /// Bytes that are freed, and held back for running transactions that may still reach them.
        pinned: u64,
        /// The one that has held some back for the longest time.
        oldest: Option<Oldest>,
        /// Bytes that the transaction had allocated before.
        taken: u64,
    },
    /// The pool may grow, but its file cannot: the disk or a quota is full, or files may not be longer.
    #[error(
        "{source}; {requested} bytes were asked for, and the pool's limit is not reached: free space on its file system, or raise the quota or the limit on a file's size (`ulimit -f`), then try again"
    )]
    NoSpace {
        /// Bytes asked for.
        requested: u64,
        /// Why the file cannot grow.
        source: io::Error,
    },
    /// The transaction writes more than the log can hold.
    #[error(
        "the transaction is too large: its log record of {needed} bytes exceeds the {available} that the log has; split it, or create the pool with a larger log"
    )]
    TooLarge {
        /// Bytes of log that the transaction needs.
        needed: u64,
        /// Bytes of log that one transaction may use.
        available: u64,
    },
    /// A write in a read-only transaction.
    #[error("a read-only transaction tried to write; use `transaction` for it")]
    ReadOnly,
    /// No further session can be opened.
    #[error(
        "all {limit} sessions are in use; drop one, or let several threads share one: no pool has more"
    )]
    Sessions {
        /// The most sessions that a pool can have.
        limit: u64,
    },
    /// The caller asked for the transaction to be rolled back.
    #[error("the transaction was rolled back: {0}")]
    Aborted(String),
    /// An argument that no pool could accept.
    #[error("{0}")]
    Invalid(&'static str),
    /// The durable medium failed, or the pool's file was deleted, replaced, moved or cut short. Nothing more is
    /// acknowledged on this pool.
    #[error("{}", of_medium(.0))]
    Io(#[source] io::Error),
}

/// The name of a lock of sections.
fn of_lock(lock: Option<u64>) -> String {
    lock.map_or("the lock of transactions".to_owned(), |lock| format!("lock {lock}"))
}

/// Why it would wait for ever.
const fn of_circle(is_own: bool) -> &'static str {
    match is_own {
        true => "it holds that lock itself; a section takes each lock once",
        false => {
            "a section that has it waits for this one; take locks in one order everywhere, or run the section again"
        }
    }
}

/// What the text of [`Error::Full`] says of running transactions.
fn held_back(pinned: u64, oldest: Option<Oldest>) -> String {
    let Some(Oldest { age, on_snapshot }) = oldest.filter(|_| pinned > 0) else {
        return String::new();
    };
    let what = if on_snapshot { "transaction that reads" } else { "transaction" };
    let age = age.as_secs_f64();
    format!(
        "{pinned} bytes that are freed are held back for running transactions, the oldest of them a {what} and at \
         least {age:.3} s old: end it, "
    )
}

/// The text of [`Error::Io`].
fn of_medium(error: &io::Error) -> String {
    if let Some(why) = Unusable::of(error) {
        return why.to_string();
    }
    format!(
        "writing to the pool's medium failed ({error}); nothing after the last acknowledged transaction is sure to be \
         there: check the medium, then reopen the pool"
    )
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match Unusable::of(&error) {
            Some(Unusable::Forked) => Error::Forked,
            _ => Error::Io(error),
        }
    }
}

/// What a text about a named root begins with.
fn of(root: &Option<Box<str>>) -> String {
    root.as_ref().map_or_else(String::new, |name| format!("root '{name}': "))
}

/// The text of `Display`: what `main` prints of an error that it returns, and `unwrap`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Shorthand for [`Error::Full`] where no running transaction holds anything back.
    #[cold]
    pub const fn full(requested: u64) -> Self {
        Error::Full { requested, pinned: 0, oldest: None, taken: 0 }
    }

    /// Shorthand for [`Error::Corrupt`].
    #[cold]
    pub const fn corrupt(what: &'static str, at: u64) -> Self {
        Error::Corrupt { what, at }
    }

    /// Shorthand for [`Error::Misuse`].
    #[cold]
    pub const fn misuse(what: &'static str, at: u64) -> Self {
        Error::Misuse { root: None, what, at }
    }

    /// An access at `at`, which is outside the pool or not word-aligned.
    #[cold]
    pub const fn outside(at: u64) -> Self {
        Error::misuse("no word of the pool begins", at)
    }

    /// The same error where the argument came from the pool itself: then it is damage, and not the program's mistake.
    #[must_use]
    pub fn in_pool(self) -> Self {
        match self {
            Error::Misuse { what, at, .. } => Error::Corrupt { what, at },
            Error::WrongType { at, .. } => {
                Error::Corrupt { what: "a collection of other types than its owner says", at }
            }
            other => other,
        }
    }

    /// The same error with the name of the root that was opened in its text.
    #[must_use]
    pub fn of_root(mut self, name: &str) -> Self {
        if let Error::Misuse { root, .. } | Error::WrongType { root, .. } = &mut self {
            *root = Some(name.into());
        }
        self
    }

    /// Whether the program has made a mistake: nothing is wrong with the pool.
    pub const fn is_misuse(&self) -> bool {
        matches!(
            self,
            Error::Misuse { .. }
                | Error::WrongType { .. }
                | Error::Nested
                | Error::Forked
                | Error::NotSafe { .. }
                | Error::Invalid(_)
                | Error::ReadOnly
                | Error::Deadlock { is_own: true, .. }
                | Error::NoSections { .. }
        )
    }

    /// Whether the pool is damaged.
    pub const fn is_damage(&self) -> bool {
        matches!(self, Error::Corrupt { .. } | Error::Lost { .. })
    }

    /// Whether there is no room: in the pool, or on its disk.
    pub const fn is_full(&self) -> bool {
        matches!(self, Error::Full { .. } | Error::NoSpace { .. })
    }
}

/// A result that fits into two registers, for what every commit calls: an [`Error`] is as large as a line.
pub(crate) type Boxed<T> = std::result::Result<T, Box<Error>>;

impl From<Box<Error>> for Error {
    // Inline, so that no result has to be in memory for it.
    #[inline(always)]
    fn from(error: Box<Error>) -> Self {
        *error
    }
}

/// A failure of the medium.
#[cold]
pub(crate) fn boxed(error: io::Error) -> Box<Error> {
    Box::new(error.into())
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
