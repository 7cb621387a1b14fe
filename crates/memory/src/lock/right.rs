//! What having come in gives: [`Seat`] and [`Writing`].

use super::{ALONE, Lock, Mode, Order, Readers, Wanting, Way, place_of};
use crate::atomics::UnsafeCell;
use crate::{Memory, Touch};
use std::sync::Arc;

// SAFETY: of what a lock guards, references to `shared` are had by seats that are in a transaction and by
// the one writer, and mutable ones only by the writer while it is alone; those to `own` by the writer.
unsafe impl<O: Sync, S: Send + Sync, W: Send> Sync for Lock<O, S, W> {}

/// A session's place at a lock: its transactions come in through it, one after the other.
pub struct Seat<O: Order, S, W> {
    lock: Arc<Lock<O, S, W>>,
    slot: usize,
    mode: Option<Mode>,
    /// How it has come in, if it writes.
    way: Way,
    /// It has read.
    reads: bool,
}

impl<O: Order, S, W> Seat<O, S, W> {
    /// A place for one more session, if one is left.
    pub fn new(lock: &Arc<Lock<O, S, W>>) -> Option<Self> {
        let (slot, lock) = (lock.register()?, lock.clone());
        Some(Seat { lock, slot, mode: None, way: Way::Flag, reads: false })
    }

    /// What the transaction that has come in may do; `None` where none has.
    #[inline(always)]
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Its number, which no other seat at the lock has at the same time.
    #[inline]
    pub const fn slot(&self) -> usize {
        self.slot
    }

    /// Whether the lock is biased to this session, and a transaction has come in by that.
    #[cfg(all(test, not(loom)))]
    pub(super) fn is_biased(&self) -> bool {
        self.mode == Some(Mode::Write) && matches!(self.way, Way::Bias(_))
    }

    /// Comes in, as the only writer or as a reader; leaves before, if a transaction is in.
    #[inline(always)]
    pub fn enter<M: Memory>(&mut self, mode: Mode, memory: &M) {
        if self.mode.is_some() {
            self.leave_before(memory);
        }
        match mode {
            Mode::Read => {
                if !self.reads {
                    self.reads = true;
                    self.lock.readers.begin(memory);
                }
                self.lock.readers.read(self.slot, memory);
            }
            Mode::Write => self.way = self.lock.write(memory, Some(self.slot)),
        }
        self.mode = Some(mode);
    }

    #[cold]
    fn leave_before<M: Memory>(&mut self, memory: &M) {
        self.leave(memory);
    }

    /// Leaves, if a transaction is in.
    #[inline(always)]
    pub fn leave<M: Memory>(&mut self, memory: &M) {
        match self.mode.take() {
            Some(Mode::Write) => {
                self.lock.done_writing(self.way);
                self.lock.touch_done_writing(memory, self.way);
            }
            Some(Mode::Read) => {
                self.lock.readers.done_reading(self.slot);
                memory.touch(self.lock.readers.object, place_of(self.slot), 1, Touch::Write);
            }
            None => {}
        }
    }

    /// What transactions share, while one is in.
    #[inline(always)]
    pub fn shared(&self) -> Option<&S> {
        // SAFETY: it is had mutably only by a writer that is alone. If this seat reads, that waits until it
        // has left, for which the seat must not be borrowed; if it writes, it is that writer, whose right
        // borrows the seat mutably.
        self.mode.map(|_| self.lock.shared.with(|shared| unsafe { &*shared }))
    }

    /// The writer's right, while a transaction that writes is in.
    #[inline(always)]
    pub fn writing(&mut self) -> Option<Writing<'_, S, W>> {
        match self.mode {
            // SAFETY: this seat's is the writer until it leaves, for which it must not be borrowed.
            Some(Mode::Write) => Some(unsafe { self.lock.right(self.reads) }),
            _ => None,
        }
    }
}

impl<O: Order, S, W> Drop for Seat<O, S, W> {
    fn drop(&mut self) {
        // No memory is told of it.
        match self.mode.take() {
            Some(Mode::Write) => self.lock.done_writing(self.way),
            Some(Mode::Read) => self.lock.readers.done_reading(self.slot),
            None => {}
        }
        if self.reads {
            self.lock.readers.end();
        }
        self.lock.unregister(self.slot);
    }
}

/// The writer's right.
pub struct Writing<'a, S, W> {
    /// What is the writer's own.
    pub own: &'a mut W,
    /// What it shares with readers.
    pub beside: Beside<'a, S>,
}

/// The writer's right to what it shares with readers.
pub struct Beside<'a, S> {
    readers: &'a Readers,
    wanting: &'a Wanting,
    shared: &'a UnsafeCell<S>,
    /// The writer's own session has read.
    reads: bool,
}

impl<O: Order, S, W> Lock<O, S, W> {
    /// The writer's right; its session, if it has one, `reads` at times.
    ///
    /// # Safety
    /// The caller is the writer, stays so for as long as the right is there, and asks for no other one
    /// meanwhile.
    #[inline(always)]
    pub(super) unsafe fn right(&self, reads: bool) -> Writing<'_, S, W> {
        Writing {
            // SAFETY: the one writer has the one right, as the contract says.
            own: self.own.with_mut(|own| unsafe { &mut *own }),
            beside: Beside {
                readers: &self.readers,
                wanting: &self.wanting,
                shared: &self.shared,
                reads,
            },
        }
    }
}

impl<S, W> Writing<'_, S, W> {
    /// The same right, for a while.
    #[inline(always)]
    pub fn again(&mut self) -> Writing<'_, S, W> {
        let Beside { readers, wanting, shared, reads } = self.beside;
        Writing { own: self.own, beside: Beside { readers, wanting, shared, reads } }
    }
}

impl<S> Beside<'_, S> {
    /// What is shared, to look at.
    #[inline(always)]
    pub fn get(&self) -> &S {
        // SAFETY: only the writer changes it, by `change`, which borrows its right mutably.
        self.shared.with(|shared| unsafe { &*shared })
    }

    /// Changes what is shared, alone from here on.
    #[inline]
    pub fn change<M: Memory, R>(&mut self, memory: &M, change: impl FnOnce(&mut S) -> R) -> R {
        self.readers.be_alone(memory, self.reads);
        // SAFETY: the writer is alone, and its own references from `get` have ended.
        self.shared.with_mut(|shared| change(unsafe { &mut *shared }))
    }

    /// No reader is there from here on, until the writer leaves or lets readers in.
    #[inline]
    pub fn be_alone<M: Memory>(&mut self, memory: &M) {
        self.readers.be_alone(memory, self.reads);
    }

    /// Readers may come in again, though the writer stays.
    #[inline]
    pub fn let_readers_in<M: Memory>(&mut self, memory: &M) {
        self.readers.let_in();
        memory.touch(self.readers.object, ALONE, 1, Touch::Write);
    }

    /// Whether another transaction that writes waits to come in.
    #[inline]
    pub fn is_wanted<M: Memory>(&self, memory: &M) -> bool {
        self.wanting.any(memory, self.readers.object)
    }

    /// Whether a reader is there.
    #[inline]
    pub fn has_readers<M: Memory>(&self, memory: &M) -> bool {
        self.readers.are_in(memory)
    }
}
