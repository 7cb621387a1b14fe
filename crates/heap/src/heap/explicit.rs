//! A transaction's steps as separate calls, for callers that cannot pass a closure. The caller,
//! [`Handle`](crate::Handle), keeps track of whether one is running.

use super::{HeapSession, HeapTx, Running};
use perdura_engine::{Access as _, Engine, Error, Mode, Result, Session, Ticket};
use perdura_memory::Memory;

impl<M: Memory + 'static, E: Engine<M>> HeapSession<M, E> {
    /// Begins a transaction; none is running.
    pub(crate) fn begin(&mut self, mode: Mode) -> Result<()> {
        if self.memory.is_forked() {
            return Err(Error::Forked);
        }
        if self.state.local.is_lacking() {
            // For the one before, which could not be run again.
            self.make_room(0);
        }
        self.place.begin(self.watched)?;
        // The caller cannot be re-run.
        self.state.session.begin_unfailing(mode);
        Ok(())
    }

    /// Begins a section, which is run and ended as transactions are; neither is running.
    pub(crate) fn begin_section(&mut self) -> Result<()> {
        self.check_sections()?;
        self.place.begin(self.watched)?;
        self.state.session.begin_section().inspect_err(|_| self.place.end())
    }

    /// Runs `body` inside the running transaction, which is over if `body` panics.
    pub(crate) fn within<R>(
        &mut self,
        body: impl FnOnce(&mut HeapTx<'_, E::Session>) -> Result<R>,
    ) -> Result<R> {
        self.place.take(self.watched)?;
        let mut running = Running::new(self, HeapSession::roll_back);
        let result = body(&mut running.session().running_tx());
        let session = running.returned();
        result.map_err(|error| session.forked_or(error))
    }

    /// Commits the running transaction logically.
    pub(crate) fn commit(&mut self) -> Result<Ticket> {
        self.commit_alone(false)
    }

    /// Commits the running transaction, and returns when that is durable.
    pub(crate) fn commit_awaited(&mut self) -> Result<Ticket> {
        let ticket = self.commit_alone(true)?;
        self.wait(ticket)?;
        Ok(ticket)
    }

    /// Checks that the calling thread may commit the running transaction.
    ///
    /// # Errors
    /// `Nested` if the thread is inside another transaction on the pool, for which the commit would wait.
    pub(crate) fn check_alone(&self) -> Result<()> {
        self.place.check_others(self.watched)
    }

    fn commit_alone(&mut self, awaited: bool) -> Result<Ticket> {
        // Whether or not the commit succeeds, the transaction is over.
        self.place.end();
        let mode = self.state.session.mode();
        self.commit_state(mode, awaited).map_err(|error| self.forked_or(*error))
    }

    /// Rolls the running transaction back.
    pub(crate) fn abort(&mut self) {
        self.roll_back();
    }
}
