//! Transactions that are begun and ended by calls, for callers that cannot pass a closure: another language, an
//! interpreter, a protocol.
//!
//! Invariant: a handle has at most one transaction open. One in which an operation failed can only be rolled back,
//! even if the caller ignored the failure.

use super::Handle;
use crate::tx::Tx;
use perdura_engine::{Error, Mode, Result, Ticket};

/// The open transaction.
pub(super) struct OpenTransaction {
    mode: Mode,
    /// Whether an operation in it has failed.
    failed: bool,
}

impl Handle {
    /// Begins a transaction, after waiting for those that must end first. It must be ended by [`commit`](Self::commit)
    /// or [`abort`](Self::abort), and is rolled back if the handle is dropped before. While it is open, other
    /// transactions wait.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let pool = perdura::Options::new().size(8 << 20).create(folder.path().join("a.pool"))?;
    /// use perdura::{Mode, Purpose, Root, Tx, TxExt};
    ///
    /// let mut handle = pool.session()?;
    /// handle.begin(Mode::Write)?;
    /// let at = handle.within(|tx| tx.new_bytes(Purpose::General, b"kept"))?;
    /// handle.within(|tx| tx.set_root("bytes", Root { at, kind: 1000 }))?;
    /// let ticket = handle.commit()?; // Visible to others,
    /// handle.wait(ticket)?; // and durable.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` when one is open already; `Nested` if the calling thread is inside one on another handle of the pool.
    pub fn begin(&mut self, mode: Mode) -> Result<()> {
        self.check_closed()?;
        self.session.erased().begin(mode)?;
        self.open = Some(OpenTransaction { mode, failed: false });
        Ok(())
    }

    /// Begins a section ([`section`](Self::section)), which is run and ended as an open transaction is: its locks are
    /// released when it ends. An error in it, [`Deadlock`](perdura_engine::Error::Deadlock) for example, leaves it with its
    /// locks: others wait until it is rolled back.
    ///
    /// # Errors
    /// As [`begin`](Self::begin); `NoSections` under engines other than `atlas`; `Invalid` in a pool with checksums of all
    /// pages.
    pub fn begin_section(&mut self) -> Result<()> {
        self.check_closed()?;
        self.session.erased().begin_section()?;
        self.open = Some(OpenTransaction { mode: Mode::Write, failed: false });
        Ok(())
    }

    /// The open transaction's mode; `None` when none is open.
    pub fn open(&self) -> Option<Mode> {
        self.open.as_ref().map(|open| open.mode)
    }

    /// Runs `body` inside the open transaction. If `body` fails, the transaction stays open, but can only be rolled
    /// back; if `body` panics, it is rolled back.
    ///
    /// # Errors
    /// The error of `body`; `Invalid` when no transaction is open, `Aborted` when an earlier call in it has failed.
    pub fn within<R>(&mut self, body: impl FnOnce(&mut dyn Tx) -> Result<R>) -> Result<R> {
        let open = self.open.take().ok_or(NONE_OPEN)?;
        if open.failed {
            self.open = Some(open);
            return Err(failed());
        }
        // After a panic no transaction is open: the session has rolled it back.
        let result = self.session.erased().within_with_result(body);
        self.open = Some(OpenTransaction { failed: result.is_err(), ..open });
        result
    }

    /// As [`within`](Self::within), but a failed operation does not prevent the commit.
    pub(super) fn within_open<R>(
        &mut self,
        body: impl FnOnce(&mut dyn Tx) -> Result<R>,
    ) -> Result<R> {
        let open = self.open.take().ok_or(NONE_OPEN)?;
        // After a panic no transaction is open: the session has rolled it back.
        let result = self.session.erased().within_with_result(body);
        self.open = Some(open);
        result
    }

    /// Commits the open transaction logically, with a ticket for the durable commit.
    ///
    /// # Errors
    /// `Invalid` when none is open, `Aborted` when a call in it has failed, or why the commit failed; it is rolled
    /// back then. `Nested`, and it stays open, if the calling thread is inside another transaction on the pool.
    pub fn commit(&mut self) -> Result<Ticket> {
        self.end_open()?;
        self.session.erased().commit()
    }

    /// As [`commit`](Self::commit), but returns when it is durable.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); after `Io` the transaction may or may not be there when the pool is opened again.
    pub fn commit_awaited(&mut self) -> Result<Ticket> {
        self.end_open()?;
        self.session.erased().commit_awaited()
    }

    /// Called before a commit. A transaction that has failed is rolled back here.
    fn end_open(&mut self) -> Result<()> {
        if self.open.is_some() {
            self.session.erased().check_alone()?;
        }
        let open = self.open.take().ok_or(NONE_OPEN)?;
        if open.failed {
            self.session.erased().abort();
            return Err(failed());
        }
        Ok(())
    }

    /// Rolls the open transaction back, if there is one.
    pub fn abort(&mut self) {
        if self.open.take().is_some() {
            self.session.erased().abort();
        }
    }

    /// Closures run between these transactions, not inside them.
    pub(super) fn check_closed(&self) -> Result<()> {
        match self.open {
            None => Ok(()),
            Some(_) => Err(Error::Invalid(
                "a transaction is open on this handle; commit it or roll it back first",
            )),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.abort();
    }
}

const NONE_OPEN: Error = Error::Invalid("no transaction is open on this handle; begin one first");

fn failed() -> Error {
    Error::Aborted("an earlier call in it failed; roll it back and begin again".to_owned())
}
