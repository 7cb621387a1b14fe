//! A session's view of the words that have committed and are not in the memory yet.

use crate::consistency::protocol::{Consistency, Groups, OpenOf, OwnOf};
use crate::sync::Synchronisation;
use crate::writes::LineWrite;
use crate::writes::overlay::{FoundVersion, MayOverlay};
use perdura_memory::Memory;
use perdura_memory::lock::{Seat, Shared};

/// The last lookup in the overlay: a line, and its version for a transaction's snapshot, if it has one.
pub(super) struct OverlayLookup {
    pub(super) line: u64,
    pub(super) found: Option<FoundVersion>,
}

/// No lookup yet.
pub(super) const NOTHING: OverlayLookup = OverlayLookup { line: u64::MAX, found: None };

/// The data that transactions share, which may have an [overlay](MayOverlay::overlay), for a seat in a transaction that
/// has not been moved.
#[inline(always)]
pub(super) fn open<'a, M: Memory, C: Consistency, S: Synchronisation>(
    seat: &'a mut Seat<S, OpenOf<C>, OwnOf<C>>,
    memory: &M,
) -> Option<Shared<'a, OpenOf<C>>> {
    if C::Groups::ANY { seat.shared(memory) } else { None }
}

/// The words that the overlay, if there is one, has of a line as of `snapshot`.
#[inline(always)]
pub(super) fn overlaid_line<M: Memory>(
    open: &impl MayOverlay,
    memory: &M,
    line: u64,
    snapshot: u64,
) -> Option<LineWrite> {
    let overlay = open.overlay().filter(|overlay| overlay.may_have(memory, line))?;
    overlay.find(memory, line, snapshot).map(|found| overlay.words(memory, found))
}
