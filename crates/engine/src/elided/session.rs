//! A session: a transaction from its begin to its commit, on either path.
//!
//! What always holds: a session is on the fallback path only while it holds the lock, if there is one; and its
//! speculation is over once the session has failed.

use super::fallback::Fallback;
use super::shared::{Elided, HardwareState, InnerSession, stored};
use crate::{Access, Counters, Error, Mark, Mode, Result, Session, Ticket};
use perdura_memory::elision::{self, Attempts, Delay, ElidedLock, Elision, ElisionCounts};
use perdura_memory::{LINE, Memory, Object, Touch};
use std::sync::Arc;

/// The code with which a speculation is given up whose transaction needs a checkpoint.
const CHECKPOINT: u8 = 1;

/// Offset of the old words in a session's object, and how many of them have distinct addresses.
pub(super) const OLD: u64 = LINE;
pub(super) const OLD_WORDS: u64 = 1 << 12;
pub(super) const OLD_BYTES: u64 = size_of::<(u64, u64)>() as u64;
/// Bytes of a session's object.
const OWN_BYTES: u64 = OLD + OLD_WORDS * OLD_BYTES;

const OUTSIDE: Error = Error::Invalid("a commit outside of a transaction");

/// How a transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// None is running.
    Outside,
    /// In hardware.
    Hardware,
    /// On the fallback path.
    Fallback,
    /// The hardware has given it up: it must be rolled back, and run again.
    Failed,
}

/// One thread's transactions on an [`Elided`] engine.
pub struct ElidedSession<M: Memory + 'static, C: Fallback<S>, S: 'static> {
    pub(super) engine: Arc<Elided<M, C, S>>,
    /// For the fallback path.
    inner: InnerSession<M, C, S>,
    pub(super) elision: Elision,
    pub(super) way: Way,
    /// Of a transaction in hardware.
    pub(super) mode: Option<Mode>,
    /// The memory's handle for its fields and the old words.
    pub(super) own: Object,
    /// Whether old words are kept: from the first mark on.
    pub(super) keeps_old: bool,
    /// Offsets and old values of the words stored since, oldest first.
    pub(super) old: Vec<(u64, u64)>,
    /// Whether the transaction in hardware has stored something, and how much.
    pub(super) wrote: bool,
    pub(super) stored_bytes: u64,
    /// See [`Session::serial`].
    serial: u64,
    /// Counts of the hardware path.
    counted: Counters,
    /// These, and those of the fallback path.
    counters: Counters,
}

impl<M: Memory + 'static, C: Fallback<S>, S: 'static> ElidedSession<M, C, S> {
    pub(super) fn new(engine: Arc<Elided<M, C, S>>, inner: InnerSession<M, C, S>) -> Self {
        let (attempts, delay) = (Attempts::default(), Delay::default());
        ElidedSession {
            own: engine.memory.object(OWN_BYTES),
            elision: Elision::new(attempts, delay, u64::from(inner.lane())),
            engine,
            inner,
            way: Way::Outside,
            mode: None,
            keeps_old: false,
            old: Vec::new(),
            wrote: false,
            stored_bytes: 0,
            serial: 0,
            counted: Counters::default(),
            counters: Counters::default(),
        }
    }

    /// Begins a transaction on the path that `choose` enters; none is running.
    fn enter(
        &mut self,
        mode: Mode,
        choose: impl FnOnce(&HardwareState, &M, &mut Elision) -> elision::Way,
        without: impl FnOnce(&mut InnerSession<M, C, S>),
    ) {
        let Some(hardware) = &self.engine.hardware else {
            self.way = Way::Fallback;
            return without(&mut self.inner);
        };
        let memory = &*self.engine.memory;
        self.way = match choose(hardware, memory, &mut self.elision) {
            elision::Way::Hardware => Way::Hardware,
            elision::Way::Lock => Way::Fallback,
        };
        if self.way == Way::Fallback {
            return self.inner.begin(mode);
        }
        memory.touch(self.own, 0, LINE, Touch::Write);
        self.mode = Some(mode);
    }

    /// Forgets the transaction, which is over, and counts.
    fn finish(&mut self) {
        (self.way, self.mode, self.wrote, self.stored_bytes) = (Way::Outside, None, false, 0);
        self.keeps_old = false;
        self.old.clear();
        self.count();
    }

    fn count(&mut self) {
        if self.engine.hardware.is_none() {
            return;
        }
        let ElisionCounts { hardware, locked, conflicts, capacity, .. } = *self.elision.counts();
        let ElisionCounts { interrupts, others, taken, cancelled, .. } = *self.elision.counts();
        self.counted = Counters {
            hardware_commits: hardware,
            hardware_fallbacks: locked,
            hardware_conflicts: conflicts,
            hardware_capacity: capacity,
            hardware_interrupts: interrupts,
            hardware_others: others,
            hardware_locked: taken,
            hardware_cancelled: cancelled,
            ..self.counted
        };
        self.counters = *self.inner.counters();
        self.counters += self.counted;
    }

    /// The hardware has given the transaction up.
    fn failed(&mut self) -> Error {
        self.counted.aborts_conflict += 1;
        self.finish();
        Error::Conflict
    }

    /// Until the hardware has committed, nothing here stores to what other sessions read: on a processor they would lose.
    fn commit_in_hardware(&mut self) -> Result<Ticket> {
        let engine = &*self.engine;
        let Some(hardware) = &engine.hardware else { return Err(OUTSIDE) };
        let memory = &*engine.memory;
        // Nothing comes between this and the hardware's commit, or only commits of others that have no line in common.
        let serial = if memory.traces_own() { hardware.serial(self.wrote) } else { 0 };
        let left = hardware.lock.leave(memory, &mut self.elision, elision::Way::Hardware);
        let Ok(ticket) = left else { return Err(self.failed()) };
        self.serial = serial;
        match self.wrote {
            true => self.counted.commits += 1,
            false => self.counted.read_only += 1,
        }
        self.counted.dirty_bytes += self.stored_bytes;
        self.finish();
        Ok(Ticket(ticket.0))
    }

    /// Commits on the fallback path, durably, and releases the lock.
    fn commit_alone(&mut self) -> Result<Ticket> {
        let engine = self.engine.clone();
        let Some(hardware) = &engine.hardware else { return Err(OUTSIDE) };
        let memory = &*engine.memory;
        let commits = self.inner.counters().commits;
        // Others must not wait for the lock for ever, even if a panic ends the commit.
        let held = hardware.lock.held(memory);
        let ticket = self.inner.commit_awaited().and_then(|ticket| {
            self.inner.wait_durable(ticket)?;
            Ok(ticket)
        });
        if ticket.is_ok() {
            self.serial = hardware.serial(stored(&self.inner, commits));
        }
        drop(held);
        self.elision.count_locked();
        self.finish();
        // Unless it was the hardware's, it is durable.
        ticket.map(|ticket| if C::IS_LOGGED { Ticket(0) } else { ticket })
    }

    fn commit_by(
        &mut self,
        inner: impl FnOnce(&mut InnerSession<M, C, S>) -> Result<Ticket>,
    ) -> Result<Ticket> {
        if self.engine.hardware.is_none() {
            self.way = Way::Outside;
            return inner(&mut self.inner);
        }
        match self.way {
            Way::Hardware => self.commit_in_hardware(),
            Way::Fallback => self.commit_alone(),
            Way::Failed => Err(self.failed()),
            Way::Outside => Err(OUTSIDE),
        }
    }
}

impl<M: Memory + 'static, C: Fallback<S>, S: 'static> Access for ElidedSession<M, C, S> {
    #[inline]
    fn read_word(&mut self, at: u64) -> Result<u64> {
        match self.way {
            Way::Hardware => self.load_word(at),
            Way::Failed => Err(Error::Conflict),
            Way::Fallback | Way::Outside => self.inner.read_word(at),
        }
    }

    #[inline]
    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        match self.way {
            Way::Hardware => self.store_word(at, value),
            Way::Failed => Err(Error::Conflict),
            Way::Fallback | Way::Outside => self.inner.write_word(at, value),
        }
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        match self.way {
            Way::Hardware => self.load_bytes(at, to),
            Way::Failed => Err(Error::Conflict),
            Way::Fallback | Way::Outside => self.inner.read_bytes(at, to),
        }
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        match self.way {
            Way::Hardware => self.store_bytes(at, from),
            Way::Failed => Err(Error::Conflict),
            Way::Fallback | Way::Outside => self.inner.write_bytes(at, from),
        }
    }

    #[inline(always)]
    fn prefetch(&mut self, at: u64) {
        self.engine.memory.prefetch(at);
    }

    fn mode(&self) -> Mode {
        self.mode.unwrap_or(self.inner.mode())
    }

    fn lane(&self) -> u32 {
        self.inner.lane()
    }
}

impl<M: Memory + 'static, C: Fallback<S>, S: Send + Sync + 'static> Session
    for ElidedSession<M, C, S>
{
    const CONFLICTS: bool = true;

    fn begin(&mut self, mode: Mode) {
        if self.way != Way::Outside {
            return self.abort();
        }
        let mut falls_back = false;
        if let Some(HardwareState { patience, .. }) = &self.engine.hardware {
            let (attempts, delay) = patience.now();
            self.elision.tune(attempts, delay);
            falls_back = patience.falls_back(&*self.engine.memory, self.inner.lane());
        }
        let choose = |own: &HardwareState, memory: &M, elision: &mut Elision| match falls_back {
            true => own.lock.take(memory),
            false => own.lock.enter(memory, elision),
        };
        self.enter(mode, choose, |inner| inner.begin(mode));
    }

    #[cold]
    fn begin_again(&mut self, mode: Mode, conflicts: u32) {
        if self.way != Way::Outside {
            return self.abort();
        }
        let choose = |own: &HardwareState, memory: &M, elision: &mut Elision| {
            own.lock.enter(memory, elision)
        };
        self.enter(mode, choose, |inner| inner.begin_again(mode, conflicts));
    }

    fn begin_unfailing(&mut self, mode: Mode) {
        if self.way != Way::Outside {
            return self.abort();
        }
        let choose = |own: &HardwareState, memory: &M, _: &mut Elision| own.lock.take(memory);
        self.enter(mode, choose, |inner| inner.begin_unfailing(mode));
    }

    #[inline]
    fn has_conflict(&self) -> bool {
        match self.way {
            Way::Failed => true,
            Way::Hardware => self.engine.memory.lost().is_some(),
            Way::Fallback => self.inner.has_conflict(),
            Way::Outside => false,
        }
    }

    fn serial(&self) -> Option<u64> {
        match self.engine.hardware {
            Some(_) => self.engine.memory.traces_own().then_some(self.serial),
            None => self.inner.serial(),
        }
    }

    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        match self.way {
            Way::Hardware => self.store_fresh(at, from),
            Way::Failed => Err(Error::Conflict),
            Way::Fallback | Way::Outside => self.inner.write_fresh(at, from),
        }
    }

    fn mark(&mut self) -> Mark {
        match self.way {
            Way::Fallback | Way::Outside => self.inner.mark(),
            Way::Hardware | Way::Failed => {
                self.keeps_old = true;
                Mark(self.old.len())
            }
        }
    }

    fn rollback_to(&mut self, mark: Mark) {
        match self.way {
            Way::Fallback | Way::Outside => self.inner.rollback_to(mark),
            Way::Hardware => self.put_back(mark.0),
            Way::Failed => {}
        }
    }

    #[inline]
    fn commit(&mut self) -> Result<Ticket> {
        self.commit_by(InnerSession::<M, C, S>::commit)
    }

    #[inline]
    fn commit_awaited(&mut self) -> Result<Ticket> {
        self.commit_by(InnerSession::<M, C, S>::commit_awaited)
    }

    #[inline]
    fn born(&self, ticket: Ticket) -> Ticket {
        match self.engine.hardware {
            Some(_) => ticket,
            None => self.inner.born(ticket),
        }
    }

    fn abort(&mut self) {
        if self.engine.hardware.is_none() {
            self.way = Way::Outside;
            return self.inner.abort();
        }
        let engine = self.engine.clone();
        let memory = &*engine.memory;
        match (self.way, &engine.hardware) {
            (Way::Failed, _) => _ = self.failed(),
            (Way::Hardware, Some(hardware)) => {
                if ElidedLock::is_lost(memory, &mut self.elision) {
                    _ = self.failed();
                    return;
                }
                hardware.lock.cancel(memory, &mut self.elision, elision::Way::Hardware);
                self.counted.aborts_user += 1;
                self.finish();
            }
            (Way::Fallback, Some(hardware)) => {
                let held = hardware.lock.held(memory);
                self.inner.abort();
                drop(held);
                self.elision.end();
                self.finish();
            }
            (Way::Outside, _) | (_, None) => {}
        }
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        match self.engine.hardware {
            Some(_) => ticket.0 <= self.engine.memory.tx_durable().0,
            None => self.inner.is_durable(ticket),
        }
    }

    fn wait_durable(&mut self, ticket: Ticket) -> Result<()> {
        match self.engine.hardware {
            None => self.inner.wait_durable(ticket),
            Some(_) if self.is_durable(ticket) => Ok(()),
            Some(_) => {
                self.engine.memory.tx_flush();
                Ok(())
            }
        }
    }

    /// In hardware there can be none: the transaction runs again, on the fallback path.
    fn checkpoint(&mut self) -> Result<()> {
        match self.way {
            Way::Fallback | Way::Outside => self.inner.checkpoint(),
            Way::Hardware | Way::Failed => {
                if self.way == Way::Hardware {
                    let memory = &*self.engine.memory;
                    ElidedLock::give_up(memory, &mut self.elision, CHECKPOINT);
                    self.way = Way::Failed;
                }
                Err(Error::Conflict)
            }
        }
    }

    fn counters(&self) -> &Counters {
        match self.engine.hardware {
            Some(_) => &self.counters,
            None => self.inner.counters(),
        }
    }
}

impl<M: Memory + 'static, C: Fallback<S>, S: 'static> Drop for ElidedSession<M, C, S> {
    fn drop(&mut self) {
        let engine = self.engine.clone();
        let memory = &*engine.memory;
        let Some(hardware) = &engine.hardware else { return };
        match self.way {
            Way::Hardware => {
                hardware.lock.cancel(memory, &mut self.elision, elision::Way::Hardware);
            }
            Way::Fallback => {
                let _held = hardware.lock.held(memory);
                self.inner.abort();
            }
            Way::Failed | Way::Outside => {}
        }
    }
}
