//! Which lines of a region are lost, and what they held.
//!
//! Tags say which: with them a loss is an erasure. A sum of which one line only is lost gives
//! that line, which may leave another sum with one: lines peel off, as in decoding an erasure
//! code with three checks for each symbol (Luby, Mitzenmacher, Shokrollahi and Spielman, *Efficient
//! Erasure Correcting Codes*, 2001), until none is left, or some of which every sum has two or
//! more. One lost line in 2^16 keeps its tag; then something does not add up, and it is looked for.

use super::place::{ALONG, SLANTED, sums_of, tag};
use crate::archapt::checksum::sum::Along;
use crate::archapt::checksum::{Block, LANES, Summer};

/// Most lost lines of a region beside which one that keeps its tag is looked for.
const MOST_BESIDE: usize = 256;

/// A line's row and column.
pub(super) type At = (usize, usize);

/// A covered line, as it is found.
pub(super) struct Line {
    pub(super) at: At,
    pub(super) block: Block,
    /// That of what it should hold.
    pub(super) tag: u16,
}

/// The sums of a region by kind; those of nothing are zero.
pub(super) type Sums = [[Block; SLANTED]; ALONG.len()];

/// What the checksums of a region say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Lines that are lost, and what they should hold.
    pub(super) restored: Vec<(At, Block)>,
    /// Lines of which some are lost, and cannot be restored.
    pub(super) hopeless: Vec<At>,
}

/// What the sums say of the covered lines of a region.
pub(super) fn restore(summer: Summer, lines: &[Line], sums: &Sums) -> Outcome {
    let mut equations = Equations::new(summer, lines, sums);
    let mut lost = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if tag(&summer.term(Along::Column, line.at, &line.block)) == line.tag {
            equations.change(line.at, &line.block, u64::wrapping_sub);
        } else {
            equations.lose(number);
            lost.push(number);
        }
    }
    let place = |(number, block): &(usize, Block)| (lines[*number].at, *block);
    match equations.clone().solve() {
        Solved::All(found) => {
            Outcome { restored: found.iter().map(place).collect(), hopeless: Vec::new() }
        }
        Solved::Some(found) => {
            lost.retain(|number| found.iter().all(|(one, _)| one != number));
            Outcome {
                restored: found.iter().map(place).collect(),
                hopeless: lost.iter().map(|number| lines[*number].at).collect(),
            }
        }
        Solved::Wrong => {
            let suspects = equations.suspects();
            let found = equations.solve_with_one_more(&suspects);
            let restored: Vec<_> = found.iter().flatten().map(place).collect();
            lost.extend(suspects);
            lost.sort_unstable();
            lost.dedup();
            if found.is_some() {
                lost.clear();
            }
            Outcome { restored, hopeless: lost.iter().map(|number| lines[*number].at).collect() }
        }
    }
}

/// How far the equations could be solved, with the lines' numbers and contents.
enum Solved {
    All(Vec<(usize, Block)>),
    /// The others are in no sum alone.
    Some(Vec<(usize, Block)>),
    /// Something does not add up: another line is lost too.
    Wrong,
}

/// A sum: of the lost lines alone, how many these are, and their numbers, all xored.
#[derive(Clone, Copy, Default)]
struct Equation {
    rest: Block,
    lost: usize,
    numbers: usize,
}

#[derive(Clone)]
struct Equations<'a> {
    summer: Summer,
    lines: &'a [Line],
    by_kind: [[Equation; SLANTED]; ALONG.len()],
    lost: usize,
}

impl<'a> Equations<'a> {
    fn new(summer: Summer, lines: &'a [Line], sums: &Sums) -> Self {
        let equation = |rest| Equation { rest, lost: 0, numbers: 0 };
        Equations { summer, lines, by_kind: sums.map(|sums| sums.map(equation)), lost: 0 }
    }

    fn of(&mut self, at: At) -> impl Iterator<Item = (usize, usize, &mut Equation)> {
        let kinds = self.by_kind.iter_mut().zip(sums_of(at)).enumerate();
        kinds.map(|(kind, (equations, index))| (kind, index, &mut equations[index]))
    }

    /// Takes a line out of the sums, or puts it back.
    fn change(&mut self, at: At, block: &Block, with: fn(u64, u64) -> u64) {
        let summer = self.summer;
        for (kind, _, equation) in self.of(at) {
            let term = summer.term(ALONG[kind], at, block);
            (0..LANES).for_each(|lane| equation.rest[lane] = with(equation.rest[lane], term[lane]));
        }
    }

    /// A line is not known; it is in the sums.
    fn lose(&mut self, number: usize) {
        self.lost += 1;
        for (_, _, equation) in self.of(self.lines[number].at) {
            equation.lost += 1;
            equation.numbers ^= number;
        }
    }

    fn solve(mut self) -> Solved {
        let mut found = Vec::new();
        let mut alone: Vec<(usize, usize)> = (0..ALONG.len())
            .flat_map(|kind| (0..SLANTED).map(move |index| (kind, index)))
            .filter(|(kind, index)| self.by_kind[*kind][*index].lost == 1)
            .collect();
        while let Some((kind, index)) = alone.pop() {
            let Equation { rest, lost: 1, numbers } = self.by_kind[kind][index] else { continue };
            let line = &self.lines[numbers];
            let (row, column) = line.at;
            let block: Block =
                std::array::from_fn(|lane| ALONG[kind].word(row, column, lane, rest[lane]));
            if tag(&self.summer.term(Along::Column, line.at, &block)) != line.tag {
                return Solved::Wrong;
            }
            self.change(line.at, &block, u64::wrapping_sub);
            for (kind, index, equation) in self.of(line.at) {
                equation.lost -= 1;
                equation.numbers ^= numbers;
                alone.extend((equation.lost == 1).then_some((kind, index)));
            }
            found.push((numbers, block));
        }
        if found.len() < self.lost {
            return Solved::Some(found);
        }
        let adds_up = self.by_kind.iter().flatten().all(|equation| equation.rest == [0; LANES]);
        if adds_up { Solved::All(found) } else { Solved::Wrong }
    }

    /// Lines that are not taken to be lost, but may be: all of their sums leave that open.
    fn suspects(&self) -> Vec<usize> {
        let open = |equation: &Equation| equation.lost > 0 || equation.rest != [0; LANES];
        let suspect = |line: &Line| {
            let mut sums = self.by_kind.iter().zip(sums_of(line.at));
            sums.all(|(equations, index)| open(&equations[index]))
        };
        (0..self.lines.len()).filter(|number| suspect(&self.lines[*number])).collect()
    }

    /// Solves them with one of these lines lost too.
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
