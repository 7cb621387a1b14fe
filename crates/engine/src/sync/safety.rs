//! Which pairs of consistency and synchronisation survive a power cut, on which domain (Persistence and
//! Synchronization, Table III).
//!
//! | consistency | synchronisation | transient caches, a block device | persistent caches |
//! |---|---|---|---|
//! | none | any | never, and says so ([`Engine::CRASH_CONSISTENT`](crate::Engine::CRASH_CONSISTENT)) | the same |
//! | a log that is durable before words are in place | a lock, software transactional memory | yes | yes |
//! | the same | hardware transactional memory | no: a fence would end the transaction | yes |

use perdura_memory::Domain;
use perdura_memory::lock::Order;

/// Which transactions may run when.
pub trait Synchronisation: Order {
    /// Whether a transaction can write back and fence before it makes its stores visible.
    const FENCES: bool = true;
}

/// Why a consistency that `fences` before its words are stored in place is not crash-sync-safe with `S` on a memory of
/// this domain; `None` if it is.
pub const fn refusal<S: Synchronisation>(fences: bool, domain: Domain) -> Option<&'static str> {
    match domain {
        Domain::Transient | Domain::Media if fences && !S::FENCES => Some(
            "its log must be durable before its words are in place, and its transactions cannot fence: that would end them",
        ),
        Domain::Transient | Domain::Media | Domain::Persistent | Domain::Process => None,
    }
}
