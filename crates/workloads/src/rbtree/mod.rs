//! A red-black tree with parent pointers, in nodes of a line each.
//!
//! ```text
//! header  root
//! node    left, right, parent, colour, key, value, two words of nothing
//! ```
//!
//! The leaves are null pointers, and black. A parent pointer names its node as a child, so that
//! a walk which has seen that visits no node twice.

mod check;
mod insert;
mod remove;
#[cfg(test)]
mod tests;

use crate::toggle::{KeySet, ListedSet, Pairs, value_of};
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Tx};

const WORD: u64 = 8;
const NODE: u64 = 64;
const PARENT: u64 = 2 * WORD;
const COLOUR: u64 = 3 * WORD;
const KEY: u64 = 4 * WORD;
const VALUE: u64 = 5 * WORD;
const RED: u64 = 1;
const BLACK: u64 = 0;
/// A path of more nodes than this is in no tree: it would have 2^64 of them.
const DEEPEST: usize = 128;

/// One of a node's children; the number is its word in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left = 0,
    Right = 1,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// The tree whose header is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RbTree(u64);

/// A tree inside a transaction: its nodes' words by name.
struct Nodes<'t, T: ?Sized> {
    tx: &'t mut T,
    header: u64,
}

impl<T: Tx + ?Sized> Nodes<'_, T> {
    fn root(&mut self) -> Result<u64> {
        self.tx.read_word(self.header)
    }

    fn get(&mut self, node: u64, field: u64) -> Result<u64> {
        if node == 0 {
            return Err(Error::corrupt("a red-black tree that misses a node", self.header));
        }
        self.tx.read_word(node.wrapping_add(field))
    }

    fn set(&mut self, node: u64, field: u64, value: u64) -> Result<()> {
        if node == 0 {
            return Err(Error::corrupt("a red-black tree that misses a node", self.header));
        }
        self.tx.write_word(node.wrapping_add(field), value)
    }

    fn child(&mut self, node: u64, side: Side) -> Result<u64> {
        self.get(node, side as u64 * WORD)
    }

    fn parent(&mut self, node: u64) -> Result<u64> {
        self.get(node, PARENT)
    }

    fn key(&mut self, node: u64) -> Result<u64> {
        self.get(node, KEY)
    }

    /// A leaf is black.
    fn is_red(&mut self, node: u64) -> Result<bool> {
        Ok(node != 0 && self.get(node, COLOUR)? == RED)
    }

    /// Writes only changed words.
    fn paint(&mut self, node: u64, colour: u64) -> Result<()> {
        if self.get(node, COLOUR)? == colour {
            return Ok(());
        }
        self.set(node, COLOUR, colour)
    }

    /// Which child of `parent` the node is.
    fn side_of(&mut self, node: u64, parent: u64) -> Result<Side> {
        if self.child(parent, Side::Left)? == node {
            return Ok(Side::Left);
        }
        if self.child(parent, Side::Right)? == node {
            return Ok(Side::Right);
        }
        Err(Error::corrupt("a red-black node that its parent does not know", node))
    }

    /// Makes `child` (perhaps null) that child of `parent`; the root if that is null.
    fn hang(&mut self, child: u64, parent: u64, side: Side) -> Result<()> {
        match parent {
            0 => self.tx.write_word(self.header, child)?,
            _ => self.set(parent, side as u64 * WORD, child)?,
        }
        if child == 0 { Ok(()) } else { self.set(child, PARENT, parent) }
    }

    /// Puts `new` (perhaps null) where `old` is under its parent.
    fn replace(&mut self, old: u64, new: u64) -> Result<()> {
        let parent = self.parent(old)?;
        let side = if parent == 0 { Side::Left } else { self.side_of(old, parent)? };
        self.hang(new, parent, side)
    }

    /// Rotates the node down to `side`; its other child takes its place.
    fn rotate(&mut self, node: u64, side: Side) -> Result<()> {
        let up = self.child(node, side.other())?;
        let inner = self.child(up, side)?;
        self.replace(node, up)?;
        self.hang(inner, node, side.other())?;
        self.hang(node, up, side)
    }

    /// The node with this key, and the node and side where it would hang if there is none.
    fn find(&mut self, key: u64) -> Result<(u64, u64, Side)> {
        let (mut node, mut parent, mut side) = (self.root()?, 0, Side::Left);
        for _ in 0..DEEPEST {
            if node == 0 {
                return Ok((0, parent, side));
            }
            let here = self.key(node)?;
            if here == key {
                return Ok((node, parent, side));
            }
            (parent, side) = (node, if key < here { Side::Left } else { Side::Right });
            node = self.child(node, side)?;
        }
        Err(self.too_deep())
    }

    fn too_deep(&self) -> Error {
        Error::corrupt("a red-black tree that is too deep", self.header)
    }
}

/// As a map of words.
impl RbTree {
    /// A key's value.
    ///
    /// # Errors
    /// As the transaction's reads; `Corrupt` if the tree is damaged.
    pub fn get<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<Option<u64>> {
        let mut nodes = Nodes { tx, header: self.0 };
        match nodes.find(key)?.0 {
            0 => Ok(None),
            node => nodes.get(node, VALUE).map(Some),
        }
    }

    /// Inserts a key that is not there; false if it is.
    ///
    /// # Errors
    /// As the transaction's reads and writes; `Corrupt` if the tree is damaged.
    pub fn insert<T: Tx + ?Sized>(self, tx: &mut T, key: u64, value: u64) -> Result<bool> {
        let mut nodes = Nodes { tx, header: self.0 };
        let (node, parent, side) = nodes.find(key)?;
        if node == 0 {
            nodes.insert((key, value), parent, side)?;
        }
        Ok(node == 0)
    }

    /// Removes a key. Returns its value if it was there.
    ///
    /// # Errors
    /// As the transaction's reads and writes; `Corrupt` if the tree is damaged.
    pub fn remove<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<Option<u64>> {
        let mut nodes = Nodes { tx, header: self.0 };
        match nodes.find(key)?.0 {
            0 => Ok(None),
            node => {
                let value = nodes.get(node, VALUE)?;
                nodes.remove(node)?;
                Ok(Some(value))
            }
        }
    }
}

impl ListedSet for RbTree {
    const LINE: &'static str = "keys toggled in a red-black tree";
    const OPS_PER_TX: u64 = 8;
}

impl KeySet for RbTree {
    const NAME: &'static str = "rbtree";
    const KIND: u32 = 2_004;
    const BYTES_PER_ENTRY: u64 = 96;

    fn create<T: Tx + ?Sized>(tx: &mut T, _entries: u64, _below: u64) -> Result<Self> {
        let at = tx.allocate(Purpose::General, WORD)?.at();
        tx.write_word(at, 0)?;
        Ok(RbTree(at))
    }

    fn open(at: u64) -> Self {
        RbTree(at)
    }

    fn at(self) -> u64 {
        self.0
    }

    fn toggle<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<bool> {
        let mut nodes = Nodes { tx, header: self.0 };
        let (node, parent, side) = nodes.find(key)?;
        if node == 0 {
            nodes.insert((key, value_of(key)), parent, side)?;
        } else {
            nodes.remove(node)?;
        }
        Ok(node == 0)
    }

    fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut Pairs<'_>,
    ) -> Result<()> {
        visit(self.0)?;
        Nodes { tx, header: self.0 }.check(visit, pair)
    }
}
