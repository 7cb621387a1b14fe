//! The contents of a pool under stress, and their places.

use super::blocks;
use perdura::collections::{HashMap, OrderedMap, Visit};
use perdura::{Purpose, Result, Root, Tx, TxExt};

/// Words that amounts are transferred between: more than a reader reads inside the lock by default.
pub(super) const ACCOUNTS: u64 = 1_024;
/// The first value of each.
pub(super) const FIRST: u64 = 1_000_000;
/// The maximum number of writers: each has a line for its count.
pub(super) const MOST_WRITERS: usize = 16;
/// Places for blocks.
pub(super) const SLOTS: u64 = 40;
/// Keys, each in one of three maps.
pub(super) const KEYS: u64 = 400;

const ROOT: &str = "stress";
const KIND: u32 = 1_950;
const MAPS: [&str; 3] = ["stress-hash", "stress-other", "stress-ordered"];
const LINE: u64 = 64;

/// The places of everything.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    accounts: u64,
    counts: u64,
    slots: u64,
    hash: [HashMap<u64, u64>; 2],
    ordered: OrderedMap<u64, u64>,
}

fn zeros(tx: &mut dyn Tx, bytes: u64) -> Result<u64> {
    tx.new_bytes(Purpose::General, &vec![0; bytes as usize])
}

impl Layout {
    /// Finds everything; makes it in an empty pool.
    pub(super) fn open_or_create(tx: &mut dyn Tx) -> Result<Self> {
        if let Some(found) = Self::find(tx)? {
            return Ok(found);
        }
        let words = vec![FIRST; ACCOUNTS as usize];
        let accounts = tx.new_bytes(Purpose::General, bytemuck::cast_slice(&words))?;
        let counts = zeros(tx, MOST_WRITERS as u64 * LINE)?;
        let slots = zeros(tx, SLOTS * 8)?;
        let parts = [accounts, counts, slots];
        let at = tx.new_bytes(Purpose::General, bytemuck::cast_slice(&parts))?;
        let first: HashMap<u64, u64> = tx.open_or_create(MAPS[0])?;
        for key in 0..KEYS {
            first.insert(tx, key, value_of(key))?;
        }
        tx.open_or_create::<HashMap<u64, u64>>(MAPS[1])?;
        tx.open_or_create::<OrderedMap<u64, u64>>(MAPS[2])?;
        tx.set_root(ROOT, Root { at, kind: KIND })?;
        Ok(Self::find(tx)?.expect("it was made"))
    }

    /// Finds everything, if it was made.
    pub(super) fn find(tx: &mut dyn Tx) -> Result<Option<Self>> {
        let Some(Root { at, .. }) = tx.root(ROOT)? else { return Ok(None) };
        let mut parts = [0; 3];
        tx.read_bytes(at, bytemuck::cast_slice_mut(&mut parts))?;
        let [accounts, counts, slots] = parts;
        let (Some(first), Some(second), Some(ordered)) =
            (tx.open(MAPS[0])?, tx.open(MAPS[1])?, tx.open(MAPS[2])?)
        else {
            return Ok(None);
        };
        Ok(Some(Layout { accounts, counts, slots, hash: [first, second], ordered }))
    }

    pub(super) fn account(&self, number: u64) -> u64 {
        self.accounts + number * 8
    }

    /// The word that says how many operations a writer has committed.
    pub(super) fn count(&self, writer: usize) -> u64 {
        self.counts + writer as u64 * LINE
    }

    pub(super) fn slot(&self, slot: u64) -> u64 {
        self.slots + slot * 8
    }

    /// The value of the key in map number `map`, if it is there.
    pub(super) fn get(&self, tx: &mut dyn Tx, map: usize, key: u64) -> Result<Option<u64>> {
        match self.hash.get(map) {
            Some(hash) => hash.get(tx, key),
            None => self.ordered.get(tx, key),
        }
    }

    /// Moves the key from one map to another.
    pub(super) fn shift(
        &self,
        tx: &mut dyn Tx,
        (from, to): (usize, usize),
        key: u64,
    ) -> Result<()> {
        match self.hash.get(from) {
            Some(hash) => _ = hash.remove(tx, key)?,
            None => _ = self.ordered.remove(tx, key)?,
        }
        match self.hash.get(to) {
            Some(hash) => _ = hash.set(tx, key, value_of(key))?,
            None => _ = self.ordered.set(tx, key, value_of(key))?,
        }
        Ok(())
    }

    /// The maps in which the key is.
    pub(super) fn maps_with(&self, tx: &mut dyn Tx, key: u64) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        for map in 0..MAPS.len() {
            if self.get(tx, map, key)?.is_some() {
                found.push(map);
            }
        }
        Ok(found)
    }

    /// Calls `each` with every entry of every map.
    pub(super) fn for_each_entry(
        &self,
        tx: &mut dyn Tx,
        each: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        for hash in self.hash {
            hash.for_each(tx, &mut |key, value| {
                each(key, value);
                Ok(())
            })?;
        }
        for entry in self.ordered.iter(tx)? {
            let (key, value) = entry?;
            each(key, value);
        }
        Ok(())
    }
}

/// The value that belongs to a key.
pub(super) const fn value_of(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Reports the blocks of a root of this kind; the maps are the heap's own.
pub(super) fn visit(tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
    if root.kind != KIND {
        return Ok(false);
    }
    let Some(layout) = Layout::find(tx)? else { return Ok(false) };
    for at in [root.at, layout.accounts, layout.counts, layout.slots] {
        visit(at)?;
    }
    for slot in 0..SLOTS {
        match tx.read_word(layout.slot(slot))? {
            0 => {}
            at => {
                visit(at)?;
                blocks::check(tx, at)?;
            }
        }
    }
    Ok(true)
}
