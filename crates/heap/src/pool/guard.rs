//! Transactions as values, for code that does not fit into a closure.

use super::Handle;
use crate::tx::{Extent, Fresh, Moment, Purpose, Root, Savepoint, Tx};
use perdura_engine::{Access, Mode, Result, Ticket};
use std::fmt;
use std::marker::PhantomData;

/// A transaction that is open, and is rolled back unless it is committed: [`Handle::begin_write`], [`Handle::begin_read`].
///
/// It can be used wherever a [`Tx`] can. Other transactions wait while it is open, under engines whose writers take
/// turns. Each operation costs a little more than in a closure, since the engine is looked up each time.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
/// use perdura::TxExt;
/// use perdura::collections::Cell;
///
/// let mut session = pool.session()?;
/// let mut tx = session.begin_write()?;
/// let count = tx.open_or_create::<Cell<u64>>("count")?;
/// count.set(&mut tx, 1)?;
/// tx.commit()?; // Durable.
///
/// let mut tx = session.begin_write()?;
/// count.set(&mut tx, 2)?;
/// drop(tx); // Rolled back.
/// assert_eq!(count.get(&mut session.begin_read()?)?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a transaction that is dropped is rolled back"]
pub struct Transaction<'h> {
    handle: &'h mut Handle,
    mode: Mode,
    lane: u32,
    /// When the last operation ended.
    moment: Moment,
    /// It stays on the thread that began it, which counts as inside it when deadlocks are looked for.
    not_send: PhantomData<*const ()>,
}

impl Handle {
    /// Begins a transaction as a value, after waiting for those that must end first.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begin_write(&mut self) -> Result<Transaction<'_>> {
        Transaction::begin(self, Mode::Write)
    }

    /// As [`begin_write`](Self::begin_write), for a transaction that only reads.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begin_read(&mut self) -> Result<Transaction<'_>> {
        Transaction::begin(self, Mode::Read)
    }
}

impl<'h> Transaction<'h> {
    fn begin(handle: &'h mut Handle, mode: Mode) -> Result<Self> {
        handle.begin(mode)?;
        let (lane, moment) = handle.within(|tx| Ok((tx.lane(), tx.moment())))?;
        Ok(Transaction { handle, mode, lane, moment, not_send: PhantomData })
    }

    /// Commits, and returns when the commit is durable.
    ///
    /// # Errors
    /// Why it failed; it is rolled back then. After `Io` the transaction may or may not be there when the pool is
    /// opened again.
    pub fn commit(self) -> Result<()> {
        self.handle.commit_awaited().map(drop)
    }

    /// Commits logically, with a ticket for the durable commit.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn submit(self) -> Result<Ticket> {
        self.handle.commit()
    }

    fn run<R>(&mut self, operation: impl FnOnce(&mut dyn Tx) -> Result<R>) -> Result<R> {
        let moment = &mut self.moment;
        self.handle.within_open(|tx| {
            let result = operation(tx);
            *moment = tx.moment();
            result
        })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Access for Transaction<'_> {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.run(|tx| tx.read_word(at))
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        self.run(|tx| tx.write_word(at, value))
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.run(|tx| tx.read_bytes(at, to))
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.run(|tx| tx.write_bytes(at, from))
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn lane(&self) -> u32 {
        self.lane
    }
}

impl Tx for Transaction<'_> {
    fn allocate(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.run(|tx| tx.allocate(purpose, len))
    }

    fn write_fresh(&mut self, fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()> {
        self.run(|tx| tx.write_fresh(fresh, from, bytes))
    }

    fn allocate_now(&mut self, purpose: Purpose, len: u64) -> Result<Option<Fresh>> {
        self.run(|tx| tx.allocate_now(purpose, len))
    }

    fn allocate_some(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.run(|tx| tx.allocate_some(purpose, len))
    }

    fn is_sparse(&mut self, at: u64) -> bool {
        self.run(|tx| Ok(tx.is_sparse(at))).unwrap_or(false)
    }

    fn free(&mut self, at: u64) -> Result<()> {
        self.run(|tx| tx.free(at))
    }

    fn usable(&mut self, at: u64) -> Result<u64> {
        self.run(|tx| tx.usable(at))
    }

    fn extent(&mut self, at: u64) -> Result<Option<Extent>> {
        self.run(|tx| tx.extent(at))
    }

    fn undo_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.run(|tx| tx.undo_to(savepoint))
    }

    fn point(&mut self) -> Savepoint {
        self.run(|tx| Ok(tx.point())).expect("the thread that began it is inside of no other one")
    }

    fn moment(&self) -> Moment {
        self.moment
    }

    fn root(&mut self, name: &str) -> Result<Option<Root>> {
        self.run(|tx| tx.root(name))
    }

    fn set_root(&mut self, name: &str, root: Root) -> Result<()> {
        self.run(|tx| tx.set_root(name, root))
    }
}
