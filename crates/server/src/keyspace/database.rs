//! One database: finding, putting and removing keys.

use super::entry::Entry;
use super::{Expiries, Keys, garbage, header};
use perdura::collections::hash_map::Hint;
use perdura::{Result, Tx};

/// One database: a handle to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Database {
    header: u64,
    index: u8,
}

/// An entry and where it is; good until a key is put or removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) entry: Entry,
    at: u64,
}

impl Database {
    /// The database of this number, which is below [`DATABASES`](super::DATABASES).
    pub(crate) const fn new(header: u64, index: u8) -> Self {
        Database { header, index }
    }

    pub(crate) fn index(self) -> u8 {
        self.index
    }

    /// The keyspace's header.
    pub(super) fn header(self) -> u64 {
        self.header
    }

    pub(super) fn word(self) -> u64 {
        self.header + header::database(self.index)
    }

    /// Its keys, if it ever had one.
    pub(crate) fn keys(self, tx: &mut dyn Tx) -> Result<Option<Keys>> {
        let at = tx.read_word(self.word())?;
        Ok((at != 0).then(|| Keys::new(at)))
    }

    /// Its expiring keys, if it ever had one.
    pub(crate) fn expiries(self, tx: &mut dyn Tx) -> Result<Option<Expiries>> {
        let at = tx.read_word(self.word() + 8)?;
        Ok((at != 0).then(|| Expiries::new(at)))
    }

    /// When the first of its keys expires, if one does. The key's name, which may be long, is not read.
    pub(crate) fn next_expiry(self, tx: &mut dyn Tx) -> Result<Option<u64>> {
        let Some(expiries) = self.expiries(tx)? else { return Ok(None) };
        match expiries.first_slot(tx)? {
            // A pair begins with its first part.
            Some(slot) => tx.read_word(slot.at()).map(Some),
            None => Ok(None),
        }
    }

    /// A seed for the hash map of the value at `at`. It cannot be guessed without the keyspace's seed; with it,
    /// the same operations make the same pool again.
    pub(super) fn seed_for(self, tx: &mut dyn Tx, at: u64) -> Result<u64> {
        let seed = tx.read_word(self.header + header::SEED)?;
        Ok((seed ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32))
    }

    fn make_keys(self, tx: &mut dyn Tx) -> Result<Keys> {
        if let Some(keys) = self.keys(tx)? {
            return Ok(keys);
        }
        let seed = tx.read_word(self.header + header::SEED)?;
        let keys = Keys::create_seeded(tx, seed)?;
        tx.write_word(self.word(), keys.at())?;
        Ok(keys)
    }

    fn make_expiries(self, tx: &mut dyn Tx) -> Result<Expiries> {
        if let Some(expiries) = self.expiries(tx)? {
            return Ok(expiries);
        }
        let expiries = Expiries::create(tx)?;
        tx.write_word(self.word() + 8, expiries.at())?;
        Ok(expiries)
    }

    /// How many keys it has, expired ones included.
    pub(crate) fn len(self, tx: &mut dyn Tx) -> Result<u64> {
        match self.keys(tx)? {
            Some(keys) => keys.len(tx),
            None => Ok(0),
        }
    }

    /// The entry of a key.
    pub(crate) fn find(self, tx: &mut dyn Tx, key: &[u8]) -> Result<Option<Found>> {
        self.find_near(tx, key, Hint::default())
    }

    /// The same, with a hint from an earlier look.
    pub(crate) fn find_near(
        self,
        tx: &mut dyn Tx,
        key: &[u8],
        hint: Hint,
    ) -> Result<Option<Found>> {
        directly!(tx => match self.keys_in(tx)? {
            Some(keys) => match keys.slot_near(tx, key, hint)? {
                Some(slot) => found_at(tx, slot.at()).map(Some),
                None => Ok(None),
            },
            None => Ok(None),
        })
    }

    pub(super) fn keys_in<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<Keys>> {
        let at = tx.read_word(self.word())?;
        Ok((at != 0).then(|| Keys::new(at)))
    }

    /// Sets the entry of a key that [`find`](Database::find) has just found, or not. The
    /// old entry's value is the caller's to free.
    pub(crate) fn put(
        self,
        tx: &mut dyn Tx,
        key: &[u8],
        old: Option<Found>,
        new: Entry,
    ) -> Result<()> {
        match old {
            Some(found) => directly!(tx => update(tx, found, new))?,
            None => {
                let keys = self.make_keys(tx)?;
                directly!(tx => keys.set(tx, key, new))?;
            }
        }
        self.move_expiry(tx, key, old.and_then(|old| old.entry.expires()), new.expires())
    }

    /// Stores a key's entry again, unchanged, if the key is there: a concurrent transaction that has read the entry
    /// is then in conflict.
    pub(crate) fn rewrite(self, tx: &mut dyn Tx, key: &[u8]) -> Result<()> {
        match self.find(tx, key)? {
            Some(found) => tx.write_word(found.at, found.entry.words()[0]),
            None => Ok(()),
        }
    }

    /// Removes a key; its value is the caller's.
    pub(crate) fn take(self, tx: &mut dyn Tx, key: &[u8]) -> Result<Option<Entry>> {
        let Some(keys) = self.keys(tx)? else { return Ok(None) };
        let Some(entry) = keys.remove(tx, key)? else { return Ok(None) };
        self.move_expiry(tx, key, entry.expires(), None)?;
        Ok(Some(entry))
    }

    /// Removes a key and its value. Returns whether it was there.
    pub(crate) fn remove(self, tx: &mut dyn Tx, key: &[u8]) -> Result<bool> {
        match self.take(tx, key)? {
            Some(entry) => self.discard(tx, entry).map(|()| true),
            None => Ok(false),
        }
    }

    /// Frees an entry's value, sooner or later.
    pub(crate) fn discard(self, tx: &mut dyn Tx, entry: Entry) -> Result<()> {
        garbage::discard(tx, self.header, entry)
    }

    /// Removes all keys; their memory is freed later.
    pub(crate) fn clear(self, tx: &mut dyn Tx) -> Result<()> {
        let (keys, expiries) = (self.keys(tx)?, self.expiries(tx)?);
        if let Some(keys) = keys {
            garbage::discard_keys(tx, self.header, keys)?;
            tx.write_word(self.word(), 0)?;
        }
        if let Some(expiries) = expiries {
            garbage::discard_expiries(tx, self.header, expiries)?;
            tx.write_word(self.word() + 8, 0)?;
        }
        Ok(())
    }

    /// Changes places with another one.
    pub(crate) fn swap(self, tx: &mut dyn Tx, other: Database) -> Result<()> {
        for word in [0, 8] {
            let (ours, theirs) = (self.word() + word, other.word() + word);
            let (one, two) = (tx.read_word(ours)?, tx.read_word(theirs)?);
            tx.write_word(ours, two)?;
            tx.write_word(theirs, one)?;
        }
        Ok(())
    }

    fn move_expiry(
        self,
        tx: &mut dyn Tx,
        key: &[u8],
        old: Option<u64>,
        new: Option<u64>,
    ) -> Result<()> {
        if old == new {
            return Ok(());
        }
        if let Some(time) = old
            && let Some(expiries) = self.expiries(tx)?
        {
            expiries.remove(tx, (time, key))?;
        }
        if let Some(time) = new {
            self.make_expiries(tx)?.set(tx, (time, key), ())?;
        }
        Ok(())
    }
}

/// The entry at `at`.
#[inline]
pub(super) fn found_at<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Found> {
    let mut words = [0; 3];
    tx.read_words(at, &mut words)?;
    Ok(Found { entry: Entry::from_words(words).checked(at)?, at })
}

/// Writes the words of an entry that change.
fn update<T: Tx + ?Sized>(tx: &mut T, found: Found, new: Entry) -> Result<()> {
    let words = found.entry.words().into_iter().zip(new.words());
    for (index, (old, new)) in words.enumerate() {
        if old != new {
            tx.write_word(found.at + 8 * index as u64, new)?;
        }
    }
    Ok(())
}

/// A seed for hash maps that clients cannot guess.
pub(crate) fn unguessable() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
