//! The memory that a transaction may write: allocated blocks that are not the library's own.
//!
//! The heap takes any offset in its pages, since its callers got theirs from the heap. C can pass
//! any number: a stray offset must not reach another object's bytes through the end of its own, a
//! named root's entry, a collection's header, or free memory. For the log and the page table the
//! error says more.

use crate::codes::*;
use crate::fail::{Fail, Result};
use crate::types::PERDURA_FIRST_KIND;
use perdura::{Extent, Fresh, Tx, roots};

/// The named roots, as of some count of changes to them.
#[derive(Default)]
pub(crate) struct Catalogue {
    changes: u64,
    /// The library's own blocks, in order: the roots' entries, and the collections' headers.
    blocks: Vec<u64>,
    /// The collections with a name: offset and kind.
    collections: Vec<(u64, u32)>,
}

impl Catalogue {
    /// Reads the roots again if they may have changed.
    pub(crate) fn renew(&mut self, tx: &mut dyn Tx, changes: u64) -> Result<()> {
        if self.changes == changes {
            return Ok(());
        }
        let all = roots::all(tx)?;
        let collections = all.iter().map(|named| (named.root.at, named.root.kind));
        self.collections = collections.filter(|&(_, kind)| kind < PERDURA_FIRST_KIND).collect();
        self.blocks = all.iter().map(|named| named.entry).collect();
        self.blocks.extend(self.collections.iter().map(|&(at, _)| at));
        self.blocks.sort_unstable();
        self.collections.sort_unstable();
        self.changes = changes;
        Ok(())
    }

    /// Whether a collection of this kind with a name is at `at`.
    pub(crate) fn has(
        &mut self,
        tx: &mut dyn Tx,
        changes: u64,
        at: u64,
        kind: u32,
    ) -> Result<bool> {
        self.renew(tx, changes)?;
        Ok(self.collections.binary_search(&(at, kind)).is_ok())
    }

    /// Forgets the roots that were read by a transaction that may not have seen the latest change, `began`
    /// being the count of changes when it began.
    pub(crate) fn leave(&mut self, began: u64) {
        if self.changes != began {
            self.changes = 0;
        }
    }
}

/// Known allocations in the transaction that is open.
#[derive(Default)]
pub(crate) struct Guard {
    /// The last one that was found to be the program's own.
    last: Option<Extent>,
    /// Allocated by the transaction, oldest first.
    fresh: Vec<(Extent, Fresh)>,
}

/// `[at, at + len)` must lie in a pool of `pool` bytes.
#[inline]
pub(crate) fn check_inside(pool: u64, at: u64, len: u64) -> Result<()> {
    if at.checked_add(len).is_some_and(|end| end <= pool) {
        return Ok(());
    }
    Err(offset(format!(
        "{len} bytes at offset {at:#x} are not in the pool, which has {pool}: pass an offset \
         that perdura_alloc or perdura_root_get gave"
    )))
}

/// A word's offset.
#[inline]
pub(crate) fn check_word(at: u64) -> Result<()> {
    if at.is_multiple_of(8) {
        return Ok(());
    }
    Err(offset(format!("the offset {at:#x} is not that of a word: pass a multiple of 8")))
}

impl Guard {
    /// The transaction has allocated this.
    pub(crate) fn allocated(&mut self, tx: &mut dyn Tx, fresh: Fresh) -> perdura::Result<()> {
        self.last = tx.extent(fresh.at())?;
        self.fresh.extend(self.last.map(|extent| (extent, fresh)));
        Ok(())
    }

    /// The transaction has freed the block that begins at `at`.
    pub(crate) fn freed(&mut self, at: u64) {
        self.last = None;
        self.fresh.retain(|(extent, _)| extent.at != at);
    }

    /// The library has allocated or freed blocks: blocks found before may not be there any more.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// `[at, at + len)` must lie in one allocation of the program's own.
    #[inline]
    pub(crate) fn check(
        &mut self,
        tx: &mut dyn Tx,
        catalogue: &mut Catalogue,
        changes: u64,
        at: u64,
        len: u64,
    ) -> Result<()> {
        if self.last.is_some_and(|last| last.contains(at, len)) {
            return Ok(());
        }
        let extent = own(tx, catalogue, changes, at)?;
        if !extent.contains(at, len) {
            let Extent { at: start, bytes, .. } = extent;
            return Err(offset(format!(
                "{len} bytes at offset {at:#x} run over the end of the object at {start:#x}, \
                 which has {bytes}: allocate a larger one"
            )));
        }
        self.last = Some(extent);
        Ok(())
    }

    /// The block of this transaction in which `[at, at + len)` lies.
    pub(crate) fn fresh(&self, at: u64, len: u64) -> Result<Fresh> {
        // The latest allocation is filled first.
        let mut all = self.fresh.iter().rev();
        if let Some((_, fresh)) = all.find(|(extent, _)| extent.contains(at, len)) {
            return Ok(*fresh);
        }
        Err(offset(format!(
            "{len} bytes at offset {at:#x} are not in an object that this transaction has \
             allocated: use perdura_write for them"
        )))
    }
}

/// The program's own allocation that holds `at`.
pub(crate) fn own(
    tx: &mut dyn Tx,
    catalogue: &mut Catalogue,
    changes: u64,
    at: u64,
) -> Result<Extent> {
    let Some(extent) = tx.extent(at)? else {
        return Err(offset(format!(
            "nothing is allocated at offset {at:#x}: it was freed, or never came from \
             perdura_alloc"
        )));
    };
    catalogue.renew(tx, changes)?;
    if catalogue.blocks.binary_search(&extent.at).is_ok() {
        return Err(offset(format!(
            "the offset {at:#x} is in a named root's entry or a collection's header, which is the \
             library's: pass an offset that perdura_alloc gave"
        )));
    }
    Ok(extent)
}

fn offset(message: String) -> Fail {
    Fail::new(PERDURA_ERR_OFFSET, message)
}
