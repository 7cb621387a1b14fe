//! Access to what a lock guards: [`Seat`], [`Shared`] and [`Writing`].

use super::barrier::Fences;
use super::readers::{Line, Moves, Slot, Turn};
use super::{ALONE, Lock, Mode, Order, SharedPart, Way, inside_of, place_of};
use crate::atomics::Ordering;
use crate::{Memory, Touch, Traced};
use std::ops::Deref;
use std::sync::Arc;

// SAFETY: references to `shared` are held only by seats in a transaction, which say so, and by the one writer, mutable
// ones only by the writer while it is alone and no seat has one; references to `own` only by the writer.
unsafe impl<O: Sync, S: Send + Sync, W: Send> Sync for Lock<O, S, W> {}

/// A session's place at a lock: its transactions enter through it, one after the other.
pub struct Seat<O: Order, S, W> {
    lock: Arc<Lock<O, S, W>>,
    slot: usize,
    /// What is in the slot.
    content: Arc<Slot>,
    /// The number of the transaction, if it reads; otherwise even.
    turn: u64,
    fences: Fences,
    mode: Option<Mode>,
    /// How it has entered, if it writes.
    way: Way,
    /// Whether it has ever read.
    reads: bool,
}

impl<O: Order, S, W> Seat<O, S, W> {
    /// A place for one more session, if a slot is free.
    pub fn new(lock: &Arc<Lock<O, S, W>>) -> Option<Self> {
        let ((slot, content), lock) = (lock.register()?, lock.clone());
        let (turn, fences) = (content.line.0.turn_outside(), lock.part.readers.fences);
        Some(Seat { lock, slot, content, turn, fences, mode: None, way: Way::Flag, reads: false })
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
        self.mode == Some(Mode::Write) && self.way == Way::Bias
    }

    /// Enters, as the only writer or as a reader; a running transaction leaves first.
    #[inline(always)]
    pub fn enter<M: Memory>(&mut self, mode: Mode, memory: &M) {
        if self.mode.is_some() {
            self.leave_before(memory);
        }
        match mode {
            Mode::Read => self.enter_to_read(memory),
            Mode::Write => {
                let way = self.lock.write(memory, self.slot, &self.content);
                // Tested first: a store costs more, behind the fence of a commit.
                if self.way != way {
                    self.way = way;
                }
            }
        }
        self.mode = Some(mode);
    }

    #[inline(always)]
    fn enter_to_read<M: Memory>(&mut self, memory: &M) {
        if !self.reads {
            self.reads = true;
            self.lock.part.readers.begin(memory);
        }
        let mine = (self.slot, &self.content.line.0);
        self.turn = self.lock.part.readers.read(mine, self.turn, memory);
    }

    /// The running transaction, which writes and has stored nothing, only reads from here on: the state in which it
    /// entered.
    pub fn read_on<M: Memory>(&mut self, memory: &M) {
        if self.mode == Some(Mode::Write) {
            // Else it would wait for itself.
            self.lock.part.readers.let_in();
            self.enter_to_read(memory);
            self.done_writing();
            self.touch_done_writing(memory);
            self.mode = Some(Mode::Read);
        }
    }

    /// Leaves as the writer. Plain stores: a locked instruction would wait for write-backs.
    #[inline(always)]
    fn done_writing(&self) {
        match self.way {
            Way::Flag => self.lock.done_writing(),
            Way::Bias => {
                self.lock.part.readers.let_in();
                self.content.inside.0.store(false, Ordering::Release);
            }
        }
    }

    /// Reports the accesses of [`done_writing`](Self::done_writing).
    #[inline(always)]
    fn touch_done_writing<M: Memory>(&self, memory: &M) {
        match self.way {
            Way::Flag => self.lock.touch_done_writing(memory),
            Way::Bias => {
                let own = self.lock.part.readers.object;
                memory.touch(own, ALONE, 1, Touch::Write);
                memory.touch(own, inside_of(self.slot), 1, Touch::Write);
            }
        }
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
                self.done_writing();
                self.touch_done_writing(memory);
            }
            Some(Mode::Read) => {
                self.turn = self.content.line.0.done_reading(self.turn);
                memory.touch(self.lock.part.readers.object, place_of(self.slot), 8, Touch::Write);
            }
            None => {}
        }
    }

    /// Whether a writer has [moved](Moves) the running transaction. If not, everything that it has loaded before is of
    /// the state in which it entered; otherwise that may be later, but for what was loaded before an earlier call.
    #[inline(always)]
    pub fn is_moved<M: Memory>(&self, memory: &M) -> bool {
        // The writer never is: it need not load the line.
        if self.turn & 1 == 0 {
            return false;
        }
        Traced::new(memory, self.lock.part.readers.object).read(place_of(self.slot), 8);
        self.content.line.0.is_moved(self.turn)
    }

    /// Whether `turn` is the running transaction.
    pub fn is_at(&self, turn: &Turn) -> bool {
        turn.is(&self.content, self.turn)
    }

    /// The shared data, while a transaction runs, unless that has been moved.
    #[inline(always)]
    pub fn shared<M: Memory>(&mut self, memory: &M) -> Option<Shared<'_, S>> {
        let reader = match self.mode? {
            Mode::Write => None,
            Mode::Read => {
                let own = Traced::new(memory, self.lock.part.readers.object);
                // One report for all stores to the line, and the load.
                own.wrote(place_of(self.slot), 8);
                if !self.content.line.0.look(self.turn, self.fences) {
                    return None;
                }
                Some(&self.content.line.0)
            }
        };
        // SAFETY: a mutable reference exists only for a writer that is alone. If this seat reads, such a writer waits
        // until it no longer looks, which the returned value says when it is dropped; the seat is borrowed mutably
        // until then, so that there is no second one. If it writes, it is that writer, whose right borrows the seat
        // mutably too.
        Some(Shared { shared: self.lock.part.shared.with(|shared| unsafe { &*shared }), reader })
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
            Some(Mode::Write) => self.done_writing(),
            Some(Mode::Read) => _ = self.content.line.0.done_reading(self.turn),
            None => {}
        }
        if self.reads {
            self.lock.part.readers.end();
        }
        self.lock.unregister(self.slot);
    }
}

/// The data that transactions share, for one of them.
pub struct Shared<'a, S> {
    shared: &'a S,
    /// Its line, if it reads.
    reader: Option<&'a Line>,
}

impl<S> Shared<'_, S> {
    /// Leaves a number for a writer that [moves](Moves) this transaction.
    #[inline(always)]
    pub fn note(&self, number: u64) {
        if let Some(line) = self.reader {
            line.note(number);
        }
    }
}

impl<S> Deref for Shared<'_, S> {
    type Target = S;

    #[inline(always)]
    fn deref(&self) -> &S {
        self.shared
    }
}

impl<S> Drop for Shared<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(line) = self.reader {
            line.looks_no_longer();
        }
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
    part: &'a SharedPart<S>,
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
            shared: SharedRight { part: &self.part, reads },
        }
    }
}

impl<S, W> Writing<'_, S, W> {
    /// Reborrows the right.
    #[inline(always)]
    pub fn again(&mut self) -> Writing<'_, S, W> {
        Writing { own: self.own, shared: self.shared.again() }
    }
}

impl<S> SharedRight<'_, S> {
    /// Reborrows the right.
    #[inline(always)]
    pub fn again(&mut self) -> SharedRight<'_, S> {
        let SharedRight { part, reads } = *self;
        SharedRight { part, reads }
    }

    /// The shared data, for reading.
    #[inline(always)]
    pub fn get(&self) -> &S {
        // SAFETY: only the writer changes it, by `change`, which borrows the right mutably.
        self.part.shared.with(|shared| unsafe { &*shared })
    }

    /// Changes the shared data; [alone](Self::be_alone) from here on.
    #[inline]
    pub fn change<M: Memory, R>(
        &mut self,
        memory: &M,
        moves: &impl Moves<S>,
        change: impl FnOnce(&mut S) -> R,
    ) -> R {
        self.be_alone(memory, moves);
        // SAFETY: the writer is alone, so that no seat has a reference, and its own from `get` have ended.
        self.part.shared.with_mut(|shared| change(unsafe { &mut *shared }))
    }

    /// Waits until no reader is inside, or moves those that stay as `moves` says, and keeps readers out until the writer
    /// leaves or lets them in.
    #[inline(always)]
    pub fn be_alone<M: Memory>(&mut self, memory: &M, moves: &impl Moves<S>) {
        self.part.readers.be_alone(memory, self.reads, moves, self.get());
    }

    /// Readers may enter again, though the writer stays.
    #[inline]
    pub fn let_readers_in<M: Memory>(&mut self, memory: &M) {
        self.part.readers.let_in();
        memory.touch(self.part.readers.object, ALONE, 1, Touch::Write);
    }

    /// Whether another writing transaction waits to enter.
    #[inline]
    pub fn is_wanted<M: Memory>(&self, memory: &M) -> bool {
        self.part.wanting.any(memory, self.part.readers.object)
    }

    /// Whether a reader is inside.
    #[inline]
    pub fn has_readers<M: Memory>(&self, memory: &M) -> bool {
        self.part.readers.are_in(memory)
    }
}
