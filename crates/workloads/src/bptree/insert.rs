//! Insertion: into a leaf, and a new node's key into the node above where one had to be split.

use super::node::{Entry, Node, SIZE};
use super::{BpTree, FEWEST, MOST, Step};
use crate::toggle::value_of;
use perdura::{Purpose, Result, Tx};

impl BpTree {
    /// Puts a key into the leaf at `place`.
    pub(super) fn insert<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        mut path: Vec<Step>,
        leaf: Node,
        place: u64,
        key: u64,
    ) -> Result<()> {
        let (mut node, mut place, mut entry) = (leaf, place, (key, value_of(key)));
        loop {
            if node.count < MOST {
                return node.put(tx, place, entry);
            }
            entry = split(tx, node, place, entry)?;
            match path.pop() {
                Some(step) => (node, place) = (step.node, step.child),
                None => return self.grow(tx, node, entry),
            }
        }
    }

    /// A new root above the old one and the node that was split off it.
    fn grow<T: Tx + ?Sized>(self, tx: &mut T, old: Node, entry: Entry) -> Result<()> {
        let root = tx.allocate(Purpose::General, SIZE)?;
        Node::create(tx, root, old.level + 1, old.at, &[entry.0], &[entry.1])?;
        self.set_root(tx, root.at(), old.level + 1)
    }
}

/// Splits a full node that is to get an entry at `place`: the first hundred stay. Returns the
/// entry for the node above.
fn split<T: Tx + ?Sized>(tx: &mut T, mut node: Node, place: u64, entry: Entry) -> Result<Entry> {
    let (mut keys, mut others) = node.entries(tx)?;
    let new = tx.allocate(Purpose::General, SIZE)?;
    // A leaf's separator is the new node's first key; an inner node's moves up.
    let leaf = node.level == 0;
    let stays = place < FEWEST || leaf && place == FEWEST;
    if !stays {
        keys.insert(place as usize, entry.0);
        others.insert(place as usize, entry.1);
    }
    // With the new key, one more than the first hundred stay in the leaf that it goes to.
    let cut = if stays && !leaf { FEWEST - 1 } else { FEWEST } as usize;
    let (separator, first, from) =
        if leaf { (keys[cut], node.next(tx)?, cut) } else { (keys[cut], others[cut], cut + 1) };
    Node::create(tx, new, node.level, first, &keys[from..], &others[from..])?;
    node.set_count(tx, cut as u64)?;
    if leaf {
        node.set_next(tx, new.at())?;
    }
    if stays {
        node.put(tx, place, entry)?;
    }
    Ok((separator, new.at()))
}
