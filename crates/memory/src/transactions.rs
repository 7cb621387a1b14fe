//! Transactions run by a memory's own hardware, which makes them atomic, isolated or durable.
//!
//! An engine tells its memory where each transaction that may write begins and ends
//! ([`Memory::tx_begin`](crate::Memory::tx_begin) and the methods after it). Memories without such hardware do nothing
//! there, and the calls are compiled away.
//!
//! A *speculation* ([`Memory::speculate`](crate::Memory::speculate)) is different: a transaction that the hardware may
//! give up at any access, as Intel's restricted transactional memory does. Its stores are seen by no other core and are
//! in no durable image until it ends well; when it is lost they are undone at once, words of
//! [`OwnWords`](crate::own::OwnWords) included, and the program learns of it by
//! [`Memory::lost`](crate::Memory::lost). Other data of the program (variables, buffers) is not undone.

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
    /// There is no such hardware.
    Absent,
    /// The program has given it up, with this code.
    Explicit(u8),
    /// It has done something that the hardware cannot undo: a store past the caches, a write-back, a growth.
    Unsupported,
    /// An interrupt has come.
    Interrupt,
    /// The hardware's log has no room for its stores.
    NoLogSpace,
}

/// What a memory's hardware does for [speculations](crate::Memory::speculate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Speculation {
    /// Nothing: none can begin.
    Absent,
    /// It isolates them. A power cut after the commit may leave any part of the stores where caches are transient, and
    /// leaves all of them where caches are persistent.
    Isolated,
    /// It isolates them and makes them durable: once [`end_speculation`](crate::Memory::end_speculation) has returned, a
    /// power cut leaves all their stores to this memory; before, all or none.
    Durable,
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
            HardwareAbort::Absent => {
                "this memory has no hardware for speculation: use an engine that needs none"
            }
            HardwareAbort::Explicit(_) => {
                "the program has given the transaction up: run it again without speculation"
            }
            HardwareAbort::Unsupported => {
                "the transaction has done what its hardware cannot undo: run it again without speculation"
            }
            HardwareAbort::Interrupt => "an interrupt has ended the transaction: run it again",
            HardwareAbort::NoLogSpace => {
                "the hardware's log has no room for what the transaction stores: run it again without speculation"
            }
            HardwareAbort::Nested => "a transaction in hardware is running on this core already: end that one first",
        })
    }
}

impl std::error::Error for HardwareAbort {}
