//! A singly linked list in the order of its keys, of which no two are alike.
//!
//! ```text
//! head  first node
//! node  next, key, value
//! ```

use super::block::{self, word};
use perdura::collections::Visit;
use perdura::{Error, Result, Tx};

const KEY: u64 = 1;
const VALUE: u64 = 2;
/// A longer list has a cycle.
const LONGEST: usize = 1 << 32;

/// The list whose head is the word there; an empty one is a word of 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List(pub(crate) u64);

impl List {
    /// The link to the first node whose key is not below `key`, that node, and whether it has the key.
    fn find<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<(u64, u64, bool)> {
        let mut link = self.0;
        for _ in 0..LONGEST {
            let node = tx.read_word(link)?;
            if node == 0 {
                return Ok((link, 0, false));
            }
            let here = tx.read_word(word(node, KEY))?;
            if here >= key {
                return Ok((link, node, here == key));
            }
            link = node;
        }
        Err(self.endless())
    }

    #[cold]
    fn endless(self) -> Error {
        Error::corrupt("a list without an end", self.0)
    }

    /// Inserts a key that is not there; false if it is.
    pub(crate) fn insert<T: Tx + ?Sized>(self, tx: &mut T, key: u64, value: u64) -> Result<bool> {
        let (link, next, found) = self.find(tx, key)?;
        if !found {
            let node = block::new(tx, [next, key, value])?;
            tx.write_word(link, node)?;
        }
        Ok(!found)
    }

    /// Removes the first node. Returns its key and value.
    pub(crate) fn pop<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<(u64, u64)>> {
        let node = tx.read_word(self.0)?;
        if node == 0 {
            return Ok(None);
        }
        let mut words = [0; 3];
        block::read(tx, node, &mut words)?;
        tx.write_word(self.0, words[0])?;
        tx.free(node)?;
        Ok(Some((words[1], words[2])))
    }

    /// Removes a key. Returns whether it was there.
    pub(crate) fn remove<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<bool> {
        let (link, node, found) = self.find(tx, key)?;
        if found {
            let next = tx.read_word(node)?;
            tx.write_word(link, next)?;
            tx.free(node)?;
        }
        Ok(found)
    }

    /// Gives each node in turn: where it is, its key and its value.
    pub(crate) fn each<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        mut each: impl FnMut(&mut T, u64, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let mut node = tx.read_word(self.0)?;
        for _ in 0..LONGEST {
            if node == 0 {
                return Ok(());
            }
            let (key, value) = (tx.read_word(word(node, KEY))?, tx.read_word(word(node, VALUE))?);
            let next = tx.read_word(node)?;
            each(tx, node, key, value)?;
            node = next;
        }
        Err(self.endless())
    }

    /// Frees all nodes, and leaves the head as it is.
    pub(crate) fn destroy<T: Tx + ?Sized>(self, tx: &mut T) -> Result<()> {
        self.each(tx, |tx, node, _, _| tx.free(node))
    }

    /// Checks that keys ascend, reports the nodes to `visit`, and returns keys and values.
    pub(crate) fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        mut pair: impl FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        let mut before = None;
        self.each(tx, |_, node, key, value| {
            if before.is_some_and(|before| before >= key) {
                return Err(Error::corrupt("a list out of order", node));
            }
            before = Some(key);
            visit(node)?;
            pair(key, value)
        })
    }
}
