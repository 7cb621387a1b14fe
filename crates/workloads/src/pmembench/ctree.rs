//! ctree: a crit-bit tree.
//!
//! ```text
//! entry   key, value; or 0, node; or twice 0 for nothing
//! header  entry
//! node    number of the bit, entry of keys without it, entry of keys with it
//! ```
//!
//! Invariants: the keys below a node are alike in all bits above its own, and the nodes below have lower ones.
//! No key is 0.

use super::{PmdkMap, Then};
use crate::stamp::block::{self, WORD, word};
use perdura::collections::Visit;
use perdura::{Error, Result, Tx};

const ENTRY: u64 = 2 * WORD;
/// A path of more nodes than a word has bits is in no tree.
const DEEPEST: usize = 65;

/// The tree whose header is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CTree(u64);

/// The contents of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryContents {
    Nothing,
    Pair(u64, u64),
    Node(u64),
}

fn held<T: Tx + ?Sized>(tx: &mut T, entry: u64) -> Result<EntryContents> {
    Ok(match (tx.read_word(entry)?, tx.read_word(word(entry, 1))?) {
        (0, 0) => EntryContents::Nothing,
        (0, node) => EntryContents::Node(node),
        (key, value) => EntryContents::Pair(key, value),
    })
}

fn put<T: Tx + ?Sized>(tx: &mut T, entry: u64, words: [u64; 2]) -> Result<()> {
    tx.write_word(entry, words[0])?;
    tx.write_word(word(entry, 1), words[1])
}

/// The entry of a node that a key belongs to.
const fn side(node: u64, bit: u64, key: u64) -> u64 {
    node.wrapping_add(WORD).wrapping_add((key >> (bit & 63) & 1) * ENTRY)
}

impl CTree {
    /// The entry where a key ends up, and the one that leads to its node.
    fn end<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<(u64, Option<u64>)> {
        let (mut entry, mut above) = (self.0, None);
        for _ in 0..DEEPEST {
            let EntryContents::Node(node) = held(tx, entry)? else { return Ok((entry, above)) };
            let bit = tx.read_word(node)?;
            above = Some(entry);
            entry = side(node, bit, key);
        }
        Err(self.too_deep())
    }

    #[cold]
    fn too_deep(self) -> Error {
        Error::corrupt("a crit-bit tree that is too deep", self.0)
    }

    /// Puts a node for `bit`, with the pair, above all nodes of lower bits.
    fn part<T: Tx + ?Sized>(self, tx: &mut T, pair: [u64; 2], bit: u64) -> Result<()> {
        let mut entry = self.0;
        for _ in 0..DEEPEST {
            if let EntryContents::Node(node) = held(tx, entry)? {
                let here = tx.read_word(node)?;
                if here > bit {
                    entry = side(node, here, pair[0]);
                    continue;
                }
            }
            let below = [tx.read_word(entry)?, tx.read_word(word(entry, 1))?];
            let [first, second] =
                if pair[0] >> bit & 1 == 0 { [pair, below] } else { [below, pair] };
            let new = block::new(tx, [bit, first[0], first[1], second[0], second[1]])?;
            return put(tx, entry, [0, new]);
        }
        Err(self.too_deep())
    }

    /// Checks an entry, whose nodes must be for bits below `above`. Returns one of its keys. All of a node's keys are
    /// alike above its bit, since those of each side are alike above a lower bit.
    fn check_entry<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        (entry, above): (u64, u64),
        visit: &mut Visit<'_>,
        pair: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<u64> {
        let node = match held(tx, entry)? {
            EntryContents::Node(node) => node,
            EntryContents::Pair(key, value) => return pair(key, value).map(|()| key),
            EntryContents::Nothing => {
                return Err(Error::corrupt("a crit-bit node with an empty entry", entry));
            }
        };
        let bit = tx.read_word(node)?;
        if bit >= above {
            return Err(Error::corrupt("a crit-bit node below one of a lower bit", node));
        }
        visit(node)?;
        let without = self.check_entry(tx, (side(node, bit, 0), bit), visit, pair)?;
        let with = self.check_entry(tx, (side(node, bit, 1 << bit), bit), visit, pair)?;
        if without >= with || u64::from((without ^ with).ilog2()) != bit {
            return Err(Error::corrupt("keys of a crit-bit node that do not belong there", node));
        }
        Ok(with)
    }
}

impl PmdkMap for CTree {
    const NAME: &'static str = "ctree";
    const NAMED: [[&'static str; 2]; 3] = [
        ["ctree-insert", "PMDK's crit-bit tree: each key inserted"],
        ["ctree-remove", "the same, each key removed"],
        ["ctree-get", "the same, each key looked up"],
    ];
    const KIND: u32 = 2_019;
    const KIND_OF_BLOCKS: u32 = 2_021;
    const BYTES_PER_KEY: u64 = 64;

    fn create<T: Tx + ?Sized>(tx: &mut T) -> Result<Self> {
        block::new(tx, [0, 0]).map(CTree)
    }

    fn open(at: u64) -> Self {
        CTree(at)
    }

    fn at(self) -> u64 {
        self.0
    }

    fn insert<T: Tx + ?Sized>(self, tx: &mut T, key: u64, value: u64) -> Result<(bool, Then)> {
        let (entry, _) = self.end(tx, key)?;
        let new = match held(tx, entry)? {
            EntryContents::Pair(other, _) if other != key => {
                self.part(tx, [key, value], (other ^ key).ilog2().into())?;
                true
            }
            there => {
                put(tx, entry, [key, value])?;
                there == EntryContents::Nothing
            }
        };
        Ok((new, Then::Nothing))
    }

    fn remove<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<(Option<u64>, Then)> {
        let (entry, above) = self.end(tx, key)?;
        let value = match held(tx, entry)? {
            EntryContents::Pair(there, value) if there == key => value,
            _ => return Ok((None, Then::Nothing)),
        };
        let Some(above) = above else {
            put(tx, entry, [0, 0])?;
            return Ok((Some(value), Then::Nothing));
        };
        // The node goes, and its other entry takes its place.
        let node = tx.read_word(word(above, 1))?;
        let other = if entry == word(node, 1) { word(node, 3) } else { word(node, 1) };
        let words = [tx.read_word(other)?, tx.read_word(word(other, 1))?];
        put(tx, above, words)?;
        tx.free(node)?;
        Ok((Some(value), Then::Nothing))
    }

    fn get<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<Option<u64>> {
        let (entry, _) = self.end(tx, key)?;
        Ok(match held(tx, entry)? {
            EntryContents::Pair(there, value) if there == key => Some(value),
            _ => None,
        })
    }

    fn rebuild<T: Tx + ?Sized>(self, _: &mut T, _: u64) -> Result<()> {
        Ok(())
    }

    fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        visit(self.0)?;
        match held(tx, self.0)? {
            EntryContents::Nothing => Ok(()),
            _ => self.check_entry(tx, (self.0, 64), visit, pair).map(drop),
        }
    }
}
