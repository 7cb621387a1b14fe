//! Where a transaction may write words without further checks.

use crate::Sums;
use perdura_memory::{Memory, WORD};

/// Words that may be written at once: behind those whose pages have sums, which change with them.
pub(crate) struct Writable {
    /// The end of the pages that have sums.
    summed: u64,
    /// Nothing before it is written at once.
    floor: u64,
    /// The first word.
    from: u64,
    /// How many: 0 unless the transaction may write.
    words: u64,
    /// Whether the transaction has written to a page that has a sum.
    changes_sums: bool,
}

impl Writable {
    /// Of no transaction, on a memory that may have sums.
    pub(crate) fn new(sums: Option<&Sums>) -> Self {
        let summed = sums.map_or(0, |sums| sums.places().end);
        Writable { summed, floor: 0, from: summed, words: 0, changes_sums: false }
    }

    /// Nothing before `floor`, a multiple of 8, is written at once from here on.
    pub(crate) fn set_floor(&mut self, floor: u64) {
        self.floor = floor;
        self.from = self.summed.max(floor);
    }

    /// A transaction that writes begins.
    #[inline(always)]
    pub(crate) fn begin<M: Memory>(&mut self, memory: &M) {
        self.words = memory.len().saturating_sub(self.from) / WORD;
    }

    /// The transaction is over.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        self.words = 0;
        // Tested first: a store costs more, behind the fence of a commit.
        if self.changes_sums {
            self.changes_sums = false;
            self.from = self.summed.max(self.floor);
        }
    }

    /// Whether `at` is one of these words.
    #[inline(always)]
    pub(crate) fn has(&self, at: u64) -> bool {
        // A misaligned offset becomes a large number.
        at.wrapping_sub(self.from).rotate_right(WORD.ilog2()) < self.words
    }

    /// The transaction, which may, writes at `at`, perhaps to a page that has a sum, or in memory that has grown since it
    /// began.
    pub(crate) fn include<M: Memory>(&mut self, memory: &M, at: u64) {
        if at < self.summed {
            self.changes_sums = true;
            self.from = self.floor;
        }
        self.begin(memory);
    }

    /// Whether the transaction has written to a page that has a sum.
    #[inline(always)]
    pub(crate) fn changes_sums(&self) -> bool {
        self.changes_sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    #[test]
    fn words_are_aligned_inside_and_behind_the_sums() {
        let ram = Ram::new(4096);
        for summed in [0, 1024] {
            let mut writable = Writable { summed, ..Writable::new(None) };
            writable.set_floor(0);
            assert!((0..8192).all(|at| !writable.has(at)));
            writable.begin(&ram);
            let has = |writable: &Writable, from: u64| {
                (0..8192).all(|at| {
                    writable.has(at) == (at.is_multiple_of(8) && (from..4096).contains(&at))
                })
            };
            assert!(
                has(&writable, summed)
                    && !writable.has(u64::MAX)
                    && !writable.has(8_u64.wrapping_neg())
            );
            writable.include(&ram, 2048);
            assert!(has(&writable, summed) && !writable.changes_sums());
            if summed > 0 {
                writable.include(&ram, 8);
                assert!(has(&writable, 0) && writable.changes_sums());
            }
            writable.end();
            assert!((0..8192).all(|at| !writable.has(at)) && !writable.changes_sums());
        }
    }
}
