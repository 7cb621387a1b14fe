//! After a power cut: which covered lines are lost, and what they held.

use super::change::lines_of;
use super::place::{
    ALONG, Matrices, SIDE, SLANTED, bitmap_at, line_at, place, sum_at, sums_in_use, tag_at, tag_in,
};
use super::restore::{Line, Outcome, Sums, restore};
use crate::archapt::checksum::{Block, LANES, Summer};
use crate::{Error, Result};
use perdura_memory::{LINE, Memory};

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
    for checksums in matrices.covered_regions(memory) {
        let region = matrices.region(checksums);
        let covered = std::array::from_fn(|column| memory.load(bitmap_at(checksums, column)));
        let before = found.covered.len();
        found.covered.extend(lines_of(region, covered));
        let lines = &found.covered[before..];
        if let Some(&beyond) = lines.iter().find(|line| !memory.contains(**line, LINE)) {
            return Err(Error::corrupt("checksums of a line beyond the pool's end", beyond));
        }
        let Outcome { restored, hopeless } = examine_region(memory, checksums, &covered, lines);
        let line = |(row, column)| line_at(region, row, column);
        found.corrected.extend(restored.into_iter().map(|(at, block)| (line(at), block)));
        found.hopeless.extend(hopeless.into_iter().map(line));
    }
    Ok(found)
}

fn examine_region<M: Memory>(
    memory: &M,
    checksums: u64,
    covered: &[u64; SIDE],
    lines: &[u64],
) -> Outcome {
    let found = |line: &u64| {
        let at = place(*line);
        let tag = tag_in(memory.load(tag_at(checksums, at)), at.0);
        Line { at, block: load(memory, *line), tag }
    };
    let lines: Vec<Line> = lines.iter().map(found).collect();
    let mut sums: Sums = [[[0; LANES]; SLANTED]; ALONG.len()];
    for (kind, used) in sums_in_use(covered).into_iter().enumerate() {
        for index in (0..SLANTED).filter(|index| used >> index & 1 != 0) {
            sums[kind][index] = load(memory, sum_at(checksums, ALONG[kind], index));
        }
    }
    restore(Summer::best(), &lines, &sums)
}

fn load<M: Memory>(memory: &M, line: u64) -> Block {
    let mut block = [0; LANES];
    memory.copy_out(line, bytemuck::cast_slice_mut(&mut block));
    block
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
