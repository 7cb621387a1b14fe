//! What was deleted and is too large to be freed at once.
//!
//! A list in the pool, newest first; a block of it has three words: what it is, the offset, and
//! the next block. Each [`sweep`] frees a part, in a transaction of its caller's.

use super::entry::{Entry, Form};
use super::hash::Fields;
use super::header::GARBAGE;
use super::zset::SortedSet;
use super::{Expiries, Keys, check::check_entry, text};
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Tx};

/// Entries and blocks that are freed at once without further ado.
const SMALL: u64 = 64;

/// What a block of the list is about.
const KEYS: u64 = 1;
const EXPIRIES: u64 = 2;
const FIELDS: u64 = 3;
const RANKING: u64 = 4;

/// Frees what an entry holds, now or later.
pub(super) fn discard(tx: &mut dyn Tx, header: u64, entry: Entry) -> Result<()> {
    match entry.form() {
        Form::Inline | Form::Blob => text::free(tx, entry),
        Form::Image => tx.free(entry.at()),
        Form::Fields => {
            let fields = Fields::new(entry.at());
            if fields.len(tx)? <= SMALL {
                return fields.destroy(tx);
            }
            put_off(tx, header, FIELDS, entry.at())
        }
        Form::Ranking => {
            let set = SortedSet::load(tx, entry)?;
            if set.len(tx)? <= SMALL {
                while !sweep_one(tx, header, RANKING, entry.at(), u64::MAX)? {}
                return Ok(());
            }
            put_off(tx, header, RANKING, entry.at())
        }
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
    match tx.allocate(Purpose::General, 24) {
        Ok(block) => {
            tx.write_fresh(block, 0, bytemuck::bytes_of(&[what, at, next]))?;
            tx.write_word(header + GARBAGE, block.at())
        }
        // Deleting from a full pool, or on a full disk, must go on: no list, but all at once.
        Err(Error::Full { .. } | Error::NoSpace { .. }) => {
            while !sweep_one(tx, header, what, at, u64::MAX)? {}
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Whether there is nothing to free.
pub(crate) fn is_empty(tx: &mut dyn Tx, header: u64) -> Result<bool> {
    Ok(tx.read_word(header + GARBAGE)? == 0)
}

/// Frees about `budget` things of the list. Whether there is more.
pub(crate) fn sweep(tx: &mut dyn Tx, header: u64, budget: u64) -> Result<bool> {
    let block = tx.read_word(header + GARBAGE)?;
    if block == 0 {
        return Ok(false);
    }
    let (what, at) = (tx.read_word(block)?, tx.read_word(block + 8)?);
    if sweep_one(tx, header, what, at, budget)? {
        unlink(tx, header, block)?;
    }
    Ok(tx.read_word(header + GARBAGE)? != 0)
}

/// Takes a block from the list; others may have come before it meanwhile.
fn unlink(tx: &mut dyn Tx, header: u64, block: u64) -> Result<()> {
    let next = tx.read_word(block + 16)?;
    let mut link = header + GARBAGE;
    loop {
        match tx.read_word(link)? {
            0 => return Err(Error::corrupt("the garbage list", block)),
            found if found == block => break,
            other => link = other + 16,
        }
    }
    tx.write_word(link, next)?;
    tx.free(block)
}

/// Frees a part of one thing. Whether it is gone.
fn sweep_one(tx: &mut dyn Tx, header: u64, what: u64, at: u64, budget: u64) -> Result<bool> {
    match what {
        KEYS => sweep_keys(tx, header, Keys::new(at), budget),
        EXPIRIES => Expiries::new(at).destroy_some(tx, budget),
        FIELDS => Fields::new(at).destroy_some(tx, budget),
        RANKING => {
            let set = SortedSet::at_block(tx, at)?;
            sweep_ranking(tx, set, budget)
        }
        _ => Err(Error::corrupt("the garbage list", at)),
    }
}

fn sweep_keys(tx: &mut dyn Tx, header: u64, keys: Keys, budget: u64) -> Result<bool> {
    let mut cursor = 0;
    loop {
        let (next, found) = keys.scan(tx, cursor, budget.min(1024))?;
        for (key, entry) in &found {
            keys.remove(tx, key)?;
            discard(tx, header, *entry)?;
        }
        if keys.is_empty(tx)? {
            return keys.destroy_some(tx, u64::MAX);
        }
        if !found.is_empty() {
            return Ok(false);
        }
        cursor = next;
    }
}

fn sweep_ranking(tx: &mut dyn Tx, set: SortedSet, budget: u64) -> Result<bool> {
    // The maps say themselves how far they are: freed ones leave a zero.
    if set.order.at() != 0 {
        if set.order.destroy_some(tx, budget)? {
            tx.write_word(set.at() + 8, 0)?;
        }
        return Ok(false);
    }
    if !set.scores.destroy_some(tx, budget)? {
        return Ok(false);
    }
    tx.free(set.at())?;
    Ok(true)
}

/// Checks the list and what is on it; returns its length.
pub(super) fn check(tx: &mut dyn Tx, header: u64, visit: &mut Visit<'_>) -> Result<u64> {
    let (mut block, mut count) = (tx.read_word(header + GARBAGE)?, 0);
    while block != 0 {
        // A block that was visited before ends a walk in circles.
        visit(block)?;
        let (what, at) = (tx.read_word(block)?, tx.read_word(block + 8)?);
        check_one(tx, what, at, visit)?;
        block = tx.read_word(block + 16)?;
        count += 1;
    }
    Ok(count)
}

fn check_one(tx: &mut dyn Tx, what: u64, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    match what {
        KEYS => {
            let keys = Keys::new(at);
            keys.check(tx, visit)?;
            let mut cursor = 0;
            loop {
                let (next, entries) = keys.scan(tx, cursor, 256)?;
                for (_, entry) in entries {
                    check_entry(tx, entry.checked(at)?, visit)?;
                }
                cursor = next;
                if cursor == 0 {
                    return Ok(());
                }
            }
        }
        EXPIRIES => Expiries::new(at).check(tx, visit),
        FIELDS => Fields::new(at).check(tx, visit),
        RANKING => {
            let set = SortedSet::at_block(tx, at)?;
            visit(at)?;
            if set.order.at() != 0 {
                set.order.check(tx, visit)?;
            }
            set.scores.check(tx, visit)
        }
        _ => Err(Error::corrupt("the garbage list", at)),
    }
}
