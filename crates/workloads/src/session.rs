//! Stores and sessions: where a workload's transactions run.

use crate::answers::Answers;
use crate::computation::Computation;
use crate::private::PrivateBuffer;
use perdura::{
    AnyHeap, AnySession, AnyTx, Counters, Engine, Handle, Heap, HeapSession, HeapTx, Memory, Mode,
    Pool, PoolTx, Result, Ticket, Tx,
};

/// A heap that several threads work on.
pub trait Store: Sync {
    /// A thread's session.
    type Session: Session;

    /// A session for the calling thread.
    ///
    /// # Errors
    /// When there are too many.
    fn session(&self) -> Result<Self::Session>;
}

/// One thread's transactions.
pub trait Session {
    /// The transaction that its body gets.
    type Tx<'t>: Tx;

    /// Runs `body` in a transaction; returns when it is durable, unless the session keeps
    /// [several unacknowledged](crate::window). `body` may run more than once.
    ///
    /// # Errors
    /// The error of `body`, or why the transaction could not commit; it has no effect then.
    fn transaction<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R>;

    /// Runs `body` in a transaction that only reads.
    ///
    /// # Errors
    /// The result of `body`.
    fn read<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R>;

    /// Reads for a part of a larger operation, whose transaction answers for it: takes no place in a window.
    ///
    /// # Errors
    /// The result of `body`.
    fn read_part<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        self.read(body)
    }

    /// The engine's counters in this session so far.
    fn counters(&self) -> Counters;

    /// Turn `turn` (from 0) of a loop that waits for another session, outside of transactions. All waiting goes
    /// through it: simulated cores take turns on one thread.
    fn pause(&self, turn: u32);

    /// Returns when everything that the session did is durable: at once if its transactions are
    /// durable when they return.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// Where a [`Recorder`](crate::Recorder) learns when transactions are durable, if that is
    /// not when they return.
    fn answers(&self) -> Option<Answers> {
        None
    }

    /// Where the thread reports its private computation; nowhere, unless the session's machine is simulated.
    #[inline]
    fn computation(&self) -> Computation {
        Computation::default()
    }

    /// Where the thread reports the accesses to a buffer of its own, of this many bytes; nowhere, unless the session's
    /// machine is simulated.
    #[inline]
    fn private_buffer(&self, bytes: u64) -> PrivateBuffer {
        let _ = bytes;
        PrivateBuffer::default()
    }
}

/// A session that separates a commit's two moments: the logical one, after which others see it, and
/// the durable one.
pub trait Submit: Session {
    /// As [`transaction`](Session::transaction), but returns at the logical commit, with a ticket
    /// for the durable one.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    fn submit<R>(
        &mut self,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)>;

    /// As [`read`](Session::read), but the data read is durable only when the ticket is.
    ///
    /// # Errors
    /// As [`read`](Session::read).
    fn submit_read<R>(
        &mut self,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)>;

    /// Whether the commit with this ticket is durable, without waiting.
    fn is_durable(&self, ticket: Ticket) -> bool;

    /// Returns when the commit with this ticket, and every one before it, is durable.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn wait(&mut self, ticket: Ticket) -> Result<()>;
}

impl<M: Memory + 'static, E: Engine<M>> Store for Heap<M, E> {
    type Session = HeapSession<M, E>;

    fn session(&self) -> Result<Self::Session> {
        Heap::session(self)
    }
}

impl<M: Memory + 'static, E: Engine<M>> Session for HeapSession<M, E> {
    type Tx<'t> = HeapTx<'t, E::Session>;

    #[inline]
    fn transaction<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        HeapSession::transaction(self, body)
    }

    #[inline]
    fn read<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        HeapSession::read(self, body)
    }

    fn counters(&self) -> Counters {
        *HeapSession::counters(self)
    }

    fn pause(&self, turn: u32) {
        HeapSession::pause(self, turn);
    }
}

impl<M: Memory + 'static, E: Engine<M>> Submit for HeapSession<M, E> {
    #[inline]
    fn submit<R>(
        &mut self,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        HeapSession::submit(self, body)
    }

    #[inline]
    fn submit_read<R>(
        &mut self,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        HeapSession::run(self, Mode::Read, body)
    }

    #[inline]
    fn is_durable(&self, ticket: Ticket) -> bool {
        HeapSession::is_durable(self, ticket)
    }

    #[inline]
    fn wait(&mut self, ticket: Ticket) -> Result<()> {
        HeapSession::wait(self, ticket)
    }
}

/// A pool's handle, through which programs run their transactions.
pub struct OnHandle {
    handle: Handle,
    pool: Pool,
}

impl Store for Pool {
    type Session = OnHandle;

    fn session(&self) -> Result<Self::Session> {
        Ok(OnHandle { handle: Pool::session(self)?, pool: self.clone() })
    }
}

impl Session for OnHandle {
    type Tx<'t> = PoolTx<'t>;

    #[inline]
    fn transaction<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        self.handle.transaction(body)
    }

    #[inline]
    fn read<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        self.handle.read(body)
    }

    fn counters(&self) -> Counters {
        self.handle.counters()
    }

    fn pause(&self, turn: u32) {
        self.pool.memory().pause(turn);
    }
}

impl Submit for OnHandle {
    #[inline]
    fn submit<R>(
        &mut self,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.handle.submit(body)
    }

    #[inline]
    fn submit_read<R>(
        &mut self,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.handle.submit_read(body)
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        self.handle.is_durable(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<()> {
        self.handle.wait(ticket)
    }
}

impl Store for dyn AnyHeap + '_ {
    type Session = AnySession;

    fn session(&self) -> Result<Self::Session> {
        AnyHeap::session(self)
    }
}

/// A workload on it is compiled once for all engines and memories.
impl Session for AnySession {
    type Tx<'t> = AnyTx<'t>;

    fn transaction<R>(
        &mut self,
        mut body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<R> {
        AnySession::transaction(self, |tx| body(&mut AnyTx::new(tx)))
    }

    fn read<R>(&mut self, mut body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        AnySession::read(self, |tx| body(&mut AnyTx::new(tx)))
    }

    fn counters(&self) -> Counters {
        AnySession::counters(self)
    }

    fn pause(&self, turn: u32) {
        AnySession::pause(self, turn);
    }
}

impl Submit for AnySession {
    fn submit<R>(
        &mut self,
        mut body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        AnySession::run(self, Mode::Write, |tx| body(&mut AnyTx::new(tx)))
    }

    fn submit_read<R>(
        &mut self,
        mut body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        AnySession::run(self, Mode::Read, |tx| body(&mut AnyTx::new(tx)))
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        AnySession::is_durable(self, ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<()> {
        AnySession::wait(self, ticket)
    }
}
