//! Hash values: small ones are an [`Image`], others a hash map in the pool.

use super::entry::{Entry, Form, Kind};
use super::image::Image;
use super::{Database, Short};
use perdura::collections::{Bytes, HashMap};
use perdura::{Result, Tx};

/// The fields of a large hash.
pub(crate) type Fields = HashMap<Short, Bytes<2>>;

/// A hash that was looked up, or a new one. Changes must be [saved](Hash::save).
pub(crate) enum Hash {
    Small(Image),
    Large(Fields),
}

/// Fields and values.
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

impl Hash {
    /// The hash of an entry; an empty one if there is none.
    pub(crate) fn load(tx: &mut dyn Tx, entry: Option<Entry>) -> Result<Self> {
        Ok(match entry {
            None => Hash::Small(Image::new()),
            Some(entry) if entry.form() == Form::Image => Hash::Small(Image::load(tx, entry.at())?),
            Some(entry) => Hash::Large(Fields::new(entry.at())),
        })
    }

    /// The value of a field.
    pub(crate) fn get(&self, tx: &mut dyn Tx, field: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Hash::Small(image) => Ok(image.get(field).map(<[u8]>::to_vec)),
            Hash::Large(fields) => directly!(tx => fields.get(tx, field)),
        }
    }

    pub(crate) fn contains(&self, tx: &mut dyn Tx, field: &[u8]) -> Result<bool> {
        match self {
            Hash::Small(image) => Ok(image.get(field).is_some()),
            Hash::Large(fields) => fields.contains(tx, field),
        }
    }

    /// The number of fields.
    pub(crate) fn len(&self, tx: &mut dyn Tx) -> Result<u64> {
        match self {
            Hash::Small(image) => Ok(image.len() as u64),
            Hash::Large(fields) => fields.len(tx),
        }
    }

    /// Calls `each` with every field and value.
    pub(crate) fn for_each(
        &self,
        tx: &mut dyn Tx,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        match self {
            Hash::Small(image) => {
                image.iter().for_each(|(field, value)| each(field, value));
                Ok(())
            }
            Hash::Large(fields) => fields.for_each(tx, &mut |field, value| {
                each(&field, &value);
                Ok(())
            }),
        }
    }

    /// About `count` fields and values from the cursor on, and the cursor to go on with.
    pub(crate) fn scan(&self, tx: &mut dyn Tx, cursor: u64, count: u64) -> Result<(u64, Pairs)> {
        match self {
            Hash::Small(image) => {
                Ok((0, image.iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect()))
            }
            Hash::Large(fields) => fields.scan(tx, cursor, count),
        }
    }

    /// Sets a field of a hash in `db`. Whether it is new.
    pub(crate) fn set(
        &mut self,
        tx: &mut dyn Tx,
        db: Database,
        field: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        if let Hash::Small(image) = self
            && !image.has_room(field, value)
        {
            *self = Hash::Large(enlarge(tx, db, image)?);
        }
        match self {
            Hash::Small(image) => Ok(image.set(field, value)),
            Hash::Large(fields) => directly!(tx => fields.set(tx, field, value)),
        }
    }

    /// Removes a field. Whether it was there.
    pub(crate) fn remove(&mut self, tx: &mut dyn Tx, field: &[u8]) -> Result<bool> {
        match self {
            Hash::Small(image) => Ok(image.remove(field)),
            Hash::Large(fields) => Ok(fields.remove(tx, field)?.is_some()),
        }
    }

    /// Writes changes back. Returns the hash's new entry, which never expires.
    pub(crate) fn save(self, tx: &mut dyn Tx) -> Result<Entry> {
        Ok(match self {
            Hash::Small(image) => Entry::outside(Kind::Hash, Form::Image, image.save(tx)?),
            Hash::Large(fields) => Entry::outside(Kind::Hash, Form::Fields, fields.at()),
        })
    }
}

/// Moves a small hash's pairs into a hash map.
fn enlarge(tx: &mut dyn Tx, db: Database, image: &Image) -> Result<Fields> {
    let seed = db.seed_for(tx, image.at())?;
    let fields = Fields::create_seeded(tx, seed)?;
    for (field, value) in image.iter() {
        fields.set(tx, field, value)?;
    }
    if image.at() != 0 {
        tx.free(image.at())?;
    }
    Ok(fields)
}
