//! Insertion: a red node at the bottom, and up from there while its parent is red too.

use super::{BLACK, DEEPEST, NODE, Nodes, RED, Side};
use perdura::{Purpose, Result, Tx};

impl<T: Tx + ?Sized> Nodes<'_, T> {
    /// Hangs a new node under `parent`, or makes it the root.
    pub(super) fn insert(
        &mut self,
        (key, value): (u64, u64),
        parent: u64,
        side: Side,
    ) -> Result<()> {
        let new = self.tx.allocate(Purpose::General, NODE)?;
        let words = [0, 0, parent, RED, key, value, 0, 0];
        self.tx.write_fresh(new, 0, words.map(u64::to_ne_bytes).as_flattened())?;
        let node = new.at();
        match parent {
            0 => self.tx.write_word(self.header, node)?,
            _ => self.set(parent, side as u64 * 8, node)?,
        }
        self.settle(node)
    }

    /// Repairs a red `node` with a red parent.
    fn settle(&mut self, mut node: u64) -> Result<()> {
        for _ in 0..DEEPEST {
            let parent = self.parent(node)?;
            if parent == 0 {
                return self.paint(node, BLACK);
            }
            if !self.is_red(parent)? {
                return Ok(());
            }
            let grandparent = self.parent(parent)?;
            let side = self.side_of(parent, grandparent)?;
            let uncle = self.child(grandparent, side.other())?;
            if !self.is_red(uncle)? {
                return self.straighten(node, parent, grandparent, side);
            }
            self.paint(parent, BLACK)?;
            self.paint(uncle, BLACK)?;
            self.paint(grandparent, RED)?;
            node = grandparent;
        }
        Err(self.too_deep())
    }

    /// The same with a black uncle: one or two rotations complete it.
    fn straighten(&mut self, node: u64, parent: u64, grandparent: u64, side: Side) -> Result<()> {
        let mut top = parent;
        if self.side_of(node, parent)? != side {
            self.rotate(parent, side)?;
            top = node;
        }
        self.paint(top, BLACK)?;
        self.paint(grandparent, RED)?;
        self.rotate(grandparent, side.other())
    }
}
