//! Which lines of a batch are lost, and their contents.
//!
//! Tags tell which: with them a loss is an erasure. A sum with a single lost line gives that line, which may leave
//! another sum with a single one: lines peel off, as in decoding an erasure code with three checks for each symbol
//! (Luby, Mitzenmacher, Shokrollahi and Spielman, *Efficient Erasure Correcting Codes*, 2001), until none is left, or
//! every sum of the remaining ones has two or more. One lost line in 2^16 keeps its tag; then the sums are
//! inconsistent, and that line is searched for.

use super::place::{ALONG, At, Matrix, tag};
use crate::planted::{self, Bug};
use perdura_memory::keyed::Along;
use perdura_memory::keyed::{Block, LANES, Summer};

/// The most lost lines of a batch with which a lost line that keeps its tag is searched for.
const MOST_BESIDE: usize = 256;

/// A line of a batch, as found in the memory.
pub(super) struct FoundLine {
    pub(super) at: At,
    pub(super) block: Block,
    /// The tag of the contents that it should have.
    pub(super) tag: u16,
}

/// What the checksums of a batch say; lines are given by their positions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RestoreOutcome {
    /// Lost lines, with the contents they should have.
    pub(super) restored: Vec<(usize, Block)>,
    /// Lines of which some are lost, and cannot be restored.
    pub(super) hopeless: Vec<usize>,
}

/// Evaluates the sums of a batch's lines.
pub(super) fn restore(
    summer: Summer,
    matrix: &Matrix,
    lines: &[FoundLine],
    sums: &[Block],
) -> RestoreOutcome {
    let mut equations = Equations::new(summer, matrix, lines, sums);
    let mut lost = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if tag(&summer.term(Along::Column, line.at, &line.block)) == line.tag {
            equations.change(line.at, &line.block, u64::wrapping_sub);
        } else {
            equations.lose(number);
            lost.push(number);
        }
    }
    match equations.clone().solve() {
        Solved::All(found) => RestoreOutcome { restored: found, hopeless: Vec::new() },
        Solved::Some(found) => {
            lost.retain(|number| found.iter().all(|(one, _)| one != number));
            RestoreOutcome { restored: found, hopeless: lost }
        }
        Solved::Wrong => {
            let suspects = equations.suspects();
            if let Some(found) = equations.solve_with_one_more(&suspects) {
                return RestoreOutcome { restored: found, hopeless: Vec::new() };
            }
            lost.extend(suspects);
            lost.sort_unstable();
            lost.dedup();
            RestoreOutcome { restored: Vec::new(), hopeless: lost }
        }
    }
}

/// How far the equations could be solved.
enum Solved {
    All(Vec<(usize, Block)>),
    /// The lost lines with their contents; any others share all of their sums.
    Some(Vec<(usize, Block)>),
    /// The sums are inconsistent: another line is lost too.
    Wrong,
}

/// An equation: the sum over the lost lines alone, their count, and the xor of their numbers.
#[derive(Clone, Copy, Default)]
struct Equation {
    rest: Block,
    lost: usize,
    numbers: usize,
}

#[derive(Clone)]
struct Equations<'a> {
    summer: Summer,
    matrix: &'a Matrix,
    lines: &'a [FoundLine],
    /// The equations of each kind, one kind after the other.
    all: Vec<Equation>,
    lost: usize,
}

impl<'a> Equations<'a> {
    fn new(summer: Summer, matrix: &'a Matrix, lines: &'a [FoundLine], sums: &[Block]) -> Self {
        let equation = |rest: &Block| Equation { rest: *rest, lost: 0, numbers: 0 };
        let all = sums.iter().map(equation).collect();
        Equations { summer, matrix, lines, all, lost: 0 }
    }

    /// What a sum goes along.
    fn along(&self, sum: usize) -> Along {
        let kind = self.matrix.first_sums().iter().rposition(|first| *first <= sum);
        ALONG[kind.unwrap_or(0)]
    }

    /// Takes a line out of its sums, or puts it back.
    fn change(&mut self, at: At, block: &Block, with: fn(u64, u64) -> u64) {
        for (along, sum) in ALONG.into_iter().zip(self.matrix.sums_of(at)) {
            let (term, rest) = (self.summer.term(along, at, block), &mut self.all[sum].rest);
            (0..LANES).for_each(|lane| rest[lane] = with(rest[lane], term[lane]));
        }
    }

    /// Makes a line unknown; it is in the sums.
    fn lose(&mut self, number: usize) {
        self.lost += 1;
        for sum in self.matrix.sums_of(self.lines[number].at) {
            self.all[sum].lost += 1;
            self.all[sum].numbers ^= number;
        }
    }

    fn solve(mut self) -> Solved {
        let mut found = Vec::new();
        let mut alone: Vec<usize> =
            (0..self.all.len()).filter(|sum| self.all[*sum].lost == 1).collect();
        while let Some(sum) = alone.pop() {
            let Equation { rest, lost: 1, numbers } = self.all[sum] else { continue };
            let (line, along) = (&self.lines[numbers], self.along(sum));
            if planted::has(Bug::OnlyColumns) && !matches!(along, Along::Column) {
                continue;
            }
            let (row, column) = line.at;
            let block: Block =
                std::array::from_fn(|lane| along.word(row, column, lane, rest[lane]));
            if tag(&self.summer.term(Along::Column, line.at, &block)) != line.tag {
                return Solved::Wrong;
            }
            self.change(line.at, &block, u64::wrapping_sub);
            for sum in self.matrix.sums_of(line.at) {
                let equation = &mut self.all[sum];
                equation.lost -= 1;
                equation.numbers ^= numbers;
                alone.extend((equation.lost == 1).then_some(sum));
            }
            found.push((numbers, block));
        }
        if found.len() < self.lost {
            return Solved::Some(found);
        }
        let adds_up = self.all.iter().all(|equation| equation.rest == [0; LANES]);
        if adds_up { Solved::All(found) } else { Solved::Wrong }
    }

    /// Lines that are not considered lost, but may be: none of their sums rules it out.
    fn suspects(&self) -> Vec<usize> {
        let open = |sum: usize| {
            let equation = &self.all[sum];
            equation.lost > 0 || equation.rest != [0; LANES]
        };
        let suspect =
            |number: &usize| self.matrix.sums_of(self.lines[*number].at).into_iter().all(open);
        (0..self.lines.len()).filter(suspect).collect()
    }

    /// Solves the equations with one of these lines lost too.
    fn solve_with_one_more(&self, suspects: &[usize]) -> Option<Vec<(usize, Block)>> {
        if self.lost > MOST_BESIDE {
            return None;
        }
        suspects.iter().find_map(|number| {
            let mut with = self.clone();
            let line = &self.lines[*number];
            with.change(line.at, &line.block, u64::wrapping_add);
            with.lose(*number);
            if let Solved::All(found) = with.solve() { Some(found) } else { None }
        })
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
