//! Checks of a whole tree: order, fill, equal depth, and the chain of its leaves.

use super::node::{Node, SIZE};
use super::{BpTree, FEWEST};
use crate::toggle::Pairs;
use perdura::collections::Visit;
use perdura::{Error, Result, Tx};

/// The walk so far, from the first leaf on.
struct Walk<'a, 'v, 'p> {
    root: u64,
    /// The leaf that should come next, once there has been one.
    next: Option<u64>,
    visit: &'a mut Visit<'v>,
    pair: &'a mut Pairs<'p>,
}

impl BpTree {
    pub(super) fn check_all<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut Pairs<'_>,
    ) -> Result<()> {
        visit(self.0)?;
        let root = self.root(tx)?;
        let mut walk = Walk { root: root.at, next: None, visit, pair };
        walk.check_below(tx, root, None, None)?;
        match walk.next {
            None | Some(0) => Ok(()),
            Some(next) => Err(Error::corrupt("a leaf after the last one", next)),
        }
    }
}

impl Walk<'_, '_, '_> {
    /// Checks the node, whose keys are at least `above` and less than `below`, and what is below
    /// it: levels count down, and bounds keep two children from being the same one.
    fn check_below<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        node: Node,
        above: Option<u64>,
        below: Option<u64>,
    ) -> Result<()> {
        let (keys, others) = node.entries(tx)?;
        self.check_node(tx, node, &keys, above, below)?;
        (self.visit)(node.at)?;
        if node.level == 0 {
            if self.next.is_some_and(|next| next != node.at) {
                return Err(Error::corrupt("a leaf that the one before does not know", node.at));
            }
            self.next = Some(node.next(tx)?);
            return keys.iter().zip(&others).try_for_each(|(k, v)| (self.pair)(*k, *v));
        }
        for index in 0..=node.count {
            let child = node.child(tx, index)?;
            let above = if index == 0 { above } else { Some(keys[index as usize - 1]) };
            let below = keys.get(index as usize).copied().or(below);
            self.check_below(tx, child, above, below)?;
        }
        Ok(())
    }

    fn check_node<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        node: Node,
        keys: &[u64],
        above: Option<u64>,
        below: Option<u64>,
    ) -> Result<()> {
        let fewest = match (node.at == self.root, node.level) {
            (true, 0) => 0,
            (true, _) => 1,
            (false, _) => FEWEST,
        };
        let first = keys.first().copied();
        let last = keys.last().copied();
        let problem = if node.count < fewest {
            "a node with too few keys"
        } else if !keys.is_sorted_by(|a, b| a < b) {
            "a node whose keys are out of order"
        } else if first.zip(above).is_some_and(|(key, above)| key < above)
            || last.zip(below).is_some_and(|(key, below)| key >= below)
        {
            "a node with another's keys"
        } else if tx.usable(node.at)? < SIZE {
            "a node that is cut short"
        } else {
            return Ok(());
        };
        Err(Error::corrupt(problem, node.at))
    }
}
