//! The persistent master store: a table of keys, each with its versions.
//!
//! ```text
//! root     number of the last snapshot; table of keys
//! table    a key of 128 bytes -> its newest version
//! version  the one before, or 0; number of its snapshot; value
//! ```
//!
//! A commit adds a version of each key of a batch, all with the number of a new snapshot. Versions of a key have
//! descending numbers, and are never removed.

use crate::payload;
use crate::random::splitmix64;
use perdura::collections::{HashMap, Visit};
use perdura::{Error, Purpose, Result, Root, Tx};

const ROOT: &str = "bench.echo";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_023;
const WORD: u64 = 8;
/// Offset of a version's value.
const VALUE: u64 = 2 * WORD;
/// Bytes of a key.
pub const KEY: usize = 128;

type Keys = HashMap<[u8; KEY], u64, false>;

/// The store.
#[derive(Clone, Copy, Debug)]
pub struct Master {
    at: u64,
    keys: Keys,
    value_bytes: usize,
}

/// A key's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The snapshot that it came with.
    pub snapshot: u64,
    /// How many versions of its key came before.
    pub ordinal: u64,
}

/// A key's number, with its versions, newest first.
pub type Key = (u64, Vec<Version>);

/// The effect of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The new snapshot's number.
    pub snapshot: u64,
    /// The sum of the marks of the new versions, modulo 2^64.
    pub marks: u64,
    /// How many keys are new.
    pub inserted: u64,
}

/// The bytes of the key with this number.
pub fn key_of(number: u64) -> [u8; KEY] {
    let mut key = [0; KEY];
    payload::fill(number, number, &mut key);
    key
}

/// The number of a key, if every byte of it is right.
fn number_of(key: &[u8; KEY]) -> Option<u64> {
    let number = payload::version_of(key);
    (payload::verify(number, key) == Some(number)).then_some(number)
}

/// A version's share of the sum that commits and the check have.
pub(super) const fn mark(number: u64, version: Version) -> u64 {
    splitmix64(splitmix64(splitmix64(number) ^ version.snapshot) ^ version.ordinal)
}

#[cold]
fn no_value(at: u64) -> Error {
    Error::corrupt("a version of Echo with another's value", at)
}

impl Master {
    /// Makes the store, empty, for values of `value_bytes` bytes. The same in every run.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<T: Tx + ?Sized>(tx: &mut T, value_bytes: usize) -> Result<Self> {
        let keys = Keys::create_seeded(tx, 6)?;
        let new = tx.allocate(Purpose::General, 2 * WORD)?;
        tx.write_fresh(new, 0, [0, keys.at()].map(u64::to_ne_bytes).as_flattened())?;
        tx.set_root(ROOT, Root { at: new.at(), kind: KIND })?;
        Ok(Master { at: new.at(), keys, value_bytes })
    }

    /// The pool's store, if it has one.
    ///
    /// # Errors
    /// As the transaction.
    pub fn find<T: Tx + ?Sized>(tx: &mut T, value_bytes: usize) -> Result<Option<Self>> {
        let Some(Root { at, .. }) = tx.root(ROOT)? else { return Ok(None) };
        let keys = Keys::new(tx.read_word(at + WORD)?);
        Ok(Some(Master { at, keys, value_bytes }))
    }

    /// The number of the last snapshot.
    ///
    /// # Errors
    /// As the transaction.
    pub fn snapshot<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<u64> {
        tx.read_word(self.at)
    }

    fn value_seed(number: u64) -> u64 {
        splitmix64(number)
    }

    /// The version at `at`, without its value: all but the ordinal's first word is left unread.
    fn head<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<(u64, Version)> {
        let mut words = [0_u64; 3];
        tx.read_bytes(at, bytemuck::cast_slice_mut(&mut words))?;
        let [previous, snapshot, ordinal] = words;
        Ok((previous, Version { snapshot, ordinal: u64::from_le(ordinal) }))
    }

    /// The key's version in a snapshot; every byte of its value is checked.
    ///
    /// # Errors
    /// `Corrupt` where a version is damaged; as the transaction.
    pub fn get<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        number: u64,
        snapshot: u64,
    ) -> Result<Option<Version>> {
        let mut at = self.keys.get(tx, key_of(number))?.unwrap_or(0);
        while at != 0 {
            let (previous, version) = Self::head(tx, at)?;
            if version.snapshot <= snapshot {
                return self.verified(tx, number, at, version).map(Some);
            }
            at = Self::older(tx, previous, version)?;
        }
        Ok(None)
    }

    /// Checks the value of the version at `at`.
    fn verified<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        number: u64,
        at: u64,
        version: Version,
    ) -> Result<Version> {
        let mut value = vec![0; self.value_bytes];
        tx.read_bytes(at + VALUE, &mut value)?;
        match payload::verify(Self::value_seed(number), &value) {
            Some(ordinal) if ordinal == version.ordinal => Ok(version),
            _ => Err(no_value(at)),
        }
    }

    /// The version before, which must be one less and older.
    fn older<T: Tx + ?Sized>(tx: &mut T, previous: u64, version: Version) -> Result<u64> {
        match (previous, version.ordinal) {
            (0, 0) => Ok(0),
            (0, _) | (_, 0) => {
                Err(Error::corrupt("a version of Echo without those before", previous))
            }
            (at, ordinal) => {
                let (_, before) = Self::head(tx, at)?;
                if before.ordinal + 1 != ordinal || before.snapshot >= version.snapshot {
                    return Err(Error::corrupt("versions of Echo that do not descend", at));
                }
                Ok(at)
            }
        }
    }

    /// Adds a version of each of these keys, which differ, with a new snapshot. `None`, and nothing has changed, if one
    /// of them has a version that is newer than `seen`.
    ///
    /// # Errors
    /// As the transaction.
    pub fn commit<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        seen: u64,
        puts: &[u64],
    ) -> Result<Option<Committed>> {
        let mut newest = Vec::with_capacity(puts.len());
        for &number in puts {
            let at = self.keys.get(tx, key_of(number))?.unwrap_or(0);
            let next = match at {
                0 => 0,
                at => {
                    let (_, version) = Self::head(tx, at)?;
                    if version.snapshot > seen {
                        return Ok(None);
                    }
                    version.ordinal.wrapping_add(1)
                }
            };
            newest.push((at, next));
        }
        let snapshot = self.snapshot(tx)?.wrapping_add(1);
        let (mut marks, mut inserted, mut value) = (0_u64, 0, vec![0; self.value_bytes]);
        for (&number, (previous, ordinal)) in puts.iter().zip(newest) {
            let new = tx.allocate(Purpose::Value, VALUE + self.value_bytes as u64)?;
            payload::fill(Self::value_seed(number), ordinal, &mut value);
            tx.write_fresh(new, 0, [previous, snapshot].map(u64::to_ne_bytes).as_flattened())?;
            tx.write_fresh(new, VALUE, &value)?;
            self.keys.set(tx, key_of(number), new.at())?;
            marks = marks.wrapping_add(mark(number, Version { snapshot, ordinal }));
            inserted += u64::from(previous == 0);
        }
        tx.write_word(self.at, snapshot)?;
        Ok(Some(Committed { snapshot, marks, inserted }))
    }

    /// Some keys with their versions, and the cursor to go on with; begin with 0, and stop at 0. All
    /// bytes are checked.
    ///
    /// # Errors
    /// `Corrupt` where a key or a version is damaged; as the transaction.
    pub fn scan<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        cursor: u64,
        count: u64,
    ) -> Result<(u64, Vec<Key>)> {
        let (cursor, keys) = self.keys.scan(tx, cursor, count)?;
        let mut found = Vec::with_capacity(keys.len());
        for (key, newest) in keys {
            let damaged = || Error::corrupt("a key of Echo that is none", newest);
            let number = number_of(&key).ok_or_else(damaged)?;
            let (mut at, mut versions) = (newest, Vec::new());
            while at != 0 {
                let (previous, version) = Self::head(tx, at)?;
                versions.push(self.verified(tx, number, at, version)?);
                at = Self::older(tx, previous, version)?;
            }
            found.push((number, versions));
        }
        Ok((cursor, found))
    }
}

/// Reports the store's blocks to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let keys = Keys::new(tx.read_word(at + WORD)?);
    keys.check(tx, visit)?;
    let mut newest = Vec::new();
    keys.for_each(tx, &mut |_, version| {
        newest.push(version);
        Ok(())
    })?;
    for mut at in newest {
        while at != 0 {
            visit(at)?;
            let (previous, version) = Master::head(tx, at)?;
            at = Master::older(tx, previous, version)?;
        }
    }
    Ok(())
}
