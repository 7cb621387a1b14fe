//! Deleted values that are too large to be freed at once.
//!
//! A list in the pool, newest first; a block of it has three words: its kind, the offset, and
//! the next block. Each [`sweep`] frees a part, in a transaction of its caller's, and allocates nothing.
//!
//! The list's last block stands for no value: it keeps its page allocated, which has room for a hundred more
//! blocks of the list. So deleting works in a full pool.

use super::chunk::Chunk;
use super::entry::{Entry, Form};
use super::hash::Fields;
use super::list;
use super::set::Members;
use super::stream::{self, Id, Stream};
use super::zset::SortedSet;
use super::{Database, Expiries, Keys, text};
use perdura::collections::OrderedMap;
use perdura::{Error, Purpose, Result, Tx, TxExt};

/// Offset in the keyspace's header of the list's first block.
pub(super) const GARBAGE: u64 = 8;

/// Entries and blocks that are freed at once, in the transaction that deletes them.
const SMALL: u64 = 64;

/// Chunks of a list that are freed at once; each may have some hundred blobs.
const FEW_CHUNKS: u64 = 8;

/// Blocks of a list that are believed.
const LONGEST: u64 = 1 << 20;

/// The garbage that a block of the list stands for.
pub(super) const NOTHING: u64 = 0;
pub(super) const KEYS: u64 = 1;
pub(super) const EXPIRIES: u64 = 2;
pub(super) const FIELDS: u64 = 3;
pub(super) const RANKING: u64 = 4;
pub(super) const MEMBERS: u64 = 5;
pub(super) const CHUNKS: u64 = 6;
pub(super) const STREAM: u64 = 7;
/// A stream's map from IDs to chunks.
pub(super) const INDEX: u64 = 8;
/// A stream's group.
pub(super) const GROUP: u64 = 9;

/// Gives the list its last block if it has none, unless the pool is full.
pub(super) fn keep_room(tx: &mut dyn Tx, header: u64) -> Result<bool> {
    let (mut link, mut steps) = (header + GARBAGE, 0);
    loop {
        match tx.read_word(link)? {
            0 => break,
            block if tx.read_word(block)? == NOTHING => return Ok(true),
            // Damaged: it goes in circles.
            _ if steps > LONGEST => return Ok(false),
            block => (link, steps) = (block + 16, steps + 1),
        }
    }
    match new_block_if_room(tx, [NOTHING, 0, 0])? {
        Some(block) => tx.write_word(link, block).map(|()| true),
        None => Ok(false),
    }
}

/// As [`new_block`], but returns `None` if there is no room: the transaction goes on.
fn new_block_if_room(tx: &mut dyn Tx, words: [u64; 3]) -> Result<Option<u64>> {
    let before = tx.point();
    match new_block(tx, words) {
        Ok(block) => Ok(Some(block)),
        Err(error) if error.is_full() => tx.undo_to(before).map(|()| None),
        Err(error) => Err(error),
    }
}

/// A purpose that no other block of a keyspace has.
fn new_block(tx: &mut dyn Tx, words: [u64; 3]) -> Result<u64> {
    let block = tx.allocate(Purpose::Log, 24)?;
    tx.write_fresh(block, 0, bytemuck::bytes_of(&words))?;
    Ok(block.at())
}

/// The list's first block that stands for a value.
pub(crate) fn first(tx: &mut dyn Tx, header: u64) -> Result<Option<u64>> {
    let block = tx.read_word(header + GARBAGE)?;
    Ok((block != 0 && tx.read_word(block)? != NOTHING).then_some(block))
}

/// Frees an entry's value, now or later.
pub(super) fn discard(tx: &mut dyn Tx, header: u64, entry: Entry) -> Result<()> {
    match entry.form() {
        Form::Inline | Form::Blob => text::free(tx, entry),
        Form::Image | Form::MemberImage => tx.free(entry.at()),
        Form::Fields => {
            let fields = Fields::new(entry.at());
            if fields.len(tx)? <= SMALL {
                return fields.destroy(tx);
            }
            put_off(tx, header, FIELDS, entry.at())
        }
        Form::Members => {
            let members = Members::new(entry.at());
            if members.len(tx)? <= SMALL {
                return members.destroy(tx);
            }
            put_off(tx, header, MEMBERS, entry.at())
        }
        Form::Chunk => {
            let chunk = Chunk::load(tx, entry.at())?;
            if chunk.blobs(tx)?.len() as u64 <= SMALL {
                return chunk.free(tx).map(drop);
            }
            discard_chain(tx, header, entry.at())
        }
        Form::Chain => put_off(tx, header, CHUNKS, entry.at()),
        Form::Stream => {
            let stream = Stream::load(tx, entry)?;
            if stream.len() <= SMALL && stream.group_count(tx)? == 0 {
                return stream::sweep(tx, entry.at(), u64::MAX).map(drop);
            }
            put_off(tx, header, STREAM, entry.at())
        }
        Form::Ranking => {
            let set = SortedSet::load(tx, entry)?;
            if set.len(tx)? <= SMALL {
                return sweep_ranking(tx, set, u64::MAX).map(drop);
            }
            put_off(tx, header, RANKING, entry.at())
        }
    }
}

/// Frees `count` chunks of a list, now or later: the first is at `at`.
pub(super) fn discard_chunks(tx: &mut dyn Tx, db: Database, at: u64, count: u64) -> Result<()> {
    if count > FEW_CHUNKS { discard_chain(tx, db.header(), at) } else { free_chain(tx, at) }
}

/// Frees a stream's index, later.
pub(super) fn discard_index(tx: &mut dyn Tx, db: Database, at: u64) -> Result<()> {
    put_off(tx, db.header(), INDEX, at)
}

/// Frees a stream's group, now or later.
pub(super) fn discard_group(tx: &mut dyn Tx, db: Database, at: u64) -> Result<()> {
    let before = tx.point();
    if stream::sweep_group(tx, at, SMALL)? {
        return Ok(());
    }
    tx.undo_to(before)?;
    put_off(tx, db.header(), GROUP, at)
}

/// Frees a chain of chunks.
fn free_chain(tx: &mut dyn Tx, at: u64) -> Result<()> {
    let mut at = at;
    while at != 0 {
        let chunk = Chunk::load(tx, at)?;
        chunk.free(tx)?;
        at = chunk.after;
    }
    Ok(())
}

/// Frees a chain of chunks later.
fn discard_chain(tx: &mut dyn Tx, header: u64, at: u64) -> Result<()> {
    let before = tx.point();
    match list::new_header(tx, [0, at, 0]) {
        Ok(chain) => put_off(tx, header, CHUNKS, chain),
        // As in `put_off`.
        Err(error) if error.is_full() => {
            tx.undo_to(before)?;
            free_chain(tx, at)
        }
        Err(error) => Err(error),
    }
}

/// Frees a database's keys, later.
pub(super) fn discard_keys(tx: &mut dyn Tx, header: u64, keys: Keys) -> Result<()> {
    put_off(tx, header, KEYS, keys.at())
}

/// Frees a database's expiries, later.
pub(super) fn discard_expiries(tx: &mut dyn Tx, header: u64, expiries: Expiries) -> Result<()> {
    put_off(tx, header, EXPIRIES, expiries.at())
}

fn put_off(tx: &mut dyn Tx, header: u64, what: u64, at: u64) -> Result<()> {
    let next = tx.read_word(header + GARBAGE)?;
    match new_block_if_room(tx, [what, at, next])? {
        Some(block) => tx.write_word(header + GARBAGE, block),
        // Deleting from a full pool, or on a full disk, must go on: no list, but all at once.
        None => {
            while !sweep_one(tx, what, at, u64::MAX)? {}
            Ok(())
        }
    }
}

/// Whether there is nothing to free.
pub(crate) fn is_empty(tx: &mut dyn Tx, header: u64) -> Result<bool> {
    Ok(first(tx, header)?.is_none())
}

/// Frees about `budget` things of the list. Whether there is more.
pub(crate) fn sweep(tx: &mut dyn Tx, header: u64, budget: u64) -> Result<bool> {
    let Some(block) = first(tx, header)? else { return Ok(false) };
    let (what, at) = (tx.read_word(block)?, tx.read_word(block + 8)?);
    if sweep_one(tx, what, at, budget)? {
        let next = tx.read_word(block + 16)?;
        tx.write_word(header + GARBAGE, next)?;
        tx.free(block)?;
    }
    Ok(!is_empty(tx, header)?)
}

/// Frees a part of one thing. Whether it is gone.
fn sweep_one(tx: &mut dyn Tx, what: u64, at: u64, budget: u64) -> Result<bool> {
    match what {
        KEYS => sweep_keys(tx, Keys::new(at), budget),
        EXPIRIES => Expiries::new(at).destroy_some(tx, budget),
        FIELDS => Fields::new(at).destroy_some(tx, budget),
        MEMBERS => Members::new(at).destroy_some(tx, budget),
        CHUNKS => list::sweep(tx, at, budget),
        STREAM => stream::sweep(tx, at, budget),
        INDEX => OrderedMap::<Id, u64>::new(at).destroy_some(tx, budget),
        GROUP => stream::sweep_group(tx, at, budget),
        RANKING => {
            let set = SortedSet::at_block(tx, at)?;
            sweep_ranking(tx, set, budget)
        }
        _ => Err(Error::corrupt("the garbage list", at)),
    }
}

fn sweep_keys(tx: &mut dyn Tx, keys: Keys, budget: u64) -> Result<bool> {
    let mut left = budget;
    let empty = keys.drain_some(tx, budget, &mut |tx, place| {
        let entry = tx.read(place)?.checked(place.at())?;
        sweep_entry(tx, entry, &mut left)
    })?;
    if empty { keys.destroy_some(tx, u64::MAX) } else { Ok(false) }
}

/// Frees an entry's value, or about `left` entries and blocks of it. Returns whether all of it is gone.
fn sweep_entry(tx: &mut dyn Tx, entry: Entry, left: &mut u64) -> Result<bool> {
    if *left == 0 {
        return Ok(false);
    }
    let budget = *left;
    let mut spend = |cost: u64| *left = budget.saturating_sub(cost.max(1));
    match entry.form() {
        Form::Inline | Form::Blob => {
            spend(1);
            text::free(tx, entry).map(|()| true)
        }
        Form::Image | Form::MemberImage => {
            spend(1);
            tx.free(entry.at()).map(|()| true)
        }
        Form::Chunk => {
            let blobs = Chunk::load(tx, entry.at())?.free(tx)?;
            spend(1 + blobs);
            Ok(true)
        }
        Form::Chain => {
            spend(list::List::load(tx, Some(entry))?.len());
            list::sweep(tx, entry.at(), budget)
        }
        Form::Stream => {
            spend(stream::rest(tx, entry.at())?);
            stream::sweep(tx, entry.at(), budget)
        }
        Form::Members => {
            let members = Members::new(entry.at());
            spend(members.len(tx)?);
            members.destroy_some(tx, budget)
        }
        Form::Fields => {
            let fields = Fields::new(entry.at());
            spend(fields.len(tx)?);
            fields.destroy_some(tx, budget)
        }
        Form::Ranking => {
            let set = SortedSet::load(tx, entry)?;
            spend(if set.order.at() == 0 { budget } else { set.len(tx)? });
            sweep_ranking(tx, set, budget)
        }
    }
}

fn sweep_ranking(tx: &mut dyn Tx, set: SortedSet, budget: u64) -> Result<bool> {
    // The maps say themselves how far they are: freed ones leave a zero.
    if set.order.at() != 0 {
        if !set.order.destroy_some(tx, budget)? {
            return Ok(false);
        }
        tx.write_word(set.at() + 8, 0)?;
    }
    if !set.scores.destroy_some(tx, budget)? {
        return Ok(false);
    }
    tx.free(set.at())?;
    Ok(true)
}
