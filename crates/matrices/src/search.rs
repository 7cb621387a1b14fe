//! Correction of one lane.
//!
//! Lost blocks are searched for in three steps, each only if the earlier ones do not suffice:
//! 1. Only the blocks known to be lost are solved for.
//! 2. Elimination: a row that does not add up, but all of whose columns except one do, has lost the
//!    block in that column. Likewise for columns.
//! 3. Hypotheses, small ones first: that a tree of blocks (see [`trees`](super::trees)) is lost and
//!    no other block in its rows and columns. It is solved from its leaves; the sum left over accepts
//!    a wrong hypothesis with probability 2^-64. If two hypotheses fit, neither is taken.
//!
//! A logged block may have been stored to after it was summed. At first all sums are trusted all the
//! same; if that leads to no answer in which everything adds up, sums with logged blocks that do not
//! add up are ignored.

use super::lane::{FoundLane, Lane, Vertex, VertexState, has};
use super::trees::{SolveStep, choices, spanning};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Hypotheses that are tried for all lanes of a matrix before it is given up.
pub(super) const MOST_TRIES: usize = 1 << 20;

/// The result for a lane.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LaneVerdict {
    /// These cells should hold these words; no cells if everything adds up.
    Solved(Vec<(usize, u64)>),
    /// Some of these cells are lost, and their words cannot be determined.
    Unsolved(Vec<usize>),
}

/// The search in one lane.
pub(super) struct Solver<'a> {
    lane: Lane<'a>,
    /// Hypotheses that may still be tried.
    tries: &'a mut usize,
}

/// Cells and their words, as one answer.
type Solution = Vec<(usize, u64)>;

impl<'a> Solver<'a> {
    pub(super) fn new(found: FoundLane<'a>, tries: &'a mut usize) -> Self {
        Solver { lane: Lane::new(found), tries }
    }

    pub(super) fn solve(mut self) -> LaneVerdict {
        let words = self.lane.found.words.clone();
        if self.try_to_solve() {
            return self.verdict(&words);
        }
        self.lane.strict = false;
        let (bad, suspects) = (self.lane.bad(), self.lane.suspects());
        if self.lane.vertices.iter().any(|vertex| vertex.logged) && self.try_to_solve() {
            return self.verdict(&words);
        }
        LaneVerdict::Unsolved(self.blame(&bad, suspects))
    }

    fn verdict(&self, before: &[u64]) -> LaneVerdict {
        let words = self.lane.found.words.iter().copied().enumerate();
        LaneVerdict::Solved(words.filter(|(cell, word)| before[*cell] != *word).collect())
    }

    /// Returns whether it reached a state in which everything adds up; if not, the lane is unchanged.
    fn try_to_solve(&mut self) -> bool {
        let before = self.lane.found.words.clone();
        let solved =
            self.is_solved() || ((self.solve_erased() || self.search()) && self.is_solved());
        if !solved {
            for (cell, word) in before.into_iter().enumerate() {
                self.lane.set(cell, word);
            }
        }
        solved
    }

    fn is_solved(&self) -> bool {
        self.lane.bad().is_empty() && self.lane.suspects().is_empty()
    }

    /// For an unsolved lane: the cells that may be lost, by its original state.
    fn blame(&self, bad: &[Vertex], mut suspects: Vec<usize>) -> Vec<usize> {
        for &vertex in bad {
            let of_vertex = |cell: &usize| self.lane.cells(vertex).any(|other| other == *cell);
            if !suspects.iter().any(of_vertex) {
                suspects
                    .extend(self.lane.cells(vertex).filter(|cell| self.lane.may_be_lost(*cell)));
            }
        }
        suspects.sort_unstable();
        suspects.dedup();
        suspects
    }

    /// Step 1. Returns whether it sufficed.
    fn solve_erased(&mut self) -> bool {
        let suspects = self.lane.suspects().into_iter();
        let cells: Vec<usize> =
            suspects.filter(|cell| has(self.lane.found.erased, *cell)).collect();
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
    fn peel(&self, cells: &[usize]) -> Option<Vec<SolveStep<Vertex>>> {
        let mut rest = cells.to_vec();
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let alone = |vertex: &Vertex| {
                let here =
                    rest.iter().filter(|cell| self.lane.ends(**cell).contains(vertex)).count();
                here == 1 && self.lane.state(*vertex) == VertexState::Bad
            };
            let leaf = (0..self.lane.vertices.len()).find(alone)?;
            let at = rest.iter().position(|cell| self.lane.ends(*cell).contains(&leaf))?;
            let [column, row] = self.lane.ends(rest.swap_remove(at));
            steps.push(SolveStep { leaf, next: if leaf == column { row } else { column } });
        }
        Some(steps)
    }

    /// Steps 2 and 3 in turn, until everything adds up or nothing changes. Returns whether everything adds up.
    fn search(&mut self) -> bool {
        let mut edges = 1;
        loop {
            self.eliminate();
            let bad = self.lane.bad().len();
            if bad == 0 {
                return true;
            }
            if edges >= bad || !self.try_trees(edges) {
                return false;
            }
            // With fewer rows and columns in doubt, smaller trees may fit now.
            edges = if self.lane.bad().len() < bad { 1 } else { edges + 1 };
        }
    }

    fn eliminate(&mut self) {
        while self.lane.bad().into_iter().any(|vertex| self.eliminate_at(vertex)) {}
    }

    /// Returns whether this vertex could have lost only one cell, and one word fitted it.
    fn eliminate_at(&mut self, vertex: Vertex) -> bool {
        let mut suspects = self.lane.cells(vertex).filter(|cell| self.lane.is_suspect(*cell));
        let (Some(cell), None) = (suspects.next(), suspects.next()) else { return false };
        let mut words: Vec<u64> = self.lane.words_for(vertex, cell).collect();
        if words.len() > 1 {
            // If the row does not determine the word, the column may.
            let [column, row] = self.lane.ends(cell);
            let other = if vertex == column { row } else { column };
            words.retain(|word| {
                let old = self.lane.set(cell, *word);
                let good = self.lane.state(other) == VertexState::Good;
                self.lane.set(cell, old);
                good
            });
        }
        let &[word] = words.as_slice() else { return false };
        self.lane.set(cell, word);
        true
    }

    /// Tries all trees of this many blocks. False if two fitting trees share a row or column, or if there
    /// are too many trees to try.
    fn try_trees(&mut self, edges: usize) -> bool {
        let bad = self.lane.bad();
        let (columns, rows): (Vec<Vertex>, Vec<Vertex>) =
            bad.into_iter().partition(|vertex| *vertex < self.lane.shape.columns());
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
        steps: &[SolveStep<Vertex>],
        solutions: &mut BTreeSet<Solution>,
    ) -> ControlFlow<()> {
        if *self.tries == 0 {
            return ControlFlow::Break(());
        }
        *self.tries -= 1;
        let root = steps.last().expect("a tree has an edge").next;
        if steps.iter().all(|step| self.lane.is_suspect(self.lane.meet(*step))) {
            self.descend(steps, &mut Vec::new(), &mut |solver, solution| {
                if solver.lane.state(root) == VertexState::Good {
                    solutions.insert(solution);
                }
            });
        }
        ControlFlow::Continue(())
    }

    /// Solves for one cell after the other, from either side of each leaf, and shows every result.
    /// Restores the lane afterwards.
    fn descend(
        &mut self,
        steps: &[SolveStep<Vertex>],
        done: &mut Solution,
        end: &mut impl FnMut(&Self, Solution),
    ) {
        let Some((step, rest)) = steps.split_first() else {
            let mut solution = done.clone();
            solution.sort_unstable();
            return end(self, solution);
        };
        let cell = self.lane.meet(*step);
        for word in self.lane.words_for(step.leaf, cell) {
            let old = self.lane.set(cell, word);
            done.push((cell, word));
            self.descend(rest, done, end);
            done.pop();
            self.lane.set(cell, old);
        }
    }

    /// Applies solutions, unless there are two for the same row or column. Returns whether it did.
    fn take(&mut self, solutions: BTreeSet<Solution>) -> bool {
        let mut taken = BTreeSet::new();
        for solution in &solutions {
            let ends: BTreeSet<Vertex> =
                solution.iter().flat_map(|(cell, _)| self.lane.ends(*cell)).collect();
            if !taken.is_disjoint(&ends) {
                return false;
            }
            taken.extend(ends);
        }
        for (cell, word) in solutions.into_iter().flatten() {
            self.lane.set(cell, word);
        }
        true
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
