//! Where the checksums of a line are, by arithmetic alone (III-C, "Locating checksums").

use crate::archapt::checksum::Block;
use crate::archapt::checksum::sum::Along;
use crate::area::Geometry;
use crate::writes::WriteSet;
use perdura_memory::{LINE, Memory, PAGE, WORD};

/// Rows, and columns, of a region.
pub(super) const SIDE: usize = 64;
/// Bytes of a region.
const REGION: u64 = SIDE as u64 * PAGE;
/// Rows' sums, and diagonals': both are slanted, so that lines at like places of neighbouring
/// pages, which are lost together, have few sums in common. A prime, so that two lines share one
/// sum at most, and fewer than six never share all of theirs.
pub(super) const SLANTED: usize = 67;
/// How many rows they go down from a column to the next. Tried on what random power cuts took
/// (docs/archapt.md) and on losses within rectangles.
const SLOPES: [usize; 2] = [11, 40];
/// Tags in a word.
pub(super) const WORD_TAGS: usize = 4;
/// Words of a column's tags.
pub(super) const TAG_WORDS: usize = SIDE / WORD_TAGS;
const BITMAP: u64 = LINE;
const CONSISTENCY: u64 = BITMAP + SIDE as u64 * WORD;
const CORRELATION: u64 = CONSISTENCY + SIDE as u64 * LINE;
const DIAGONAL: u64 = CORRELATION + SLANTED as u64 * LINE;
const TAGS: u64 = DIAGONAL + SLANTED as u64 * LINE;
/// Bytes of the checksums of a region.
const CHECKSUMS: u64 = TAGS + (SIDE * TAG_WORDS) as u64 * WORD;

/// The three kinds of sums. A line is in one of each.
pub(super) const ALONG: [Along; 3] = [Along::Column, Along::Row, Along::Diagonal];

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

/// Which of the sums of each kind the line at a row and a column is in, in the order of [`ALONG`].
pub(super) fn sums_of((row, column): (usize, usize)) -> [usize; 3] {
    let slanted = |slope| (row + slope * column) % SLANTED;
    [column, slanted(SLOPES[0]), slanted(SLOPES[1])]
}

/// The sums, by kind and as bitmaps, that are of any line at all.
pub(super) fn sums_in_use(covered: &[u64; SIDE]) -> [u128; ALONG.len()] {
    let mut sums = [0; ALONG.len()];
    for (column, rows) in covered.iter().enumerate().filter(|(_, rows)| **rows != 0) {
        sums[0] |= 1 << column;
        for (sums, slope) in sums[1..].iter_mut().zip(SLOPES) {
            let by = slope * column % SLANTED;
            let rows = u128::from(*rows);
            *sums |= (rows << by | rows >> (SLANTED - by)) & ((1 << SLANTED) - 1);
        }
    }
    sums
}

/// Where such a sum is.
pub(super) fn sum_at(checksums: u64, along: Along, index: usize) -> u64 {
    let first = match along {
        Along::Column => CONSISTENCY,
        Along::Row => CORRELATION,
        Along::Diagonal => DIAGONAL,
    };
    checksums + first + index as u64 * LINE
}

/// Where the word with the tag of a line is.
pub(super) fn tag_at(checksums: u64, (row, column): (usize, usize)) -> u64 {
    checksums + TAGS + (column * TAG_WORDS + row / WORD_TAGS) as u64 * WORD
}

/// The tag of a row in the word that has it.
pub(super) fn tag_in(word: u64, row: usize) -> u16 {
    (word >> (row % WORD_TAGS * 16)) as u16
}

/// The tag of a line that adds this to its column's sum: it tells whether the line is what it was.
pub(super) fn tag(term: &Block) -> u16 {
    (term.iter().fold(0, |sum: u64, lane| sum.wrapping_add(*lane)) >> 48) as u16
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
        let last = tag_at(matrices.of_line(REGION).unwrap(), (SIDE - 1, SIDE - 1));
        assert_eq!(last + WORD, 17 * PAGE + Matrices::bytes(REGION + 1));
        assert_eq!(matrices.of_line(2 * REGION), None);
        assert!(matrices.has(last) && !matrices.has(last + WORD) && !matrices.has(16 * PAGE));
    }

    #[test]
    fn two_lines_share_one_sum_at_most() {
        let all: Vec<_> = (0..SIDE * SIDE).map(|cell| (cell % SIDE, cell / SIDE)).collect();
        for (number, one) in all.iter().enumerate().step_by(61) {
            for other in &all[..number] {
                let (one, other) = (sums_of(*one), sums_of(*other));
                assert!(one.iter().zip(other).filter(|(one, other)| **one == *other).count() < 2);
            }
        }
    }

    #[test]
    fn sums_in_use_are_those_of_the_lines() {
        for (row, column) in (0..SIDE * SIDE).map(|cell| (cell % SIDE, cell / SIDE)) {
            let mut covered = [0; SIDE];
            covered[column] = 1 << row;
            assert_eq!(sums_in_use(&covered), sums_of((row, column)).map(|sum| 1 << sum));
        }
        let slanted = (1 << SLANTED) - 1;
        assert_eq!(sums_in_use(&[u64::MAX; SIDE]), [u64::MAX.into(), slanted, slanted]);
    }

    #[test]
    fn sums_do_not_overlap() {
        let sums = ALONG.into_iter().flat_map(|along| {
            let most = if along == Along::Column { SIDE } else { SLANTED };
            (0..most).map(move |index| sum_at(0, along, index))
        });
        let tags = (0..SIDE).flat_map(|column| [tag_at(0, (0, column)), tag_at(0, (32, column))]);
        let bitmaps = (0..8).map(|line| bitmap_at(0, line * 8));
        let mut lines: Vec<u64> = bitmaps.chain(sums).chain(tags).collect();
        lines.sort_unstable();
        assert_eq!(lines, (1..CHECKSUMS / LINE).map(|line| line * LINE).collect::<Vec<_>>());
    }
}
