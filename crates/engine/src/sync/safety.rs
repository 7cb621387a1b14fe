//! Which pairs of consistency and synchronisation survive a power cut, on which domain (Persistence and
//! Synchronization, Table III).
//!
//! | consistency | synchronisation | transient caches, a block device | persistent caches |
//! |---|---|---|---|
//! | none | any | never, and says so ([`Engine::CRASH_CONSISTENT`](crate::Engine::CRASH_CONSISTENT)) | the same |
//! | a log that is durable before words are in place | a lock, software transactional memory | yes | yes |
//! | the same | hardware transactional memory | no: the hardware's transactions are in no log | yes |
//!
//! Hardware transactions are those of the memory ([`Speculation`]): on one without them all transactions take the lock,
//! and the pair is as safe as with a lock alone; on one whose hardware makes them durable itself it is safe, too.

use perdura_memory::lock::Order;
use perdura_memory::{Domain, Speculation};

/// Which transactions may run when.
pub trait Synchronisation: Order {
    /// Whether every transaction can write back and fence before it makes its stores visible. Those that hardware runs
    /// cannot.
    const FENCES: bool = true;

    /// Whether transactions that write are kept apart.
    const EXCLUDES: bool = true;
}

/// Why a consistency that `fences` before its words are stored in place is not crash-sync-safe with `S` on a memory of
/// this domain, with such hardware; `None` if it is.
pub const fn refusal<S: Synchronisation>(
    fences: bool,
    domain: Domain,
    hardware: Speculation,
) -> Option<&'static str> {
    let unlogged = fences && !S::FENCES && matches!(hardware, Speculation::Isolated);
    match domain {
        Domain::Transient | Domain::Media if unlogged => Some(
            "the transactions that its hardware commits are in no log, and a power cut may leave any part of them",
        ),
        Domain::Transient | Domain::Media | Domain::Persistent | Domain::Process => None,
    }
}
