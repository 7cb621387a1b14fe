//! Correction: which blocks of a matrix are lost, and their contents (III-C, "Correlation
//! checksums to correct data inconsistency" and the analysis after it).
//!
//! A block is lost if its write-back was skipped and no eviction came before the power cut; the sums
//! themselves are assumed to be durable, in one of two states. Each lane is solved separately: a
//! block that differs from its durable contents in a single word does not affect seven lanes.

use super::lane::FoundLane;
use super::matrix::{Coverage, Matrix, Sums};
use super::search::{LaneVerdict, MOST_TRIES, Solver};
use super::{Block, LANES};
use perdura_memory::keyed::Summer;
use std::collections::{BTreeMap, BTreeSet};

/// What else is known about the blocks of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Blocks that are known to be lost: they are solved for first. It does no harm if one of them is
    /// right nevertheless.
    pub erased: Coverage,
    /// Blocks that a log has just restored, whole: their contents are right, whatever the sums say,
    /// which may cover earlier contents. So the sums of their rows and columns say something about
    /// other blocks only if they add up.
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

/// The result of a correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every row and column adds up.
    Consistent,
    /// Every row and column adds up with these blocks replaced. Ascending.
    Corrected(Vec<Correction>),
    /// Some of these cells are lost, and no unique way to restore them fits. Ascending. Empty if a
    /// sum itself must be damaged.
    Uncorrectable {
        /// The cells that may be lost.
        candidates: Vec<usize>,
    },
}

/// Finds lost blocks of a matrix and their contents. Changes nothing.
///
/// `sides` are the coverages before and after the change of the sums that may have been cut short;
/// the same twice if there was none. Each lane of each sum may cover either.
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
            LaneVerdict::Solved(words) => {
                for (cell, word) in words {
                    restored.entry(cell).or_insert(matrix.blocks()[cell])[lane] = word;
                    // A block lost in one lane may be lost in the others too.
                    known.erased.insert(cell);
                }
            }
            LaneVerdict::Unsolved(cells) => {
                unsolved = true;
                candidates.extend(cells);
                // All or nothing: once one lane cannot be corrected, a long search in others is useless.
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

/// Lanes in which the sums differ from those of the cells covered now: hardly ever any. A sum that
/// covers nothing is never written, and does not count.
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
) -> FoundLane<'a> {
    let of_lane = |blocks: &[Block]| blocks.iter().map(|block| block[lane]).collect();
    FoundLane {
        lane,
        words: of_lane(matrix.blocks()),
        consistency: of_lane(&sums.consistency),
        correlation: of_lane(&sums.correlation),
        sides,
        logged: &known.logged,
        erased: &known.erased,
    }
}
