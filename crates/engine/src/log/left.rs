//! Stores that a dead process left: visible, but only partly durable.
//!
//! A dead process leaves its last writes in the page cache, or in the processor's caches. Recovery reads them as if
//! they were durable; so before it stores anything, it makes durable what it relies on. After a sync that failed it is
//! the same, except that pages in the page cache count as clean: what is relied on is written again, and not only
//! synced.
//!
//! What always holds: no word is stored in place, and no record made dead, because of a record, a checkpoint or a
//! commit record that a power cut can still take back.
//!
//! Words in place need none of this: each is durable, or protected by a record that recovery takes, and so stores
//! again.

use super::area::Geometry;
use super::record::FoundRecord;
use crate::Result;
use perdura_memory::Memory;
use std::ops::Range;

/// Makes the log's front and these records durable, as they are.
///
/// # Errors
/// `Io` when the medium failed.
pub(crate) fn make_durable<M: Memory>(
    memory: &M,
    geometry: &Geometry,
    whole: &[Vec<FoundRecord>],
) -> Result<()> {
    geometry.write_back_front(memory);
    for record in whole.iter().flatten() {
        let Range { start, end } = record.range();
        memory.write_back(start, end - start);
    }
    memory.fence();
    Ok(memory.check_fence()?)
}
