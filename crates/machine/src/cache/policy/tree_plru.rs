//! Tree pseudo-LRU: a binary tree over the ways, with a bit in each node that points to the half
//! to replace next. An access turns the bits on its way to point away from itself.
//!
//! The tree has a power of two of leaves. Those beyond the last way do not exist: a node whose
//! right half is wholly beyond it leads left, whatever its bit.

use super::Replace;

/// Node 1 is the root, those below node `n` are `2n` and `2n + 1`; bit `n` of a word is node
/// `n`'s, and set means right.
pub(in crate::cache) struct TreePlru {
    /// Depth of the leaves.
    depth: u32,
    /// Nodes with something on their right.
    forks: u64,
    /// Nodes on the way to a way, and those of them whose bit an access sets.
    paths: Vec<(u64, u64)>,
    sets: Vec<u64>,
}

impl TreePlru {
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        let leaves = ways.next_power_of_two();
        let (mut forks, mut paths) = (0, vec![(0, 0); ways]);
        for (way, path) in paths.iter_mut().enumerate() {
            let mut node = leaves + way;
            while node > 1 {
                let right = node % 2;
                node /= 2;
                forks |= (right as u64) << node;
                path.0 |= 1 << node;
                path.1 |= (1 - right as u64) << node;
            }
        }
        TreePlru { depth: leaves.trailing_zeros(), forks, paths, sets: vec![0; sets] }
    }
}

impl Replace for TreePlru {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        let (path, away) = self.paths[way];
        let bits = &mut self.sets[set];
        *bits = (*bits & !path) | away;
    }

    #[inline(always)]
    fn fill(&mut self, set: usize, way: usize) {
        self.hit(set, way);
    }

    #[inline(always)]
    fn victim(&mut self, set: usize) -> usize {
        let bits = self.sets[set] & self.forks;
        let leaf = (0..self.depth).fold(1, |node, _| 2 * node + (bits >> node & 1) as usize);
        leaf - (1 << self.depth)
    }
    /// Where a bit points to a half with none of the ways, the other half is searched.
    fn victim_among(&mut self, set: usize, ways: u64) -> usize {
        let bits = self.sets[set];
        let (mut first, mut node) = (0, 1);
        for depth in 0..self.depth {
            let half = 1usize << (self.depth - depth - 1);
            let left = ((1u64 << half) - 1) << first;
            let right = left << half;
            let goes_right = ways & right != 0 && (bits >> node & 1 != 0 || ways & left == 0);
            node = 2 * node + usize::from(goes_right);
            first += if goes_right { half } else { 0 };
        }
        first
    }
}
