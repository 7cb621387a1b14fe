//! The grid's shape, and the ends of the wires.

use crate::random::Random;
use crate::{Failure, Outcome};
use std::collections::BTreeSet;

/// Cells in each direction; a cell is a number, x first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) x: u64,
    pub(super) y: u64,
    pub(super) z: u64,
}

/// Ways out of a cell: along x, y and z, down and up.
pub(super) const DIRECTIONS: usize = 6;

impl Size {
    pub(super) const fn cells(self) -> u64 {
        self.x * self.y * self.z
    }

    const fn place(self, cell: u64) -> [u64; 3] {
        [cell % self.x, cell / self.x % self.y, cell / (self.x * self.y)]
    }

    /// The next cell in a direction, if it is in the grid.
    pub(super) const fn beside(self, cell: u64, direction: usize) -> Option<u64> {
        let (at, sizes) = (self.place(cell), [self.x, self.y, self.z]);
        let steps = [1, self.x, self.x * self.y];
        let axis = direction / 2;
        if direction.is_multiple_of(2) {
            if at[axis] == 0 { None } else { Some(cell - steps[axis]) }
        } else if at[axis] + 1 == sizes[axis] {
            None
        } else {
            Some(cell + steps[axis])
        }
    }

    /// Cells between two, counted along the axes.
    fn distance(self, a: u64, b: u64) -> u64 {
        self.place(a).iter().zip(self.place(b)).map(|(a, b)| a.abs_diff(b)).sum()
    }
}

/// The two cells that a wire joins.
pub(super) type Wire = (u64, u64);

/// Wires to lay.
#[derive(Debug)]
pub(super) struct Maze {
    size: Size,
    wires: Vec<Wire>,
}

impl Maze {
    /// Draws the ends of wires, no two in the same cell; the shortest wires come first.
    pub(super) fn drawn(size: Size, wires: u64, seed: u64) -> Outcome<Self> {
        let cells = size.x.checked_mul(size.y).and_then(|layer| layer.checked_mul(size.z));
        let enough = cells.is_some_and(|cells| cells <= 1 << 32 && wires <= cells / 4);
        if !enough || wires == 0 {
            let what = "labyrinth needs a wire, and four cells for each (2^32 at most)";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let (mut random, mut taken) = (Random::new(seed, 1 << 33), BTreeSet::new());
        let mut end = || loop {
            let cell = random.below(size.cells());
            if taken.insert(cell) {
                return cell;
            }
        };
        let mut wires: Vec<Wire> = (0..wires).map(|_| (end(), end())).collect();
        wires.sort_by_key(|wire| size.distance(wire.0, wire.1));
        Ok(Maze { size, wires })
    }

    /// These wires.
    #[cfg(test)]
    pub(super) fn of(size: Size, wires: Vec<Wire>) -> Self {
        Maze { size, wires }
    }

    pub(super) const fn size(&self) -> Size {
        self.size
    }

    pub(super) fn wires(&self) -> &[Wire] {
        &self.wires
    }
}
