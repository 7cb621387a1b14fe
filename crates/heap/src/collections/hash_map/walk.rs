//! Walks over the whole table.

use super::table::{BlockHead, Table};
use crate::collections::Visit;
use crate::collections::compact::move_block;
use crate::collections::form::mix;
use crate::{Error, Result, Tx};

/// Buckets tried at random; after them the next one with an entry is taken.
const TRIES: u64 = 64;

impl Table {
    /// Calls `each` with the address of every entry.
    pub(in crate::collections) fn walk<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        each: &mut dyn FnMut(&mut T, u64) -> Result<()>,
    ) -> Result<()> {
        for bucket in 0..self.buckets {
            for at in self.entries(tx, bucket)? {
                each(tx, at)?;
            }
        }
        Ok(())
    }

    /// Moves a bucket's blocks other than the first, and the blocks that its entries own, out of pages that are to be
    /// emptied; calls `each` with the address of every value.
    pub(super) fn compact_blocks<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        bucket: u64,
        each: &mut dyn FnMut(&mut T, u64) -> Result<()>,
    ) -> Result<()> {
        if bucket == 0 {
            self.compact_lanes(tx)?;
        }
        let mut before: Option<(u64, BlockHead)> = None;
        for (block, meta) in self.chain(tx, bucket)? {
            let mut at = block;
            if let Some((before, meta)) = before {
                at = move_block(tx, block).map_err(Error::in_pool)?;
                if at != block {
                    tx.write_word(before, BlockHead { next: at, ..meta }.word())?;
                }
            }
            for slot in (0..self.shape.slots).filter(|slot| meta.used >> slot & 1 == 1) {
                let key = self.slot(at, slot);
                let value = key + self.shape.key.bytes();
                self.shape.key.compact(tx, key)?;
                self.shape.value.compact(tx, value)?;
                each(tx, value)?;
            }
            before = Some((at, meta));
        }
        Ok(())
    }

    /// As [`compact_blocks`](Self::compact_blocks), in the buckets from `cursor` on, as long as there is `budget`, of
    /// which each takes 1. Returns the cursor to go on with.
    pub(in crate::collections) fn compact_some<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        cursor: u64,
        budget: &mut u64,
    ) -> Result<u64> {
        let mut cursor = cursor;
        if cursor == 0 {
            self.segments().compact(tx, self.buckets, true)?;
        }
        while *budget > 0 {
            *budget -= 1;
            let bucket = self.bucket(cursor);
            self.compact_blocks(tx, bucket, &mut |_, _| Ok(()))?;
            cursor = self.after(cursor, bucket);
            if cursor == 0 {
                break;
            }
        }
        Ok(cursor)
    }

    /// Counts the entries.
    pub(super) fn walk_len<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<u64> {
        let mut count = 0;
        for bucket in 0..self.buckets {
            let chain = self.chain(tx, bucket)?;
            count += chain.iter().map(|(_, meta)| u64::from(meta.used.count_ones())).sum::<u64>();
        }
        Ok(count)
    }

    /// Looks for an entry.
    pub(super) fn walk_is_empty<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<bool> {
        for bucket in 0..self.buckets {
            let block = self.block(tx, bucket)?;
            if self.meta(tx, block)?.used != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The address of an entry that `seed` chooses.
    pub(super) fn random<T: Tx + ?Sized>(&self, tx: &mut T, seed: u64) -> Result<Option<u64>> {
        let start = mix(seed, 0) % self.buckets;
        let tries = (0..TRIES).map(|turn| mix(seed, turn) % self.buckets);
        let rest = (0..self.buckets).map(|step| (start + step) % self.buckets);
        for bucket in tries.chain(rest) {
            let entries = self.entries(tx, bucket)?;
            if !entries.is_empty() {
                let chosen = mix(seed, !bucket) % entries.len() as u64;
                return Ok(Some(entries[chosen as usize]));
            }
        }
        Ok(None)
    }

    /// Checks everything, and reports the blocks.
    pub(crate) fn check<T: Tx + ?Sized>(&self, tx: &mut T, visit: &mut Visit<'_>) -> Result<()> {
        visit(self.at)?;
        if let Some(lanes) = self.lanes(tx)? {
            visit(lanes)?;
        }
        self.segments().check(tx, self.buckets, visit)?;
        let mut count = 0;
        for bucket in 0..self.buckets {
            count += self.check_bucket(tx, bucket, visit)?;
        }
        if self.counted(tx)?.is_some_and(|counted| counted != count) {
            return Err(Error::corrupt("a hash map's count", self.at));
        }
        Ok(())
    }

    fn check_bucket<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        bucket: u64,
        visit: &mut Visit<'_>,
    ) -> Result<u64> {
        let chain = self.chain(tx, bucket)?;
        for (index, (block, meta)) in chain.iter().enumerate() {
            if index > 0 {
                visit(*block)?;
            }
            let last = index + 1 == chain.len();
            if !last && !self.full(meta.used) || index > 0 && meta.used == 0 {
                return Err(Error::corrupt("a hole in a hash map's chain", *block));
            }
        }
        let entries = self.entries(tx, bucket)?;
        for at in &entries {
            self.shape.key.check(tx, *at, visit)?;
            self.shape.value.check(tx, *at + self.shape.key.bytes(), visit)?;
            let hash = self.hash(tx, *at)?;
            if self.bucket(hash) != bucket {
                return Err(Error::corrupt("an entry in the wrong bucket", *at));
            }
        }
        Ok(entries.len() as u64)
    }
}
