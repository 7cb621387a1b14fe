//! Maps inside collections, to which only offsets lead that are stored among the entries of collections: found so that
//! their parts can be moved.
//!
//! To the pool a stored offset is a number like others. So a number counts only if an allocated block begins there, its
//! first word is a map's tag, the map is whole, and nothing else owns one of its blocks. Maps in programs' own
//! objects is not looked at.

use crate::collections::kind::{HASH_MAP, ORDERED_MAP};
use crate::collections::{check_root, compact, tagged_kind};
use crate::roots;
use crate::tx::{Root, Tx};
use perdura_engine::Result;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Blocks of a pool up to which its maps are looked for: the search keeps the offset of each.
const MOST_BLOCKS: usize = 1 << 22;

/// The maps that only stored offsets lead to; none if there are too many blocks in all.
///
/// # Errors
/// `Corrupt` if a named root's collection is damaged.
pub(super) fn find(tx: &mut dyn Tx) -> Result<Vec<Root>> {
    let roots: Vec<Root> = roots::all(tx)?.into_iter().map(|named| named.root).collect();
    let mut search = Search::default();
    for root in &roots {
        search.scan(tx, *root)?;
    }
    if search.found.is_empty() {
        return Ok(Vec::new());
    }
    for root in &roots {
        if !search.claim(tx, *root)? {
            return Ok(Vec::new());
        }
    }
    let (mut nested, mut done) = (BTreeMap::new(), HashSet::new());
    while let Some((at, kind)) = search.found.pop_first() {
        let root = Root { at, kind };
        if !done.insert(at) {
            continue;
        }
        let mut owned = Vec::new();
        let mut visit = |at: u64| {
            owned.push(at);
            Ok(())
        };
        if !check_root(tx, root, &mut visit).is_ok_and(|known| known) {
            continue;
        }
        if search.owners.len() + owned.len() > MOST_BLOCKS {
            return Ok(Vec::new());
        }
        let mut alone = true;
        for block in owned {
            // If two claim a block, neither is certain.
            if let Some(other) = search.owners.insert(block, at) {
                nested.remove(&other);
                search.owners.insert(block, other);
                alone = false;
            }
        }
        if alone {
            nested.insert(at, root);
            search.scan(tx, root)?;
        }
    }
    Ok(nested.into_values().collect())
}

#[derive(Default)]
struct Search {
    /// Offsets of possible maps, and their kinds.
    found: BTreeMap<u64, u32>,
    /// The collection that owns each block.
    owners: HashMap<u64, u64>,
}

impl Search {
    /// Looks for offsets of maps in a collection's entries.
    fn scan(&mut self, tx: &mut dyn Tx, root: Root) -> Result<()> {
        compact::each_word(tx, root, &mut |tx, word| {
            if !word.is_multiple_of(8) || self.found.contains_key(&word) {
                return Ok(());
            }
            // Most numbers are no offsets of anything.
            let begins = tx.extent(word)?.is_some_and(|extent| extent.at == word);
            if begins && let Some(kind @ (HASH_MAP | ORDERED_MAP)) = tagged_kind(tx, word)? {
                self.found.insert(word, kind);
            }
            Ok(())
        })
    }

    /// Takes note of the blocks of a named root; false if there are too many.
    fn claim(&mut self, tx: &mut dyn Tx, root: Root) -> Result<bool> {
        let owners = &mut self.owners;
        let mut visit = |at: u64| {
            owners.insert(at, root.at);
            Ok(())
        };
        check_root(tx, root, &mut visit)?;
        Ok(self.owners.len() <= MOST_BLOCKS)
    }
}
