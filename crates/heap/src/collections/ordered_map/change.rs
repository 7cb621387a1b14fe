//! How nodes split and merge.

use super::path::Path;
use super::search::Sought;
use super::tree::{Node, Order, Tree};
use crate::collections::codec::OrderedItem;
use crate::collections::tag::end;
use crate::{Error, Result, Tx};

impl Tree {
    /// Opens a slot for a key that was sought and is not there, and counts it. Returns its address.
    pub(super) fn open_at<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        sought: Sought,
        key: K::Probe<'_>,
    ) -> Result<u64> {
        let Sought { mut path, leaf, .. } = sought;
        let (mut leaf, position) = match leaf {
            Some(leaf) if !self.is_full(&leaf) => (leaf, path.last()),
            Some(_) => {
                self.make_room::<T, K>(tx, &mut path, key)?;
                path.end(tx, self)?
            }
            None => {
                let leaf = self.new_node(tx, 0, Order(0), &[])?;
                self.set_root(tx, leaf.at)?;
                path.push(&leaf, 0)?;
                (leaf, 0)
            }
        };
        let at = self.open_slot(tx, &mut leaf, position)?;
        self.count(tx, &path, 1)?;
        Ok(at)
    }

    /// Closes the slot of an entry that was found, which no longer owns anything.
    pub(super) fn close_at<T: Tx + ?Sized>(&self, tx: &mut T, sought: &Sought) -> Result<()> {
        let Sought { path, leaf: Some(leaf), found: true } = sought else { return Ok(()) };
        let mut leaf = *leaf;
        let order = leaf.order.without(path.last());
        self.set_order(tx, &mut leaf, order)?;
        self.count(tx, path, 1u64.wrapping_neg())?;
        if self.is_low(&leaf) { self.rebalance(tx, path) } else { Ok(()) }
    }

    /// Whether a node should be merged with a sibling.
    const fn is_low(&self, node: &Node) -> bool {
        let len = node.order.len();
        len == 0 || len < self.shape(node.level).slots / 3
    }

    /// Ensures that the leaf of a path that leads to the place for `key` has a free slot. Afterwards the path leads to
    /// the same place.
    pub(super) fn make_room<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        path: &mut Path,
        key: K::Probe<'_>,
    ) -> Result<()> {
        let mut depth = path.len();
        while depth > 0 {
            let node = path.node(tx, self, depth - 1)?;
            if !self.is_full(&node) {
                break;
            }
            depth -= 1;
        }
        if depth == 0 {
            self.grow(tx, path)?;
            depth = 1;
        }
        for depth in depth..path.len() {
            self.split::<T, K>(tx, path, depth, key)?;
        }
        Ok(())
    }

    /// Puts a new root above the old one.
    fn grow<T: Tx + ?Sized>(&self, tx: &mut T, path: &mut Path) -> Result<()> {
        let old = path.node(tx, self, 0)?;
        let mut root = self.new_node(tx, old.level + 1, Order(0), &[])?;
        let slot = self.open_slot(tx, &mut root, 0)?;
        path.push_root(&root)?;
        self.clear_key(tx, slot)?;
        tx.write_word(slot + self.key.bytes(), old.at)?;
        if self.has_counts(root.level) {
            let count = self.weights(tx, &old, 0..old.order.len())?;
            tx.write_word(self.count_at(slot), count)?;
        }
        self.set_root(tx, root.at)
    }

    pub(super) fn clear_key<T: Tx + ?Sized>(&self, tx: &mut T, slot: u64) -> Result<()> {
        (0..self.key.words as u64).try_for_each(|word| tx.write_word(slot + word * 8, 0))
    }

    /// Splits the full node at a depth of the path, whose parent has a free slot.
    fn split<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        path: &mut Path,
        depth: usize,
        key: K::Probe<'_>,
    ) -> Result<()> {
        let mut left = path.node(tx, self, depth)?;
        let mut parent = path.node(tx, self, depth - 1)?;
        let (place, above) = (path.position(depth), path.position(depth - 1));
        let len = left.order.len();
        // Keys that come in order fill their nodes.
        let appends = place + 1 >= len && path.is_rightmost(tx, self, depth)?;
        let middle = if appends { len - 1 } else { len / 2 };
        let full = left;
        let right = self.move_upper(tx, &full, middle)?;
        self.set_order(tx, &mut left, full.order.first(middle))?;
        let slot = self.open_slot(tx, &mut parent, above + 1)?;
        self.separate::<T, K>(tx, slot, &left, &full, &right)?;
        tx.write_word(slot + self.key.bytes(), right.at)?;
        if self.has_counts(parent.level) {
            let moved = self.weights(tx, &right, 0..right.order.len())?;
            tx.write_word(self.count_at(slot), moved)?;
            self.add_weight(tx, &parent, above, moved.wrapping_neg())?;
        }
        // In an inner node a position names a child; in a leaf it is a gap between entries, which may be on either
        // side of the separator.
        let goes_right = match left.level {
            0 if place == middle => K::compare(tx, slot, key)?.is_le(),
            _ => place >= middle,
        };
        if goes_right {
            path.set(depth - 1, &parent, above + 1);
            path.set(depth, &right, place - middle);
        }
        Ok(())
    }

    /// A new node with the slots of `full` from a position on. It is written as a whole: fresh memory needs no log.
    fn move_upper<T: Tx + ?Sized>(&self, tx: &mut T, full: &Node, middle: usize) -> Result<Node> {
        let shape = self.shape(full.level);
        let mut slots = Vec::with_capacity((shape.node / 8) as usize);
        let mut order = Order(0);
        for position in middle..full.order.len() {
            let from = self.slot(tx, full, position)?;
            for word in (0..shape.slot).step_by(8) {
                slots.push(tx.read_word(from + word)?);
            }
            order = order.with(position - middle, (position - middle) as u64);
        }
        self.new_node(tx, full.level, order, &slots)
    }

    /// Stores the key of the parent's new slot: between leaves a separator, otherwise the key that the inner node no
    /// longer needs.
    fn separate<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        slot: u64,
        left: &Node,
        full: &Node,
        right: &Node,
    ) -> Result<()> {
        let first = self.slot(tx, right, 0)?;
        if right.level > 0 {
            self.copy(tx, first, slot, self.key.bytes())?;
            return self.clear_key(tx, first);
        }
        let last = self.slot(tx, full, left.order.len() - 1)?;
        let (last, first) = (K::load(tx, last)?, K::load(tx, first)?);
        K::separate(tx, slot, K::borrow(&last), K::borrow(&first))
    }

    /// Adds to the counts of all subtrees that a path passes through.
    pub(super) fn count<T: Tx + ?Sized>(&self, tx: &mut T, path: &Path, change: u64) -> Result<()> {
        for depth in 0..path.len() {
            if !self.has_counts(path.level(depth)) {
                break;
            }
            let slot = path.inner_slot(self, depth)?;
            self.add_to_count(tx, slot, change)?;
        }
        Ok(())
    }

    /// After a removal from the leaf that a path leads to: merges nodes that have become too
    /// empty.
    pub(super) fn rebalance<T: Tx + ?Sized>(&self, tx: &mut T, path: &Path) -> Result<()> {
        for depth in (1..path.len()).rev() {
            // Its parent was checked before it lost a slot, and may be empty now.
            let node = self.drained(tx, path, depth)?;
            if !self.is_low(&node) {
                return Ok(());
            }
            let parent = path.node(tx, self, depth - 1)?;
            if !self.merge(tx, parent, path.position(depth - 1), &node)? {
                return Ok(());
            }
        }
        self.shrink(tx, path)
    }

    /// A node of the path that may have lost its last slot.
    fn drained<T: Tx + ?Sized>(&self, tx: &mut T, path: &Path, depth: usize) -> Result<Node> {
        let at = path.at(depth);
        if tx.read_word(at + 8)? == 0 {
            return Ok(Node { at, level: path.level(depth), order: Order(0) });
        }
        path.node(tx, self, depth)
    }

    /// Merges a node, the child at a position, with a sibling. Returns `false` if that is not possible.
    fn merge<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        mut parent: Node,
        position: usize,
        node: &Node,
    ) -> Result<bool> {
        let empty = node.order.len() == 0;
        if parent.order.len() == 1 {
            if empty {
                tx.free(node.at).map_err(Error::in_pool)?;
                self.set_order(tx, &mut parent, Order(0))?;
            }
            return Ok(empty);
        }
        let (left, right, at) = if position > 0 {
            (self.child(tx, &parent, position - 1)?, *node, position)
        } else {
            (*node, self.child(tx, &parent, 1)?, 1)
        };
        let total = left.order.len() + right.order.len();
        if !empty && total > self.shape(node.level).slots * 3 / 4 {
            return Ok(false);
        }
        self.join(tx, &parent, at, left, &right)?;
        let order = parent.order.without(at);
        self.set_order(tx, &mut parent, order)?;
        Ok(true)
    }

    /// Moves the slots of `right`, the parent's child at a position, to the end of `left`.
    fn join<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        parent: &Node,
        position: usize,
        mut left: Node,
        right: &Node,
    ) -> Result<()> {
        let slot = self.slot(tx, parent, position)?;
        for from in 0..right.order.len() {
            let from = self.slot(tx, right, from)?;
            let end = left.order.len();
            let to = self.open_slot(tx, &mut left, end)?;
            self.copy(tx, from, to, self.shape(left.level).slot)?;
        }
        if left.level > 0 && right.order.len() > 0 {
            // The separator becomes the key of the slot that was first.
            let first = self.slot(tx, &left, left.order.len() - right.order.len())?;
            self.copy(tx, slot, first, self.key.bytes())?;
            if left.order.len() == right.order.len() {
                self.key.release(tx, first)?;
                self.clear_key(tx, first)?;
            }
        } else {
            self.key.release(tx, slot)?;
        }
        if self.has_counts(parent.level) {
            let moved = tx.read_word(self.count_at(slot))?;
            self.add_weight(tx, parent, position - 1, moved)?;
        }
        tx.free(right.at).map_err(Error::in_pool)
    }

    /// Removes roots with one child or no slot.
    fn shrink<T: Tx + ?Sized>(&self, tx: &mut T, path: &Path) -> Result<()> {
        let mut root = self.drained(tx, path, 0)?;
        loop {
            match root.order.len() {
                0 => {
                    self.set_root(tx, 0)?;
                    return tx.free(root.at).map_err(Error::in_pool);
                }
                1 if root.level > 0 => {
                    let child = self.child(tx, &root, 0)?;
                    self.set_root(tx, child.at)?;
                    tx.free(root.at).map_err(Error::in_pool)?;
                    root = child;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Frees the last leaf, and the inner nodes that become empty. Returns the number of entries and nodes freed, 0
    /// when the tree is empty.
    fn drop_last<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<u64> {
        let path = Path::to_edge(tx, self, true)?;
        if path.len() == 0 {
            return Ok(0);
        }
        let (leaf, _) = path.end(tx, self)?;
        let entries = leaf.order.len();
        for position in 0..entries {
            let slot = self.slot(tx, &leaf, position)?;
            self.release(tx, slot)?;
        }
        self.count(tx, &path, (entries as u64).wrapping_neg())?;
        tx.free(leaf.at).map_err(Error::in_pool)?;
        for depth in (0..path.len() - 1).rev() {
            let mut node = path.node(tx, self, depth)?;
            let last = node.order.len() - 1;
            let slot = self.slot(tx, &node, last)?;
            self.key.release(tx, slot)?;
            if last > 0 {
                let order = node.order.without(last);
                self.set_order(tx, &mut node, order)?;
                return Ok(entries as u64 + 1);
            }
            tx.free(node.at).map_err(Error::in_pool)?;
        }
        self.set_root(tx, 0)?;
        Ok(entries as u64 + 1)
    }

    /// Frees the blocks that an entry owns.
    pub(super) fn release<T: Tx + ?Sized>(&self, tx: &mut T, slot: u64) -> Result<()> {
        self.key.release(tx, slot)?;
        self.value.release(tx, slot + self.key.bytes())
    }

    /// Removes all entries.
    pub(super) fn clear<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<()> {
        while self.drop_last(tx)? > 0 {}
        Ok(())
    }

    /// Frees about `budget` entries and nodes. Returns `true` when everything is freed.
    pub(crate) fn destroy_some<T: Tx + ?Sized>(&self, tx: &mut T, budget: u64) -> Result<bool> {
        let mut spent = 0;
        while spent < budget.max(1) {
            match self.drop_last(tx)? {
                0 => {
                    end(tx, self.at)?;
                    return Ok(true);
                }
                dropped => spent += dropped,
            }
        }
        Ok(false)
    }
}
