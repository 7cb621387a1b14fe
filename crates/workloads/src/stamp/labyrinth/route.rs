//! A way through a copy of the grid: costs spread from one end, and the way follows them back from the other.

use super::maze::{DIRECTIONS, Size, Wire};
use crate::{Computation, PrivateBuffer, Session};
use std::collections::VecDeque;

/// Cost of a step along each axis: changing the layer is dearer.
const STEP: [u32; 3] = [1, 1, 2];
/// Cost of a bend.
const BEND: u32 = 1;
const UNKNOWN: u32 = u32::MAX;

/// Bytes of a cell of the copy, and of an element of the queue.
const CELL: u64 = size_of::<u64>() as u64;
/// Bytes of a cost.
const COST: u64 = size_of::<u32>() as u64;

/// A thread's search for ways.
pub(super) struct Router {
    size: Size,
    grid: Vec<u64>,
    costs: Vec<u32>,
    next: VecDeque<u64>,
    /// Elements taken from `next` in this search.
    taken: u64,
    reported: Reported,
    computation: Computation,
}

/// Where the accesses to a router's buffers are reported.
#[derive(Debug, Default)]
pub(super) struct Reported {
    pub(super) grid: PrivateBuffer,
    pub(super) costs: PrivateBuffer,
    pub(super) next: PrivateBuffer,
}

impl Reported {
    /// To the session's machine.
    pub(super) fn to<S: Session>(session: &S, size: Size) -> Self {
        let buffer = |bytes_each: u64| session.private_buffer(size.cells() * bytes_each);
        Reported { grid: buffer(CELL), costs: buffer(COST), next: buffer(CELL) }
    }
}

impl Router {
    pub(super) fn new(size: Size, reported: Reported, computation: Computation) -> Self {
        let cells = size.cells() as usize;
        let (grid, costs) = (vec![0; cells], vec![UNKNOWN; cells]);
        Router { size, grid, costs, next: VecDeque::new(), taken: 0, reported, computation }
    }

    /// The buffer for a copy of the grid.
    pub(super) fn copy_to(&mut self) -> &mut [u64] {
        &mut self.grid
    }

    /// The cells of a way along free cells, both ends included; `None` if there is none. The copy has been made.
    pub(super) fn find(&mut self, wire: Wire) -> Option<Vec<u64>> {
        self.reported.grid.wrote(0, self.size.cells() * CELL);
        self.spread(wire).then(|| self.follow(wire))
    }

    fn is_free(&self, cell: u64) -> bool {
        self.reported.grid.read(cell * CELL, CELL);
        self.grid[cell as usize] == 0
    }

    fn cost(&self, cell: u64) -> u32 {
        self.reported.costs.read(cell * COST, COST);
        self.costs[cell as usize]
    }

    fn set_cost(&mut self, cell: u64, cost: u32) {
        self.costs[cell as usize] = cost;
        self.reported.costs.wrote(cell * COST, COST);
    }

    fn push(&mut self, cell: u64) {
        self.next.push_back(cell);
        let place = (self.taken + self.next.len() as u64 - 1) % self.next.capacity() as u64;
        self.reported.next.wrote(place * CELL, CELL);
    }

    fn pop(&mut self) -> Option<u64> {
        let cell = self.next.pop_front()?;
        self.reported.next.value(self.taken % self.next.capacity() as u64 * CELL, CELL);
        self.taken += 1;
        Some(cell)
    }

    fn beside(&self, cell: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let size = self.size;
        (0..DIRECTIONS).filter_map(move |way| size.beside(cell, way).map(|cell| (way, cell)))
    }

    /// Gives cells their costs, until the other end has one.
    fn spread(&mut self, (from, to): Wire) -> bool {
        self.costs.fill(UNKNOWN);
        self.reported.costs.wrote(0, self.size.cells() * COST);
        self.set_cost(from, 0);
        self.next.clear();
        self.taken = 0;
        self.push(from);
        while let Some(cell) = self.pop() {
            if cell == to {
                return true;
            }
            self.computation.charge(DIRECTIONS as u64);
            let cost = self.cost(cell);
            for (way, beside) in self.beside(cell) {
                let through = cost + STEP[way / 2];
                if (self.is_free(beside) || beside == to) && through < self.cost(beside) {
                    self.set_cost(beside, through);
                    self.push(beside);
                }
            }
        }
        false
    }

    /// Goes back from the other end to ever cheaper cells, preferably straight on.
    fn follow(&self, (from, to): Wire) -> Vec<u64> {
        let (mut way, mut cell, mut before) = (vec![to], to, None);
        while cell != from {
            self.computation.charge(DIRECTIONS as u64);
            let cost = self.cost(cell);
            let cheaper = self.beside(cell).filter(|(_, beside)| self.cost(*beside) < cost);
            let with_bend = |(way, beside): &(usize, u64)| {
                let bends = before.is_some_and(|before| before != *way);
                self.costs[*beside as usize] + if bends { BEND } else { 0 }
            };
            // The cell that gave this one its cost is cheaper.
            let Some((direction, beside)) = cheaper.min_by_key(with_bend) else { break };
            (before, cell) = (Some(direction), beside);
            way.push(cell);
        }
        self.computation.charge(DIRECTIONS as u64);
        way.reverse();
        way
    }
}
