//! The spinlock: the next writer is whichever finds it free (test and test-and-set).

use super::safety::Synchronisation;
use perdura_memory::lock::Order;

/// Writers enter in no particular order.
#[derive(Debug, Default)]
pub struct Spin;

impl Order for Spin {
    type Place = ();
}

impl Synchronisation for Spin {}
