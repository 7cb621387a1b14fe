//! Queries: the nearest points, of a bounded number that are looked at (FLANN's, and Mount and Arya's priority search).

use super::forest::Forest;
use super::node::Node;
use super::points::{Nearest, distance};
use perdura::{Error, Result, Tx};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

/// A subtree that was passed by, with a bound of its points' distance, squared.
#[derive(Clone, Copy, Debug)]
struct Branch {
    bound: f32,
    at: u64,
}

impl Ord for Branch {
    /// The nearest is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.bound.total_cmp(&self.bound).then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Branch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Branch {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Branch {}

/// The result of a query.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The points found.
    pub nearest: Nearest,
    /// Steps of computation: coordinates of the points looked at, and planes.
    pub steps: u64,
}

impl Forest {
    /// The `most` nearest points to this one, of those in the leaves that seem nearest: all trees are descended once, then
    /// the nearest subtrees that were passed by, until `checks` points have been looked at.
    ///
    /// # Errors
    /// As the transaction's reads; `Corrupt` where a tree is damaged.
    pub fn nearest<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        to: &[f32],
        most: usize,
        checks: usize,
    ) -> Result<Answer> {
        let (mut nearest, mut steps) = (Nearest::new(most), 0);
        let (mut branches, mut seen) = (BinaryHeap::new(), HashSet::with_capacity(checks + 16));
        for tree in 0..self.shape.trees {
            branches.push(Branch { bound: 0.0, at: tx.read_word(self.tree(tree))? });
        }
        let mut coordinates = vec![0.0; self.shape.dimensions];
        while let Some(Branch { bound, mut at }) = branches.pop() {
            if seen.len() >= checks && nearest.is_full() {
                break;
            }
            let mut left = self.shape.slots;
            let leaf = loop {
                let inner = match Node::read(tx, at)? {
                    Node::Leaf(leaf) => break leaf,
                    Node::Inner(inner) => inner,
                };
                let (Some(&own), 1..) = (to.get(inner.dimension as usize), left) else {
                    return Err(Error::corrupt(
                        "a tree without leaves, or a plane in no dimension",
                        at,
                    ));
                };
                left -= 1;
                let [below, above] = inner.children;
                let (near, far) = if own < inner.at { (below, above) } else { (above, below) };
                let off = own - inner.at;
                branches.push(Branch { bound: bound + off * off, at: far });
                at = near;
                steps += 1;
            };
            for slot in leaf.slots {
                if u64::from(slot) >= self.shape.slots {
                    return Err(Error::corrupt("a leaf with a point that is not there", at));
                }
                if seen.insert(slot) {
                    self.read_coordinates(tx, u64::from(slot), &mut coordinates)?;
                    nearest.offer(distance(to, &coordinates), slot);
                    steps += to.len() as u64;
                }
            }
        }
        Ok(Answer { nearest, steps })
    }
}
