//! Checks of the whole tree.

use super::ROOT;
use super::path::Path;
use super::tree::{Node, Tree};
use crate::collections::Visit;
use crate::collections::codec::OrderedItem;
use crate::{Error, Result, Tx};
use std::collections::HashSet;

impl Tree {
    /// Checks nodes and items, and reports the blocks. The order of keys needs their type:
    /// [`check_order`](Tree::check_order).
    pub(crate) fn check<T: Tx + ?Sized>(&self, tx: &mut T, visit: &mut Visit<'_>) -> Result<()> {
        if tx.usable(self.at).map_err(Error::in_pool)? < ROOT + 8 {
            return Err(Error::corrupt("a tree's header", self.at));
        }
        visit(self.at)?;
        match self.root(tx)? {
            Some(root) => self.check_node(tx, &root, &mut HashSet::new(), visit).map(drop),
            None => Ok(()),
        }
    }

    /// Checks a node and all below it, and counts the entries. `seen` are the nodes visited before: a node that two
    /// parents share would be walked again and again.
    fn check_node<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &Node,
        seen: &mut HashSet<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<u64> {
        let used = node.order.used();
        if used.count_ones() as usize != node.order.len() || !seen.insert(node.at) || used == 0 {
            return Err(Error::corrupt("a tree's node", node.at));
        }
        if tx.usable(node.at).map_err(Error::in_pool)? < self.shape(node.level).node {
            return Err(Error::corrupt("a tree node that is too small", node.at));
        }
        visit(node.at)?;
        let mut count = 0;
        for position in 0..node.order.len() {
            let slot = self.slot(tx, node, position)?;
            self.key.check(tx, slot, visit)?;
            count += if node.level == 0 {
                self.value.check(tx, slot + self.key.bytes(), visit)?;
                1
            } else {
                self.check_child(tx, node, position, seen, visit)?
            };
        }
        Ok(count)
    }

    fn check_child<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: &Node,
        position: usize,
        seen: &mut HashSet<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<u64> {
        let slot = self.slot(tx, node, position)?;
        if position == 0 {
            for word in 0..self.key.words as u64 {
                if tx.read_word(slot + word * 8)? != 0 {
                    return Err(Error::corrupt("a tree's first key", slot));
                }
            }
        }
        let child = self.child(tx, node, position)?;
        let count = self.check_node(tx, &child, seen, visit)?;
        if self.has_counts(node.level) && tx.read_word(self.count_at(slot))? != count {
            return Err(Error::corrupt("a subtree's count", slot));
        }
        Ok(count)
    }

    /// Checks that each key is greater than the one before, and that a search finds it.
    pub(super) fn check_order<T: Tx + ?Sized, K: OrderedItem>(&self, tx: &mut T) -> Result<()> {
        let mut place = Path::to_edge(tx, self, false)?;
        let end = Path::to_edge(tx, self, true)?;
        let mut before: Option<K::Owned> = None;
        while !place.is_at(&end) {
            let at = place.entry(tx, self)?;
            if let Some(before) = &before
                && !K::compare(tx, at, K::probe(K::borrow(before), 0))?.is_gt()
            {
                return Err(Error::corrupt("a key out of order", at));
            }
            let key = K::load(tx, at)?;
            let sought = self.seek::<T, K>(tx, K::probe(K::borrow(&key), 0))?;
            if !sought.found || !sought.path.is_at(&place) {
                return Err(Error::corrupt("a key that no search finds", at));
            }
            before = Some(key);
            place.forward(tx, self)?;
        }
        Ok(())
    }
}
