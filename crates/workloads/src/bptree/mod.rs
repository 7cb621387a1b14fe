//! LOC's B+ tree: nodes of 4 KiB, 200 pairs of an 8-byte key and a 4-byte value in a leaf, leaves
//! linked. A node is split when a 201st entry comes; one with fewer than 100 borrows an entry or is merged.
//!
//! ```text
//! header     root, level of the root
//! node    0  number of keys, level (0: a leaf), next leaf
//!        64  keys
//!      1664  values of a leaf, 4 bytes each
//!      2464  children of an inner node, one more than keys
//! ```
//!
//! The keys of child `i` are at least key `i - 1` of the node and less than its key `i`. Every node
//! read is checked for its level, which bounds the depth of a walk.

mod check;
mod insert;
mod node;
mod remove;
#[cfg(test)]
mod tests;

use crate::toggle::{KeySet, ListedSet, Pairs};
use node::{Node, SIZE};
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Tx};

/// The maximum number of keys of a node.
const MOST: u64 = 200;
/// Fewest keys of a node other than the root.
const FEWEST: u64 = 100;
/// A tree with more levels would have more keys than there are.
const HIGHEST: u64 = 10;
const LEVEL: u64 = 8;

/// The tree whose header is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpTree(u64);

/// An inner node, and which of its children a path goes through.
#[derive(Clone, Copy)]
struct Step {
    node: Node,
    child: u64,
}

impl BpTree {
    fn root<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Node> {
        let (at, level) = (tx.read_word(self.0)?, tx.read_word(self.0.wrapping_add(LEVEL))?);
        if level > HIGHEST {
            return Err(Error::corrupt("a B+ tree of too many levels", self.0));
        }
        Node::read(tx, at, level)
    }

    fn set_root<T: Tx + ?Sized>(self, tx: &mut T, at: u64, level: u64) -> Result<()> {
        tx.write_word(self.0, at)?;
        tx.write_word(self.0.wrapping_add(LEVEL), level)
    }

    /// The leaf where the key belongs, and the inner nodes above it, the root first.
    fn descend<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<(Vec<Step>, Node)> {
        let mut node = self.root(tx)?;
        let mut path = Vec::with_capacity(node.level as usize);
        while node.level > 0 {
            let (place, here) = node.search(tx, key)?;
            let child = place + u64::from(here);
            path.push(Step { node, child });
            node = node.child(tx, child)?;
        }
        Ok((path, node))
    }
}

impl ListedSet for BpTree {
    const LINE: &'static str = "keys toggled in a B+ tree with nodes of 4 KiB";
    const OPS_PER_TX: u64 = 6;
}

impl KeySet for BpTree {
    const NAME: &'static str = "bptree";
    const KIND: u32 = 2_005;
    const BYTES_PER_ENTRY: u64 = 48;

    fn create<T: Tx + ?Sized>(tx: &mut T, _entries: u64, _below: u64) -> Result<Self> {
        let at = tx.allocate(Purpose::General, 2 * 8)?.at();
        let root = tx.allocate(Purpose::General, SIZE)?;
        Node::create(tx, root, 0, 0, &[], &[])?;
        let tree = BpTree(at);
        tree.set_root(tx, root.at(), 0)?;
        Ok(tree)
    }

    fn open(at: u64) -> Self {
        BpTree(at)
    }

    fn at(self) -> u64 {
        self.0
    }

    fn toggle<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<bool> {
        let (path, leaf) = self.descend(tx, key)?;
        let (place, here) = leaf.search(tx, key)?;
        if here {
            self.remove(tx, path, leaf, place)?;
        } else {
            self.insert(tx, path, leaf, place, key)?;
        }
        Ok(!here)
    }

    fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut Pairs<'_>,
    ) -> Result<()> {
        self.check_all(tx, visit, pair)
    }
}
