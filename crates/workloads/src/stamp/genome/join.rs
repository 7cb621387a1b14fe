//! Entries, and the chains that they are joined to.
//!
//! Invariants: an entry that begins a chain knows the chain's last entry and its length; the last one knows
//! the first. Those in between know the next one only.

use super::gene::Segment;
use super::set::Set;
use crate::Computation;
use crate::stamp::block::word;
use crate::stamp::list::List;
use perdura::{Error, Purpose, Result, Tx};
use std::ops::Range;

/// Bytes of an entry: a line.
pub(super) const ENTRY: u64 = 64;
const SEGMENT: u64 = 0;
const BEGINS: u64 = 1;
const FIRST: u64 = 2;
const LAST: u64 = 3;
const NEXT: u64 = 4;
const OVERLAP: u64 = 5;
const LENGTH: u64 = 6;

/// The entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries {
    pub(super) at: u64,
    pub(super) count: u64,
}

impl Entries {
    /// `count` entries, each a chain of one, still without a segment.
    pub(super) fn create<T: Tx + ?Sized>(tx: &mut T, count: u64, segment_len: u64) -> Result<Self> {
        let new = tx.allocate(Purpose::General, count * ENTRY)?;
        let entries = Entries { at: new.at(), count };
        let one = |place| [0, 1, place, place, 0, 0, segment_len, 0];
        let words: Vec<u64> = (0..count).flat_map(|index| one(entries.place(index))).collect();
        tx.write_fresh(new, 0, bytemuck::cast_slice(&words))?;
        Ok(entries)
    }

    /// Where an entry is.
    pub(super) const fn place(self, index: u64) -> u64 {
        self.at + index * ENTRY
    }

    /// Gives the first entry without a segment, from `from` on, this one. Returns its index.
    pub(super) fn claim<T: Tx + ?Sized>(self, tx: &mut T, from: u64, segment: u64) -> Result<u64> {
        for step in 0..self.count {
            let index = (from + step) % self.count;
            let at = word(self.place(index), SEGMENT);
            if tx.read_word(at)? == 0 {
                tx.write_word(at, segment)?;
                return Ok(index);
            }
        }
        Err(Error::corrupt("more segments than a gene has", self.at))
    }

    /// The places and segments of those that have one.
    pub(super) fn taken<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        indices: Range<u64>,
        segment_len: u64,
    ) -> Result<Vec<(u64, Segment)>> {
        let mut taken = Vec::new();
        for index in indices {
            let at = self.place(index);
            match tx.read_word(word(at, SEGMENT))? {
                0 => {}
                node => taken.push((at, Set::segment(tx, node, segment_len)?)),
            }
        }
        Ok(taken)
    }

    /// The entries in a list whose segments begin with `beginning`, which has this hash.
    pub(super) fn beginning_with<T: Tx + ?Sized>(
        tx: &mut T,
        list: List,
        (beginning, hash): (Segment, u64),
        segment_len: u64,
        computation: &Computation,
    ) -> Result<Vec<u64>> {
        let (mut found, len) = (Vec::new(), beginning.len());
        list.each(tx, |tx, _, entry, its| {
            if its == hash {
                computation.charge(1);
                let node = tx.read_word(word(entry, SEGMENT))?;
                if Set::segment(tx, node, segment_len)?.beginning(len) == beginning {
                    found.push(entry);
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Appends the chain that begins with `other`, if there is one, to the chain that ends with `end`, unless they are
    /// the same. Returns whether it did.
    pub(super) fn join<T: Tx + ?Sized>(
        tx: &mut T,
        end: u64,
        other: u64,
        overlap: u64,
    ) -> Result<bool> {
        if tx.read_word(word(other, BEGINS))? == 0 {
            return Ok(false);
        }
        let first = tx.read_word(word(end, FIRST))?;
        if first == other {
            return Ok(false);
        }
        let last = tx.read_word(word(other, LAST))?;
        tx.write_word(word(other, BEGINS), 0)?;
        tx.write_word(word(last, FIRST), first)?;
        tx.write_word(word(first, LAST), last)?;
        tx.write_word(word(end, NEXT), other)?;
        tx.write_word(word(end, OVERLAP), overlap)?;
        let added = tx.read_word(word(other, LENGTH))?.wrapping_sub(overlap);
        let length = tx.read_word(word(first, LENGTH))?.wrapping_add(added);
        tx.write_word(word(first, LENGTH), length)?;
        Ok(true)
    }

    /// The nucleotides of all chains, one after the other. Each must be as long as it says.
    pub(super) fn chains<T: Tx + ?Sized>(self, tx: &mut T, segment_len: u64) -> Result<Vec<u8>> {
        let mut sequence = Vec::new();
        for index in 0..self.count {
            let first = self.place(index);
            let has = tx.read_word(word(first, SEGMENT))? != 0;
            if has && tx.read_word(word(first, BEGINS))? != 0 {
                self.chain(tx, first, segment_len, &mut sequence)?;
            }
        }
        Ok(sequence)
    }

    fn chain<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        first: u64,
        segment_len: u64,
        to: &mut Vec<u8>,
    ) -> Result<()> {
        let (before, mut at, mut overlap) = (to.len(), first, 0);
        for _ in 0..self.count {
            let node = tx.read_word(word(at, SEGMENT))?;
            to.extend(Set::segment(tx, node, segment_len)?.letters(overlap));
            let next = tx.read_word(word(at, NEXT))?;
            if next == 0 {
                let length = tx.read_word(word(first, LENGTH))?;
                if length != (to.len() - before) as u64 {
                    break;
                }
                return Ok(());
            }
            overlap = tx.read_word(word(at, OVERLAP))?;
            at = next;
        }
        Err(Error::corrupt("a chain that is not as long as it says", first))
    }
}
