//! Correction: which blocks of a matrix are lost, and what they held (III-C, "Correlation
//! checksums to correct data inconsistency" and the analysis after it).
//!
//! Blocks are lost where a write-back was skipped and no eviction came before the power cut; the
//! sums themselves are taken to be durable, as one of two states. Each lane is solved apart: a
//! block that differs from what is durable in one word only leaves seven lanes alone.

use super::lane::Found;
use super::matrix::{Coverage, Matrix, Sums};
use super::search::{MOST_TRIES, Solver, Verdict};
use super::{Block, LANES};
use perdura_memory::keyed::Summer;
use std::collections::{BTreeMap, BTreeSet};

/// What else is known of the blocks of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Blocks that are known to be lost: they are solved for first. Whether one of them is right
    /// nevertheless does not matter.
    pub erased: Coverage,
    /// Blocks that a log has just restored, whole: what is there is right, whatever the sums say,
    /// which may be of what was there before. A row and a column that such a block had been part
    /// of vouch for the others only if they add up.
    pub logged: Coverage,
}

impl Known {
    /// Nothing.
    pub fn nothing(shape: super::Shape) -> Self {
        Known { erased: Coverage::none(shape), logged: Coverage::none(shape) }
    }
}

/// What a block should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    /// Its cell.
    pub cell: usize,
    /// Its contents.
    pub block: Block,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every row and column adds up.
    Consistent,
    /// Every row and column adds up with these blocks as they are here. Ascending.
    Corrected(Vec<Correction>),
    /// Some of these cells are lost, and no single way to restore them fits. Ascending. There are
    /// none where a sum itself must be damaged.
    Uncorrectable {
        /// The cells that may be lost.
        candidates: Vec<usize>,
    },
}

/// Finds lost blocks of a matrix and what they held. Changes nothing.
///
/// `sides` are the coverages before and after the change of the sums that may have been cut
/// short; the same twice, if there was none. Each lane of each sum may be of either.
///
/// # Panics
/// If the shapes differ.
pub fn correct(
    summer: Summer,
    matrix: &Matrix,
    sides: [&Coverage; 2],
    sums: &Sums,
    known: &Known,
) -> Outcome {
    for coverage in [sides[0], sides[1], &known.erased, &known.logged] {
        assert_eq!(matrix.shape(), coverage.shape(), "a coverage of another matrix");
    }
    let mut tries = MOST_TRIES;
    let mut restored: BTreeMap<usize, Block> = BTreeMap::new();
    let mut candidates = BTreeSet::new();
    let mut unsolved = false;
    let mut known = known.clone();
    for lane in doubtful_lanes(summer, matrix, sides[1], sums) {
        match Solver::new(found(lane, matrix, sides, sums, &known), &mut tries).solve() {
            Verdict::Solved(words) => {
                for (cell, word) in words {
                    restored.entry(cell).or_insert(matrix.blocks()[cell])[lane] = word;
                    // What one lane has lost, the others may have lost too.
                    known.erased.insert(cell);
                }
            }
            Verdict::Unsolved(cells) => {
                unsolved = true;
                candidates.extend(cells);
                // All or nothing: no long search for what will not be corrected.
                tries = 0;
            }
        }
    }
    if unsolved {
        candidates.extend(restored.into_keys());
        Outcome::Uncorrectable { candidates: candidates.into_iter().collect() }
    } else if restored.is_empty() {
        Outcome::Consistent
    } else {
        let corrections = restored.into_iter().map(|(cell, block)| Correction { cell, block });
        Outcome::Corrected(corrections.collect())
    }
}

/// Lanes in which the sums are not just those of the cells covered now: hardly ever any. A sum of
/// nothing is never written, and does not count.
fn doubtful_lanes(
    summer: Summer,
    matrix: &Matrix,
    now: &Coverage,
    sums: &Sums,
) -> impl Iterator<Item = usize> + use<> {
    let expected = Sums::build(summer, matrix, now);
    let mut different = [0; LANES];
    let mut compare = |expected: &Block, found: &Block| {
        for lane in 0..LANES {
            different[lane] |= expected[lane] ^ found[lane];
        }
    };
    for (column, sum) in sums.consistency.iter().enumerate() {
        if now.column(column) != 0 {
            compare(&expected.consistency[column], sum);
        }
    }
    for (row, sum) in sums.correlation.iter().enumerate() {
        if now.rows() >> row & 1 != 0 {
            compare(&expected.correlation[row], sum);
        }
    }
    (0..LANES).filter(move |lane| different[*lane] != 0)
}

fn found<'a>(
    lane: usize,
    matrix: &Matrix,
    sides: [&'a Coverage; 2],
    sums: &Sums,
    known: &'a Known,
) -> Found<'a> {
    let of_lane = |blocks: &[Block]| blocks.iter().map(|block| block[lane]).collect();
    Found {
        lane,
        words: of_lane(matrix.blocks()),
        consistency: of_lane(&sums.consistency),
        correlation: of_lane(&sums.correlation),
        sides,
        logged: &known.logged,
        erased: &known.erased,
    }
}
