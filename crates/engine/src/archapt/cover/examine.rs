//! After a power cut: which covered lines are lost, and what they held.

use super::change::lines_of;
use super::place::{Matrices, SIDE, bitmap_at, consistency_at, correlation_at, line_at, place};
use crate::archapt::checksum::{
    Block, Correction, Coverage, Known, Matrix, Outcome, Shape, Summer, Sums, correct_within,
};
use crate::{Error, Result};
use perdura_memory::{LINE, Memory};

const SHAPE: Shape = Shape::new(SIDE, SIDE);
/// Hypotheses that are tried for a region before it is given up: enough for three lost lines that share
/// a row or column among twenty that do not, and some ten milliseconds.
const TRIES: usize = 1 << 18;

/// What the checksums of a pool say, with its log gone through. See [`examine`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// Lines that are covered, ascending.
    pub covered: Vec<u64>,
    /// Of these, the lost ones, and what they should hold.
    pub corrected: Vec<(u64, Block)>,
    /// The lines of which some are lost, and cannot be restored.
    pub hopeless: Vec<u64>,
}

/// Examines every region. Reads only.
///
/// # Errors
/// `Corrupt` where lines are covered that the pool has not got.
pub fn examine<M: Memory>(memory: &M, matrices: Matrices) -> Result<Examination> {
    let mut found = Examination::default();
    let mut matrix = Matrix::new(SHAPE);
    for checksums in matrices.covered_regions(memory) {
        let region = matrices.region(checksums);
        let covered: [u64; SIDE] =
            std::array::from_fn(|column| memory.load(bitmap_at(checksums, column)));
        let lines = lines_of(region, covered);
        let before = found.covered.len();
        found.covered.extend(lines);
        let lines = &found.covered[before..];
        if let Some(&beyond) = lines.iter().find(|line| !memory.contains(**line, LINE)) {
            return Err(Error::corrupt("checksums of a line beyond the pool's end", beyond));
        }
        match examine_region(memory, &mut matrix, checksums, lines) {
            Outcome::Consistent => {}
            Outcome::Corrected(corrections) => {
                found.corrected.extend(corrections.into_iter().map(
                    |Correction { cell, block }| {
                        let (row, column) = SHAPE.place(cell);
                        (line_at(region, row, column), block)
                    },
                ));
            }
            Outcome::Uncorrectable { candidates } if candidates.is_empty() => {
                found.hopeless.extend_from_slice(lines);
            }
            Outcome::Uncorrectable { candidates } => {
                found.hopeless.extend(candidates.into_iter().map(|cell| {
                    let (row, column) = SHAPE.place(cell);
                    line_at(region, row, column)
                }));
            }
        }
    }
    Ok(found)
}

fn examine_region<M: Memory>(
    memory: &M,
    matrix: &mut Matrix,
    checksums: u64,
    lines: &[u64],
) -> Outcome {
    let mut coverage = Coverage::none(SHAPE);
    for line in lines {
        let (row, column) = place(*line);
        let cell = SHAPE.cell(row, column);
        coverage.insert(cell);
        load(memory, *line, &mut matrix.blocks_mut()[cell]);
    }
    let mut sums = Sums::zero(SHAPE);
    for index in 0..SIDE {
        load(memory, consistency_at(checksums, index), &mut sums.consistency[index]);
        load(memory, correlation_at(checksums, index), &mut sums.correlation[index]);
    }
    let known = Known::nothing(SHAPE);
    correct_within(TRIES, Summer::best(), matrix, [&coverage, &coverage], &sums, &known)
}

fn load<M: Memory>(memory: &M, line: u64, to: &mut Block) {
    memory.copy_out(line, bytemuck::cast_slice_mut(to));
}

impl Examination {
    /// Restores what was lost, and asks for every line that was covered to become durable: the
    /// caller fences, and then nothing need be covered any more.
    ///
    /// # Errors
    /// `Lost` where a line cannot be restored; nothing is stored then.
    pub(in crate::archapt) fn mend<M: Memory>(&self, memory: &M) -> Result<()> {
        if let Some(&at) = self.hopeless.first() {
            return Err(Error::Lost { lines: self.hopeless.len() as u64, at });
        }
        for (line, block) in &self.corrected {
            memory.copy_in(*line, bytemuck::cast_slice(block));
        }
        self.covered.iter().for_each(|line| memory.write_back(*line, LINE));
        Ok(())
    }
}
