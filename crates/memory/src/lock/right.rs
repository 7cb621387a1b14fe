//! Access to what a lock guards: [`Seat`] and [`Writing`].

use super::{ALONE, Lock, Mode, Order, Readers, Wanting, Way, place_of};
use crate::atomics::UnsafeCell;
use crate::{Memory, Touch};
use std::sync::Arc;

// SAFETY: references to `shared` are held only by seats in a transaction and by the one writer, mutable ones only by
// the writer while it is alone; references to `own` only by the writer.
unsafe impl<O: Sync, S: Send + Sync, W: Send> Sync for Lock<O, S, W> {}

/// A session's place at a lock: its transactions enter through it, one after the other.
pub struct Seat<O: Order, S, W> {
    lock: Arc<Lock<O, S, W>>,
    slot: usize,
    mode: Option<Mode>,
    /// How it has entered, if it writes.
    way: Way,
    /// Whether it has ever read.
    reads: bool,
}

impl<O: Order, S, W> Seat<O, S, W> {
    /// A place for one more session, if a slot is free.
    pub fn new(lock: &Arc<Lock<O, S, W>>) -> Option<Self> {
        let (slot, lock) = (lock.register()?, lock.clone());
        Some(Seat { lock, slot, mode: None, way: Way::Flag, reads: false })
    }

    /// What the running transaction may do; `None` if none runs.
    #[inline(always)]
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Its number, which no other seat at the lock has at the same time.
    #[inline]
    pub const fn slot(&self) -> usize {
        self.slot
    }

    /// Whether a transaction runs that has entered by the bias.
    #[cfg(all(test, not(loom)))]
    pub(super) fn is_biased(&self) -> bool {
        self.mode == Some(Mode::Write) && matches!(self.way, Way::Bias(_))
    }

    /// Enters, as the only writer or as a reader; a running transaction leaves first.
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

    /// Leaves, if a transaction runs.
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

    /// The shared data, while a transaction runs.
    #[inline(always)]
    pub fn shared(&self) -> Option<&S> {
        // SAFETY: a mutable reference exists only for a writer that is alone. If this seat reads, the writer waits
        // until it has left, which needs the seat to be unborrowed; if it writes, it is that writer, whose right
        // borrows the seat mutably.
        self.mode.map(|_| self.lock.shared.with(|shared| unsafe { &*shared }))
    }

    /// The writer's right, while a writing transaction runs.
    #[inline(always)]
    pub fn writing(&mut self) -> Option<Writing<'_, S, W>> {
        match self.mode {
            // SAFETY: this seat is the writer until it leaves, which needs the seat to be unborrowed.
            Some(Mode::Write) => Some(unsafe { self.lock.right(self.reads) }),
            _ => None,
        }
    }
}

impl<O: Order, S, W> Drop for Seat<O, S, W> {
    fn drop(&mut self) {
        // Not reported to any memory.
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
    /// The writer's own data.
    pub own: &'a mut W,
    /// The data that it shares with readers.
    pub shared: SharedRight<'a, S>,
}

/// The writer's access to the data that it shares with readers.
pub struct SharedRight<'a, S> {
    readers: &'a Readers,
    wanting: &'a Wanting,
    shared: &'a UnsafeCell<S>,
    /// Whether the writer's own session has ever read.
    reads: bool,
}

impl<O: Order, S, W> Lock<O, S, W> {
    /// The writer's right; `reads` says whether its session has ever read.
    ///
    /// # Safety
    /// The caller is the writer, stays so for as long as the right exists, and asks for no second one meanwhile.
    #[inline(always)]
    pub(super) unsafe fn right(&self, reads: bool) -> Writing<'_, S, W> {
        Writing {
            // SAFETY: the one writer has the one right, by the caller's contract.
            own: self.own.with_mut(|own| unsafe { &mut *own }),
            shared: SharedRight {
                readers: &self.readers,
                wanting: &self.wanting,
                shared: &self.shared,
                reads,
            },
        }
    }
}

impl<S, W> Writing<'_, S, W> {
    /// Reborrows the right.
    #[inline(always)]
    pub fn again(&mut self) -> Writing<'_, S, W> {
        let SharedRight { readers, wanting, shared, reads } = self.shared;
        Writing { own: self.own, shared: SharedRight { readers, wanting, shared, reads } }
    }
}

impl<S> SharedRight<'_, S> {
    /// The shared data, for reading.
    #[inline(always)]
    pub fn get(&self) -> &S {
        // SAFETY: only the writer changes it, by `change`, which borrows the right mutably.
        self.shared.with(|shared| unsafe { &*shared })
    }

    /// Changes the shared data; alone from here on.
    #[inline]
    pub fn change<M: Memory, R>(&mut self, memory: &M, change: impl FnOnce(&mut S) -> R) -> R {
        self.readers.be_alone(memory, self.reads);
        // SAFETY: the writer is alone, and its own references from `get` have ended.
        self.shared.with_mut(|shared| change(unsafe { &mut *shared }))
    }

    /// Waits until no reader is inside, and keeps readers out until the writer leaves or lets them in.
    #[inline]
    pub fn be_alone<M: Memory>(&mut self, memory: &M) {
        self.readers.be_alone(memory, self.reads);
    }

    /// Readers may enter again, though the writer stays.
    #[inline]
    pub fn let_readers_in<M: Memory>(&mut self, memory: &M) {
        self.readers.let_in();
        memory.touch(self.readers.object, ALONE, 1, Touch::Write);
    }

    /// Whether another writing transaction waits to enter.
    #[inline]
    pub fn is_wanted<M: Memory>(&self, memory: &M) -> bool {
        self.wanting.any(memory, self.readers.object)
    }

    /// Whether a reader is inside.
    #[inline]
    pub fn has_readers<M: Memory>(&self, memory: &M) -> bool {
        self.readers.are_in(memory)
    }
}
