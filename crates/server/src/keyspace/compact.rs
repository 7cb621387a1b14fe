//! Moving keys' values out of pages that are to be emptied.
//!
//! A walk over all databases, each step in a transaction. Keys that are put meanwhile need not be visited: nothing new is
//! allocated in pages that are to be emptied. Strings, small hashes and small sets, and lists' and streams' chunks are moved, and of larger collections the
//! overflow blocks, the long keys and the long values; their other blocks stay.

use super::entry::{Entry, Form, POINTER};
use super::hash::Fields;
use super::list::List;
use super::set::Members;
use super::stream::Stream;
use super::zset::SortedSet;
use super::{DATABASES, Database, Keys};
use perdura::collections::Blob;
use perdura::collections::compact::move_block;
use perdura::{Ptr, Result, Tx, TxExt};

/// Buckets of the keys looked at in one step.
const BUCKETS: u64 = 256;
/// A collection with more entries than this is walked through in steps of its own.
const SMALL: u64 = 1024;

/// A walk, and how far it is.
#[derive(Clone, Default)]
pub(crate) struct Walk {
    db: u8,
    cursor: u64,
    /// Large collections that were met, each with a database and a key, and how far the last one is.
    large: Vec<(u8, Vec<u8>)>,
    inside: u64,
}

impl Walk {
    /// Does one step. Whether there is more.
    pub(crate) fn step(&mut self, tx: &mut dyn Tx, header: u64) -> Result<bool> {
        if let Some((db, key)) = self.large.last() {
            let found = Database::new(header, *db).find(tx, key)?;
            self.inside = match found {
                Some(found) => compact_large(tx, found.entry, self.inside, BUCKETS)?,
                None => 0,
            };
            if self.inside == 0 {
                self.large.pop();
            }
            return Ok(true);
        }
        if self.db >= DATABASES {
            return Ok(false);
        }
        if let Some(keys) = Database::new(header, self.db).keys(tx)? {
            let (db, large) = (self.db, &mut self.large);
            self.cursor = keys.compact_some(tx, self.cursor, BUCKETS, &mut |tx, place| {
                if compact_entry(tx, keys, place)? {
                    large.push((db, keys.key_at(tx, place)?));
                }
                Ok(())
            })?;
        }
        if self.cursor == 0 {
            self.db += 1;
        }
        Ok(true)
    }
}

/// Moves an entry's value. Returns whether it is too large for that.
fn compact_entry(tx: &mut dyn Tx, keys: Keys, place: Ptr<Entry>) -> Result<bool> {
    let entry = tx.read(place)?.checked(keys.at())?;
    let at = entry.at();
    let moved = match entry.form() {
        Form::Inline => return Ok(false),
        Form::Blob => Blob::new(at).compact(tx)?.at(),
        Form::Image | Form::MemberImage => move_block(tx, at)?,
        Form::Fields if Fields::new(at).len(tx)? > SMALL => return Ok(true),
        Form::Chunk => {
            let mut list = List::load(tx, Some(entry))?;
            list.compact(tx, 0, 1)?;
            list.save(tx)?.at()
        }
        Form::Chain if List::load(tx, Some(entry))?.len() > SMALL => return Ok(true),
        Form::Stream if Stream::load(tx, entry)?.len() > SMALL => return Ok(true),
        Form::Members if Members::new(at).len(tx)? > SMALL => return Ok(true),
        Form::Ranking if SortedSet::load(tx, entry)?.len(tx)? > SMALL => return Ok(true),
        Form::Fields | Form::Members | Form::Ranking | Form::Chain | Form::Stream => {
            compact_large(tx, entry, 0, u64::MAX)?;
            return Ok(false);
        }
    };
    if moved != at {
        tx.write_word(place.at() + POINTER, moved)?;
    }
    Ok(false)
}

/// Moves a part of a collection. The cursor to go on with.
fn compact_large(tx: &mut dyn Tx, entry: Entry, cursor: u64, buckets: u64) -> Result<u64> {
    match entry.form() {
        Form::Fields => {
            Fields::new(entry.at()).compact_some(tx, cursor, buckets, &mut |_, _| Ok(()))
        }
        Form::Members => {
            Members::new(entry.at()).compact_some(tx, cursor, buckets, &mut |_, _| Ok(()))
        }
        Form::Chain => {
            let mut list = List::load(tx, Some(entry))?;
            let next = list.compact(tx, cursor, buckets)?;
            list.save_ends(tx).map(|()| next)
        }
        Form::Stream => Stream::load(tx, entry)?.compact(tx, cursor, buckets),
        Form::Ranking => {
            let set = SortedSet::load(tx, entry)?;
            set.scores.compact_some(tx, cursor, buckets, &mut |_, _| Ok(()))
        }
        // It was another one when it was met.
        Form::Inline | Form::Blob | Form::Image | Form::MemberImage | Form::Chunk => Ok(0),
    }
}
