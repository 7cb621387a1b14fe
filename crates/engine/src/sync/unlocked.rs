//! No synchronisation: for threads that share nothing, as a sequential program's, run side by side.
//!
//! A transaction that writes announces itself as a reader does, and is kept out by none but whoever needs the whole
//! memory to itself, as a checkpoint does. Transactions that store to the same words see and overwrite each other's.

use super::safety::Synchronisation;
use perdura_memory::lock::Order;

/// Nothing keeps writers apart.
#[derive(Debug, Default)]
pub struct Unlocked;

impl Order for Unlocked {
    type Place = ();
}

impl Synchronisation for Unlocked {
    const EXCLUDES: bool = false;
}
