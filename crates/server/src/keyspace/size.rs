//! How many bytes of the pool a key takes.
//!
//! Whole blocks are counted, as the allocator rounds them: the blocks that deleting the key frees. Of the table of keys
//! the key's own place is counted; free places and the page table are not.

use super::entry::{Entry, Form};
use super::hash::Fields;
use super::list::List;
use super::set::Members;
use super::stream::Stream;
use super::{Database, Short, zset::SortedSet};
use perdura::collections::{Blob, HashMap, Item, check_root, kind};
use perdura::{Result, Root, Tx};

/// A key's place in the table of keys: its three words and the entry's three.
const PLACE: u64 = 48;
/// An expiring key's place in the list of them: its time and three words.
const EXPIRY: u64 = 32;

/// Bytes that a field of a large hash takes in the mean, a member of a set, and one of a sorted set, without those too
/// long to stand in their places: as measured, of tables that have grown to any size.
const FIELD: u64 = 70;
const SET_MEMBER: u64 = 42;
const MEMBER: u64 = 115;

/// The bytes that a key takes, if it is there. Goes through all of its value, or, of one with more elements than
/// `samples` if these are given, through about that many, and estimates the rest.
pub(crate) fn of_key(
    tx: &mut dyn Tx,
    db: Database,
    key: &[u8],
    samples: Option<u64>,
) -> Result<Option<u64>> {
    let (Some(keys), Some(found)) = (db.keys(tx)?, db.find(tx, key)?) else { return Ok(None) };
    let name = sum(tx, |tx, blocks| keys.blocks_of(tx, key, &mut |at| push(blocks, at)).map(drop))?;
    let estimate = match samples {
        Some(samples) => estimate(tx, found.entry, samples)?,
        None => None,
    };
    let value = match estimate {
        Some(bytes) => bytes,
        None => sum(tx, |tx, blocks| blocks_of(tx, found.entry, blocks))?,
    };
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

/// The bytes that an entry's value takes, by some of its elements; `None` if it has no more than these.
fn estimate(tx: &mut dyn Tx, entry: Entry, samples: u64) -> Result<Option<u64>> {
    let is_many = |len: u64| samples > 0 && len > samples;
    let (len, place, found, bytes) = match entry.form() {
        Form::Inline | Form::Blob | Form::Image | Form::MemberImage | Form::Chunk => {
            return Ok(None);
        }
        Form::Chain => {
            let list = List::load(tx, Some(entry))?;
            if !is_many(list.len()) {
                return Ok(None);
            }
            let mut found = 0;
            let bytes = sum(tx, |tx, blocks| {
                found = list.visit(tx, samples, &mut |at| push(blocks, at))?;
                Ok(())
            })?;
            return Ok(Some(scaled(bytes, list.len(), found)));
        }
        Form::Stream => {
            let stream = Stream::load(tx, entry)?;
            if !is_many(stream.len()) {
                return Ok(None);
            }
            let mut found = 0;
            let bytes = sum(tx, |tx, blocks| {
                found = stream.visit(tx, samples, &mut |at| push(blocks, at))?;
                Ok(())
            })?;
            let rest = sum(tx, |tx, blocks| stream.visit_rest(tx, &mut |at| push(blocks, at)))?;
            return Ok(Some(scaled(bytes, stream.len(), found).saturating_add(rest)));
        }
        Form::Fields => {
            let fields = Fields::new(entry.at());
            let len = fields.len(tx)?;
            if !is_many(len) {
                return Ok(None);
            }
            let (found, bytes) = sample(tx, fields, samples)?;
            (len, FIELD, found, bytes)
        }
        Form::Members => {
            let members = Members::new(entry.at());
            let len = members.len(tx)?;
            if !is_many(len) {
                return Ok(None);
            }
            let (found, bytes) = sample(tx, members, samples)?;
            (len, SET_MEMBER, found, bytes)
        }
        Form::Ranking => {
            let SortedSet { scores, order, .. } = SortedSet::load(tx, entry)?;
            let len = order.len(tx)?;
            if !is_many(len) {
                return Ok(None);
            }
            let (found, bytes) = sample(tx, scores, samples)?;
            // The order has a copy of each name.
            (len, MEMBER, found, 2 * bytes)
        }
    };
    let found = (found as u64).max(1);
    Ok(Some(len.saturating_mul(place + bytes / found)))
}

/// The bytes of `len` elements, of which `found` take so many.
fn scaled(bytes: u64, len: u64, found: u64) -> u64 {
    let all = u128::from(bytes) * u128::from(len) / u128::from(found.max(1));
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// The number of a map's entries that were looked at, about `samples`, and the bytes of their own blocks.
fn sample<V: Item, const COUNTED: bool>(
    tx: &mut dyn Tx,
    map: HashMap<Short, V, COUNTED>,
    samples: u64,
) -> Result<(usize, u64)> {
    let (_, found) = map.scan(tx, 0, samples)?;
    let bytes = sum(tx, |tx, blocks| {
        found
            .iter()
            .try_for_each(|(name, _)| map.blocks_of(tx, name, &mut |at| push(blocks, at)).map(drop))
    })?;
    Ok((found.len(), bytes))
}

/// Lists the blocks of an entry's value. The order of a sorted set is not checked, as
/// [`check`](super::check()) does: that takes a search for each member.
fn blocks_of(tx: &mut dyn Tx, entry: Entry, blocks: &mut Vec<u64>) -> Result<()> {
    let visit = &mut |at| push(blocks, at);
    let root = |at, kind| Root { at, kind };
    match entry.form() {
        Form::Inline => Ok(()),
        Form::Blob => Blob::new(entry.at()).check(tx, visit),
        Form::Image | Form::MemberImage => visit(entry.at()),
        Form::Chunk | Form::Chain => {
            List::load(tx, Some(entry))?.visit(tx, u64::MAX, visit).map(drop)
        }
        Form::Stream => {
            let stream = Stream::load(tx, entry)?;
            stream.visit(tx, u64::MAX, visit)?;
            stream.visit_rest(tx, visit)
        }
        Form::Fields | Form::Members => {
            check_root(tx, root(entry.at(), kind::HASH_MAP), visit).map(drop)
        }
        Form::Ranking => {
            let set = SortedSet::load(tx, entry)?;
            visit(set.at())?;
            check_root(tx, root(set.scores.at(), kind::HASH_MAP), visit)?;
            check_root(tx, root(set.order.at(), kind::ORDERED_MAP), visit).map(drop)
        }
    }
}
