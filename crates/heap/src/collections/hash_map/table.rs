//! The hash table without its types: buckets, chains, and the order of hashes.
//!
//! The header is one line: tag, seed, number of buckets, number of entries (0 if they are not counted; see `count` for
//! large maps), and the directory of segments, whose elements are the buckets. A bucket has the least number of lines
//! that hold a word and four entries; entries lie in as few lines as possible, where that costs no slot. Its word is
//! `0x6B << 56 | overflow / 64 << 16 | occupied slots`; an overflow block looks like a bucket.
//!
//! Linear hashing: of `n` buckets, with `2^l <= n < 2^(l + 1)`, an entry is in the bucket that
//! the low `l + 1` bits of its hash name, or, if there is none yet, the low `l` bits.
//!
//! Invariants: in a bucket's chain, only the last block has free slots, and no overflow block is empty.

use crate::collections::form::{Form, update_word};
use crate::collections::segments::Segments;
use crate::{Error, Purpose, Result, Tx};

pub(super) const SEED: u64 = 8;
pub(super) const BUCKETS: u64 = 16;
pub(super) const COUNT: u64 = 24;
/// The flag in the tag of a map that counts its entries.
pub(super) const COUNTED: u64 = 1;
/// The flag in the tag of a map that counts its entries in lanes.
pub(super) const LANED: u64 = 2;
const HEADER: usize = 64;
const MARK: u64 = 0x6B;
/// A block has room for at least this many entries: with fewer, too many buckets overflow.
const LEAST_SLOTS: u64 = 4;
/// The longest chain that is believed; no seed makes one so long.
const MAX_CHAIN: usize = 1 << 16;
/// Bytes of a block that are fetched before it is searched.
const MOST_FETCHED: u64 = 256;
/// Largest bucket number that is believed.
const MAX_BUCKETS: u64 = 1 << 40;

/// How a map counts its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Not at all.
    No,
    /// With one count.
    One,
    /// In lanes.
    Lanes,
}

impl Counting {
    /// According to a tag's flags.
    pub(super) const fn of(flags: u64) -> Self {
        match flags & (COUNTED | LANED) {
            0 => Counting::No,
            COUNTED => Counting::One,
            _ => Counting::Lanes,
        }
    }
}

/// How entries and buckets are laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(super) key: Form,
    pub(super) value: Form,
    /// Bytes of an entry.
    pub(super) entry: u64,
    /// Entries in a block.
    pub(super) slots: u64,
    /// Bytes of a block.
    pub(super) block: u64,
    /// Offset of the first slot.
    start: u64,
    /// Bytes from one slot to the next.
    pitch: u64,
}

impl Shape {
    /// The shape of a map with keys and values of these forms.
    pub(super) const fn of(key: Form, value: Form) -> Self {
        let words = (key.words + value.words) as u64;
        let words = if words == 0 { 1 } else { words };
        let lines = (1 + LEAST_SLOTS * words).div_ceil(8);
        let (entry, block, slots) = (words * 8, lines * 64, (lines * 8 - 1) / words);
        let edge = if entry < 64 { entry } else { 64 };
        let (start, pitch) = if entry < 64 && slots <= lines {
            (8, 64)
        } else if entry.is_power_of_two() && edge + slots * entry <= block {
            (edge, entry)
        } else {
            (8, entry)
        };
        Shape { key, value, entry, slots, block, start, pitch }
    }

    /// Sixths of the slots that may be used. Where entries are large, one more bucket takes more memory than the
    /// overflow blocks that it saves. Five entries of 48 bytes in four lines take, in the mean of a doubling, 69 bytes
    /// each with seven sixths, 73 with six, and 88 with four.
    pub(super) const fn fullest(&self) -> u64 {
        match self.slots {
            0..=LEAST_SLOTS => 5,
            5 if self.entry >= 48 => 7,
            _ => 4,
        }
    }
}

/// A block's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHead {
    /// A bit for each occupied slot.
    pub(super) used: u64,
    /// The next block of the chain, or 0.
    pub(super) next: u64,
}

impl BlockHead {
    pub(super) const EMPTY: BlockHead = BlockHead { used: 0, next: 0 };

    pub(super) const fn word(self) -> u64 {
        MARK << 56 | self.next >> 6 << 16 | self.used
    }
}

/// A table, as its header describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(super) at: u64,
    pub(super) shape: Shape,
    pub(super) counting: Counting,
    pub(super) buckets: u64,
}

impl Table {
    /// Creates an empty table. Returns the offset of its header.
    pub(super) fn create<T: Tx + ?Sized>(
        tx: &mut T,
        tag: u64,
        seed: u64,
        shape: Shape,
    ) -> Result<u64> {
        let header = tx.allocate(Purpose::General, HEADER as u64)?;
        let words = [tag, seed, 1, 0, 0, 0, 0, 0];
        tx.write_fresh(header, 0, bytemuck::bytes_of(&words))?;
        let table = Table::open(tx, header.at(), shape, Counting::No)?;
        table.segments().reserve(tx, 0)?;
        let block = table.block(tx, 0)?;
        tx.write_word(block, BlockHead::EMPTY.word())?;
        Ok(header.at())
    }

    /// Reads the header at `at`, whose tag has been checked.
    #[inline]
    pub(super) fn open<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        shape: Shape,
        counting: Counting,
    ) -> Result<Self> {
        let buckets = tx.read_word(at + BUCKETS)?;
        Table::with(at, shape, counting, buckets)
    }

    /// The table whose header at `at` has been read.
    #[inline]
    pub(super) fn with(at: u64, shape: Shape, counting: Counting, buckets: u64) -> Result<Self> {
        if buckets == 0 || buckets > MAX_BUCKETS {
            return Err(Error::corrupt("a hash map's number of buckets", at));
        }
        Ok(Table { at, shape, counting, buckets })
    }

    #[inline]
    pub(super) const fn segments(&self) -> Segments {
        Segments::new(self.at, self.shape.block)
    }

    /// The number of hash bits that all buckets use.
    #[inline]
    pub(super) const fn level(&self) -> u32 {
        self.buckets.ilog2()
    }

    /// The bucket of a hash.
    #[inline]
    pub(super) const fn bucket(&self, hash: u64) -> u64 {
        let half = 1 << self.level();
        let bucket = hash & (2 * half - 1);
        if bucket < self.buckets { bucket } else { hash & (half - 1) }
    }

    /// The number of hash bits that a bucket uses.
    pub(super) const fn depth(&self, bucket: u64) -> u32 {
        let half = 1 << self.level();
        let split = bucket >= half || bucket < self.buckets - half;
        if split { self.level() + 1 } else { self.level() }
    }

    /// The bucket after `bucket` in the order of reversed hashes; 0 after the last. The order does not depend on the
    /// number of buckets: entries keep their places when buckets split and merge.
    pub(super) const fn after(&self, cursor: u64, bucket: u64) -> u64 {
        let depth = self.depth(bucket);
        if depth == 0 {
            return 0;
        }
        let place = cursor.reverse_bits() >> (64 - depth);
        if place + 1 == 1 << depth { 0 } else { ((place + 1) << (64 - depth)).reverse_bits() }
    }

    /// The address of a bucket's first block.
    #[inline(always)]
    pub(super) fn block<T: Tx + ?Sized>(&self, tx: &mut T, bucket: u64) -> Result<u64> {
        self.segments().address(tx, bucket)
    }

    /// Has the lines of a block that follow its first one fetched, if they are few: they are waited for at once with that.
    #[inline(always)]
    pub(super) fn fetch<T: Tx + ?Sized>(&self, tx: &mut T, block: u64) {
        for line in (64..self.shape.block.min(MOST_FETCHED)).step_by(64) {
            tx.prefetch(block.wrapping_add(line));
        }
    }

    /// The address of a slot of a block.
    #[inline]
    pub(super) const fn slot(&self, block: u64, slot: u64) -> u64 {
        block + self.shape.start + slot * self.shape.pitch
    }

    /// A block's first word.
    #[inline(always)]
    pub(super) fn meta<T: Tx + ?Sized>(&self, tx: &mut T, block: u64) -> Result<BlockHead> {
        let word = tx.read_word(block).map_err(Error::in_pool)?;
        let used = word & 0xFFFF;
        if word >> 56 != MARK || used >> self.shape.slots != 0 {
            return Err(Error::corrupt("a hash map's bucket", block));
        }
        Ok(BlockHead { used, next: (word >> 16 & ((1 << 40) - 1)) << 6 })
    }

    pub(super) const fn full(&self, used: u64) -> bool {
        used == (1 << self.shape.slots) - 1
    }

    /// The blocks of a bucket's chain.
    pub(super) fn chain<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        bucket: u64,
    ) -> Result<Vec<(u64, BlockHead)>> {
        let mut chain = Vec::with_capacity(2);
        let mut block = self.block(tx, bucket)?;
        loop {
            let meta = self.meta(tx, block)?;
            chain.push((block, meta));
            if meta.next == 0 {
                return Ok(chain);
            }
            if chain.len() > MAX_CHAIN {
                return Err(Error::corrupt("a hash map's chain without end", block));
            }
            block = meta.next;
        }
    }

    /// The addresses of a bucket's entries.
    pub(super) fn entries<T: Tx + ?Sized>(&self, tx: &mut T, bucket: u64) -> Result<Vec<u64>> {
        let chain = self.chain(tx, bucket)?;
        let slots = 0..self.shape.slots;
        let all = chain.iter().flat_map(|block| slots.clone().map(move |slot| (block, slot)));
        let used = all.filter(|((_, meta), slot)| meta.used >> slot & 1 == 1);
        Ok(used.map(|((block, _), slot)| self.slot(*block, slot)).collect())
    }

    /// The hash of the entry at `at`.
    pub(super) fn hash<T: Tx + ?Sized>(&self, tx: &mut T, at: u64) -> Result<u64> {
        let seed = tx.read_word(self.at + SEED)?;
        self.shape.key.hash(tx, at, seed)
    }

    /// Takes a free slot at the end of the chain whose last block is `last`, and marks it as used.
    pub(super) fn take_slot<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        last: u64,
        meta: BlockHead,
    ) -> Result<u64> {
        if !self.full(meta.used) {
            let slot = u64::from(meta.used.trailing_ones());
            tx.write_word(last, BlockHead { used: meta.used | 1 << slot, ..meta }.word())?;
            return Ok(self.slot(last, slot));
        }
        let next = tx.allocate(Purpose::General, self.shape.block)?.at();
        // Not written as fresh memory, because the entry is not: both are in one line, written back once.
        tx.write_word(next, BlockHead { used: 1, next: 0 }.word())?;
        tx.write_word(last, BlockHead { next, ..meta }.word())?;
        Ok(self.slot(next, 0))
    }

    /// Copies the words of an entry that differ.
    pub(super) fn copy<T: Tx + ?Sized>(&self, tx: &mut T, from: u64, to: u64) -> Result<()> {
        for word in (0..self.shape.entry).step_by(8) {
            let value = tx.read_word(from + word)?;
            update_word(tx, to + word, value)?;
        }
        Ok(())
    }

    /// Frees the memory that the entry at `at` owns.
    pub(super) fn release<T: Tx + ?Sized>(&self, tx: &mut T, at: u64) -> Result<()> {
        self.shape.key.release(tx, at)?;
        self.shape.value.release(tx, at + self.shape.key.bytes())
    }

    /// Fills the chain's holes with its last entries, and frees the blocks left empty.
    pub(super) fn compact<T: Tx + ?Sized>(&self, tx: &mut T, bucket: u64) -> Result<()> {
        let mut chain = self.chain(tx, bucket)?;
        let before = chain.clone();
        let mut hole = 0;
        while chain.len() > 1 {
            let (last, used) = (chain.len() - 1, chain[chain.len() - 1].1.used);
            if used == 0 {
                tx.free(chain[last].0).map_err(Error::in_pool)?;
                chain.pop();
                chain[last - 1].1.next = 0;
                continue;
            }
            while hole < last && self.full(chain[hole].1.used) {
                hole += 1;
            }
            if hole == last {
                break;
            }
            let from = u64::from(used.ilog2());
            let to = u64::from(chain[hole].1.used.trailing_ones());
            self.copy(tx, self.slot(chain[last].0, from), self.slot(chain[hole].0, to))?;
            chain[last].1.used &= !(1 << from);
            chain[hole].1.used |= 1 << to;
        }
        for ((block, meta), (_, old)) in chain.iter().zip(&before) {
            if meta != old {
                tx.write_word(*block, meta.word())?;
            }
        }
        Ok(())
    }
}
