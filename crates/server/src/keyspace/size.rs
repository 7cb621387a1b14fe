//! How many bytes of the pool a key takes.
//!
//! Counted are whole blocks, as the allocator rounds them: what is freed with the key. Of what keys
//! share, only the key's own place in the table is; free places, and the page table, are not.

use super::entry::{Entry, Form};
use super::{Database, zset::SortedSet};
use perdura::collections::{Blob, check_root, kind};
use perdura::{Result, Root, Tx};

/// A key's place in the table of keys: its three words and the entry's three.
const PLACE: u64 = 48;
/// An expiring key's place in the list of them: its time and three words.
const EXPIRY: u64 = 32;

/// The bytes that a key takes, if it is there. Goes through all of its value.
pub(crate) fn of_key(tx: &mut dyn Tx, db: Database, key: &[u8]) -> Result<Option<u64>> {
    let (Some(keys), Some(found)) = (db.keys(tx)?, db.find(tx, key)?) else { return Ok(None) };
    let name = sum(tx, |tx, blocks| keys.blocks_of(tx, key, &mut |at| push(blocks, at)).map(drop))?;
    let value = sum(tx, |tx, blocks| blocks_of(tx, found.entry, blocks))?;
    // The list of expiring keys has a copy of the name.
    let expiry = if found.entry.expires().is_some() { EXPIRY + name } else { 0 };
    Ok(Some(PLACE + name + value + expiry))
}

fn push(blocks: &mut Vec<u64>, at: u64) -> Result<()> {
    blocks.push(at);
    Ok(())
}

/// The usable bytes of the blocks that `find` lists.
fn sum(
    tx: &mut dyn Tx,
    find: impl FnOnce(&mut dyn Tx, &mut Vec<u64>) -> Result<()>,
) -> Result<u64> {
    let mut blocks = Vec::new();
    find(tx, &mut blocks)?;
    blocks.into_iter().try_fold(0, |sum, at| Ok(sum + tx.usable(at)?))
}

/// Lists the blocks of what an entry holds. The order of a sorted set is not checked, as
/// [`check`](super::check) does: that takes a search for each member.
fn blocks_of(tx: &mut dyn Tx, entry: Entry, blocks: &mut Vec<u64>) -> Result<()> {
    let visit = &mut |at| push(blocks, at);
    let root = |at, kind| Root { at, kind };
    match entry.form() {
        Form::Inline => Ok(()),
        Form::Blob => Blob::new(entry.at()).check(tx, visit),
        Form::Image => visit(entry.at()),
        Form::Fields => check_root(tx, root(entry.at(), kind::HASH_MAP), visit).map(drop),
        Form::Ranking => {
            let set = SortedSet::load(tx, entry)?;
            visit(set.at())?;
            check_root(tx, root(set.scores.at(), kind::HASH_MAP), visit)?;
            check_root(tx, root(set.order.at(), kind::ORDERED_MAP), visit).map(drop)
        }
    }
}
