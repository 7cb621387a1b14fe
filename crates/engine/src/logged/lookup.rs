//! A session's view of the words that have committed and are not in the memory yet.

use crate::consistency::protocol::{Consistency, Groups, OpenOf, OwnOf};
use crate::sync::Synchronisation;
use crate::writes::overlay::{FoundVersion, Overlay};
use perdura_memory::lock::Seat;

/// The last lookup in the overlay: a line, and its version for a transaction's snapshot, if it has one.
pub(super) struct OverlayLookup {
    pub(super) line: u64,
    pub(super) found: Option<FoundVersion>,
}

/// No lookup yet.
pub(super) const NOTHING: OverlayLookup = OverlayLookup { line: u64::MAX, found: None };

/// The overlay of committed words that are not in the memory yet, for a seat in a transaction.
#[inline(always)]
pub(super) fn overlay<C: Consistency, S: Synchronisation>(
    seat: &Seat<S, OpenOf<C>, OwnOf<C>>,
) -> Option<&Overlay> {
    if C::Groups::ANY { seat.shared().and_then(C::Groups::overlay) } else { None }
}
