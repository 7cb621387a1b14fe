//! What a session looks at of the words that have committed and are not in the memory.

use crate::consistency::protocol::{Consistency, Groups, OpenOf, OwnOf};
use crate::sync::Synchronisation;
use crate::writes::overlay::{Found, Overlay};
use perdura_memory::lock::Seat;

/// Where the overlay has a line as of a transaction's snapshot, if it has it.
pub(super) struct Looked {
    pub(super) line: u64,
    pub(super) found: Option<Found>,
}

/// No line is there.
pub(super) const NOTHING: Looked = Looked { line: u64::MAX, found: None };

/// What has committed and is not in the memory, for a seat in a transaction.
#[inline(always)]
pub(super) fn overlay<C: Consistency, S: Synchronisation>(
    seat: &Seat<S, OpenOf<C>, OwnOf<C>>,
) -> Option<&Overlay> {
    if C::Groups::ANY { seat.shared().and_then(C::Groups::overlay) } else { None }
}
