//! A tree whose items are known only by their forms. It is read in order, and filled in that order from left to right,
//! so nothing needs to be compared.

use super::COUNTED_FLAG;
use super::tree::{Node, Order, ROOT, Tree};
use crate::collections::string::Role;
use crate::collections::untyped::Element;
use crate::{Error, Purpose, Result, Tx};

/// The flags of a map that counts its entries, or does not.
pub(in crate::collections) const fn flags(counted: bool) -> u64 {
    if counted { COUNTED_FLAG } else { 0 }
}

/// Whether a map with these flags counts its entries.
pub(in crate::collections) const fn is_counted(flags: u64) -> bool {
    flags & COUNTED_FLAG != 0
}

/// A new, empty map.
pub(in crate::collections) fn create_untyped<T: Tx + ?Sized>(tx: &mut T, tag: u64) -> Result<u64> {
    let header = tx.allocate(Purpose::General, ROOT + 8)?;
    tx.write_fresh(header, 0, bytemuck::bytes_of(&[tag, 0]))?;
    Ok(header.at())
}

impl Tree {
    /// Calls `each` with the address of every entry, in order.
    pub(in crate::collections) fn walk<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        each: &mut dyn FnMut(&mut T, u64) -> Result<()>,
    ) -> Result<()> {
        match self.root(tx)? {
            Some(root) => self.walk_below(tx, &root, each),
            None => Ok(()),
        }
    }

    /// The depth is bounded by the node's level.
    fn walk_below<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &Node,
        each: &mut dyn FnMut(&mut T, u64) -> Result<()>,
    ) -> Result<()> {
        for position in 0..node.order.len() {
            if node.level > 0 {
                let child = self.child(tx, node, position)?;
                self.walk_below(tx, &child, each)?;
            } else {
                let slot = self.slot(tx, node, position)?;
                each(tx, slot)?;
            }
        }
        Ok(())
    }

    /// Appends an entry after all others. Nodes are filled completely.
    pub(in crate::collections) fn append<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        key: &Element,
        value: &Element,
    ) -> Result<()> {
        let mut edge = self.right_edge(tx)?;
        // The lowest node with a free slot; new nodes are needed below it.
        let Some(mut depth) = (0..edge.len()).rev().find(|depth| !self.is_full(&edge[*depth]))
        else {
            return self.append_above(tx, &edge, key, value);
        };
        let node = &mut edge[depth];
        if node.level == 0 {
            self.append_entry(tx, node, key, value)?;
        } else {
            let child = self.branch(tx, node.level - 1, key, value)?;
            self.append_child(tx, node, child, key)?;
        }
        while depth > 0 {
            depth -= 1;
            let above = &edge[depth];
            if self.has_counts(above.level) {
                self.add_weight(tx, above, above.order.len() - 1, 1)?;
            }
        }
        Ok(())
    }

    /// The last node of each level, the root first.
    fn right_edge<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<Vec<Node>> {
        let mut edge: Vec<Node> = self.root(tx)?.into_iter().collect();
        while let Some(last) = edge.last().copied().filter(|last| last.level > 0) {
            edge.push(self.child(tx, &last, last.order.len() - 1)?);
        }
        Ok(edge)
    }

    /// As [`append`](Tree::append), to a tree that is empty or whose nodes at the right edge are all full.
    fn append_above<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        edge: &[Node],
        key: &Element,
        value: &Element,
    ) -> Result<()> {
        let Some(old) = edge.first() else {
            let leaf = self.branch(tx, 0, key, value)?;
            return self.set_root(tx, leaf);
        };
        let child = self.branch(tx, old.level, key, value)?;
        let mut root = self.first_child(tx, old.level + 1, old.at)?;
        if self.has_counts(root.level) {
            let count = self.weights(tx, old, 0..old.order.len())?;
            let slot = self.slot(tx, &root, 0)?;
            tx.write_word(self.count_at(slot), count)?;
        }
        self.append_child(tx, &mut root, child, key)?;
        self.set_root(tx, root.at)
    }

    /// Creates a subtree with one entry, up to a level. Returns the address of its top node.
    fn branch<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        level: usize,
        key: &Element,
        value: &Element,
    ) -> Result<u64> {
        let mut leaf = self.new_node(tx, 0, Order(0), &[])?;
        self.append_entry(tx, &mut leaf, key, value)?;
        let mut top = leaf.at;
        for level in 1..=level {
            let node = self.first_child(tx, level, top)?;
            if self.has_counts(level) {
                let slot = self.slot(tx, &node, 0)?;
                tx.write_word(self.count_at(slot), 1)?;
            }
            top = node.at;
        }
        Ok(top)
    }

    /// A new inner node with one child.
    fn first_child<T: Tx + ?Sized>(&self, tx: &mut T, level: usize, child: u64) -> Result<Node> {
        if level >= super::tree::MAX_LEVELS {
            return Err(Error::corrupt("a tree that is too high", self.at));
        }
        let mut node = self.new_node(tx, level, Order(0), &[])?;
        let slot = self.open_slot(tx, &mut node, 0)?;
        self.clear_key(tx, slot)?;
        tx.write_word(slot + self.key.bytes(), child)?;
        Ok(node)
    }

    fn append_entry<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        leaf: &mut Node,
        key: &Element,
        value: &Element,
    ) -> Result<()> {
        let end = leaf.order.len();
        let slot = self.open_slot(tx, leaf, end)?;
        key.store(tx, self.key, slot, Role::Key(0))?;
        value.store(tx, self.value, slot + self.key.bytes(), Role::Value)
    }

    /// Adds a child with one entry, whose key is also the separator: finding a shorter one would take the type.
    fn append_child<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &mut Node,
        child: u64,
        key: &Element,
    ) -> Result<()> {
        let end = node.order.len();
        let slot = self.open_slot(tx, node, end)?;
        key.store(tx, self.key, slot, Role::Key(0))?;
        tx.write_word(slot + self.key.bytes(), child)?;
        match self.has_counts(node.level) {
            true => tx.write_word(self.count_at(slot), 1),
            false => Ok(()),
        }
    }
}
