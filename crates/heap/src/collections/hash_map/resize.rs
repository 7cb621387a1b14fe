//! How the table grows and shrinks: one bucket at a time, so that no operation waits for a
//! rehash.
//!
//! A counted table splits buckets when more than four sixths of the slots are used (or five or seven, where a bucket
//! has few slots and these are large), and merges some at one sixth or less. With one count it decides at each change,
//! and splits at most one bucket; with lanes only when the base has changed, and then splits or merges as many as are
//! due: so the number of buckets in the header, which all operations read, is written less often. A table that is not
//! counted decides when it has just needed an overflow block, or emptied a bucket, by the first blocks of four
//! buckets, which stand for all; four sixths of their slots correspond to the same load.

use super::count::STEP;
use super::table::{BUCKETS, BlockHead, Counting, Table};
use crate::collections::form::mix;
use crate::collections::tag::end;
use crate::{Error, Result, Tx};

/// Buckets sampled to estimate the load of all.
const SAMPLE: u64 = 4;
/// Merges by one removal: enough for buckets to disappear as fast as entries do.
const MERGES: u64 = 2;

impl Table {
    /// After an insertion: counts it, and splits a bucket if one is due.
    pub(super) fn inserted<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        hash: u64,
        overflowed: bool,
    ) -> Result<()> {
        if self.counting == Counting::No {
            let crowded = overflowed && over(self.sampled(tx, hash)?, 4, SAMPLE * self.shape.slots);
            return if crowded { self.split(tx) } else { Ok(()) };
        }
        let most = self.at_once();
        let Some(count) = self.count(tx, 1)? else { return Ok(()) };
        for _ in 0..most {
            let before = self.buckets;
            if !over(count, self.shape.fullest(), before * self.shape.slots) {
                break;
            }
            self.split(tx)?;
            if self.buckets == before {
                break;
            }
        }
        Ok(())
    }

    /// At most this many splits by one insertion.
    const fn at_once(&self) -> u64 {
        match self.counting {
            Counting::Lanes => STEP,
            Counting::No | Counting::One => 1,
        }
    }

    /// After a removal: counts it, and merges two buckets if a merge is due.
    pub(super) fn removed<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        hash: u64,
        emptied: bool,
    ) -> Result<()> {
        if self.counting == Counting::No {
            let sparse = emptied && !over(self.sampled(tx, hash)?, 1, SAMPLE * self.shape.slots);
            let merges = if sparse { MERGES.min(self.buckets - 1) } else { 0 };
            return (0..merges).try_for_each(|_| self.merge(tx));
        }
        let most = self.at_once() * MERGES;
        let Some(count) = self.count(tx, 1u64.wrapping_neg())? else { return Ok(()) };
        let mut merges = 0;
        while merges < most
            && self.buckets > 1
            // Two at a time, as with one count.
            && (merges % MERGES != 0 || !over(count, 1, self.buckets * self.shape.slots))
        {
            self.merge(tx)?;
            merges += 1;
        }
        Ok(())
    }

    /// The number of entries in the first blocks of a few buckets, chosen by a hash.
    fn sampled<T: Tx + ?Sized>(&self, tx: &mut T, hash: u64) -> Result<u64> {
        let first = mix(hash, 1);
        let mut count = 0;
        for step in 0..SAMPLE {
            let block = self.block(tx, self.bucket(first.wrapping_add(step)))?;
            count += u64::from(self.meta(tx, block)?.used.count_ones());
        }
        Ok(count)
    }

    /// Moves half of a bucket's entries to a new bucket, the last.
    fn split<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<()> {
        let half = 1 << self.level();
        let (old, new) = (self.buckets - half, self.buckets);
        // Without room for a new bucket, entries go to overflow blocks until there is some.
        if !self.segments().reserve_now(tx, new)? {
            return Ok(());
        }
        let mut to = (self.block(tx, new)?, BlockHead::EMPTY);
        tx.write_word(to.0, to.1.word())?;
        let (mut block, first) = (self.block(tx, old)?, self.block(tx, old)?);
        loop {
            let meta = self.meta(tx, block)?;
            let mut used = meta.used;
            for slot in 0..self.shape.slots {
                let from = self.slot(block, slot);
                if meta.used >> slot & 1 == 1 && self.hash(tx, from)? & half != 0 {
                    to = self.append(tx, to, from)?;
                    used &= !(1 << slot);
                }
            }
            if used != meta.used {
                tx.write_word(block, BlockHead { used, ..meta }.word())?;
            }
            if meta.next == 0 {
                break;
            }
            block = meta.next;
        }
        if block != first {
            self.compact(tx, old)?;
        }
        // The next bucket to be split is most often the one behind this.
        for line in (0..self.shape.block).step_by(64) {
            tx.prefetch(first.wrapping_add(self.shape.block + line));
        }
        self.set_buckets(tx, new + 1)
    }

    /// Copies an entry to the end of a chain, and returns the chain's end.
    fn append<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        (block, meta): (u64, BlockHead),
        from: u64,
    ) -> Result<(u64, BlockHead)> {
        let at = self.take_slot(tx, block, meta)?;
        self.copy(tx, from, at)?;
        let meta = self.meta(tx, block)?;
        if meta.next == 0 { Ok((block, meta)) } else { Ok((meta.next, self.meta(tx, meta.next)?)) }
    }

    /// Moves the last bucket's entries to the bucket that they came from.
    fn merge<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<()> {
        let last = self.buckets - 1;
        let buddy = last - (1 << last.ilog2());
        let from = self.chain(tx, last)?;
        let entries = self.entries(tx, last)?;
        let chain = self.chain(tx, buddy)?;
        let mut to = chain[chain.len() - 1];
        for at in entries {
            to = self.append(tx, to, at)?;
        }
        for (block, _) in &from[1..] {
            tx.free(*block).map_err(Error::in_pool)?;
        }
        self.set_buckets(tx, last)?;
        self.segments().shrunk(tx, last)
    }

    fn set_buckets<T: Tx + ?Sized>(&mut self, tx: &mut T, buckets: u64) -> Result<()> {
        self.buckets = buckets;
        tx.write_word(self.at + BUCKETS, buckets)
    }

    /// Frees a bucket's entries, and all of its chain but the first block. Returns the number of entries and blocks
    /// freed.
    fn empty<T: Tx + ?Sized>(&mut self, tx: &mut T, bucket: u64) -> Result<u64> {
        let entries = self.entries(tx, bucket)?;
        for at in &entries {
            self.release(tx, *at)?;
        }
        let chain = self.chain(tx, bucket)?;
        for (block, _) in &chain[1..] {
            tx.free(*block).map_err(Error::in_pool)?;
        }
        if !entries.is_empty() {
            self.count(tx, (entries.len() as u64).wrapping_neg())?;
        }
        Ok((entries.len() + chain.len()) as u64)
    }

    /// Frees the last buckets, about `budget` entries and blocks, but not the first bucket. Returns `true` when that
    /// is the only one left.
    fn drop_buckets<T: Tx + ?Sized>(&mut self, tx: &mut T, budget: u64) -> Result<bool> {
        let mut spent = 0;
        while self.buckets > 1 {
            if spent >= budget {
                return Ok(false);
            }
            spent += self.empty(tx, self.buckets - 1)?;
            self.set_buckets(tx, self.buckets - 1)?;
            self.segments().shrunk(tx, self.buckets)?;
        }
        Ok(true)
    }

    /// Removes all entries.
    pub(super) fn clear<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<()> {
        self.drop_buckets(tx, u64::MAX)?;
        self.segments().free_from(tx, 1, 1)?;
        self.empty(tx, 0)?;
        if self.counting == Counting::Lanes {
            self.end_lanes(tx)?;
        }
        let block = self.block(tx, 0)?;
        tx.write_word(block, BlockHead::EMPTY.word())
    }

    /// Removes about `budget` entries and blocks, from the last bucket on. Returns `true` when none is left. See
    /// [`HashMap::drain_some`](super::HashMap::drain_some).
    pub(super) fn drain_some<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        budget: u64,
        each: &mut dyn FnMut(&mut T, u64) -> Result<bool>,
    ) -> Result<bool> {
        let mut left = budget.max(1);
        loop {
            let last = self.buckets - 1;
            let mut chain = self.chain(tx, last)?;
            while let Some((block, meta)) = chain.pop() {
                let used = self.drain_block(tx, block, meta.used, &mut left, each)?;
                let stop = used != 0 || left == 0;
                match chain.last() {
                    Some((before, meta)) if used == 0 => {
                        tx.free(block).map_err(Error::in_pool)?;
                        left = left.saturating_sub(1);
                        if stop {
                            tx.write_word(*before, BlockHead { next: 0, ..*meta }.word())?;
                        }
                    }
                    // Entries that are dropped with their bucket need not be written.
                    _ if stop || last == 0 => {
                        tx.write_word(block, BlockHead { used, next: 0 }.word())?;
                    }
                    _ => {}
                }
                if stop && (used != 0 || last > 0 || !chain.is_empty()) {
                    return Ok(false);
                }
            }
            if last == 0 {
                return Ok(true);
            }
            self.set_buckets(tx, last)?;
            self.segments().shrunk(tx, last)?;
            left = left.saturating_sub(1);
        }
    }

    /// Removes entries of the last block of a chain, the last first. Returns the bitmap of the slots left.
    fn drain_block<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        block: u64,
        mut used: u64,
        left: &mut u64,
        each: &mut dyn FnMut(&mut T, u64) -> Result<bool>,
    ) -> Result<u64> {
        let mut removed = 0u64;
        while used != 0 && *left > 0 {
            let at = self.slot(block, u64::from(used.ilog2()));
            if !each(tx, at + self.shape.key.bytes())? {
                // The entry stays, and the call ends here.
                *left = 0;
                break;
            }
            self.release(tx, at)?;
            used &= !(1 << used.ilog2());
            removed += 1;
            *left -= 1;
        }
        if removed > 0 {
            self.count(tx, removed.wrapping_neg())?;
        }
        Ok(used)
    }

    /// Frees about `budget` entries and blocks. Returns `true` when everything is freed.
    pub(crate) fn destroy_some<T: Tx + ?Sized>(&mut self, tx: &mut T, budget: u64) -> Result<bool> {
        if !self.drop_buckets(tx, budget.max(1))? {
            return Ok(false);
        }
        self.empty(tx, 0)?;
        self.segments().free_from(tx, 1, 0)?;
        self.free_lanes(tx)?;
        end(tx, self.at)?;
        Ok(true)
    }
}

/// Whether `count` is more than `sixths` sixths of `slots`.
const fn over(count: u64, sixths: u64, slots: u64) -> bool {
    count > slots / 6 * sixths + slots % 6 * sixths / 6
}
