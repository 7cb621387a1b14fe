//! The fair lock: writers come in in the order in which they asked (a ticket lock; Mellor-Crummey and Scott,
//! *Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors*, TOCS 1991).
//!
//! A writer that panics while it waits keeps those behind it waiting: nothing else can give up a place.

use super::safety::Synchronisation;
use perdura_memory::atomics::{AtomicU64, Ordering};
use perdura_memory::lock::{Apart, Order};

/// Writers come in as they came.
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
        // Taking the lock orders what it guards; and it takes no locked instruction to leave.
        self.turn.0.store(self.turn.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl Synchronisation for Fair {}
