//! Paths from the root to a leaf, and steps from leaf to leaf.

use super::tree::{MAX_LEVELS, Node, Order, ROOT, Tree};
use crate::{Error, Result, Tx};

/// A step on a path: a node, the position taken in it, and a hash of its order at that time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Step {
    at: u64,
    order: u32,
    position: u8,
}

impl Step {
    const NONE: Step = Step { at: 0, order: 0, position: 0 };

    fn new(node: &Node, position: usize) -> Self {
        Step { at: node.at, order: folded(node.order), position: position as u8 }
    }
}

/// A hash of an order in 32 bits, which nearly always differs for different orders.
fn folded(order: Order) -> u32 {
    (order.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// A path from the root to a position in a leaf. The position may be after the leaf's last slot; once the path is
/// [settled](Path::settle), only at the end of the tree.
#[derive(Clone, Copy)]
pub(super) struct Path {
    /// The steps, root first.
    steps: [Step; MAX_LEVELS],
    /// The slots at the positions of inner nodes: a count there is changed without another look at the node.
    slots: [u8; MAX_LEVELS],
    len: usize,
}

impl Path {
    pub(super) const fn new() -> Self {
        Path { steps: [Step::NONE; MAX_LEVELS], slots: [0; MAX_LEVELS], len: 0 }
    }

    /// Number of nodes; 0 in an empty tree.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, node: &Node, position: usize) -> Result<()> {
        if self.len == MAX_LEVELS {
            return Err(Error::corrupt("a tree that is too high", node.at));
        }
        self.len += 1;
        self.set(self.len - 1, node, position);
        Ok(())
    }

    /// Puts a new root before the path.
    pub(super) fn push_root(&mut self, node: &Node) -> Result<()> {
        self.push(node, 0)?;
        self.steps[..self.len].rotate_right(1);
        self.slots[..self.len].rotate_right(1);
        Ok(())
    }

    /// The position in the leaf, at the end of a path that is not empty.
    pub(super) const fn last(&self) -> usize {
        self.position(self.len - 1)
    }

    pub(super) const fn position(&self, depth: usize) -> usize {
        self.steps[depth].position as usize
    }

    pub(super) const fn at(&self, depth: usize) -> u64 {
        self.steps[depth].at
    }

    pub(super) fn set(&mut self, depth: usize, node: &Node, position: usize) {
        self.steps[depth] = Step::new(node, position);
        self.slots[depth] = match position < node.order.len() {
            true => node.order.slot(position) as u8,
            // After a leaf's last entry.
            false => 0,
        };
    }

    /// The level of the node at a depth.
    pub(super) const fn level(&self, depth: usize) -> usize {
        self.len - 1 - depth
    }

    /// The address of the slot that the path takes in the inner node at a depth, where it was when the path came by.
    pub(super) fn inner_slot(&self, tree: &Tree, depth: usize) -> Result<u64> {
        tree.slot_at(self.steps[depth].at, self.level(depth), u64::from(self.slots[depth]))
    }

    /// The node at a depth, read anew.
    pub(super) fn node<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        tree: &Tree,
        depth: usize,
    ) -> Result<Node> {
        tree.node(tx, self.steps[depth].at, self.level(depth))
    }

    /// Whether the tree still has this path: its nodes have the same slots in the same order, and are in the same
    /// places, unless they may have been `moved`: then the path leads to their new places.
    pub(super) fn is_current<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        tree: &Tree,
        moved: bool,
    ) -> Result<bool> {
        let mut at = tx.read_word(tree.at + ROOT)?;
        for depth in 0..self.len {
            let level = self.len - 1 - depth;
            // The block may be anything by now.
            let Ok(node) = tree.node(tx, at, level) else { return Ok(false) };
            let position = self.position(depth);
            if moved {
                self.steps[depth].at = node.at;
            }
            if self.steps[depth] != Step::new(&node, position) {
                return Ok(false);
            }
            if level > 0 {
                let slot = tree.slot(tx, &node, position)?;
                at = tx.read_word(slot + tree.key.bytes())?;
            }
        }
        Ok(self.len > 0 || at == 0)
    }

    /// The leaf and the position in it.
    pub(super) fn end<T: Tx + ?Sized>(&self, tx: &mut T, tree: &Tree) -> Result<(Node, usize)> {
        let Some(depth) = self.len.checked_sub(1) else {
            return Err(Error::Invalid("a path in an empty tree"));
        };
        Ok((self.node(tx, tree, depth)?, self.position(depth)))
    }

    /// The address of the entry that the path leads to.
    pub(super) fn entry<T: Tx + ?Sized>(&self, tx: &mut T, tree: &Tree) -> Result<u64> {
        let (leaf, position) = self.end(tx, tree)?;
        tree.slot(tx, &leaf, position)
    }

    /// Whether it leads to the same place, by the same nodes.
    pub(super) fn is_at(&self, other: &Path) -> bool {
        self.steps[..self.len] == other.steps[..other.len]
    }

    /// Whether it leads to an earlier place.
    pub(super) fn is_before(&self, other: &Path) -> bool {
        let positions = |path: &Path| path.steps.map(|step| step.position);
        positions(self)[..self.len] < positions(other)[..other.len]
    }

    /// Down from `node` to its first place, or to after its last.
    fn descend<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        tree: &Tree,
        node: Node,
        last: bool,
    ) -> Result<()> {
        let mut node = node;
        while node.level > 0 {
            let position = if last { node.order.len() - 1 } else { 0 };
            self.push(&node, position)?;
            node = tree.child(tx, &node, position)?;
        }
        self.push(&node, if last { node.order.len() } else { 0 })
    }

    /// To the tree's first place, or to after its last.
    pub(super) fn to_edge<T: Tx + ?Sized>(tx: &mut T, tree: &Tree, last: bool) -> Result<Self> {
        let mut path = Path::new();
        if let Some(root) = tree.root(tx)? {
            path.descend(tx, tree, root, last)?;
        }
        Ok(path)
    }

    /// To the entry with `index` entries before it, in a counted tree; to the end if there are fewer.
    pub(super) fn to_index<T: Tx + ?Sized>(tx: &mut T, tree: &Tree, index: u64) -> Result<Self> {
        let (mut path, mut left) = (Path::new(), index);
        let Some(mut node) = tree.root(tx)? else { return Ok(path) };
        loop {
            let mut position = 0;
            while position < node.order.len() {
                let weight = tree.weight(tx, &node, position)?;
                if left < weight {
                    break;
                }
                left -= weight;
                position += 1;
            }
            if position == node.order.len() {
                return Path::to_edge(tx, tree, true);
            }
            path.push(&node, position)?;
            if node.level == 0 {
                return Ok(path);
            }
            node = tree.child(tx, &node, position)?;
        }
    }

    /// Entries before the place, in a counted tree.
    pub(super) fn rank<T: Tx + ?Sized>(&self, tx: &mut T, tree: &Tree) -> Result<u64> {
        let mut rank = 0u64;
        for depth in 0..self.len {
            let node = self.node(tx, tree, depth)?;
            rank = rank.wrapping_add(tree.weights(tx, &node, 0..self.position(depth))?);
        }
        Ok(rank)
    }

    /// From after a leaf's last slot to the next leaf's first, if there is a next leaf.
    pub(super) fn settle<T: Tx + ?Sized>(&mut self, tx: &mut T, tree: &Tree) -> Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        let (leaf, position) = self.end(tx, tree)?;
        if position >= leaf.order.len() { self.next_leaf(tx, tree).map(drop) } else { Ok(()) }
    }

    /// To the first place of the next leaf. If there is none, returns `false` and changes nothing.
    pub(super) fn next_leaf<T: Tx + ?Sized>(&mut self, tx: &mut T, tree: &Tree) -> Result<bool> {
        for depth in (0..self.len.saturating_sub(1)).rev() {
            let node = self.node(tx, tree, depth)?;
            let position = self.position(depth) + 1;
            if position < node.order.len() {
                let child = tree.child(tx, &node, position)?;
                self.set(depth, &node, position);
                self.len = depth + 1;
                self.descend(tx, tree, child, false)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// To after the last place of the previous leaf. Returns `false` if there is none.
    fn previous_leaf<T: Tx + ?Sized>(&mut self, tx: &mut T, tree: &Tree) -> Result<bool> {
        for depth in (0..self.len.saturating_sub(1)).rev() {
            let node = self.node(tx, tree, depth)?;
            let position = self.position(depth);
            if position > 0 {
                let child = tree.child(tx, &node, position - 1)?;
                self.set(depth, &node, position - 1);
                self.len = depth + 1;
                self.descend(tx, tree, child, true)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One entry forward; the path must be at an entry.
    pub(super) fn forward<T: Tx + ?Sized>(&mut self, tx: &mut T, tree: &Tree) -> Result<()> {
        self.steps[self.len - 1].position += 1;
        self.settle(tx, tree)
    }

    /// One entry back. Returns `false` if there is none.
    pub(super) fn back<T: Tx + ?Sized>(&mut self, tx: &mut T, tree: &Tree) -> Result<bool> {
        let Some(depth) = self.len.checked_sub(1) else { return Ok(false) };
        if self.position(depth) == 0 && !self.previous_leaf(tx, tree)? {
            return Ok(false);
        }
        match self.steps[depth].position.checked_sub(1) {
            Some(position) => self.steps[depth].position = position,
            None => return Err(Error::corrupt("an empty leaf", self.steps[depth].at)),
        }
        Ok(true)
    }

    /// Whether each step above a depth is to the last child.
    pub(super) fn is_rightmost<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        tree: &Tree,
        depth: usize,
    ) -> Result<bool> {
        for above in 0..depth {
            let node = self.node(tx, tree, above)?;
            if self.position(above) + 1 < node.order.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
