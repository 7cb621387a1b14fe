//! The tree without its types: nodes, slots and their order.
//!
//! The header is two words: tag and root node, 0 if there is none. A node is a few lines: a word `0x7B << 56 | level`,
//! a word with the order of its slots, and the slots. Level 0 is the leaves, whose slots are keys and values; the
//! slots of the others are a key, a child, and, in a counted tree from level 2 on, the number of entries below the
//! child. Level 1 keeps no such counts: its children's orders have them, and an insertion writes one line less.
//!
//! The order: the low four bits are the number of slots in use; the next four name the slot
//! with the least key, and so on. So an insertion writes one slot and this word, and a split
//! changes nothing else in the node that is split.
//!
//! Invariants: all leaves are at level 0, and a child is one level below its parent; a child's keys are not less than
//! its slot's key, and less than the next slot's; the first key of an inner node is zero, and never read; no node is
//! empty.

use crate::collections::form::Form;
use crate::{Error, Purpose, Result, Tx};

pub(super) const ROOT: u64 = 8;
const MARK: u64 = 0x7B;
const LINE: u64 = 64;
/// Bytes of a node's first two words.
const HEAD: u64 = 16;
/// Bytes of a node that are fetched before it is searched.
const MOST_FETCHED: u64 = 4 * LINE;
/// Slots that the order has room for.
const MOST_SLOTS: u64 = 15;
/// A leaf has at least this many slots: with fewer, splits are too frequent.
const LEAST_SLOTS: u64 = 8;
/// The greatest height of a tree.
pub(super) const MAX_LEVELS: usize = 24;
/// Node sizes that allocate without waste.
const SIZES: [u64; 7] = [256, 512, 768, 1024, 1344, 2048, 4096];

/// How the nodes of a level are laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes of a slot.
    pub(super) slot: u64,
    /// Slots in a node.
    pub(super) slots: usize,
    /// Bytes of a node.
    pub(super) node: u64,
    /// Offset of the first slot.
    start: u64,
}

impl Shape {
    /// The smallest node with at least this many slots, or else the largest node.
    const fn of(words: usize, least: u64) -> Self {
        let slot = if words == 0 { 8 } else { words as u64 * 8 };
        let mut size = 0;
        while size + 1 < SIZES.len() && (SIZES[size] - HEAD) / slot < least {
            size += 1;
        }
        let node = SIZES[size];
        let room = (node - HEAD) / slot;
        let slots = if room > MOST_SLOTS { MOST_SLOTS } else { room };
        // Slots lie in as few lines as possible, where that costs no slot.
        let edge = if slot < LINE { slot } else { LINE };
        let aligned = slot.is_power_of_two() && slot > HEAD && edge + slots * slot <= node;
        Shape { slot, slots: slots as usize, node, start: if aligned { edge } else { HEAD } }
    }
}

/// A tree, as its header's tag describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    pub(super) at: u64,
    pub(super) key: Form,
    pub(super) value: Form,
    pub(super) counted: bool,
    pub(super) leaf: Shape,
    /// The shape of level 1.
    pub(super) low: Shape,
    /// The shape of the levels above it.
    pub(super) high: Shape,
}

/// The order of a node's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order(pub(super) u64);

impl Order {
    /// The slots in use.
    #[inline]
    pub(super) const fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot at a position.
    #[inline]
    pub(super) const fn slot(self, position: usize) -> u64 {
        self.0 >> (4 * position + 4) & 15
    }

    /// The order with a slot inserted at a position.
    pub(super) const fn with(self, position: usize, slot: u64) -> Self {
        let shift = 4 * position + 4;
        let low = self.0 & ((1 << shift) - 1);
        let high = if shift < 60 { self.0 >> shift << shift << 4 } else { 0 };
        Order((low | slot << shift | high) + 1)
    }

    /// The order without the slot at a position.
    pub(super) const fn without(self, position: usize) -> Self {
        let shift = 4 * position + 4;
        let low = self.0 & ((1 << shift) - 1);
        Order((low | self.0 >> shift >> 4 << shift) - 1)
    }

    /// The order of only the first `count` slots.
    pub(super) const fn first(self, len: usize) -> Self {
        let kept = if len == 15 { self.0 } else { self.0 & ((1 << (4 * len + 4)) - 1) };
        Order(kept & !15 | len as u64)
    }

    /// A bitmap of the slots in use.
    pub(super) fn used(self) -> u64 {
        (0..self.len()).fold(0, |used, position| used | 1 << self.slot(position))
    }
}

/// A node that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) at: u64,
    pub(super) level: usize,
    pub(super) order: Order,
}

impl Tree {
    /// The tree at `at` with such items.
    pub(super) const fn of(at: u64, key: Form, value: Form, counted: bool) -> Self {
        // Inner nodes are few, and as wide as possible: each level costs one line by insertion in a counted tree, and
        // reads in any.
        Tree {
            at,
            key,
            value,
            counted,
            leaf: Shape::of(key.words + value.words, LEAST_SLOTS),
            low: Shape::of(key.words + 1, MOST_SLOTS),
            high: Shape::of(key.words + 1 + counted as usize, MOST_SLOTS),
        }
    }

    #[inline(always)]
    pub(super) const fn shape(&self, level: usize) -> Shape {
        match level {
            0 => self.leaf,
            1 => self.low,
            _ => self.high,
        }
    }

    /// Whether the slots of a level have the numbers of entries below them.
    pub(super) const fn has_counts(&self, level: usize) -> bool {
        self.counted && level >= 2
    }

    /// The root node, if there is one.
    #[inline(always)]
    pub(super) fn root<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<Option<Node>> {
        let at = tx.read_word(self.at + ROOT)?;
        if at == 0 {
            return Ok(None);
        }
        let level = tx.read_word(at).map_err(Error::in_pool)? & 0xFF;
        if level as usize >= MAX_LEVELS {
            return Err(Error::corrupt("a tree that is too high", at));
        }
        self.node(tx, at, level as usize).map(Some)
    }

    pub(super) fn set_root<T: Tx + ?Sized>(&self, tx: &mut T, at: u64) -> Result<()> {
        tx.write_word(self.at + ROOT, at)
    }

    /// The node at `at`, whose level is known.
    #[inline(always)]
    pub(super) fn node<T: Tx + ?Sized>(&self, tx: &mut T, at: u64, level: usize) -> Result<Node> {
        if tx.read_word(at).map_err(Error::in_pool)? != MARK << 56 | level as u64 {
            return Err(Error::corrupt("a tree's node", at));
        }
        let order = Order(tx.read_word(at + 8).map_err(Error::in_pool)?);
        if order.len() > self.shape(level).slots || order.len() == 0 && level > 0 {
            return Err(Error::corrupt("a tree node's order", at));
        }
        Ok(Node { at, level, order })
    }

    /// A fresh node with these first slots.
    pub(super) fn new_node<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        level: usize,
        order: Order,
        slots: &[u64],
    ) -> Result<Node> {
        let new = tx.allocate(Purpose::General, self.shape(level).node)?;
        let mut words = vec![0; (self.shape(level).start / 8) as usize];
        words[..2].copy_from_slice(&[MARK << 56 | level as u64, order.0]);
        words.extend_from_slice(slots);
        tx.write_fresh(new, 0, bytemuck::cast_slice(&words))?;
        Ok(Node { at: new.at(), level, order })
    }

    /// Whether all slots are used.
    pub(super) const fn is_full(&self, node: &Node) -> bool {
        node.order.len() >= self.shape(node.level).slots
    }

    /// The address of the slot at a position.
    #[inline(always)]
    pub(super) fn slot<T: Tx + ?Sized>(
        &self,
        _: &mut T,
        node: &Node,
        position: usize,
    ) -> Result<u64> {
        if position >= node.order.len() {
            return Err(Error::corrupt("a tree node's order", node.at));
        }
        self.slot_at(node.at, node.level, node.order.slot(position))
    }

    /// The address of a slot of the node at `at`.
    #[inline(always)]
    pub(super) fn slot_at(&self, at: u64, level: usize, slot: u64) -> Result<u64> {
        let shape = self.shape(level);
        if slot >= shape.slots as u64 {
            return Err(Error::corrupt("a tree node's order", at));
        }
        Ok(at + shape.start + slot * shape.slot)
    }

    pub(super) fn set_order<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &mut Node,
        order: Order,
    ) -> Result<()> {
        node.order = order;
        tx.write_word(node.at + 8, order.0)
    }

    /// Takes a free slot and inserts it at a position. Returns its address.
    pub(super) fn open_slot<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &mut Node,
        position: usize,
    ) -> Result<u64> {
        let free = u64::from(node.order.used().trailing_ones());
        if self.is_full(node) || free >= self.shape(node.level).slots as u64 {
            return Err(Error::corrupt("a tree node's order", node.at));
        }
        self.set_order(tx, node, node.order.with(position, free))?;
        self.slot(tx, node, position)
    }

    /// Copies `len` bytes, a multiple of a word.
    pub(super) fn copy<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        from: u64,
        to: u64,
        len: u64,
    ) -> Result<()> {
        for word in (0..len).step_by(8) {
            let value = tx.read_word(from + word)?;
            tx.write_word(to + word, value)?;
        }
        Ok(())
    }

    /// The child in an inner node's slot.
    #[inline(always)]
    pub(super) fn child<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &Node,
        position: usize,
    ) -> Result<Node> {
        let slot = self.slot(tx, node, position)?;
        let at = tx.read_word(slot + self.key.bytes())?;
        // All lines of the node are waited for at once.
        for line in (LINE..self.shape(node.level - 1).node.min(MOST_FETCHED)).step_by(LINE as usize)
        {
            tx.prefetch(at.wrapping_add(line));
        }
        self.node(tx, at, node.level - 1)
    }

    /// The address of an inner slot's count.
    pub(super) const fn count_at(&self, slot: u64) -> u64 {
        slot + self.key.bytes() + 8
    }

    /// The number of entries below a slot; only of a counted tree.
    pub(super) fn weight<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &Node,
        position: usize,
    ) -> Result<u64> {
        match node.level {
            0 => Ok(1),
            1 => Ok(self.child(tx, node, position)?.order.len() as u64),
            _ => {
                let slot = self.slot(tx, node, position)?;
                tx.read_word(self.count_at(slot))
            }
        }
    }

    /// The number of entries below a range of a node's slots; only of a counted tree.
    pub(super) fn weights<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &Node,
        positions: std::ops::Range<usize>,
    ) -> Result<u64> {
        let mut sum = 0u64;
        for position in positions {
            sum = sum.wrapping_add(self.weight(tx, node, position)?);
        }
        Ok(sum)
    }

    /// Adds to (or, wrapping, subtracts from) the count in a slot that [has](Tree::has_counts) one.
    pub(super) fn add_weight<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &Node,
        position: usize,
        change: u64,
    ) -> Result<()> {
        let slot = self.slot(tx, node, position)?;
        self.add_to_count(tx, slot, change)
    }

    /// Adds to (or, wrapping, subtracts from) the count of an inner slot.
    pub(super) fn add_to_count<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        slot: u64,
        change: u64,
    ) -> Result<()> {
        let count = tx.read_word(self.count_at(slot))?;
        tx.write_word(self.count_at(slot), count.wrapping_add(change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order as a list, least significant first.
    fn list(order: Order) -> Vec<u64> {
        (0..order.len()).map(|position| order.slot(position)).collect()
    }

    #[test]
    fn orders_are_lists() {
        for len in 0..=15usize {
            let full = (0..len).fold(Order(0), |order, slot| order.with(slot, 14 - slot as u64));
            let wanted: Vec<u64> = (0..len as u64).map(|slot| 14 - slot).collect();
            assert_eq!(list(full), wanted);
            for position in 0..len {
                let mut shorter = wanted.clone();
                let slot = shorter.remove(position);
                assert_eq!(list(full.without(position)), shorter);
                assert_eq!(full.without(position).with(position, slot), full);
                assert_eq!(list(full.first(position)), wanted[..position]);
            }
            assert_eq!(full.first(len), full);
            assert_eq!(full.used().count_ones() as usize, len);
        }
    }
}
