//! A way through a copy of the grid: costs spread from one end, and the way follows them back from the other.

use super::maze::{DIRECTIONS, Size, Wire};
use crate::Computation;
use std::collections::VecDeque;

/// Cost of a step along each axis: changing the layer is dearer.
const STEP: [u32; 3] = [1, 1, 2];
/// Cost of a bend.
const BEND: u32 = 1;
const UNKNOWN: u32 = u32::MAX;

/// A thread's search for ways.
pub(super) struct Router {
    size: Size,
    grid: Vec<u64>,
    costs: Vec<u32>,
    next: VecDeque<u64>,
    /// Cells of this search whose neighbours were looked at.
    expanded: u64,
    computation: Computation,
}

impl Router {
    pub(super) fn new(size: Size, computation: Computation) -> Self {
        let cells = size.cells() as usize;
        let (grid, costs) = (vec![0; cells], vec![UNKNOWN; cells]);
        Router { size, grid, costs, next: VecDeque::new(), expanded: 0, computation }
    }

    /// The buffer for a copy of the grid.
    pub(super) fn copy_to(&mut self) -> &mut [u64] {
        &mut self.grid
    }

    /// The cells of a way along free cells, both ends included; `None` if there is none.
    pub(super) fn find(&mut self, wire: Wire) -> Option<Vec<u64>> {
        self.expanded = 0;
        let way = self.spread(wire).then(|| self.follow(wire));
        let followed = way.as_ref().map_or(0, |way| way.len() as u64);
        self.computation.charge((self.expanded + followed) * DIRECTIONS as u64);
        way
    }

    fn beside(&self, cell: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let size = self.size;
        (0..DIRECTIONS).filter_map(move |way| size.beside(cell, way).map(|cell| (way, cell)))
    }

    /// Gives cells their costs, until the other end has one.
    fn spread(&mut self, (from, to): Wire) -> bool {
        self.costs.fill(UNKNOWN);
        self.costs[from as usize] = 0;
        self.next.clear();
        self.next.push_back(from);
        while let Some(cell) = self.next.pop_front() {
            if cell == to {
                return true;
            }
            self.expanded += 1;
            let cost = self.costs[cell as usize];
            for (way, beside) in self.beside(cell) {
                let there = beside as usize;
                let is_free = self.grid[there] == 0 || beside == to;
                let through = cost + STEP[way / 2];
                if is_free && through < self.costs[there] {
                    self.costs[there] = through;
                    self.next.push_back(beside);
                }
            }
        }
        false
    }

    /// Goes back from the other end to ever cheaper cells, preferably straight on.
    fn follow(&self, (from, to): Wire) -> Vec<u64> {
        let (mut way, mut cell, mut before) = (vec![to], to, None);
        while cell != from {
            let cost = self.costs[cell as usize];
            let cheaper =
                self.beside(cell).filter(|(_, beside)| self.costs[*beside as usize] < cost);
            let with_bend = |(way, beside): &(usize, u64)| {
                let bends = before.is_some_and(|before| before != *way);
                self.costs[*beside as usize] + if bends { BEND } else { 0 }
            };
            // The cell that gave this one its cost is cheaper.
            let Some((direction, beside)) = cheaper.min_by_key(with_bend) else { break };
            (before, cell) = (Some(direction), beside);
            way.push(cell);
        }
        way.reverse();
        way
    }
}
