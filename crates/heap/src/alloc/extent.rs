//! Finds the allocation that a byte belongs to, for code that checks offsets it did not make.

use super::layout::{Layout, Use, slot_bit};
use crate::tx::Extent;
use perdura_engine::{Access, Error, Result};
use perdura_memory::PAGE;

/// Returns the allocation that the byte at `at` belongs to, according to the page table. Costs one entry in a page of
/// slots; inside a run, the entries of the pages before it.
///
/// # Errors
/// `Corrupt` where the page table is damaged.
pub fn extent(access: &mut dyn Access, layout: &Layout, at: u64) -> Result<Option<Extent>> {
    let Ok((page, in_page)) = layout.locate(at) else { return Ok(None) };
    // The pages inside a run have empty entries: the nearest entry that is not empty is the run's.
    for first in (0..=page).rev() {
        match read(access, layout, first)? {
            Use::Free => {}
            Use::Run(pages) if page - first < pages => {
                let (at, bytes) = (layout.page(first), pages * PAGE);
                return Ok(Some(Extent { at, bytes, purpose: None }));
            }
            Use::Slots(class, purpose) if first == page => {
                let (bytes, slot) = (class.slot_bytes(), (in_page / class.slot_bytes()) as u32);
                if slot >= class.slots() {
                    return Ok(None);
                }
                let (word, bit) = slot_bit(slot);
                let taken = access.read_word(layout.entry(page) + word)? & bit != 0;
                let at = layout.page(page) + u64::from(slot) * bytes;
                return Ok(taken.then_some(Extent { at, bytes, purpose: Some(purpose) }));
            }
            Use::Run(_) | Use::Slots(..) => return Ok(None),
        }
    }
    Ok(None)
}

fn read(access: &mut dyn Access, layout: &Layout, page: u64) -> Result<Use> {
    let entry = layout.entry(page);
    Use::from_word(access.read_word(entry)?)
        .ok_or_else(|| Error::corrupt("page-table entry that cannot be", entry))
}
