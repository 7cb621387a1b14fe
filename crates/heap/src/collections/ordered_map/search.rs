//! The search for a key.

use super::path::Path;
use super::tree::{Node, Tree};
use crate::collections::codec::OrderedItem;
use crate::{Result, Tx};
use std::cmp::Ordering;
use std::hint::select_unpredictable;

/// What a search for a key has found.
pub(super) struct Sought {
    /// The path to the key, or to where it would be inserted.
    pub(super) path: Path,
    /// The leaf that it leads to; none in an empty tree.
    pub(super) leaf: Option<Node>,
    /// Whether the key is there.
    pub(super) found: bool,
}

impl Sought {
    /// The address of the key's entry, if it is there.
    #[inline]
    pub(super) fn entry<T: Tx + ?Sized>(&self, tx: &mut T, tree: &Tree) -> Result<Option<u64>> {
        match &self.leaf {
            Some(leaf) if self.found => tree.slot(tx, leaf, self.path.last()).map(Some),
            _ => Ok(None),
        }
    }
}

impl Tree {
    /// The first position in a leaf whose key is not less than this one, and whether it is equal.
    #[inline]
    fn in_leaf<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        leaf: &Node,
        key: K::Probe<'_>,
    ) -> Result<(usize, bool)> {
        // The key at `low` is less, unless that is 0. Which half is next is a value, not a branch: no processor can
        // guess it.
        let (mut low, mut len) = (0, leaf.order.len());
        while len > 1 {
            let middle = low + len / 2;
            let slot = self.slot(tx, leaf, middle)?;
            let order = K::compare(tx, slot, key)?;
            if order.is_eq() {
                return Ok((middle, true));
            }
            low = select_unpredictable(order.is_lt(), middle, low);
            len -= len / 2;
        }
        if low > 0 || len == 0 {
            return Ok((low + len, false));
        }
        let slot = self.slot(tx, leaf, 0)?;
        let order = K::compare(tx, slot, key)?;
        Ok((usize::from(order.is_lt()), order.is_eq()))
    }

    /// The position in an inner node of the child for a key: the last whose key is not greater.
    #[inline]
    fn in_inner<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        node: &Node,
        key: K::Probe<'_>,
    ) -> Result<usize> {
        // As in a leaf. The first key is never read.
        let (mut low, mut len) = (0, node.order.len());
        while len > 1 {
            let middle = low + len / 2;
            let slot = self.slot(tx, node, middle)?;
            low = select_unpredictable(K::compare(tx, slot, key)?.is_le(), middle, low);
            len -= len / 2;
        }
        Ok(low)
    }

    /// The address of a key's entry, if there is one.
    pub(super) fn find<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        key: K::Probe<'_>,
    ) -> Result<Option<u64>> {
        let Some(mut node) = self.root(tx)? else { return Ok(None) };
        while node.level > 0 {
            let position = self.in_inner::<T, K>(tx, &node, key)?;
            node = self.child(tx, &node, position)?;
        }
        let (position, found) = self.in_leaf::<T, K>(tx, &node, key)?;
        if found { self.slot(tx, &node, position).map(Some) } else { Ok(None) }
    }

    /// Looks for a key.
    pub(super) fn seek<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        key: K::Probe<'_>,
    ) -> Result<Sought> {
        let mut path = Path::new();
        let Some(mut node) = self.root(tx)? else {
            return Ok(Sought { path, leaf: None, found: false });
        };
        while node.level > 0 {
            let position = self.in_inner::<T, K>(tx, &node, key)?;
            path.push(&node, position)?;
            node = self.child(tx, &node, position)?;
        }
        let (position, found) = self.in_leaf::<T, K>(tx, &node, key)?;
        path.push(&node, position)?;
        Ok(Sought { path, leaf: Some(node), found })
    }

    /// The path to the gap before or after a key, settled.
    pub(super) fn gap<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        key: K::Probe<'_>,
        behind: bool,
    ) -> Result<Path> {
        let Sought { mut path, found, .. } = self.seek::<T, K>(tx, key)?;
        if found && behind {
            path.forward(tx, self)?;
        } else {
            path.settle(tx, self)?;
        }
        Ok(path)
    }

    /// Whether an entry that was found may have this key where it is: it stays between the same neighbours, which are in
    /// its leaf.
    pub(super) fn stays<T: Tx + ?Sized, K: OrderedItem>(
        &self,
        tx: &mut T,
        sought: &Sought,
        at: u64,
        key: K::Probe<'_>,
    ) -> Result<bool> {
        let Some(leaf) = &sought.leaf else { return Ok(false) };
        let towards = K::compare(tx, at, key)?;
        let neighbour = match towards {
            Ordering::Equal => return Ok(true),
            Ordering::Less => Some(sought.path.last() + 1),
            Ordering::Greater => sought.path.last().checked_sub(1),
        };
        let Some(neighbour) = neighbour.filter(|position| *position < leaf.order.len()) else {
            return Ok(false);
        };
        let slot = self.slot(tx, leaf, neighbour)?;
        Ok(K::compare(tx, slot, key)? == towards.reverse())
    }

    /// Counts the entries, leaf by leaf.
    pub(super) fn walk_len<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<u64> {
        let mut path = Path::to_edge(tx, self, false)?;
        let mut count = 0;
        loop {
            count += path.end(tx, self)?.0.order.len() as u64;
            if !path.next_leaf(tx, self)? {
                return Ok(count);
            }
        }
    }
}
