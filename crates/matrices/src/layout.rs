//! The places of blocks and their checksums, by arithmetic alone (III-C, "Locating checksums").
//!
//! ```text
//! a page                data  7 x 7 blocks   0    .. 3136   column by column
//!                       consistency, 7       3136 .. 3584   one a column   (equation 2)
//!                       correlation, 7       3584 .. 4032   one a row      (equation 3)
//!                       header               4032 .. 4096
//! N pages of one object data  64 N blocks    0    .. 4096 N column by column; the last column
//!                                                           may have cells beyond the end
//!                       consistency, C       then, from the next page on
//!                       correlation, R
//! ```
//! The paper's equations subtract a block too many as printed (an object at offset 0 would have
//! its checksum before the checksums' area); here columns and rows count from 0.

use super::matrix::Shape;
use perdura_memory::keyed::mix::MOST;
use perdura_memory::{LINE, PAGE};

/// Blocks in a page that is all data.
const PAGE_BLOCKS: u64 = PAGE / LINE;

/// The places of a matrix: offsets from the start of its first page, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    shape: Shape,
    data: u64,
    checksums: u64,
}

impl Layout {
    /// A page of its own: data, checksums and header.
    pub const PAGE: Layout = Layout { shape: Shape::PAGE, data: 49 * LINE, checksums: 49 * LINE };

    /// Most pages of data that one matrix can have.
    pub const MOST_PAGES: u64 = (MOST * MOST) as u64 / PAGE_BLOCKS;

    /// `pages` pages that are all data, one object ("we build a larger virtual matrix and use
    /// multiple memory pages"), with the checksums in the pages after them. Near to square, which
    /// has the fewest checksums. `None` beyond [`MOST_PAGES`](Self::MOST_PAGES), or for no page.
    pub const fn over(pages: u64) -> Option<Self> {
        if pages == 0 || pages > Self::MOST_PAGES {
            return None;
        }
        let blocks = pages * PAGE_BLOCKS;
        let mut rows = 1;
        while rows * rows < blocks {
            rows += 1;
        }
        let shape = Shape::new(rows as usize, blocks.div_ceil(rows) as usize);
        Some(Layout { shape, data: pages * PAGE, checksums: pages * PAGE })
    }

    /// The shape of the matrix.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Bytes of data.
    pub const fn data_bytes(&self) -> u64 {
        self.data
    }

    /// Pages from the first of data to the last of checksums.
    pub const fn pages(&self) -> u64 {
        let checksums = (self.shape.columns() + self.shape.rows()) as u64 * LINE;
        (self.checksums + checksums).div_ceil(PAGE)
    }

    /// The row and column of the byte at `offset`; `None` beyond the data.
    pub const fn place(&self, offset: u64) -> Option<(usize, usize)> {
        if offset < self.data { Some(self.shape.place((offset / LINE) as usize)) } else { None }
    }

    /// Where a cell's block is; `None` for a cell beyond the data, which is never covered.
    pub const fn block(&self, row: usize, column: usize) -> Option<u64> {
        let offset = self.shape.cell(row, column) as u64 * LINE;
        if offset < self.data { Some(offset) } else { None }
    }

    /// Where the consistency checksum of a column is (equation 2).
    pub const fn consistency(&self, column: usize) -> u64 {
        self.checksums + column as u64 * LINE
    }

    /// Where the correlation checksum of a row is (equation 3).
    pub const fn correlation(&self, row: usize) -> u64 {
        self.consistency(self.shape.columns()) + row as u64 * LINE
    }

    /// Lines that are written back when the bytes `[offset, offset + len)` change: those of the
    /// checksums, without a header.
    pub const fn checksum_lines(&self, offset: u64, len: u64) -> u64 {
        if len == 0 {
            return 0;
        }
        let rows = self.shape.rows() as u64;
        let (first, last) = (offset / LINE, (offset + len - 1) / LINE);
        let blocks = last - first + 1;
        let columns = last / rows - first / rows + 1;
        columns + if blocks < rows { blocks } else { rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Coverage;
    use std::collections::BTreeSet;

    #[test]
    fn a_page_is_laid_out_as_the_paper_has_it() {
        let page = Layout::PAGE;
        let checksums = |offset| {
            let (row, column) = page.place(offset).unwrap();
            (page.consistency(column), page.correlation(row))
        };
        assert_eq!(checksums(0), (3136, 3584));
        assert_eq!(checksums(6 * 64), (3136, 3584 + 6 * 64));
        assert_eq!(checksums(7 * 64), (3136 + 64, 3584));
        assert_eq!(checksums(48 * 64 + 63), (3584 - 64, 4032 - 64));
        assert_eq!(page.place(3136), None);
        assert_eq!(page.pages(), 1);
    }

    #[test]
    fn arithmetic_and_layout_agree() {
        let spread = (1..=Layout::MOST_PAGES).map(|pages| Layout::over(pages).unwrap());
        for layout in spread.chain([Layout::PAGE]) {
            let shape = layout.shape();
            let mut seen = BTreeSet::new();
            for cell in 0..shape.cells() {
                let (row, column) = shape.place(cell);
                if let Some(at) = layout.block(row, column) {
                    assert_eq!(layout.place(at), Some((row, column)));
                    assert_eq!(layout.place(at + 63), Some((row, column)));
                    assert!(seen.insert(at) && at + LINE <= layout.data_bytes());
                }
            }
            assert_eq!(seen.len() as u64 * LINE, layout.data_bytes(), "every block has a cell");
            for column in 0..shape.columns() {
                assert!(seen.insert(layout.consistency(column)), "a place of its own");
            }
            for row in 0..shape.rows() {
                assert!(seen.insert(layout.correlation(row)), "a place of its own");
            }
            assert!(*seen.last().unwrap() + LINE <= layout.pages() * PAGE);
        }
        assert_eq!(Layout::over(0), None);
        assert_eq!(Layout::over(Layout::MOST_PAGES + 1), None);
        assert_eq!(Layout::over(64).unwrap().shape(), Shape::new(64, 64));
    }

    #[test]
    fn costs_agree_with_the_coverage() {
        for layout in [Layout::PAGE, Layout::over(3).unwrap()] {
            for first in 0..20 {
                for blocks in 1..40.min(layout.data_bytes() / LINE - first) {
                    let cells = first as usize..(first + blocks) as usize;
                    let coverage = Coverage::of(layout.shape(), cells);
                    assert_eq!(
                        layout.checksum_lines(first * LINE + 5, blocks * LINE - 10),
                        coverage.checksum_lines() as u64
                    );
                }
            }
        }
    }
}
