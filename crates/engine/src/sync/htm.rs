//! Hardware transactional memory, with a lock for the transactions that the hardware gives up.
//!
//! Transactions run as speculations of the memory's hardware, which isolates them; the lock elided so is
//! [`ElidedLock`](perdura_memory::elision::ElidedLock). This is the order of the writers on the fallback path, who enter
//! one at a time, in no particular order: they hold that lock already.

use super::safety::Synchronisation;
use perdura_memory::lock::Order;

/// Writers run in hardware, or enter in no particular order.
#[derive(Debug, Default)]
pub struct Htm;

impl Order for Htm {
    type Place = ();
}

impl Synchronisation for Htm {
    const FENCES: bool = false;
}
