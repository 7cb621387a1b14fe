//! Savepoints: points inside a transaction to which its writes, allocations and frees can be undone.
//!
//! Invariant: a savepoint is valid until its transaction ends or is undone to an earlier one. An invalid one is
//! refused, and never undoes anything else.

use perdura_engine::{Error, Mark, Result};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A point inside a transaction: see [`Tx::point`](crate::Tx::point).
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::{Tx, TxExt, collections::Cell};
///
/// let count = tx.open_or_create::<Cell<u64>>("count")?;
/// let before = tx.point();
/// count.set(tx, 5)?;
/// tx.undo_to(before)?;
/// assert_eq!(count.get(tx)?, 0);
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    /// The number of earlier savepoints that were valid when it was made.
    depth: usize,
    /// A unique number.
    number: u64,
}

/// Identifies a state of a transaction: see [`Tx::moment`](crate::Tx::moment).
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::{Tx, TxExt, collections::Cell};
///
/// let before = tx.moment();
/// tx.open_or_create::<Cell<u64>>("count")?;
/// assert_ne!(tx.moment(), before);
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The pool's identifier; 0 if it has none.
    pub pool: u64,
    /// The transaction's number, which is unique.
    pub transaction: u64,
    /// Number of times so far that calls in it may have changed something and a moment was asked for afterwards.
    pub changes: u64,
    /// A number that is odd while objects may be moved out of pages that are to be emptied, and another one after
    /// that.
    pub moves: u64,
}

/// The transaction's progress when a savepoint was made.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) access: Mark,
    /// Number of allocations.
    pub(crate) taken: usize,
    /// Number of frees.
    pub(crate) freed: usize,
}

/// The valid savepoints of the running transaction, and its number.
pub(crate) struct Savepoints {
    good: Vec<(u64, Progress)>,
    /// The number of the last savepoint.
    last: u64,
    transaction: u64,
    changes: Cell<u64>,
    /// Whether something may have changed since the last moment.
    has_changed: Cell<bool>,
    /// An operation has ended half done, when `last` was this.
    incomplete: Option<u64>,
}

impl Default for Savepoints {
    fn default() -> Self {
        Self::new()
    }
}

/// Low bits of a transaction's number that are its session's own.
const TRANSACTIONS: u32 = 40;

impl Savepoints {
    /// Those of a new session.
    pub(crate) fn new() -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(1);
        let transaction = SESSIONS.fetch_add(1, Ordering::Relaxed) << TRANSACTIONS;
        Savepoints {
            good: Vec::new(),
            last: transaction,
            transaction,
            changes: Cell::new(0),
            has_changed: Cell::new(false),
            incomplete: None,
        }
    }

    /// The number of the running transaction.
    #[inline]
    pub(crate) fn transaction(&self) -> u64 {
        self.transaction
    }

    /// The transaction's moment, on the pool with this identifier.
    pub(crate) fn moment(&self, pool: u64) -> Moment {
        if self.has_changed.take() {
            self.changes.set(self.changes.get() + 1);
        }
        Moment { pool, transaction: self.transaction, changes: self.changes.get(), moves: 0 }
    }

    /// To be called when something may have changed.
    #[inline(always)]
    pub(crate) fn changed(&mut self) {
        // Tested first: a store costs more, behind the fence of a commit.
        if !self.has_changed.get() {
            self.has_changed.set(true);
        }
    }

    /// To be called when the transaction has ended.
    #[inline]
    pub(crate) fn end(&mut self) {
        // Tested first, as below.
        if !self.good.is_empty() {
            self.good.clear();
        }
        if self.incomplete.is_some() {
            self.incomplete = None;
        }
        self.end_plain();
    }

    /// The same, if it has no savepoints, and no operation in it has failed.
    #[inline(always)]
    pub(crate) fn end_plain(&mut self) {
        debug_assert!(self.good.is_empty() && self.incomplete.is_none());
        self.transaction = self.transaction.wrapping_add(1);
        self.has_changed.set(false);
        // Tested first, as above.
        if self.changes.get() != 0 {
            self.changes.set(0);
        }
    }

    /// Whether nothing may have changed so far.
    pub(crate) fn is_unchanged(&self) -> bool {
        !self.has_changed.get() && self.changes.get() == 0
    }

    /// To be called when an operation has failed that may have changed something before.
    #[cold]
    pub(crate) fn failed(&mut self) {
        self.incomplete.get_or_insert(self.last);
    }

    /// Checks that no operation has ended half done, unless the transaction has gone back to before it.
    ///
    /// # Errors
    /// `Aborted` if one has.
    #[inline]
    pub(crate) fn check_complete(&self) -> Result<(), Box<Error>> {
        if self.incomplete.is_none() { Ok(()) } else { Err(incomplete()) }
    }

    /// Adds a savepoint.
    pub(crate) fn add(&mut self, done: Progress) -> Savepoint {
        self.last += 1;
        self.good.push((self.last, done));
        Savepoint { depth: self.good.len() - 1, number: self.last }
    }

    /// Returns the progress at a savepoint to which the transaction is undone.
    ///
    /// # Errors
    /// `Invalid` if it is not a valid one of this transaction.
    pub(crate) fn back_to(&mut self, savepoint: Savepoint) -> Result<Progress> {
        match self.good.get(savepoint.depth) {
            Some((number, done)) if *number == savepoint.number => {
                let done = *done;
                self.good.truncate(savepoint.depth + 1);
                self.incomplete = self.incomplete.filter(|last| savepoint.number > *last);
                self.changed();
                Ok(done)
            }
            _ => Err(VOID),
        }
    }

    /// Whether the transaction's allocation number `place` is older than a savepoint, so that writes to it may have to
    /// be undone.
    #[inline]
    pub(crate) fn may_undo(&self, place: usize) -> bool {
        self.good.last().is_some_and(|(_, done)| done.taken > place)
    }
}

#[cold]
fn incomplete() -> Box<Error> {
    Box::new(Error::Aborted(
        "an operation in it failed for lack of room and may be half done; return its error from the transaction, or \
         make a savepoint before the operation and go back to it (`Tx::point`, `Tx::undo_to`)"
            .to_owned(),
    ))
}

const VOID: Error = Error::Invalid(
    "the savepoint is void: the transaction that made it has ended, or has gone back to one before it; \
     make a new one",
);
