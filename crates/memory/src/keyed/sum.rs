//! The summers: the widest instructions that this processor has, chosen at run time.

use super::mix::{COLUMN_KEYS, DIAGONAL_KEYS, ROW_KEYS, mix, unmix};
#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx512};
use super::vector::{Backend, Part, Portable};
use super::{Block, LANES};

/// An implementation of the sums. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summer(SummerKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SummerKind {
    Portable(Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// Calls the given backend method on the backend of a kind.
macro_rules! with {
    ($summer:expr, $backend:ident => $call:expr) => {
        match $summer.0 {
            SummerKind::Portable($backend) => $call,
            #[cfg(target_arch = "x86_64")]
            SummerKind::Avx2($backend) => $call,
            #[cfg(target_arch = "x86_64")]
            SummerKind::Avx512($backend) => $call,
        }
    };
}

/// What a sum runs along. A block is in one sum of each kind that its matrix has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Along {
    /// A column: the consistency checksum. Its blocks are keyed by their row.
    Column,
    /// A row, which may be slanted: the correlation checksum. Its blocks are keyed by their column.
    Row,
    /// A diagonal: not in the paper. Its blocks are keyed by their row.
    Diagonal,
}

impl Along {
    /// The keys of the blocks of such a sum, lane by lane.
    #[inline(always)]
    fn keys(self, row: usize, column: usize) -> &'static Block {
        match self {
            Along::Column => &ROW_KEYS[row],
            Along::Row => &COLUMN_KEYS[column],
            Along::Diagonal => &DIAGONAL_KEYS[row],
        }
    }

    /// What a lane's word adds to the sum, at this row and column.
    #[inline]
    pub fn term(self, row: usize, column: usize, lane: usize, word: u64) -> u64 {
        mix(word ^ self.keys(row, column)[lane])
    }

    /// The word whose term is `term`: the paper's equation 1, for one lane.
    #[inline]
    pub fn word(self, row: usize, column: usize, lane: usize, term: u64) -> u64 {
        unmix(term) ^ self.keys(row, column)[lane]
    }
}

impl Summer {
    /// The widest that this processor supports.
    #[inline]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(backend) = Avx512::new() {
            return Summer(SummerKind::Avx512(backend));
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(backend) = Avx2::new() {
            return Summer(SummerKind::Avx2(backend));
        }
        Summer(SummerKind::Portable(Portable))
    }

    /// All that this processor supports, the portable one first.
    pub fn all() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut all = vec![Summer(SummerKind::Portable(Portable))];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(Avx2::new().map(|backend| Summer(SummerKind::Avx2(backend))));
            all.extend(Avx512::new().map(|backend| Summer(SummerKind::Avx512(backend))));
        }
        all
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self.0 {
            SummerKind::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            SummerKind::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            SummerKind::Avx512(_) => "AVX-512DQ",
        }
    }

    /// Adds blocks of column `column` to sums: those whose rows are in the bitmap `down` to the
    /// column's sum `consistency`, and those in `across` to their rows' sums, `correlation[row]`.
    /// `blocks[row]` need hold a block only where one of the bitmaps has its row.
    ///
    /// # Panics
    /// If a bitmap has a row that `blocks` or `correlation` has not, or `column` is beyond
    /// [`MOST`](super::mix::MOST).
    #[inline]
    pub fn add_column(
        self,
        column: usize,
        blocks: &[Block],
        (down, across): (u64, u64),
        consistency: &mut Block,
        correlation: &mut [Block],
    ) {
        let part = Part { column, blocks, down, across };
        with!(self, backend => backend.column(part, consistency, correlation));
    }

    /// Changes a sum by the difference that a block's new contents make.
    ///
    /// # Panics
    /// If `row` or `column` is beyond [`MOST`](super::mix::MOST).
    #[inline]
    pub fn replace(
        self,
        along: Along,
        (row, column): (usize, usize),
        sum: &mut Block,
        old: &Block,
        new: &Block,
    ) {
        let key = along.keys(row, column);
        with!(self, backend => backend.replace(sum, key, old, new));
    }

    /// What a block adds to a sum, lane by lane.
    ///
    /// # Panics
    /// If `row` or `column` is beyond [`MOST`](super::mix::MOST).
    #[inline]
    pub fn term(self, along: Along, (row, column): (usize, usize), block: &Block) -> Block {
        let mut term = [0; LANES];
        let key = along.keys(row, column);
        with!(self, backend => backend.term(block, key, &mut term));
        term
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::mix::MOST;
    use crate::random::SplitMix64;

    fn block(random: &mut SplitMix64) -> Block {
        std::array::from_fn(|_| match random.below(4) {
            0 => 0,
            1 => !0,
            2 => random.below(100),
            _ => random.next(),
        })
    }

    /// Runs every backend against the definition, word by word.
    #[test]
    fn every_backend_gives_the_defined_sums() {
        let seed = 7;
        let mut random = SplitMix64::new(seed);
        for turn in 0..300 {
            let rows = 1 + random.below(MOST as u64) as usize;
            let column = random.below(MOST as u64) as usize;
            let blocks: Vec<Block> = (0..rows).map(|_| block(&mut random)).collect();
            let some = u64::MAX >> (64 - rows);
            let (down, across) = (random.next() & some, random.next() & some);
            let start: Vec<Block> = (0..=rows).map(|_| block(&mut random)).collect();

            let mut expected = start.clone();
            for row in 0..rows {
                for lane in 0..LANES {
                    let word = blocks[row][lane];
                    let add = |sum: &mut Block, term: u64| sum[lane] = sum[lane].wrapping_add(term);
                    if down >> row & 1 != 0 {
                        add(&mut expected[rows], Along::Column.term(row, column, lane, word));
                    }
                    if across >> row & 1 != 0 {
                        add(&mut expected[row], Along::Row.term(row, column, lane, word));
                    }
                }
            }
            for summer in Summer::all() {
                let mut sums = start.clone();
                let (correlation, consistency) = sums.split_at_mut(rows);
                let bits = (down, across);
                summer.add_column(column, &blocks, bits, &mut consistency[0], correlation);
                assert_eq!(sums, expected, "{}, seed {seed}, turn {turn}", summer.name());
            }
        }
    }

    #[test]
    fn every_backend_replaces_by_difference() {
        let mut random = SplitMix64::new(8);
        for _ in 0..1000 {
            let at = (random.below(64) as usize, random.below(64) as usize);
            let (old, new) = (block(&mut random), block(&mut random));
            let before = block(&mut random);
            for along in [Along::Column, Along::Row, Along::Diagonal] {
                let term = |lane: usize, of: &Block| along.term(at.0, at.1, lane, of[lane]);
                let expected: Block = std::array::from_fn(|lane| {
                    before[lane].wrapping_add(term(lane, &new)).wrapping_sub(term(lane, &old))
                });
                for summer in Summer::all() {
                    let mut sum = before;
                    summer.replace(along, at, &mut sum, &old, &new);
                    assert_eq!(sum, expected, "{}", summer.name());
                    let lanes: Block = std::array::from_fn(|lane| term(lane, &new));
                    assert_eq!(summer.term(along, at, &new), lanes, "{}", summer.name());
                }
            }
        }
    }

    #[test]
    fn a_word_is_solved_for() {
        let mut random = SplitMix64::new(9);
        for _ in 0..1000 {
            let (row, column) = (random.below(64) as usize, random.below(64) as usize);
            let (lane, word) = (random.below(8) as usize, random.next());
            for along in [Along::Column, Along::Row, Along::Diagonal] {
                let term = along.term(row, column, lane, word);
                assert_eq!(along.word(row, column, lane, term), word);
            }
        }
    }
}
