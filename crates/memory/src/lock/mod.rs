//! A lock for one writer and many readers, with nothing shared among readers; the guarded data is reached only through
//! a right that the lock hands out.
//!
//! A transaction that writes has two phases. At first it only reads, and buffers its stores: other writers wait,
//! readers do not. Before it stores anything that a reader may see, it becomes alone: no reader enters, and it waits
//! for those inside, or, after a while, moves them to a state of their own: see `readers`.
//!
//! Each session has a [`Seat`], with a slot on a cache line of its own. A reader announces itself there and checks whether
//! the writer is alone; a writer that becomes alone says so and looks for readers in the slots. Readers on different cores
//! therefore never pass a line between them. As long as no other session has ever read, the writer checks no slots.
//! Waiting goes through the memory's `pause`, so that it is a scheduling point in a simulator. The order of waiting
//! writers is a policy: see [`Order`].
//!
//! The right is a value: a seat in a transaction lends the shared data for reading, and a seat in a writing transaction
//! a [`Writing`]. What always holds:
//! - one [`Writing`] of a lock exists at a time, from when its writer enters until it leaves;
//! - shared data is changed only while the writer is alone, and no seat has a reference to it.
//!
//! Each access to a word of the lock is [reported](Touch) to the memory, so that in a simulator these lines pass from
//! core to core.
//!
//! Reading order: this file (entering and leaving as a writer), `readers` (readers, and how a writer becomes alone), `right`
//! (access to the data), `slots` (the sessions there are), `bias` (a single session enters at no cost), `barrier` (fences
//! that cost one side nothing).

mod barrier;
mod bias;
#[cfg(all(test, loom))]
mod models;
mod readers;
mod right;
mod slots;
#[cfg(all(test, not(loom)))]
mod tests;

pub use barrier::Fences;
pub use readers::{Moves, Stays, Turn};
pub use right::{Seat, Shared, SharedRight, Writing};
pub use slots::Slots;

use self::bias::Bias;
use self::readers::{Readers, Slot};
use crate::atomics::{AtomicBool, AtomicUsize, Ordering, UnsafeCell, pause};
use crate::planted::{self, Bug};
use crate::{Memory, Object, Touch};
use std::sync::Arc;

/// How many turns in a row a thread that could enter lets waiting writers go first: a descheduled writer may never
/// come.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 100 };

/// A value on cache lines of its own (two, since the hardware fetches lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It may not write; it shares the memory with other readers, writes nothing and fences nothing.
    Read,
    /// It may write.
    Write,
}

/// The order in which waiting writers enter; unless methods say otherwise, any. Mutual exclusion does not depend on it.
pub trait Order: Default + Send + Sync + 'static {
    /// A writer's place in the queue.
    type Place: Default;

    /// Takes a place.
    #[inline(always)]
    fn join(&self) -> Self::Place {
        Self::Place::default()
    }

    /// Whether the writer with this place may try to enter.
    #[inline(always)]
    fn is_next(&self, place: &Self::Place) -> bool {
        let _ = place;
        true
    }

    /// The writer leaves; it releases the lock right after.
    #[inline(always)]
    fn leave(&self) {}

    /// Bytes of the policy's own memory.
    const BYTES: u64 = 0;

    /// Reports what a step touches of that memory, `own`: called before the step, but after leaving.
    #[inline(always)]
    fn touch<M: Memory>(memory: &M, own: Object, step: Step) {
        let _ = (memory, own, step);
    }
}

/// A step of an [`Order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A writer takes a place.
    Join,
    /// A writer checks whether it is next.
    Look,
    /// A writer has left.
    Leave,
}

/// Where the words of a lock are in its object, each on lines of its own.
const WRITER: u64 = 0;
const WANTING: u64 = APART;
const ALONE: u64 = 2 * APART;
/// The lock's other fields, which hardly ever change.
const FIELDS: u64 = 3 * APART;
const BIAS: u64 = 4 * APART;
/// How many sessions have read.
const READING: u64 = 5 * APART;
const SLOTS: u64 = 6 * APART;
const APART: u64 = size_of::<Apart<u8>>() as u64;
/// Slots with distinct addresses in a simulator.
const TOLD: usize = 128;

/// The lock, with slots for sessions; writers enter in the order of `O`. It guards the data shared by transactions, `S`,
/// and the writer's own data, `W`.
pub struct Lock<O, S, W> {
    order: O,
    writer: Apart<AtomicBool>,
    bias: Bias,
    part: SharedPart<S>,
    own: UnsafeCell<W>,
    /// The memory's handle for the order's words.
    order_object: Object,
}

/// What a writer shares with readers: together, so that its right to it is one pointer.
struct SharedPart<S> {
    wanting: Wanting,
    readers: Readers,
    shared: UnsafeCell<S>,
}

/// How a writer has entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    /// It holds the flag.
    #[default]
    Flag,
    /// The lock is biased to its session.
    Bias,
}

/// How many writing transactions wait to enter.
#[derive(Default)]
struct Wanting(Apart<AtomicUsize>);

/// One that is counted in [`Wanting`].
struct Counted<'a, M: Memory>(&'a Wanting, &'a M, Object);

impl<O: Order, S, W> Lock<O, S, W> {
    /// A lock for at most `slots` sessions, which enter by way of `memory`.
    pub fn new<M: Memory>(memory: &M, slots: usize, shared: S, own: W) -> Self {
        let told = slots.min(TOLD) as u64;
        let readers = Readers::new(slots, memory.object(SLOTS + 2 * told * APART));
        Lock {
            order: O::default(),
            writer: Apart::default(),
            bias: Bias::new(),
            part: SharedPart {
                wanting: Wanting::default(),
                readers,
                shared: UnsafeCell::new(shared),
            },
            own: UnsafeCell::new(own),
            order_object: memory.object(O::BYTES),
        }
    }

    /// The lock as on a system without a heavy fence: for models.
    #[cfg(loom)]
    pub fn symmetric(mut self) -> Self {
        self.part.readers.fences = Fences::symmetric();
        self
    }

    /// Sets after how many transactions in a row, with no other writer in between, a session is the writer at no cost
    /// until another one comes; `None` for the default, which is a thousand.
    pub fn tune_bias(&self, after: Option<u64>) {
        self.bias.tune(after);
    }

    /// How many sessions there can be.
    pub fn slots(&self) -> usize {
        self.part.readers.slots.limit()
    }

    /// Takes a slot for a session, if one is free.
    fn register(&self) -> Option<(usize, Arc<Slot>)> {
        self.part.readers.slots.take(Slot::new)
    }

    /// Gives a slot back.
    fn unregister(&self, slot: usize) {
        self.part.readers.slots.give_back(slot);
    }

    /// Enters as the only writer, alongside readers, for a session that writes a transaction of its own.
    #[inline(always)]
    fn write<M: Memory>(&self, memory: &M, slot: usize, content: &Slot) -> Way {
        memory.touch(self.part.readers.object, BIAS, 8, Touch::Read);
        if self.bias.enter(slot, content) {
            memory.touch(self.part.readers.object, inside_of(slot), 1, Touch::Write);
            return Way::Bias;
        }
        self.write_by_flag(memory, Some(slot));
        Way::Flag
    }

    /// Out of line, so that the biased path saves no registers for it.
    #[inline(never)]
    fn write_by_flag<M: Memory>(&self, memory: &M, slot: Option<usize>) {
        O::touch(memory, self.order_object, Step::Join);
        let place = self.order.join();
        if !self.is_next(memory, &place) || !self.try_write(memory) {
            self.wait_to_write(memory, &place, slot.is_some());
        }
        // The session with the bias may be inside, and counts as waited for.
        let own = self.part.readers.object;
        let others = slot.filter(|_| self.bias.is_anothers(slot));
        let _counted = others.map(|_| self.part.wanting.count(memory, own));
        let wanted = self.part.wanting.any(memory, own);
        self.bias.came_in(slot, wanted, &self.part.readers.slots, (memory, own));
    }

    #[cold]
    fn wait_to_write<M: Memory>(&self, memory: &M, place: &O::Place, wants: bool) {
        let _counted = wants.then(|| self.part.wanting.count(memory, self.part.readers.object));
        let mut turn = 0;
        while !self.is_next(memory, place) || !self.try_write(memory) {
            while !self.is_next(memory, place) || self.has_writer(memory) {
                pause(memory, turn);
                turn += 1;
            }
        }
    }

    #[inline(always)]
    fn is_next<M: Memory>(&self, memory: &M, place: &O::Place) -> bool {
        O::touch(memory, self.order_object, Step::Look);
        self.order.is_next(place)
    }

    #[inline(always)]
    fn has_writer<M: Memory>(&self, memory: &M) -> bool {
        memory.touch(self.part.readers.object, WRITER, 1, Touch::Read);
        self.writer.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn try_write<M: Memory>(&self, memory: &M) -> bool {
        memory.touch(self.part.readers.object, WRITER, 1, Touch::Exchange);
        let writer = &self.writer.0;
        if planted::has(Bug::TwoWriters) {
            let was = writer.load(Ordering::Relaxed);
            memory.touch(self.part.readers.object, WRITER, 1, Touch::Write);
            writer.store(true, Ordering::Relaxed);
            return !was;
        }
        writer.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Leaves as the writer that holds the flag. A plain store: a locked instruction would wait for write-backs.
    #[inline(always)]
    fn done_writing(&self) {
        self.part.readers.let_in();
        self.order.leave();
        self.writer.0.store(false, Ordering::Release);
    }

    /// Reports the accesses of [`done_writing`](Self::done_writing).
    #[inline(always)]
    fn touch_done_writing<M: Memory>(&self, memory: &M) {
        memory.touch(self.part.readers.object, ALONE, 1, Touch::Write);
        O::touch(memory, self.order_object, Step::Leave);
        memory.touch(self.part.readers.object, WRITER, 1, Touch::Write);
    }

    /// Runs `body` as the only writer, alongside readers, and leaves even if it panics.
    pub fn writing<M: Memory, R>(
        &self,
        memory: &M,
        body: impl FnOnce(Writing<'_, S, W>) -> R,
    ) -> R {
        struct Leave<'a, M: Memory, O: Order, S, W>(&'a Lock<O, S, W>, &'a M);
        impl<M: Memory, O: Order, S, W> Drop for Leave<'_, M, O, S, W> {
            fn drop(&mut self) {
                self.0.done_writing();
                self.0.touch_done_writing(self.1);
            }
        }
        memory.touch(self.part.readers.object, BIAS, 8, Touch::Read);
        self.write_by_flag(memory, None);
        let leave = Leave(self, memory);
        // SAFETY: this thread is the writer until `leave` is dropped, and the right cannot outlive `body`.
        body(unsafe { leave.0.right(false) })
    }

    /// As [`writing`](Self::writing), unless `is_done` becomes true by the work of the writers that are inside or
    /// waiting.
    pub fn writing_unless<M: Memory, R>(
        &self,
        memory: &M,
        is_done: impl Fn() -> bool,
        body: impl FnOnce(Writing<'_, S, W>) -> R,
    ) -> Option<R> {
        let (mut turn, mut free) = (0, 0);
        loop {
            match self.has_writer(memory) {
                true => free = 0,
                false
                    if free == PATIENCE
                        || !self.part.wanting.any(memory, self.part.readers.object) =>
                {
                    break;
                }
                false => free += 1,
            }
            if is_done() {
                return None;
            }
            pause(memory, turn);
            turn += 1;
        }
        self.writing(memory, |right| (!is_done()).then(|| body(right)))
    }
}

impl Wanting {
    /// Counts one more waiting writer, until the returned value is dropped.
    fn count<'a, M: Memory>(&'a self, memory: &'a M, own: Object) -> Counted<'a, M> {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        memory.touch(own, WANTING, 8, Touch::Exchange);
        Counted(self, memory, own)
    }

    /// Whether any writer waits.
    #[inline]
    fn any<M: Memory>(&self, memory: &M, own: Object) -> bool {
        memory.touch(own, WANTING, 8, Touch::Read);
        self.0.0.load(Ordering::Relaxed) > 0
    }
}

impl<M: Memory> Drop for Counted<'_, M> {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::Relaxed);
        self.1.touch(self.2, WANTING, 8, Touch::Exchange);
    }
}

/// The offset of a session's slot in the lock's object.
#[inline(always)]
const fn place_of(slot: usize) -> u64 {
    SLOTS + 2 * slot as u64 * APART
}

/// The offset, in there, of a session's `inside` flag.
#[inline(always)]
const fn inside_of(slot: usize) -> u64 {
    place_of(slot) + APART
}

#[cfg(test)]
mod tests_order {
    use super::Order;

    /// Writers enter in any order.
    #[derive(Default)]
    pub(super) struct AnyOrder;

    impl Order for AnyOrder {
        type Place = ();
    }
}
