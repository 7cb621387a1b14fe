//! Where the checksums of a line are, by arithmetic alone (III-C, "Locating checksums").

use crate::archapt::checksum::Block;
use crate::area::Geometry;
use crate::writes::WriteSet;
use perdura_memory::{LINE, Memory, PAGE, WORD};

/// Rows, and columns, of a region.
pub(super) const SIDE: usize = 64;
/// Bytes of a region.
const REGION: u64 = SIDE as u64 * PAGE;
const BITMAP: u64 = LINE;
const CONSISTENCY: u64 = BITMAP + SIDE as u64 * WORD;
const CORRELATION: u64 = CONSISTENCY + SIDE as u64 * LINE;
/// Bytes of the checksums of a region.
const CHECKSUMS: u64 = CORRELATION + SIDE as u64 * LINE;

/// Where the matrices of a pool have their checksums: those of the first regions, as many as there
/// is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    start: u64,
    regions: u64,
    salt: u64,
}

impl Matrices {
    /// Bytes for the checksums of a pool of up to `limit` bytes.
    pub fn bytes(limit: u64) -> u64 {
        limit.div_ceil(REGION) * CHECKSUMS
    }

    /// Those of a log area. What was covered under another salt is not any more.
    pub fn of(geometry: &Geometry, salt: u64) -> Self {
        let (start, bytes) = geometry.checksums;
        Matrices { start, regions: bytes / CHECKSUMS, salt }
    }

    pub(super) fn salt(&self) -> u64 {
        self.salt
    }

    /// Where the checksums are of the regions in which lines may be covered.
    pub(in crate::archapt) fn covered_regions<M: Memory>(
        self,
        memory: &M,
    ) -> impl Iterator<Item = u64> {
        let all = (0..self.regions).map(move |region| self.start + region * CHECKSUMS);
        all.filter(move |at| memory.contains(*at, LINE) && memory.load(*at) == self.salt)
    }

    /// The number of the region whose checksums are at `at`.
    pub(super) fn region(&self, at: u64) -> u64 {
        (at - self.start) / CHECKSUMS
    }

    /// Where the checksums of a line's region are.
    pub(super) fn of_line(&self, line: u64) -> Option<u64> {
        let region = line / REGION;
        (region < self.regions).then(|| self.start + region * CHECKSUMS)
    }

    pub(in crate::archapt) fn same_region(one: &u64, other: &u64) -> bool {
        one / REGION == other / REGION
    }

    /// Whether a line is one of the checksums'.
    #[inline]
    pub(in crate::archapt) fn has(&self, line: u64) -> bool {
        line.wrapping_sub(self.start) < self.regions * CHECKSUMS
    }
}

/// Row and column of a line in its region.
#[inline]
pub(super) fn place(line: u64) -> (usize, usize) {
    ((line % PAGE / LINE) as usize, (line % REGION / PAGE) as usize)
}

/// The line at a place of a region.
pub(super) fn line_at(region: u64, row: usize, column: usize) -> u64 {
    region * REGION + column as u64 * PAGE + row as u64 * LINE
}

pub(super) fn bitmap_at(checksums: u64, column: usize) -> u64 {
    checksums + BITMAP + column as u64 * WORD
}

pub(super) fn consistency_at(checksums: u64, column: usize) -> u64 {
    checksums + CONSISTENCY + column as u64 * LINE
}

pub(super) fn correlation_at(checksums: u64, row: usize) -> u64 {
    checksums + CORRELATION + row as u64 * LINE
}

/// The memory as it will be with the words of a group.
pub(super) struct View<'a, M> {
    pub(super) memory: &'a M,
    pub(super) writes: Option<&'a WriteSet>,
    pub(super) matrices: Matrices,
}

impl<M: Memory> View<'_, M> {
    pub(super) fn word(&self, at: u64) -> u64 {
        self.writes.and_then(|writes| writes.get(at)).unwrap_or_else(|| self.memory.load(at))
    }

    pub(super) fn block(&self, line: u64) -> Block {
        let mut block = [0; 8];
        self.memory.copy_out(line, bytemuck::cast_slice_mut(&mut block));
        if let Some(entry) = self.writes.and_then(|writes| writes.line(line)) {
            for word in (0..8).filter(|word| entry.mask & 1 << word != 0) {
                block[word] = entry.words[word];
            }
        }
        block
    }

    /// Whether a region's bitmaps count.
    pub(super) fn counts(&self, checksums: u64) -> bool {
        self.word(checksums) == self.matrices.salt
    }

    /// Whether a line is covered.
    pub(super) fn covers(&self, line: u64) -> bool {
        let (row, column) = place(line);
        self.matrices.of_line(line).is_some_and(|checksums| {
            self.word(bitmap_at(checksums, column)) >> row & 1 != 0 && self.counts(checksums)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_places_agree() {
        for line in [0, LINE, PAGE, REGION - LINE, REGION, 5 * REGION + 3 * PAGE + 7 * LINE] {
            let (row, column) = place(line);
            assert_eq!(line_at(line / REGION, row, column), line);
            assert!(row < SIDE && column < SIDE);
        }
        let geometry = Geometry {
            start: 0,
            segment_bytes: PAGE,
            segments: 16,
            checksums: (17 * PAGE, Matrices::bytes(REGION + 1)),
        };
        let matrices = Matrices::of(&geometry, 7);
        let last = correlation_at(matrices.of_line(REGION).unwrap(), SIDE - 1);
        assert_eq!(last + LINE, 17 * PAGE + Matrices::bytes(REGION + 1));
        assert_eq!(matrices.of_line(2 * REGION), None);
        assert!(matrices.has(last) && !matrices.has(last + LINE) && !matrices.has(16 * PAGE));
    }
}
