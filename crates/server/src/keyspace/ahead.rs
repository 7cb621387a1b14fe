//! Has the processor fetch what operations will read soon, so that many places are fetched at a time, and not each of them
//! waited for: first a key's bucket, then what the key's entry leads to. Of what was found only hints are kept: operations
//! in between may change it. Damage is an error of the operation that looks for the key.

use super::database::found_at;
use super::entry::{Entry, Form};
use super::hash::Fields;
use super::set::Members;
use super::zset::Scores;
use super::{Database, Keys, Short};
use perdura::collections::hash_map::{Announcer, Hint};
use perdura::collections::{HashMap, Item};
use perdura::{Error, Result, Tx};

/// Announces a database's keys that will be looked for soon.
pub(crate) struct Ahead(Announcer<Short>);

impl Ahead {
    /// Announces a key.
    ///
    /// # Errors
    /// `Conflict`: the transaction is to be run again.
    pub(crate) fn announce(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<()> {
        unless_conflict(directly!(tx => self.0.announce(tx, key))).map(drop)
    }
}

/// What there was to fetch beyond a key's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Nothing.
    Nothing,
    /// All that is read next, but for the value of a hash's field: to look for that one ahead costs more than it gives.
    All,
}

/// The result, if there is one; the error, if it is a conflict.
fn unless_conflict<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Error::Conflict) => Err(Error::Conflict),
        result => Ok(result.ok()),
    }
}

impl Database {
    /// What announces keys that will be looked for soon; `None` if that would be in vain.
    ///
    /// # Errors
    /// `Conflict`: the transaction is to be run again.
    pub(crate) fn ahead(self, tx: &mut dyn Tx) -> Result<Option<Ahead>> {
        let announcer = match tx.read_word(self.word()) {
            Ok(0) => Ok(None),
            Ok(keys) => Keys::new(keys).announcer(tx),
            Err(error) => Err(error),
        };
        Ok(unless_conflict(announcer)?.flatten().map(Ahead))
    }

    /// Has fetched what a key's entry leads to; of a large hash or set the bucket of `member`. Returns also where the key
    /// is.
    ///
    /// # Errors
    /// `Conflict`: the transaction is to be run again.
    pub(crate) fn reach(
        self,
        tx: &mut dyn Tx,
        key: &[u8],
        member: Option<&[u8]>,
    ) -> Result<(Reached, Hint)> {
        let reached = unless_conflict(directly!(tx => self.reach_in(tx, key, member)))?;
        Ok(reached.unwrap_or((Reached::Nothing, Hint::default())))
    }

    fn reach_in<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: &[u8],
        member: Option<&[u8]>,
    ) -> Result<(Reached, Hint)> {
        if let Some(keys) = self.keys_in(tx)?
            && let Some((slot, hint)) = keys.slot_and_hint(tx, key)?
        {
            let entry = found_at(tx, slot.at())?.entry;
            return Ok((reach_from(tx, entry, member)?, hint));
        }
        Ok((Reached::Nothing, Hint::default()))
    }
}

fn reach_from<T: Tx + ?Sized>(tx: &mut T, entry: Entry, member: Option<&[u8]>) -> Result<Reached> {
    let at = entry.at();
    match (entry.form(), member) {
        (Form::Inline, _) => Ok(Reached::Nothing),
        (Form::Fields, Some(member)) => announced(announce_member(tx, Fields::new(at), member)?),
        (Form::Members, Some(member)) => announced(announce_member(tx, Members::new(at), member)?),
        (Form::Ranking, Some(member)) => {
            let scores = Scores::new(tx.read_word(at)?);
            announced(announce_member(tx, scores, member)?)
        }
        (Form::Fields | Form::Members | Form::Ranking | Form::Chain | Form::Stream, _) => {
            Ok(Reached::Nothing)
        }
        (Form::Blob | Form::Image | Form::MemberImage | Form::Chunk, _) => {
            tx.prefetch(at);
            Ok(Reached::All)
        }
    }
}

fn announced(is_large: bool) -> Result<Reached> {
    Ok(if is_large { Reached::All } else { Reached::Nothing })
}

/// Announces a member of a hash map, if the map is large. Whether it is.
fn announce_member<T: Tx + ?Sized, V: Item, const COUNTED: bool>(
    tx: &mut T,
    map: HashMap<Short, V, COUNTED>,
    member: &[u8],
) -> Result<bool> {
    match map.announcer(tx)? {
        Some(announcer) => announcer.announce(tx, member).map(|()| true),
        None => Ok(false),
    }
}
