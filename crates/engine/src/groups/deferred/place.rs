//! The places of batches and before-images, by arithmetic alone (III-C, "Locating checksums").

use crate::log::area::Geometry;
use perdura_memory::keyed::Along;
use perdura_memory::keyed::Block;
use perdura_memory::{LINE, WORD};
use std::ops::Range;

/// Words of a line.
pub(super) const WORDS: usize = (LINE / WORD) as usize;
/// The three kinds of sums. A line is in one sum of each kind.
pub(super) const ALONG: [Along; 3] = [Along::Column, Along::Row, Along::Diagonal];
/// One in this many of a pool's bytes is for batches and before-images.
const SHARE: u64 = 8;
/// The tenths of these that are for before-images.
const IMAGES: u64 = 6;
/// Parts of the area for before-images, each freed as a whole.
const CHUNKS: u64 = 32;
/// A chunk has room for a few lines at least.
const SMALLEST_CHUNK: u64 = 16 * LINE;

/// Lines of a full batch, if batches and before-images have `bytes` bytes. Large batches take the fewest lines of
/// checksums, and can restore the most.
fn capacity_of(bytes: u64) -> usize {
    match bytes {
        0..0x4_0000 => 64,
        0x4_0000..0x10_0000 => 256,
        0x10_0000..0x80_0000 => 1024,
        _ => 4096,
    }
}

/// The places of a pool's batches and before-images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    start: u64,
    capacity: usize,
    slots: u64,
    chunks: u64,
    chunk_bytes: u64,
    salt: u64,
}

impl Layout {
    /// Bytes for the checksums of a pool of up to `limit` bytes.
    pub fn bytes(limit: u64) -> u64 {
        limit.div_ceil(SHARE).next_multiple_of(LINE)
    }

    /// The layout of a log area. Data written under another salt does not count.
    pub fn of(geometry: &Geometry, salt: u64) -> Self {
        let (start, bytes) = geometry.checksums;
        let capacity = capacity_of(bytes);
        let images = bytes / 10 * IMAGES;
        let chunks = CHUNKS.min(images / SMALLEST_CHUNK);
        let chunk_bytes = images.checked_div(chunks).unwrap_or(0) / LINE * LINE;
        let slots = (bytes - chunks * chunk_bytes) / Parts::of(capacity).bytes();
        Layout { start, capacity, slots, chunks, chunk_bytes, salt }
    }

    pub(super) fn salt(&self) -> u64 {
        self.salt
    }

    /// Lines of a full batch.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many batches fit.
    pub(super) fn slots(&self) -> u32 {
        self.slots as u32
    }

    /// Where the batch with this number is.
    pub(super) fn slot(&self, number: u32) -> u64 {
        let images = self.chunks * self.chunk_bytes;
        self.start + images + u64::from(number) * Parts::of(self.capacity).bytes()
    }

    pub(super) fn chunks(&self) -> u32 {
        self.chunks as u32
    }

    pub(super) fn chunk(&self, number: u32) -> Range<u64> {
        let start = self.start + u64::from(number) * self.chunk_bytes;
        start..start + self.chunk_bytes
    }
}

/// How a batch is laid out, in words:
///
/// ```text
/// header     check of all that follows; ticket; lines; bytes of their numbers; to a whole line
/// numbers    the lines' numbers, ascending: each as its difference from the one before, seven bits
///            a byte, the lowest first, with the eighth bit set where more follow; to a whole line
/// tags       of the lines, 16 bits each, by position; to a whole line
/// sums       a line each: the columns', the rows' and the diagonals'
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) matrix: Matrix,
    /// Words before the tags.
    pub(super) tags: usize,
    /// Words before the sums.
    pub(super) sums: usize,
    /// All words.
    pub(super) words: usize,
}

impl Parts {
    /// The parts of a batch of `lines` lines, with `bytes` bytes of numbers.
    pub(super) fn with(lines: usize, bytes: usize) -> Self {
        let matrix = Matrix::of(lines);
        let tags = WORDS + bytes.div_ceil(WORD as usize).next_multiple_of(WORDS);
        let sums = tags + lines.div_ceil(4).next_multiple_of(WORDS);
        Parts { matrix, tags, sums, words: sums + matrix.sums() * WORDS }
    }

    /// The parts of the largest batch of `lines` lines.
    pub(super) fn of(lines: usize) -> Self {
        // Numbers have 32 bits, and so has the sum of all differences: at most sixteen of these take five bytes.
        Parts::with(lines, lines * 4 + 16)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.words as u64 * WORD
    }

    /// The lines that the batch takes up.
    pub(super) fn lines(&self) -> usize {
        self.words / WORDS
    }
}

/// A line's row and column.
pub(super) type At = (usize, usize);

/// The matrix whose cells are a batch's lines, column by column.
///
/// Rows are slanted, as diagonals are: their number is a prime and at least the number of rows, so that two lines share
/// at most one sum, and fewer than six lines never share all of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matrix {
    pub(super) side: usize,
    slanted: usize,
    slopes: [usize; 2],
}

impl Matrix {
    /// The matrix for this many lines.
    fn of(lines: usize) -> Self {
        let root = lines.isqrt();
        let side = (root + usize::from(root * root < lines)).max(3);
        let slanted = (side + 3..).find(|&number| is_prime(number)).expect("there is a next prime");
        Matrix { side, slanted, slopes: [slanted / 6 + 1, slanted * 3 / 5] }
    }

    /// Row and column of a batch's line.
    pub(super) fn at(&self, position: usize) -> At {
        (position % self.side, position / self.side)
    }

    /// The number of sums of all kinds.
    pub(super) fn sums(&self) -> usize {
        self.side + 2 * self.slanted
    }

    /// The first sum of each kind.
    pub(super) fn first_sums(&self) -> [usize; 3] {
        [0, self.side, self.side + self.slanted]
    }

    /// The sums that the line at a row and a column is in, in the order of [`ALONG`].
    pub(super) fn sums_of(&self, (row, column): At) -> [usize; 3] {
        let slanted = |slope| (row + slope * column) % self.slanted;
        let ([columns, rows, diagonals], [row, diagonal]) =
            (self.first_sums(), self.slopes.map(slanted));
        [columns + column, rows + row, diagonals + diagonal]
    }
}

fn is_prime(number: usize) -> bool {
    (2..number).take_while(|by| by * by <= number).all(|by| !number.is_multiple_of(by))
}

/// The tag of a line that adds this term to its column's sum: it shows whether the line has changed.
pub(super) fn tag(term: &Block) -> u16 {
    (term.iter().fold(0, |sum: u64, lane| sum.wrapping_add(*lane)) >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::PAGE;

    fn layout(limit: u64) -> (Layout, u64) {
        let bytes = Layout::bytes(limit);
        let checksums = (17 * PAGE, bytes);
        let geometry = Geometry { start: 0, segment_bytes: PAGE, segments: 16, checksums };
        (Layout::of(&geometry, 7), 17 * PAGE + bytes)
    }

    #[test]
    fn parts_follow_one_another() {
        for limit in [1 << 20, 5 << 20, 100 << 20, 3 << 30] {
            let (layout, end) = layout(limit);
            let chunks = (0..layout.chunks()).map(|number| layout.chunk(number));
            let bytes = Parts::of(layout.capacity()).bytes();
            let slots = (0..layout.slots()).map(|number| layout.slot(number));
            let all = chunks.chain(slots.map(|start| start..start + bytes));
            let mut free = 17 * PAGE;
            for part in all {
                assert!(part.start == free && part.start.is_multiple_of(LINE), "{limit}");
                free = part.end;
            }
            assert!(free <= end && end - free < bytes, "{limit}");
            let share = u64::from(layout.slots()) * layout.capacity() as u64 * LINE;
            assert!(share > limit / 16, "{limit}: {share}");
        }
    }

    #[test]
    fn nothing_is_laid_out_where_there_is_no_room() {
        let geometry = Geometry { start: 0, segment_bytes: PAGE, segments: 16, checksums: (0, 0) };
        let layout = Layout::of(&geometry, 7);
        assert_eq!((layout.slots(), layout.chunks()), (0, 0));
    }

    #[test]
    fn two_lines_share_one_sum_at_most() {
        for lines in [1, 9, 10, 50, 64, 300, 841, 4096] {
            let matrix = Matrix::of(lines);
            assert!(matrix.side * matrix.side >= lines);
            let all: Vec<_> = (0..lines).map(|number| matrix.sums_of(matrix.at(number))).collect();
            assert!(all.iter().flatten().all(|sum| *sum < matrix.sums()));
            for (number, one) in all.iter().enumerate().step_by(lines.div_ceil(50)) {
                for other in &all[..number] {
                    assert!(one.iter().zip(other).filter(|(one, other)| one == other).count() < 2);
                }
            }
        }
    }

    #[test]
    fn a_larger_batch_takes_more_room() {
        let sizes: Vec<_> = (1..=4096).map(|lines| Parts::of(lines).words).collect();
        assert!(sizes.is_sorted());
        assert!(Parts::of(4096).lines() * 20 < 4096 * 3, "less than 15 %");
    }
}
