//! A database in the pool: a header, a tree from page numbers to pages, and the list of replaced pages.
//!
//! The named root `sqlite:NAME` leads to the header. Words of the header: a tag, the database's length in bytes, the
//! page size, the tree's root and height, the first block of the list of replaced pages. A node of the tree has 512
//! words; a word of a leaf is the offset of a page, or 0 for a page of zeros. A tree of height 0 is empty. A block of
//! the list of replaced pages has the next block, the number of entries, and the offsets of pages (0 for one that is
//! freed already).
//!
//! Invariants: a page below the length is owned by its word in the tree, any other allocated page by the list. Words
//! for pages at or beyond the length are stale, and are overwritten before the length includes them.

use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Root, Tx};
use std::collections::HashSet;

/// The kind of a database's root.
pub const KIND: u32 = 1717;
/// What the names of databases' roots begin with.
pub(crate) const PREFIX: &str = "sqlite:";
const TAG: u64 = 0x5E17 << 48 | 1;
/// Words in a node.
pub(crate) const FAN: u64 = 512;
/// Bytes of a node.
pub(crate) const NODE: usize = 8 * FAN as usize;
const HIGHEST: u64 = 5;
/// Entries of a block of replaced pages.
pub(crate) const ENTRIES: usize = FAN as usize - 2;
const HEADER: usize = 6;

/// Is called with a leaf's number, its offset and its words.
type VisitLeaf<'a> = dyn FnMut(u64, u64, &[u64]) -> Result<()> + 'a;

/// The page sizes that SQLite has.
pub(crate) fn is_page_size(bytes: u64) -> bool {
    bytes.is_power_of_two() && (512..=65536).contains(&bytes)
}

/// The header's words after the tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Its offset; 0 for a database that is not in the pool yet.
    pub(crate) at: u64,
    /// Bytes of the database.
    pub(crate) length: u64,
    /// Bytes of a page.
    pub(crate) page_size: u64,
    root: u64,
    height: u64,
    /// The first block of replaced pages.
    pub(crate) first_replaced: u64,
}

impl Header {
    /// Pages of the database.
    pub(crate) fn pages(&self) -> u64 {
        if self.page_size == 0 { 0 } else { self.length.div_ceil(self.page_size) }
    }

    fn words(&self) -> [u64; HEADER] {
        [TAG, self.length, self.page_size, self.root, self.height, self.first_replaced]
    }

    /// Reads the header of the database with this root.
    pub(crate) fn read(tx: &mut dyn Tx, root: Root) -> Result<Self> {
        let at = root.at;
        if root.kind != KIND {
            return Err(Error::corrupt("a root of another program with a database's name", at));
        }
        let mut words = [0; HEADER];
        for (index, word) in (0..).zip(&mut words) {
            *word = tx.read_word(at + 8 * index)?;
        }
        let [tag, length, page_size, root, height, first_replaced] = words;
        if tag != TAG {
            return Err(Error::corrupt("a database's header of another format", at));
        }
        let pages = length / page_size.max(1);
        if !is_page_size(page_size) || height > HIGHEST || pages > FAN.pow(height as u32) {
            return Err(Error::corrupt("an impossible database's header", at));
        }
        Ok(Header { at, length, page_size, root, height, first_replaced })
    }

    /// Writes what differs from `before`; a database that is not in the pool yet gets a header and a root.
    pub(crate) fn write(&mut self, tx: &mut dyn Tx, before: &Header, name: &str) -> Result<()> {
        if self.at == 0 {
            let new = tx.allocate(Purpose::General, 8 * HEADER as u64)?;
            tx.write_fresh(new, 0, &self.words().map(u64::to_le_bytes).concat())?;
            self.at = new.at();
            return tx.set_root(name, Root { at: self.at, kind: KIND });
        }
        for (index, (new, old)) in (0..).zip(self.words().into_iter().zip(before.words())) {
            if new != old {
                tx.write_word(self.at + 8 * index, new)?;
            }
        }
        Ok(())
    }

    /// Makes the leaf with this number, of these words, and the nodes above it. Returns its offset.
    pub(crate) fn add_leaf(&mut self, tx: &mut dyn Tx, leaf: u64, words: &[u64]) -> Result<u64> {
        while self.height == 0 || leaf >= FAN.pow(self.height as u32 - 1) {
            if self.height == HIGHEST {
                return Err(Error::Invalid("the database has too many pages"));
            }
            if self.height > 0 {
                self.root = new_node(tx, &[self.root])?;
            }
            self.height += 1;
        }
        let new = new_node(tx, words)?;
        if self.height == 1 {
            self.root = new;
            return Ok(new);
        }
        let mut node = self.root;
        for level in (1..self.height).rev() {
            let word = node + 8 * (leaf / FAN.pow(level as u32 - 1) % FAN);
            if level == 1 {
                tx.write_word(word, new)?;
                break;
            }
            node = match tx.read_word(word)? {
                0 => {
                    let inner = new_node(tx, &[])?;
                    tx.write_word(word, inner)?;
                    inner
                }
                inner => inner,
            };
        }
        Ok(new)
    }

    /// Calls `leaf` with the number, the offset and the words of each leaf, and `inner` with each other node.
    pub(crate) fn walk(
        &self,
        tx: &mut dyn Tx,
        inner: &mut dyn FnMut(u64) -> Result<()>,
        leaf: &mut VisitLeaf<'_>,
    ) -> Result<()> {
        if self.height == 0 || self.root == 0 {
            return Ok(());
        }
        let mut walked = HashSet::new();
        self.walk_node(tx, (self.root, self.height, 0), &mut walked, inner, leaf)
    }

    /// Each node is walked once: a damaged tree may have cycles.
    fn walk_node(
        &self,
        tx: &mut dyn Tx,
        (node, height, first): (u64, u64, u64),
        walked: &mut HashSet<u64>,
        inner: &mut dyn FnMut(u64) -> Result<()>,
        leaf: &mut VisitLeaf<'_>,
    ) -> Result<()> {
        if !walked.insert(node) {
            return Err(Error::corrupt("a node that a database's tree has twice", node));
        }
        let words = read_node(tx, node)?;
        if height == 1 {
            return leaf(first, node, &words);
        }
        inner(node)?;
        let below = FAN.pow(height as u32 - 2);
        for (index, &word) in (0..).zip(&words) {
            if word != 0 {
                let next = (word, height - 1, first + index * below);
                self.walk_node(tx, next, walked, inner, leaf)?;
            }
        }
        Ok(())
    }

    /// The blocks of replaced pages, newest first, each with its entries.
    pub(crate) fn replaced(&self, tx: &mut dyn Tx) -> Result<Vec<(u64, Vec<u64>)>> {
        let (mut blocks, mut at) = (Vec::new(), self.first_replaced);
        let mut walked = HashSet::new();
        while at != 0 {
            if !walked.insert(at) {
                return Err(Error::corrupt("a list of replaced pages without an end", at));
            }
            let mut word =
                |index: u64| tx.read_word(at.wrapping_add(8 * index)).map_err(Error::in_pool);
            let (next, count) = (word(0)?, word(1)?);
            if count > ENTRIES as u64 {
                return Err(Error::corrupt("a list of replaced pages", at));
            }
            blocks.push((at, (2..2 + count).map(word).collect::<Result<_>>()?));
            at = next;
        }
        Ok(blocks)
    }
}

/// Makes a node that begins with these words.
pub(crate) fn new_node(tx: &mut dyn Tx, words: &[u64]) -> Result<u64> {
    let mut bytes = [0; NODE];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let new = tx.allocate(Purpose::General, NODE as u64)?;
    tx.write_fresh(new, 0, &bytes)?;
    Ok(new.at())
}

/// Makes a block of the list of replaced pages, before the block `next`.
pub(crate) fn new_block(
    tx: &mut dyn Tx,
    next: u64,
    entries: impl ExactSizeIterator<Item = u64>,
) -> Result<u64> {
    let words = [next, entries.len() as u64].into_iter().chain(entries);
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let new = tx.allocate(Purpose::General, bytes.len() as u64)?;
    tx.write_fresh(new, 0, &bytes)?;
    Ok(new.at())
}

/// Takes pages off the list of replaced ones, and frees them.
pub(crate) fn free(
    tx: &mut dyn Tx,
    header: &mut Header,
    freed: &crate::versions::Freed,
) -> Result<()> {
    if freed.entries.is_empty() && freed.blocks.is_empty() {
        return Ok(());
    }
    let whole: HashSet<u64> = freed.blocks.iter().map(|(at, ..)| *at).collect();
    for &(block, place, at) in &freed.entries {
        tx.free(at).map_err(Error::in_pool)?;
        if !whole.contains(&block) {
            tx.write_word(block + 16 + 8 * place as u64, 0)?;
        }
    }
    for &(block, before, next) in &freed.blocks {
        tx.free(block).map_err(Error::in_pool)?;
        match before {
            0 => header.first_replaced = next,
            before => tx.write_word(before, next)?,
        }
    }
    Ok(())
}

fn read_node(tx: &mut dyn Tx, at: u64) -> Result<Vec<u64>> {
    let mut bytes = [0; NODE];
    tx.read_bytes(at, &mut bytes).map_err(Error::in_pool)?;
    let words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    Ok(words.collect())
}

/// For [`perdura::check`]: visits the blocks of a database; false if the root is none.
///
/// # Errors
/// `Corrupt` where the database's structure in the pool is damaged. What SQLite keeps in its pages is not looked at.
pub fn check_root(tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
    if root.kind != KIND {
        return Ok(false);
    }
    let header = Header::read(tx, root)?;
    let mut owned = vec![header.at];
    let mut inner = Vec::new();
    header.walk(
        tx,
        &mut |node| {
            inner.push(node);
            Ok(())
        },
        &mut |leaf, at, words| {
            owned.push(at);
            let first = leaf * FAN;
            let pages = (first..header.pages()).zip(words).map(|(_, &word)| word);
            owned.extend(pages.filter(|&word| word != 0));
            Ok(())
        },
    )?;
    owned.append(&mut inner);
    for (block, entries) in header.replaced(tx)? {
        owned.push(block);
        owned.extend(entries.into_iter().filter(|&entry| entry != 0));
    }
    owned.into_iter().try_for_each(visit)?;
    Ok(true)
}
