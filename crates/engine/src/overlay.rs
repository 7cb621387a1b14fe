//! Committed words that are not in the memory yet, as every read looks for them.

use crate::writes::{LineWrite, WriteSet};
use perdura_memory::{LINE, line_of};

/// Words of the filter.
const WORDS: usize = 64;

/// Which lines a write set may have: one bit for each of 4096 hashes, where the set's own filter
/// has 64 and is meant for a single transaction.
pub struct LineFilter(Box<[u64; WORDS]>);

impl Default for LineFilter {
    fn default() -> Self {
        LineFilter(Box::new([0; WORDS]))
    }
}

impl LineFilter {
    #[inline(always)]
    fn place(line: u64) -> (usize, u64) {
        let hash = (line / LINE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
        ((hash / 64) as usize, 1 << (hash % 64))
    }

    /// Adds the lines of a write set.
    pub(crate) fn add(&mut self, writes: &WriteSet) {
        for entry in writes.entries() {
            let (word, bit) = Self::place(entry.line);
            self.0[word] |= bit;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    #[inline(always)]
    fn may_have(&self, line: u64) -> bool {
        let (word, bit) = Self::place(line);
        self.0[word] & bit != 0
    }
}

/// A write set and its filter.
#[derive(Clone, Copy)]
pub struct Overlay<'a> {
    writes: &'a WriteSet,
    filter: &'a LineFilter,
}

impl<'a> Overlay<'a> {
    /// The words of `writes`, all of whose lines are in `filter`; `None` if there are none.
    #[inline(always)]
    pub(crate) fn of(writes: &'a WriteSet, filter: &'a LineFilter) -> Option<Self> {
        (!writes.is_empty()).then_some(Overlay { writes, filter })
    }

    /// The words of a line, if there are any.
    #[inline(always)]
    pub(crate) fn line(&self, line: u64) -> Option<&'a LineWrite> {
        if self.filter.may_have(line) { self.writes.line(line) } else { None }
    }

    /// The word at `at`, a multiple of 8.
    #[inline(always)]
    pub(crate) fn get(&self, at: u64) -> Option<u64> {
        if self.filter.may_have(line_of(at)) { self.writes.get(at) } else { None }
    }
}
