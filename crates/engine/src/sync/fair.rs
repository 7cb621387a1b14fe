//! The fair lock: writers enter in the order in which they asked (a ticket lock; Mellor-Crummey and Scott, *Algorithms
//! for Scalable Synchronization on Shared-Memory Multiprocessors*, TOCS 1991).
//!
//! A writer that panics while it waits blocks those behind it: nothing else can give up its place.

use super::safety::Synchronisation;
use perdura_memory::atomics::{AtomicU64, Ordering};
use perdura_memory::lock::{Apart, Order, Step};
use perdura_memory::{Memory, Object, Touch};

/// Writers enter in order of arrival.
#[derive(Debug, Default)]
pub struct Fair {
    /// The place of the next writer that asks.
    next: Apart<AtomicU64>,
    /// The place whose turn it is; changed by the writer alone.
    turn: Apart<AtomicU64>,
}

impl Order for Fair {
    type Place = u64;

    #[inline]
    fn join(&self) -> u64 {
        self.next.0.fetch_add(1, Ordering::Relaxed)
    }

    #[inline]
    fn is_next(&self, place: &u64) -> bool {
        self.turn.0.load(Ordering::Relaxed) == *place
    }

    #[inline]
    fn leave(&self) {
        // Leaving needs no locked instruction: the lock orders this store.
        self.turn.0.store(self.turn.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    const BYTES: u64 = size_of::<Fair>() as u64;

    #[inline(always)]
    fn touch<M: Memory>(memory: &M, own: Object, step: Step) {
        const TURN: u64 = Fair::BYTES / 2;
        match step {
            Step::Join => memory.touch(own, 0, 8, Touch::Exchange),
            Step::Look => memory.touch(own, TURN, 8, Touch::Read),
            Step::Leave => memory.touch(own, TURN, 8, Touch::Write),
        }
    }
}

impl Synchronisation for Fair {}
