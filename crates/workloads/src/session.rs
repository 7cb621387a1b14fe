//! Where a workload's transactions run.

use perdura::{Counters, Engine, Heap, HeapSession, HeapTx, Memory, Result, Tx};

/// A heap that several threads work on.
pub trait Store: Sync {
    /// What each thread has of it.
    type Session: Session;

    /// A session for the calling thread.
    ///
    /// # Errors
    /// When there are too many.
    fn session(&self) -> Result<Self::Session>;
}

/// One thread's transactions.
pub trait Session {
    /// What a transaction's body gets.
    type Tx<'t>: Tx;

    /// Runs `body` in a transaction; returns when it is durable. `body` may run more than once.
    ///
    /// # Errors
    /// What `body` returned, or why it could not commit; it has no effect then.
    fn transaction<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R>;

    /// Runs `body` in a transaction that only reads.
    ///
    /// # Errors
    /// What `body` returned.
    fn read<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R>;

    /// What the engine did in this session so far.
    fn counters(&self) -> Counters;
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
}
