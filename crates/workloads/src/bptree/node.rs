//! One node: its arrays, and how entries get into them and out.
//!
//! A leaf's entry is a key and a value, an inner node's a key and the child to the right of it.
//! The arrays are sorted; the elements after the place of a change are moved.

use super::{MOST, Step};
use perdura::{Error, Fresh, Result, Tx};

/// Bytes of a node.
pub(super) const SIZE: u64 = 4096;
const LEVEL: u64 = 8;
const NEXT: u64 = 16;
const KEYS: u64 = 64;
const KEY: u64 = 8;
const VALUES: u64 = KEYS + MOST * KEY;
const VALUE: u64 = 4;
const CHILDREN: u64 = VALUES + MOST * VALUE;
const CHILD: u64 = 8;

/// A node whose number of keys has been checked to be possible.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) at: u64,
    pub(super) level: u64,
    pub(super) count: u64,
}

/// A key with its value (in a leaf) or with the child to the right of it.
pub(super) type Entry = (u64, u64);

impl Node {
    /// The node at `at`, which is to be of that level.
    pub(super) fn read<T: Tx + ?Sized>(tx: &mut T, at: u64, level: u64) -> Result<Self> {
        let count = tx.read_word(at)?;
        if count > MOST || tx.read_word(at.wrapping_add(LEVEL))? != level {
            return Err(Error::corrupt("a B+ tree's node that is none", at));
        }
        Ok(Node { at, level, count })
    }

    /// Fills the fresh block at `at`. `first` is the first child of an inner node, or the leaf
    /// after a leaf.
    pub(super) fn create<T: Tx + ?Sized>(
        tx: &mut T,
        new: Fresh,
        level: u64,
        first: u64,
        keys: &[u64],
        others: &[u64],
    ) -> Result<Self> {
        let node = Node { at: new.at(), level, count: keys.len() as u64 };
        let mut bytes = vec![0; SIZE as usize];
        let mut put = |at: u64, from: &[u8]| {
            bytes[at as usize..at as usize + from.len()].copy_from_slice(from);
        };
        put(0, &node.count.to_ne_bytes());
        put(LEVEL, &level.to_ne_bytes());
        put(if level == 0 { NEXT } else { CHILDREN }, &first.to_ne_bytes());
        for (index, (key, other)) in (0..).zip(keys.iter().zip(others)) {
            put(KEYS + index * KEY, &key.to_ne_bytes());
            let (start, size) = node.others();
            put(start + index * size, &other.to_ne_bytes()[..size as usize]);
        }
        tx.write_fresh(new, 0, &bytes)?;
        Ok(node)
    }

    /// Where the other half of entry 0 is, and its size.
    const fn others(self) -> (u64, u64) {
        if self.level == 0 { (VALUES, VALUE) } else { (CHILDREN + CHILD, CHILD) }
    }

    pub(super) fn key<T: Tx + ?Sized>(self, tx: &mut T, index: u64) -> Result<u64> {
        tx.read_word(self.at + KEYS + index * KEY)
    }

    pub(super) fn set_key<T: Tx + ?Sized>(self, tx: &mut T, index: u64, key: u64) -> Result<()> {
        tx.write_word(self.at + KEYS + index * KEY, key)
    }

    /// The keys, and each one's other half.
    pub(super) fn entries<T: Tx + ?Sized>(self, tx: &mut T) -> Result<(Vec<u64>, Vec<u64>)> {
        let (start, size) = self.others();
        let keys = self.read_array(tx, KEYS, KEY)?;
        Ok((keys, self.read_array(tx, start, size)?))
    }

    fn read_array<T: Tx + ?Sized>(self, tx: &mut T, start: u64, size: u64) -> Result<Vec<u64>> {
        let mut bytes = vec![0; (self.count * size) as usize];
        tx.read_bytes(self.at + start, &mut bytes)?;
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        };
        Ok(bytes.chunks_exact(size as usize).map(word).collect())
    }

    /// One entry.
    pub(super) fn entry<T: Tx + ?Sized>(self, tx: &mut T, index: u64) -> Result<Entry> {
        let (start, size) = self.others();
        let mut other = [0; 8];
        tx.read_bytes(self.at + start + index * size, &mut other[..size as usize])?;
        Ok((self.key(tx, index)?, u64::from_ne_bytes(other)))
    }

    /// The leaf after this one, or null.
    pub(super) fn next<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
        tx.read_word(self.at + NEXT)
    }

    pub(super) fn set_next<T: Tx + ?Sized>(self, tx: &mut T, next: u64) -> Result<()> {
        tx.write_word(self.at + NEXT, next)
    }

    /// Child `index`, from 0 to the number of keys.
    pub(super) fn child<T: Tx + ?Sized>(self, tx: &mut T, index: u64) -> Result<Node> {
        let at = tx.read_word(self.at + CHILDREN + index * CHILD)?;
        Node::read(tx, at, self.level - 1)
    }

    pub(super) fn first_child<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
        tx.read_word(self.at + CHILDREN)
    }

    pub(super) fn set_first_child<T: Tx + ?Sized>(self, tx: &mut T, child: u64) -> Result<()> {
        tx.write_word(self.at + CHILDREN, child)
    }

    /// Where the key is or belongs, and whether it is there.
    pub(super) fn search<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<(u64, bool)> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            let here = self.key(tx, middle)?;
            if here == key {
                return Ok((middle, true));
            }
            if here < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok((low, false))
    }

    /// Makes room at `index` and puts the entry there.
    pub(super) fn put<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        index: u64,
        entry: Entry,
    ) -> Result<()> {
        let (start, size) = self.others();
        self.shift_up(tx, KEYS, KEY, index, &entry.0.to_ne_bytes())?;
        self.shift_up(tx, start, size, index, &entry.1.to_ne_bytes()[..size as usize])?;
        self.set_count(tx, self.count + 1)
    }

    /// Takes the entry at `index` out.
    pub(super) fn take<T: Tx + ?Sized>(&mut self, tx: &mut T, index: u64) -> Result<()> {
        let (start, size) = self.others();
        self.shift_down(tx, KEYS, KEY, index)?;
        self.shift_down(tx, start, size, index)?;
        self.set_count(tx, self.count - 1)
    }

    /// Puts the entries behind the last one.
    pub(super) fn append<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        keys: &[u64],
        others: &[u64],
    ) -> Result<()> {
        let (start, size) = self.others();
        let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_ne_bytes()).collect();
        tx.write_bytes(self.at + KEYS + self.count * KEY, &bytes)?;
        let low = |other: &u64| other.to_ne_bytes().into_iter().take(size as usize);
        let bytes: Vec<u8> = others.iter().flat_map(low).collect();
        tx.write_bytes(self.at + start + self.count * size, &bytes)?;
        self.set_count(tx, self.count + keys.len() as u64)
    }

    pub(super) fn set_count<T: Tx + ?Sized>(&mut self, tx: &mut T, count: u64) -> Result<()> {
        self.count = count;
        tx.write_word(self.at, count)
    }

    fn shift_up<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        start: u64,
        size: u64,
        index: u64,
        first: &[u8],
    ) -> Result<()> {
        let at = self.at + start + index * size;
        let mut bytes = first.to_vec();
        bytes.resize(first.len() + ((self.count - index) * size) as usize, 0);
        tx.read_bytes(at, &mut bytes[first.len()..])?;
        tx.write_bytes(at, &bytes)
    }

    fn shift_down<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        start: u64,
        size: u64,
        index: u64,
    ) -> Result<()> {
        let at = self.at + start + index * size;
        let mut bytes = vec![0; ((self.count - index - 1) * size) as usize];
        tx.read_bytes(at + size, &mut bytes)?;
        tx.write_bytes(at, &bytes)
    }
}

impl Step {
    /// The sibling of the path's child, if there is one: to the left, or to the right.
    pub(super) fn beside<T: Tx + ?Sized>(self, tx: &mut T, right: bool) -> Result<Option<Node>> {
        if right {
            let there = self.child < self.node.count;
            return if there { self.node.child(tx, self.child + 1).map(Some) } else { Ok(None) };
        }
        if self.child == 0 { Ok(None) } else { self.node.child(tx, self.child - 1).map(Some) }
    }
}
