//! Removal: from a leaf, and from there up while a node has too few entries: it borrows one from a
//! sibling that can spare it, or is merged with one.

use super::node::Node;
use super::{BpTree, FEWEST, Step};
use perdura::{Error, Result, Tx};

impl BpTree {
    /// Takes the key at `place` out of the leaf.
    pub(super) fn remove<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        mut path: Vec<Step>,
        leaf: Node,
        place: u64,
    ) -> Result<()> {
        let (mut node, mut place) = (leaf, place);
        loop {
            node.take(tx, place)?;
            let Some(step) = path.pop() else { return self.shrink(tx, node) };
            if node.count >= FEWEST {
                return Ok(());
            }
            match fill(tx, step, node)? {
                Some(gone) => (node, place) = (step.node, gone),
                None => return Ok(()),
            }
        }
    }

    /// An inner root that has one child gives way to it.
    fn shrink<T: Tx + ?Sized>(self, tx: &mut T, root: Node) -> Result<()> {
        if root.level == 0 || root.count > 0 {
            return Ok(());
        }
        let child = root.first_child(tx)?;
        self.set_root(tx, child, root.level - 1)?;
        tx.free(root.at)
    }
}

/// Fills a node below `step` that has too few. Returns which of the step's keys is to go, where
/// that took a merge.
fn fill<T: Tx + ?Sized>(tx: &mut T, step: Step, node: Node) -> Result<Option<u64>> {
    let left = step.beside(tx, false)?;
    if let Some(left) = left
        && left.count > FEWEST
    {
        return borrow_left(tx, step, left, node).map(|()| None);
    }
    let right = step.beside(tx, true)?;
    if let Some(right) = right
        && right.count > FEWEST
    {
        return borrow_right(tx, step, node, right).map(|()| None);
    }
    let (left, right, key) = match (left, right) {
        (Some(left), _) => (left, node, step.child - 1),
        (None, Some(right)) => (node, right, step.child),
        (None, None) => return Err(Error::corrupt("an only child", node.at)),
    };
    merge(tx, step, left, right, key).map(|()| Some(key))
}

/// The last entry of the left sibling becomes the node's first.
fn borrow_left<T: Tx + ?Sized>(
    tx: &mut T,
    step: Step,
    mut left: Node,
    mut node: Node,
) -> Result<()> {
    let (key, other) = left.entry(tx, left.count - 1)?;
    if node.level == 0 {
        node.put(tx, 0, (key, other))?;
    } else {
        // The key above comes down in front of the former first child.
        let (above, first) = (step.node.key(tx, step.child - 1)?, node.first_child(tx)?);
        node.put(tx, 0, (above, first))?;
        node.set_first_child(tx, other)?;
    }
    left.set_count(tx, left.count - 1)?;
    step.node.set_key(tx, step.child - 1, key)
}

/// The first entry of the right sibling becomes the node's last.
fn borrow_right<T: Tx + ?Sized>(
    tx: &mut T,
    step: Step,
    mut node: Node,
    mut right: Node,
) -> Result<()> {
    let (key, other) = right.entry(tx, 0)?;
    if node.level == 0 {
        node.put(tx, node.count, (key, other))?;
        right.take(tx, 0)?;
        let first = right.key(tx, 0)?;
        return step.node.set_key(tx, step.child, first);
    }
    let (above, first) = (step.node.key(tx, step.child)?, right.first_child(tx)?);
    node.put(tx, node.count, (above, first))?;
    right.set_first_child(tx, other)?;
    right.take(tx, 0)?;
    step.node.set_key(tx, step.child, key)
}

/// Puts all of the right node behind the left one, and frees it. `key` is the number of the key
/// between them.
fn merge<T: Tx + ?Sized>(
    tx: &mut T,
    step: Step,
    mut left: Node,
    right: Node,
    key: u64,
) -> Result<()> {
    let (keys, others) = right.entries(tx)?;
    if left.level == 0 {
        let next = right.next(tx)?;
        left.set_next(tx, next)?;
    } else {
        let (above, first) = (step.node.key(tx, key)?, right.first_child(tx)?);
        left.append(tx, &[above], &[first])?;
    }
    left.append(tx, &keys, &others)?;
    tx.free(right.at)
}
