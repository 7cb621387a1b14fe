//! Transactions run by a memory's own hardware, which makes them atomic, isolated or durable.
//!
//! An engine tells its memory where each transaction that may write begins and ends
//! ([`Memory::tx_begin`](crate::Memory::tx_begin) and the methods after it). Memories without such hardware do nothing
//! there, and the calls are compiled away.

use std::fmt;

/// The number of a transaction of a memory's hardware, in commit order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HardwareTicket(pub u64);

impl HardwareTicket {
    /// The ticket of a transaction whose durability does not depend on the hardware: no wait is needed.
    pub const DURABLE: HardwareTicket = HardwareTicket(0);
    /// No transaction has a later one.
    pub const LAST: HardwareTicket = HardwareTicket(u64::MAX);
}

/// Why the hardware does not let a transaction begin or commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HardwareAbort {
    /// Another core has accessed its data.
    Conflict,
    /// It does not fit into what the hardware tracks.
    Capacity,
    /// This core's transactions do not nest.
    Nested,
    /// Another core's transaction is running: in this hardware they take turns.
    Busy,
}

impl fmt::Display for HardwareAbort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HardwareAbort::Conflict => {
                "another core has accessed what the transaction has: run it again"
            }
            HardwareAbort::Capacity => {
                "the transaction does not fit into what the hardware tracks: run it again, alone, or make it smaller"
            }
            HardwareAbort::Busy => {
                "another core's transaction in hardware is running, and they take turns: take a lock first"
            }
            HardwareAbort::Nested => "a transaction in hardware is running on this core already: end that one first",
        })
    }
}

impl std::error::Error for HardwareAbort {}
