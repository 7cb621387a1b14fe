//! Compares a forest with its invariants, some nodes at a time.

use super::forest::Forest;
use super::node::{Node, Side};
use perdura::{Error, Result, Tx};

/// A plane above a node, and the side that the node is on.
#[derive(Clone, Copy, Debug)]
struct Condition {
    dimension: usize,
    at: f32,
    range: (f32, f32),
    side: Side,
}

impl Condition {
    fn holds(&self, point: &[f32]) -> bool {
        let own = point[self.dimension];
        let is_there = match self.side {
            Side::Below => own <= self.at,
            Side::Above => own >= self.at,
        };
        is_there && (self.range.0..=self.range.1).contains(&own)
    }
}

/// A node to be looked at.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    at: u64,
    parent: u64,
    /// Planes above its parent.
    depth: usize,
    condition: Option<Condition>,
}

/// A walk through one tree.
#[derive(Clone, Debug)]
pub struct Walk {
    tree: usize,
    ahead: Vec<Ahead>,
    conditions: Vec<Condition>,
    seen: Vec<bool>,
    count: u64,
}

impl Walk {
    /// Begins at a tree's root.
    ///
    /// # Errors
    /// As the transaction's reads.
    pub fn new<T: Tx + ?Sized>(tx: &mut T, forest: &Forest, tree: usize) -> Result<Self> {
        let at = tx.read_word(forest.tree(tree))?;
        let ahead = vec![Ahead { at, parent: 0, depth: 0, condition: None }];
        let seen = vec![false; forest.shape.slots as usize];
        Ok(Walk { tree, ahead, conditions: Vec::new(), seen, count: 0 })
    }

    /// Looks at up to `nodes` further nodes. Returns whether there are more.
    ///
    /// # Errors
    /// `Corrupt` where an invariant does not hold.
    pub fn go_on<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        forest: &Forest,
        nodes: usize,
    ) -> Result<bool> {
        for _ in 0..nodes {
            let Some(next) = self.ahead.pop() else { break };
            self.conditions.truncate(next.depth);
            self.conditions.extend(next.condition);
            self.look(tx, forest, next)?;
        }
        if self.ahead.is_empty() && self.count != forest.shape.slots {
            return Err(Error::corrupt("a tree that misses points", forest.tree(self.tree)));
        }
        Ok(!self.ahead.is_empty())
    }

    fn look<T: Tx + ?Sized>(&mut self, tx: &mut T, forest: &Forest, next: Ahead) -> Result<()> {
        let (at, wrong) = (next.at, |what| Err(Error::corrupt(what, next.at)));
        let node = Node::read(tx, at)?;
        if node.parent() != next.parent {
            return wrong("a node with another parent");
        }
        match node {
            Node::Inner(inner) => {
                let dimension = inner.dimension as usize;
                if dimension >= forest.shape.dimensions {
                    return wrong("a plane in no dimension");
                }
                // Also, no tree that is a circle has ever smaller counts.
                let counts =
                    inner.children.map(|child| Node::read(tx, child).map(|node| node.count()));
                let [below, above] = counts;
                let (below, above) = (below?, above?);
                if below == 0 || above == 0 || below.checked_add(above) != Some(inner.count) {
                    return wrong("a node that does not count its points");
                }
                for (side, child) in
                    [Side::Above, Side::Below].into_iter().zip(inner.children.iter().rev())
                {
                    let (at, range) = (inner.at, inner.range);
                    let condition = Some(Condition { dimension, at, range, side });
                    let depth = self.conditions.len();
                    self.ahead.push(Ahead { at: *child, parent: next.at, depth, condition });
                }
            }
            Node::Leaf(leaf) => {
                if leaf.slots.len() > forest.shape.in_leaf {
                    return wrong("a leaf of too many points");
                }
                for slot in &leaf.slots {
                    match self.seen.get_mut(*slot as usize) {
                        Some(seen) if !*seen => *seen = true,
                        _ => {
                            return wrong(
                                "a leaf with a point that is twice in the tree, or not there",
                            );
                        }
                    }
                    let slot = u64::from(*slot);
                    if forest.leaf(tx, slot, self.tree)? != at {
                        return wrong("a point that does not know its leaf");
                    }
                    let point = forest.coordinates(tx, slot)?;
                    if !self.conditions.iter().all(|condition| condition.holds(&point)) {
                        return wrong("a point on the wrong side of a plane, or out of its range");
                    }
                }
                self.count += leaf.slots.len() as u64;
            }
        }
        Ok(())
    }
}
