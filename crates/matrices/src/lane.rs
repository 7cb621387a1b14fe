//! One lane of a matrix, as found after a power cut: a matrix of words, and a sum for each row and column.
//!
//! A row or column (a *vertex*; a cell joins two of them) has a *residue* for each of the two sets
//! of cells that its sum may cover: the stored sum less the sum of the current words. If a residue
//! is zero, the vertex adds up. [`Lane::set`] updates the residues.

use super::matrix::{Coverage, Shape};
use super::trees::SolveStep;
use perdura_memory::keyed::Along;

/// One lane of a matrix as found in memory.
pub(super) struct FoundLane<'a> {
    pub(super) lane: usize,
    /// By cell.
    pub(super) words: Vec<u64>,
    /// By column.
    pub(super) consistency: Vec<u64>,
    /// By row.
    pub(super) correlation: Vec<u64>,
    /// The two sets of cells that a sum may cover.
    pub(super) sides: [&'a Coverage; 2],
    /// Cells whose words are right, whatever the sums say.
    pub(super) logged: &'a Coverage,
    /// Cells that are known to be lost.
    pub(super) erased: &'a Coverage,
}

/// A row or a column: columns come first.
pub(super) type Vertex = usize;

/// Whether a vertex adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VertexState {
    Good,
    Bad,
    /// It does not, but its sum may include an earlier word of a logged block.
    Void,
    /// Nothing depends on it.
    Idle,
}

#[derive(Clone, Copy)]
pub(super) struct VertexInfo {
    /// Whether its sum may cover the first side, and the second.
    sides: [bool; 2],
    pub(super) residues: [u64; 2],
    /// Whether one of its cells is logged.
    pub(super) logged: bool,
    idle: bool,
}

/// The words of a lane, and the residues of its rows and columns.
pub(super) struct Lane<'a> {
    pub(super) shape: Shape,
    pub(super) found: FoundLane<'a>,
    pub(super) vertices: Vec<VertexInfo>,
    /// Whether every sum is trusted, none taken to be void.
    pub(super) strict: bool,
}

impl<'a> Lane<'a> {
    pub(super) fn new(found: FoundLane<'a>) -> Self {
        let shape = found.sides[1].shape();
        let mut lane = Lane { shape, found, vertices: Vec::new(), strict: true };
        let settled = lane.is_settled();
        let all = 0..shape.columns() + shape.rows();
        lane.vertices = all.map(|vertex| lane.inspect(vertex, settled)).collect();
        lane
    }

    /// Whether the sums certainly cover the second side: it has cells that the first does not have, and
    /// that are no longer logged.
    fn is_settled(&self) -> bool {
        let [before, now] = self.found.sides;
        now.cells().any(|cell| {
            let (row, column) = self.shape.place(cell);
            !before.contains(row, column) && !self.found.logged.contains(row, column)
        })
    }

    fn inspect(&self, vertex: Vertex, settled: bool) -> VertexInfo {
        let now = self.found.sides[1];
        let (mut residues, mut counts) = ([self.sum(vertex); 2], [0, 0]);
        let (mut idle, mut any_logged) = (true, false);
        for cell in self.cells(vertex) {
            let (row, column) = self.shape.place(cell);
            let term = self.term(vertex, cell, self.found.words[cell]);
            for side in 0..2 {
                if self.found.sides[side].contains(row, column) {
                    residues[side] = residues[side].wrapping_sub(term);
                    counts[side] += 1;
                }
            }
            let logged = self.found.logged.contains(row, column);
            idle &= logged || !now.contains(row, column);
            any_logged |= logged && now.contains(row, column);
        }
        // A sum that covers nothing is not written, and may have any value.
        let sides = [counts[0] > 0 && !settled, true];
        VertexInfo { sides, residues, logged: any_logged, idle }
    }

    /// The words that make a vertex add up if only this cell of it is lost: one for each side that
    /// its sum may cover.
    pub(super) fn words_for(
        &self,
        vertex: Vertex,
        cell: usize,
    ) -> impl Iterator<Item = u64> + use<> {
        let (row, column) = self.shape.place(cell);
        let VertexInfo { sides, residues, .. } = self.vertices[vertex];
        let term = self.term(vertex, cell, self.found.words[cell]);
        let word = |side: usize| {
            let term = term.wrapping_add(residues[side]);
            (sides[side] && self.found.sides[side].contains(row, column))
                .then(|| self.along(vertex).word(row, column, self.found.lane, term))
        };
        let (before, now) = (word(0), word(1));
        let also = before.filter(|_| before != now);
        now.into_iter().chain(also)
    }

    /// Puts a word into a cell. Returns the one that was there.
    pub(super) fn set(&mut self, cell: usize, word: u64) -> u64 {
        let (row, column) = self.shape.place(cell);
        let old = std::mem::replace(&mut self.found.words[cell], word);
        for vertex in self.ends(cell) {
            let more = self.term(vertex, cell, word).wrapping_sub(self.term(vertex, cell, old));
            for side in 0..2 {
                if self.found.sides[side].contains(row, column) {
                    let residue = &mut self.vertices[vertex].residues[side];
                    *residue = residue.wrapping_sub(more);
                }
            }
        }
        old
    }

    pub(super) fn state(&self, vertex: Vertex) -> VertexState {
        let VertexInfo { sides, residues, logged, idle } = self.vertices[vertex];
        match () {
            () if idle => VertexState::Idle,
            () if (0..2).any(|side| sides[side] && residues[side] == 0) => VertexState::Good,
            () if logged && !self.strict => VertexState::Void,
            () => VertexState::Bad,
        }
    }

    pub(super) fn bad(&self) -> Vec<Vertex> {
        let all = 0..self.vertices.len();
        all.filter(|vertex| self.state(*vertex) == VertexState::Bad).collect()
    }

    pub(super) fn suspects(&self) -> Vec<usize> {
        (0..self.shape.cells()).filter(|cell| self.is_suspect(*cell)).collect()
    }

    /// Whether neither the row nor the column of a cell shows it to be right.
    pub(super) fn is_suspect(&self, cell: usize) -> bool {
        let open = |vertex| matches!(self.state(vertex), VertexState::Bad | VertexState::Void);
        self.may_be_lost(cell) && self.ends(cell).into_iter().all(open)
    }

    pub(super) fn may_be_lost(&self, cell: usize) -> bool {
        has(self.found.sides[1], cell) && !has(self.found.logged, cell)
    }

    /// The column and the row of a cell.
    pub(super) fn ends(&self, cell: usize) -> [Vertex; 2] {
        let (row, column) = self.shape.place(cell);
        [column, self.shape.columns() + row]
    }

    pub(super) fn meet(&self, step: SolveStep<Vertex>) -> usize {
        let (column, row) = (step.leaf.min(step.next), step.leaf.max(step.next));
        self.shape.cell(row - self.shape.columns(), column)
    }

    pub(super) fn cells(&self, vertex: Vertex) -> impl Iterator<Item = usize> + use<> {
        let shape = self.shape;
        let count = if vertex < shape.columns() { shape.rows() } else { shape.columns() };
        (0..count).map(move |index| match vertex.checked_sub(shape.columns()) {
            Some(row) => shape.cell(row, index),
            None => shape.cell(index, vertex),
        })
    }

    fn along(&self, vertex: Vertex) -> Along {
        if vertex < self.shape.columns() { Along::Column } else { Along::Row }
    }

    fn sum(&self, vertex: Vertex) -> u64 {
        match vertex.checked_sub(self.shape.columns()) {
            Some(row) => self.found.correlation[row],
            None => self.found.consistency[vertex],
        }
    }

    fn term(&self, vertex: Vertex, cell: usize, word: u64) -> u64 {
        let (row, column) = self.shape.place(cell);
        self.along(vertex).term(row, column, self.found.lane, word)
    }
}

/// Whether a coverage has a cell.
pub(super) fn has(coverage: &Coverage, cell: usize) -> bool {
    let (row, column) = coverage.shape().place(cell);
    coverage.contains(row, column)
}
