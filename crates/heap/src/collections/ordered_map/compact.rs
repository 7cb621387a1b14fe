//! Moving nodes, keys and values out of pages that are to be emptied.

use super::tree::{Node, ROOT, Tree};
use crate::collections::compact::move_block;
use crate::{Error, Result, Tx};

/// Levels above the leaves that a cursor has positions for.
const LEVELS: u32 = 16;

/// The bits of a cursor that hold the position at a depth.
const fn shift(depth: u32) -> u32 {
    60 - 4 * depth
}

impl Tree {
    /// Moves the blocks of a leaf and of the nodes above it, for each of the next leaves, as long as there is
    /// `budget`, of which each takes 1. The cursor holds the positions on the way to the next leaf, the root's in its
    /// highest four bits; begin with 0, and stop when 0 is returned. Leaves are missed, or visited again, if nodes
    /// split or merge in between.
    pub(in crate::collections) fn compact_some<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        cursor: u64,
        budget: &mut u64,
    ) -> Result<u64> {
        let mut cursor = cursor;
        while *budget > 0 {
            *budget -= 1;
            cursor = self.compact_leaf(tx, cursor)?;
            if cursor == 0 {
                break;
            }
        }
        Ok(cursor)
    }

    /// Returns the cursor to the next leaf.
    fn compact_leaf<T: Tx + ?Sized>(&self, tx: &mut T, cursor: u64) -> Result<u64> {
        let Some(root) = self.root(tx)? else { return Ok(0) };
        let mut node = self.compact_node(tx, root, self.at + ROOT)?;
        let (mut depth, mut path, mut next) = (0, 0, 0);
        while node.level > 0 {
            let last = node.order.len() - 1;
            let mut position = 0;
            if depth < LEVELS {
                position = ((cursor >> shift(depth) & 15) as usize).min(last);
                if position < last {
                    next = path | (position as u64 + 1) << shift(depth);
                }
                path |= (position as u64) << shift(depth);
            }
            let slot = self.slot(tx, &node, position)?;
            self.key.compact(tx, slot)?;
            let child = self.child(tx, &node, position)?;
            node = self.compact_node(tx, child, slot + self.key.bytes())?;
            depth += 1;
        }
        for position in 0..node.order.len() {
            let slot = self.slot(tx, &node, position)?;
            self.key.compact(tx, slot)?;
            self.value.compact(tx, slot + self.key.bytes())?;
        }
        Ok(next)
    }

    /// Moves a node to which the word at `pointer` leads.
    fn compact_node<T: Tx + ?Sized>(&self, tx: &mut T, node: Node, pointer: u64) -> Result<Node> {
        let at = move_block(tx, node.at).map_err(Error::in_pool)?;
        if at != node.at {
            tx.write_word(pointer, at)?;
        }
        Ok(Node { at, ..node })
    }
}
