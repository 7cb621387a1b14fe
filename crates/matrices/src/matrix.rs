//! Matrices of blocks, which of their cells are covered, and their sums.
//!
//! Cells are numbered column by column, as they lie in a page: cell = column · rows + row.

use super::{Block, LANES};
use perdura_memory::keyed::mix::MOST;
use perdura_memory::keyed::{Along, Summer};

/// How many rows and columns a matrix has: 1 to [`MOST`] of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    rows: usize,
    columns: usize,
}

impl Shape {
    /// The matrix of a page: 7 x 7, which with its checksums is the paper's 8 x 8.
    pub const PAGE: Shape = Shape { rows: 7, columns: 7 };

    /// A shape.
    ///
    /// # Panics
    /// If there are none, or more than [`MOST`], of either.
    pub const fn new(rows: usize, columns: usize) -> Self {
        assert!(rows >= 1 && rows <= MOST && columns >= 1 && columns <= MOST);
        Shape { rows, columns }
    }

    /// Rows.
    pub const fn rows(self) -> usize {
        self.rows
    }

    /// Columns.
    pub const fn columns(self) -> usize {
        self.columns
    }

    /// Cells.
    pub const fn cells(self) -> usize {
        self.rows * self.columns
    }

    /// The number of a cell.
    pub const fn cell(self, row: usize, column: usize) -> usize {
        column * self.rows + row
    }

    /// The row and column of a cell.
    pub const fn place(self, cell: usize) -> (usize, usize) {
        (cell % self.rows, cell / self.rows)
    }
}

/// Which cells of a matrix are covered: a bitmap of rows for each column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coverage {
    shape: Shape,
    columns: Vec<u64>,
}

impl Coverage {
    /// No cell.
    pub fn none(shape: Shape) -> Self {
        Coverage { shape, columns: vec![0; shape.columns] }
    }

    /// Every cell.
    pub fn all(shape: Shape) -> Self {
        Coverage { shape, columns: vec![u64::MAX >> (MOST - shape.rows); shape.columns] }
    }

    /// These cells.
    ///
    /// # Panics
    /// If the shape has not got one of them.
    pub fn of(shape: Shape, cells: impl IntoIterator<Item = usize>) -> Self {
        let mut coverage = Self::none(shape);
        cells.into_iter().for_each(|cell| coverage.insert(cell));
        coverage
    }

    /// The cells of a page, one bit each; see [`page`](super::page).
    pub fn of_page(bits: u64) -> Self {
        let columns = (0..7).map(|column| bits >> (7 * column) & 0x7F).collect();
        Coverage { shape: Shape::PAGE, columns }
    }

    /// The matrix's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Adds a cell.
    ///
    /// # Panics
    /// If the shape has not got it.
    pub fn insert(&mut self, cell: usize) {
        let (row, column) = self.shape.place(cell);
        self.columns[column] |= 1 << row;
    }

    /// Takes a cell out.
    ///
    /// # Panics
    /// If the shape has not got it.
    pub fn remove(&mut self, cell: usize) {
        let (row, column) = self.shape.place(cell);
        self.columns[column] &= !(1 << row);
    }

    /// Whether it has this cell.
    #[inline]
    pub fn contains(&self, row: usize, column: usize) -> bool {
        self.columns[column] >> row & 1 != 0
    }

    /// The covered rows of a column, as a bitmap.
    pub fn column(&self, column: usize) -> u64 {
        self.columns[column]
    }

    /// The rows with a covered cell, as a bitmap.
    pub fn rows(&self) -> u64 {
        self.columns.iter().fold(0, |rows, column| rows | column)
    }

    /// How many cells.
    pub fn len(&self) -> usize {
        self.columns.iter().map(|rows| rows.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// Its cells, ascending.
    pub fn cells(&self) -> impl Iterator<Item = usize> {
        let all = 0..self.shape.cells();
        all.filter(|cell| {
            let (row, column) = self.shape.place(*cell);
            self.contains(row, column)
        })
    }

    /// Checksum lines that a change of these cells writes, one for each column and row that has
    /// any of them (III-C: N + M for a whole matrix; up to two per block for a sparse one, which
    /// is why small objects are packed). Header lines are the page's.
    pub fn checksum_lines(&self) -> usize {
        let columns = self.columns.iter().filter(|rows| **rows != 0).count();
        columns + self.rows().count_ones() as usize
    }
}

/// The contents of all cells of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    shape: Shape,
    blocks: Vec<Block>,
}

impl Matrix {
    /// A matrix of zeros.
    pub fn new(shape: Shape) -> Self {
        Matrix { shape, blocks: vec![[0; LANES]; shape.cells()] }
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The blocks, by cell.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The blocks, by cell.
    pub fn blocks_mut(&mut self) -> &mut [Block] {
        &mut self.blocks
    }
}

/// The checksums of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// One for each column.
    pub consistency: Vec<Block>,
    /// One for each row.
    pub correlation: Vec<Block>,
}

impl Sums {
    /// The sums of a matrix without covered cells.
    pub fn zero(shape: Shape) -> Self {
        Sums {
            consistency: vec![[0; LANES]; shape.columns],
            correlation: vec![[0; LANES]; shape.rows],
        }
    }

    /// Those of the cells in `coverage`.
    ///
    /// # Panics
    /// If the coverage is of another shape.
    pub fn build(summer: Summer, matrix: &Matrix, coverage: &Coverage) -> Self {
        let shape = matrix.shape;
        assert_eq!(shape, coverage.shape, "a coverage of another matrix");
        let mut sums = Self::zero(shape);
        for (column, blocks) in matrix.blocks.chunks(shape.rows).enumerate() {
            let rows = coverage.column(column);
            let consistency = &mut sums.consistency[column];
            summer.add_column(column, blocks, (rows, rows), consistency, &mut sums.correlation);
        }
        sums
    }

    /// Updates the sums for a change of a covered block, by difference.
    ///
    /// # Panics
    /// If there is no such row or column.
    #[inline]
    pub fn replace(&mut self, summer: Summer, at: (usize, usize), old: &Block, new: &Block) {
        summer.replace(Along::Column, at, &mut self.consistency[at.1], old, new);
        summer.replace(Along::Row, at, &mut self.correlation[at.0], old, new);
    }

    /// Updates the sums for a newly covered block.
    ///
    /// # Panics
    /// If there is no such row or column.
    pub fn include(&mut self, summer: Summer, at: (usize, usize), block: &Block) {
        self.change(summer, at, block, u64::wrapping_add);
    }

    /// Updates the sums for a block that is no longer covered.
    ///
    /// # Panics
    /// If there is no such row or column.
    pub fn exclude(&mut self, summer: Summer, at: (usize, usize), block: &Block) {
        self.change(summer, at, block, u64::wrapping_sub);
    }

    fn change(
        &mut self,
        summer: Summer,
        (row, column): (usize, usize),
        block: &Block,
        with: fn(u64, u64) -> u64,
    ) {
        let consistency = summer.term(Along::Column, (row, column), block);
        let correlation = summer.term(Along::Row, (row, column), block);
        for lane in 0..LANES {
            let sum = &mut self.consistency[column][lane];
            *sum = with(*sum, consistency[lane]);
            let sum = &mut self.correlation[row][lane];
            *sum = with(*sum, correlation[lane]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::random::SplitMix64;

    fn filled(shape: Shape, random: &mut SplitMix64) -> Matrix {
        let mut matrix = Matrix::new(shape);
        matrix.blocks_mut().iter_mut().flatten().for_each(|word| *word = random.next());
        matrix
    }

    #[test]
    fn differences_lead_where_building_does() {
        let mut random = SplitMix64::new(11);
        let summer = Summer::best();
        for shape in [Shape::PAGE, Shape::new(1, 1), Shape::new(64, 64), Shape::new(3, 40)] {
            let mut matrix = filled(shape, &mut random);
            let mut coverage = Coverage::none(shape);
            let mut sums = Sums::zero(shape);
            for _ in 0..400 {
                let cell = random.below(shape.cells() as u64) as usize;
                let at = shape.place(cell);
                let new: Block = std::array::from_fn(|_| random.next());
                match (coverage.contains(at.0, at.1), random.below(3)) {
                    (true, 0) => {
                        sums.exclude(summer, at, &matrix.blocks()[cell]);
                        coverage.remove(cell);
                    }
                    (true, _) => {
                        sums.replace(summer, at, &matrix.blocks()[cell], &new);
                        matrix.blocks_mut()[cell] = new;
                    }
                    (false, _) => {
                        sums.include(summer, at, &matrix.blocks()[cell]);
                        coverage.insert(cell);
                    }
                }
            }
            assert_eq!(sums, Sums::build(summer, &matrix, &coverage), "{shape:?}");
        }
    }

    #[test]
    fn lines_are_those_of_the_rows_and_columns_touched() {
        let shape = Shape::PAGE;
        assert_eq!(Coverage::none(shape).checksum_lines(), 0);
        assert_eq!(Coverage::all(shape).checksum_lines(), 14, "N + M");
        assert_eq!(Coverage::of(shape, [0, 1]).checksum_lines(), 3, "128 bytes in a column");
        assert_eq!(Coverage::of(shape, [6, 7]).checksum_lines(), 4, "128 bytes in two");
        assert_eq!(Coverage::of(shape, 0..32).checksum_lines(), 12, "2048 bytes");
    }

    #[test]
    fn a_page_s_bits_are_its_cells() {
        let bits = 1 | 1 << 8 | 1 << 48;
        assert_eq!(Coverage::of_page(bits), Coverage::of(Shape::PAGE, [0, 8, 48]));
        assert_eq!(Coverage::of_page((1 << 49) - 1), Coverage::all(Shape::PAGE));
    }
}
