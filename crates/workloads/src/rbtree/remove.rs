//! Removal: the node, or its successor in its place, and up from there while a black one is
//! missing.

use super::{BLACK, COLOUR, DEEPEST, Nodes, RED, Side};
use perdura::{Result, Tx};

impl<T: Tx + ?Sized> Nodes<'_, T> {
    /// Unhooks the node and frees it.
    pub(super) fn remove(&mut self, node: u64) -> Result<()> {
        let (left, right) = (self.child(node, Side::Left)?, self.child(node, Side::Right)?);
        if left != 0 && right != 0 {
            let successor = self.leftmost(right)?;
            self.exchange(node, successor)?;
        }
        self.unhook(node)?;
        self.tx.free(node)
    }

    fn leftmost(&mut self, mut node: u64) -> Result<u64> {
        for _ in 0..DEEPEST {
            match self.child(node, Side::Left)? {
                0 => return Ok(node),
                left => node = left,
            }
        }
        Err(self.too_deep())
    }

    /// Lets the node and its successor, the leftmost one of its right subtree, change places and
    /// colours. Nodes move rather than keys: a pointer to a node keeps its key.
    fn exchange(&mut self, node: u64, successor: u64) -> Result<()> {
        let (left, right) = (self.child(node, Side::Left)?, self.child(node, Side::Right)?);
        let below = self.child(successor, Side::Right)?;
        let above = self.parent(successor)?;
        let colours = (self.get(node, COLOUR)?, self.get(successor, COLOUR)?);
        self.replace(node, successor)?;
        self.hang(left, successor, Side::Left)?;
        if successor == right {
            self.hang(node, successor, Side::Right)?;
        } else {
            self.hang(right, successor, Side::Right)?;
            self.hang(node, above, Side::Left)?;
        }
        self.hang(0, node, Side::Left)?;
        self.hang(below, node, Side::Right)?;
        self.paint(successor, colours.0)?;
        self.paint(node, colours.1)
    }

    /// Takes a node with at most one child out of the tree.
    fn unhook(&mut self, node: u64) -> Result<()> {
        let side = if self.child(node, Side::Left)? == 0 { Side::Right } else { Side::Left };
        let child = self.child(node, side)?;
        let (parent, red) = (self.parent(node)?, self.is_red(node)?);
        let hung = if parent == 0 { Side::Left } else { self.side_of(node, parent)? };
        self.hang(child, parent, hung)?;
        if red {
            return Ok(());
        }
        // An only child is red, and makes up for the black node.
        if child != 0 {
            return self.paint(child, BLACK);
        }
        self.make_up(parent, hung)
    }

    /// Below `parent` on `side` a black node is missing.
    fn make_up(&mut self, mut parent: u64, mut side: Side) -> Result<()> {
        for _ in 0..DEEPEST {
            if parent == 0 {
                return Ok(());
            }
            let mut sibling = self.child(parent, side.other())?;
            if self.is_red(sibling)? {
                self.paint(sibling, BLACK)?;
                self.paint(parent, RED)?;
                self.rotate(parent, side)?;
                sibling = self.child(parent, side.other())?;
            }
            let (near, far) = (self.child(sibling, side)?, self.child(sibling, side.other())?);
            if self.is_red(near)? || self.is_red(far)? {
                return self.lend(parent, sibling, side);
            }
            self.paint(sibling, RED)?;
            if self.is_red(parent)? {
                return self.paint(parent, BLACK);
            }
            let above = self.parent(parent)?;
            if above != 0 {
                side = self.side_of(parent, above)?;
            }
            parent = above;
        }
        Err(self.too_deep())
    }

    /// The same with a red child of the sibling, which makes up for it: this completes it.
    fn lend(&mut self, parent: u64, mut sibling: u64, side: Side) -> Result<()> {
        let mut far = self.child(sibling, side.other())?;
        if !self.is_red(far)? {
            let near = self.child(sibling, side)?;
            self.paint(near, BLACK)?;
            self.paint(sibling, RED)?;
            self.rotate(sibling, side.other())?;
            (far, sibling) = (sibling, near);
        }
        let colour = self.get(parent, COLOUR)?;
        self.paint(sibling, colour)?;
        self.paint(parent, BLACK)?;
        self.paint(far, BLACK)?;
        self.rotate(parent, side)
    }
}
