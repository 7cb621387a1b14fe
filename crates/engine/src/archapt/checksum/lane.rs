//! Correction of one lane: a matrix of words, a sum for each row and column.
//!
//! A row or column (a *vertex*) has a *residue*: its sum as stored, less the sum of what is there
//! now. What is lost is searched for in three steps, the later where the earlier do not do:
//! 1. The blocks known to be lost, and only they, are solved for.
//! 2. Elimination: a row that does not add up, all of whose columns but one do, has lost the block
//!    in that column. And the other way round.
//! 3. Hypotheses, small ones first: that a tree of blocks (see [`trees`](super::trees)) is lost
//!    and nothing else in its rows and columns. It is solved from its leaves; the sum that is left
//!    over accepts a wrong one with probability 2^-64. Where two fit, neither is taken.
//!
//! A logged block may have been stored to after it was summed. First all sums are taken at their
//! word all the same; if that leads to no answer in which everything adds up, those with logged
//! blocks that do not add up count for nothing.

use super::matrix::{Coverage, Shape};
use super::sum::Along;
use super::trees::{Step, choices, spanning};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Hypotheses that are tried for all lanes of a matrix before it is given up.
pub(super) const MOST_TRIES: usize = 1 << 20;

/// What is found of a page, one lane of it.
pub(super) struct Found<'a> {
    pub(super) lane: usize,
    /// By cell.
    pub(super) words: Vec<u64>,
    /// By column.
    pub(super) consistency: Vec<u64>,
    /// By row.
    pub(super) correlation: Vec<u64>,
    /// The two sets of cells that a sum may be of.
    pub(super) sides: [&'a Coverage; 2],
    /// Cells that are right as they are, whatever the sums say.
    pub(super) logged: &'a Coverage,
    /// Cells that are known to be lost.
    pub(super) erased: &'a Coverage,
}

/// What is to be done about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// These cells should hold these words; none, if all is well.
    Solved(Vec<(usize, u64)>),
    /// Some of these cells are lost, and nobody can tell what was there.
    Unsolved(Vec<usize>),
}

/// A row or a column: columns come first.
type Vertex = usize;

/// Whether a vertex adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    Bad,
    /// It does not, but its sum may be of what a logged block held before.
    Void,
    /// Nothing depends on it.
    Idle,
}

#[derive(Clone, Copy)]
struct VertexInfo {
    /// Whether its sum may be of the first, and of the second, of the sides.
    sides: [bool; 2],
    residues: [u64; 2],
    /// Whether one of its cells is logged.
    logged: bool,
    idle: bool,
}

pub(super) struct Solver<'a> {
    shape: Shape,
    found: Found<'a>,
    vertices: Vec<VertexInfo>,
    /// Whether no sum is taken to be void.
    strict: bool,
    /// Hypotheses that may still be tried.
    tries: &'a mut usize,
}

/// Cells and their words, as one answer.
type Solution = Vec<(usize, u64)>;

impl<'a> Solver<'a> {
    pub(super) fn new(found: Found<'a>, tries: &'a mut usize) -> Self {
        let shape = found.sides[1].shape();
        let mut solver = Solver { shape, found, vertices: Vec::new(), strict: true, tries };
        let settled = solver.is_settled();
        solver.vertices =
            (0..shape.columns() + shape.rows()).map(|v| solver.inspect(v, settled)).collect();
        solver
    }

    /// Whether the sums are of the second side for sure: it has cells that the first has not, and
    /// that no log holds any more.
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
        // A sum of nothing is not written, and may be anything.
        let sides = [counts[0] > 0 && !settled, true];
        VertexInfo { sides, residues, logged: any_logged, idle }
    }

    pub(super) fn solve(mut self) -> Verdict {
        let words = self.found.words.clone();
        if self.try_to_solve() {
            return self.verdict(&words);
        }
        self.strict = false;
        let (bad, suspects) = (self.bad(), self.suspects());
        if self.vertices.iter().any(|vertex| vertex.logged) && self.try_to_solve() {
            return self.verdict(&words);
        }
        Verdict::Unsolved(self.blame(&bad, suspects))
    }

    fn verdict(&self, before: &[u64]) -> Verdict {
        let words = self.found.words.iter().copied().enumerate();
        Verdict::Solved(words.filter(|(cell, word)| before[*cell] != *word).collect())
    }

    /// Whether it came to an end in which all is well; if not, all is as it was.
    fn try_to_solve(&mut self) -> bool {
        let before = self.found.words.clone();
        let solved =
            self.is_solved() || ((self.solve_erased() || self.search()) && self.is_solved());
        if !solved {
            for (cell, word) in before.into_iter().enumerate() {
                self.set(cell, word);
            }
        }
        solved
    }

    fn is_solved(&self) -> bool {
        self.bad().is_empty() && self.suspects().is_empty()
    }

    /// What to tell of a lane that was not solved: the cells that may be lost, as it was found.
    fn blame(&self, bad: &[Vertex], mut suspects: Vec<usize>) -> Vec<usize> {
        for &vertex in bad {
            let of_vertex = |cell: &usize| self.cells(vertex).any(|other| other == *cell);
            if !suspects.iter().any(of_vertex) {
                suspects.extend(self.cells(vertex).filter(|cell| self.may_be_lost(*cell)));
            }
        }
        suspects.sort_unstable();
        suspects.dedup();
        suspects
    }

    /// Step 1. Whether it did.
    fn solve_erased(&mut self) -> bool {
        let suspects = self.suspects().into_iter();
        let cells: Vec<usize> = suspects.filter(|cell| has(self.found.erased, *cell)).collect();
        let Some(steps) = self.peel(&cells).filter(|steps| !steps.is_empty()) else { return false };
        let mut solutions = BTreeSet::new();
        self.descend(&steps, &mut Vec::new(), &mut |solver, solution| {
            if solver.is_solved() {
                solutions.insert(solution);
            }
        });
        !solutions.is_empty() && self.take(solutions)
    }

    /// An order in which these cells can be solved, if there is one.
    fn peel(&self, cells: &[usize]) -> Option<Vec<Step<Vertex>>> {
        let mut rest = cells.to_vec();
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let alone = |vertex: &Vertex| {
                let here = rest.iter().filter(|cell| self.ends(**cell).contains(vertex)).count();
                here == 1 && self.state(*vertex) == State::Bad
            };
            let leaf = (0..self.vertices.len()).find(alone)?;
            let at = rest.iter().position(|cell| self.ends(*cell).contains(&leaf))?;
            let [column, row] = self.ends(rest.swap_remove(at));
            steps.push(Step { leaf, next: if leaf == column { row } else { column } });
        }
        Some(steps)
    }

    /// Steps 2 and 3 in turn, until all is well or nothing changes. Whether all is well.
    fn search(&mut self) -> bool {
        let mut edges = 1;
        loop {
            self.eliminate();
            let bad = self.bad().len();
            if bad == 0 {
                return true;
            }
            if edges >= bad || !self.try_trees(edges) {
                return false;
            }
            edges += 1;
        }
    }

    fn eliminate(&mut self) {
        while self.bad().into_iter().any(|vertex| self.eliminate_at(vertex)) {}
    }

    /// Whether there was only one cell that this vertex can have lost, and one word for it.
    fn eliminate_at(&mut self, vertex: Vertex) -> bool {
        let mut suspects = self.cells(vertex).filter(|cell| self.is_suspect(*cell));
        let (Some(cell), None) = (suspects.next(), suspects.next()) else { return false };
        let mut words = self.words_for(vertex, cell);
        if words.len() > 1 {
            // What the row cannot tell, the column may.
            let [column, row] = self.ends(cell);
            let other = if vertex == column { row } else { column };
            words.retain(|word| {
                let old = self.set(cell, *word);
                let good = self.state(other) == State::Good;
                self.set(cell, old);
                good
            });
        }
        let &[word] = words.as_slice() else { return false };
        self.set(cell, word);
        true
    }

    /// Tries all trees of this many blocks. False if two of those that fit share a row or column,
    /// or if they are too many to try.
    fn try_trees(&mut self, edges: usize) -> bool {
        let bad = self.bad();
        let (columns, rows): (Vec<Vertex>, Vec<Vertex>) =
            bad.into_iter().partition(|vertex| *vertex < self.shape.columns());
        let mut solutions = BTreeSet::new();
        for some_rows in 1..=edges {
            let end = choices(&rows, some_rows, &mut |rows| {
                choices(&columns, edges + 1 - some_rows, &mut |columns| {
                    spanning(rows, columns, &mut |steps| self.try_tree(steps, &mut solutions))
                })
            });
            if end.is_break() {
                return false;
            }
        }
        self.take(solutions)
    }

    fn try_tree(
        &mut self,
        steps: &[Step<Vertex>],
        solutions: &mut BTreeSet<Solution>,
    ) -> ControlFlow<()> {
        if *self.tries == 0 {
            return ControlFlow::Break(());
        }
        *self.tries -= 1;
        let root = steps.last().expect("a tree has an edge").next;
        if steps.iter().all(|step| self.is_suspect(self.meet(*step))) {
            self.descend(steps, &mut Vec::new(), &mut |solver, solution| {
                if solver.state(root) == State::Good {
                    solutions.insert(solution);
                }
            });
        }
        ControlFlow::Continue(())
    }

    /// Solves for one cell after the other, from either side of each leaf, and shows every end.
    /// Leaves everything as it was.
    fn descend(
        &mut self,
        steps: &[Step<Vertex>],
        done: &mut Solution,
        end: &mut impl FnMut(&Self, Solution),
    ) {
        let Some((step, rest)) = steps.split_first() else {
            let mut solution = done.clone();
            solution.sort_unstable();
            return end(self, solution);
        };
        let cell = self.meet(*step);
        for word in self.words_for(step.leaf, cell) {
            let old = self.set(cell, word);
            done.push((cell, word));
            self.descend(rest, done, end);
            done.pop();
            self.set(cell, old);
        }
    }

    /// Makes solutions true, unless there are two for the same row or column. Whether it did.
    fn take(&mut self, solutions: BTreeSet<Solution>) -> bool {
        let mut taken = BTreeSet::new();
        for solution in &solutions {
            let ends: BTreeSet<Vertex> =
                solution.iter().flat_map(|(cell, _)| self.ends(*cell)).collect();
            if !taken.is_disjoint(&ends) {
                return false;
            }
            taken.extend(ends);
        }
        for (cell, word) in solutions.into_iter().flatten() {
            self.set(cell, word);
        }
        true
    }

    /// The words that make a vertex add up if only this cell of it is lost: one for each side that
    /// its sum may be of.
    fn words_for(&self, vertex: Vertex, cell: usize) -> Vec<u64> {
        let (row, column) = self.shape.place(cell);
        let VertexInfo { sides, residues, .. } = self.vertices[vertex];
        let term = self.term(vertex, cell, self.found.words[cell]);
        let mut words: Vec<u64> = (0..2)
            .filter(|side| sides[*side] && self.found.sides[*side].contains(row, column))
            .map(|side| {
                let term = term.wrapping_add(residues[side]);
                self.along(vertex).word(row, column, self.found.lane, term)
            })
            .collect();
        words.dedup();
        words
    }

    /// Puts a word into a cell. Returns the one that was there.
    fn set(&mut self, cell: usize, word: u64) -> u64 {
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

    fn state(&self, vertex: Vertex) -> State {
        let VertexInfo { sides, residues, logged, idle } = self.vertices[vertex];
        match () {
            () if idle => State::Idle,
            () if (0..2).any(|side| sides[side] && residues[side] == 0) => State::Good,
            () if logged && !self.strict => State::Void,
            () => State::Bad,
        }
    }

    fn bad(&self) -> Vec<Vertex> {
        let all = 0..self.vertices.len();
        all.filter(|vertex| self.state(*vertex) == State::Bad).collect()
    }

    fn suspects(&self) -> Vec<usize> {
        (0..self.shape.cells()).filter(|cell| self.is_suspect(*cell)).collect()
    }

    /// Whether neither its row nor its column vouches for a cell.
    fn is_suspect(&self, cell: usize) -> bool {
        let open = |vertex| matches!(self.state(vertex), State::Bad | State::Void);
        self.may_be_lost(cell) && self.ends(cell).into_iter().all(open)
    }

    fn may_be_lost(&self, cell: usize) -> bool {
        has(self.found.sides[1], cell) && !has(self.found.logged, cell)
    }

    /// The column and the row of a cell.
    fn ends(&self, cell: usize) -> [Vertex; 2] {
        let (row, column) = self.shape.place(cell);
        [column, self.shape.columns() + row]
    }

    fn meet(&self, step: Step<Vertex>) -> usize {
        let (column, row) = (step.leaf.min(step.next), step.leaf.max(step.next));
        self.shape.cell(row - self.shape.columns(), column)
    }

    fn cells(&self, vertex: Vertex) -> impl Iterator<Item = usize> + use<> {
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

fn has(coverage: &Coverage, cell: usize) -> bool {
    let (row, column) = coverage.shape().place(cell);
    coverage.contains(row, column)
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
