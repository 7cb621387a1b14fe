//! Tables, which hashes and sets are: small ones are an [`Image`], others a hash map in the pool.
//!
//! A set is a table whose fields, its members, have empty values: in an image each costs a byte, in a hash map none.

use super::entry::{Entry, Form, Kind};
use super::image::Image;
use super::{Database, Short};
use perdura::collections::{HashMap, Item};
use perdura::{Result, Tx};

/// The values in a kind of table, and how an entry names it.
pub(crate) trait TableValue: Item {
    const KIND: Kind;
    /// The form of one block, and that of a hash map.
    const SMALL: Form;
    const LARGE: Form;

    fn lend(bytes: &[u8]) -> Self::Ref<'_>;
    fn bytes(owned: Self::Owned) -> Vec<u8>;
}

/// A table that was looked up, or a new one. Changes must be [saved](Table::save).
pub(crate) enum Table<V> {
    Small(Image),
    Large(HashMap<Short, V>),
}

/// Fields and values.
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

impl<V: TableValue> Table<V> {
    /// The table of an entry; an empty one if there is none.
    pub(crate) fn load(tx: &mut dyn Tx, entry: Option<Entry>) -> Result<Self> {
        Ok(match entry {
            None => Table::Small(Image::new()),
            Some(entry) if entry.form() == V::SMALL => Table::Small(Image::load(tx, entry.at())?),
            Some(entry) => Table::Large(HashMap::new(entry.at())),
        })
    }

    /// The value of a field.
    pub(crate) fn get(&self, tx: &mut dyn Tx, field: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Table::Small(image) => Ok(image.get(field).map(<[u8]>::to_vec)),
            Table::Large(fields) => Ok(directly!(tx => fields.get(tx, field))?.map(V::bytes)),
        }
    }

    pub(crate) fn contains(&self, tx: &mut dyn Tx, field: &[u8]) -> Result<bool> {
        match self {
            Table::Small(image) => Ok(image.get(field).is_some()),
            Table::Large(fields) => fields.contains(tx, field),
        }
    }

    /// The number of fields.
    pub(crate) fn len(&self, tx: &mut dyn Tx) -> Result<u64> {
        match self {
            Table::Small(image) => Ok(image.len() as u64),
            Table::Large(fields) => fields.len(tx),
        }
    }

    /// Calls `each` with every field and value.
    pub(crate) fn for_each(
        &self,
        tx: &mut dyn Tx,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        match self {
            Table::Small(image) => {
                image.iter().for_each(|(field, value)| each(field, value));
                Ok(())
            }
            Table::Large(fields) => fields.for_each(tx, &mut |field, value| {
                each(&field, &V::bytes(value));
                Ok(())
            }),
        }
    }

    /// About `count` fields and values from the cursor on, and the cursor to go on with.
    pub(crate) fn scan(&self, tx: &mut dyn Tx, cursor: u64, count: u64) -> Result<(u64, Pairs)> {
        match self {
            Table::Small(image) => {
                Ok((0, image.iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect()))
            }
            Table::Large(fields) => {
                let (next, pairs) = fields.scan(tx, cursor, count)?;
                Ok((next, pairs.into_iter().map(|(f, v)| (f, V::bytes(v))).collect()))
            }
        }
    }

    /// Sets a field of a table in `db`. Whether it is new.
    pub(crate) fn set(
        &mut self,
        tx: &mut dyn Tx,
        db: Database,
        field: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        if let Table::Small(image) = self
            && !image.has_room(field, value)
        {
            *self = Table::Large(enlarge(tx, db, image)?);
        }
        match self {
            Table::Small(image) => Ok(image.set(field, value)),
            Table::Large(fields) => {
                directly!(tx => fields.set(tx, field, V::lend(value)))
            }
        }
    }

    /// Removes a field. Whether it was there.
    pub(crate) fn remove(&mut self, tx: &mut dyn Tx, field: &[u8]) -> Result<bool> {
        match self {
            Table::Small(image) => Ok(image.remove(field)),
            Table::Large(fields) => Ok(fields.remove(tx, field)?.is_some()),
        }
    }

    /// Writes changes back. Returns the table's new entry, which never expires.
    pub(crate) fn save(self, tx: &mut dyn Tx) -> Result<Entry> {
        Ok(match self {
            Table::Small(image) => Entry::outside(V::KIND, V::SMALL, image.save(tx)?),
            Table::Large(fields) => Entry::outside(V::KIND, V::LARGE, fields.at()),
        })
    }
}

/// Moves a small table's pairs into a hash map.
fn enlarge<V: TableValue>(
    tx: &mut dyn Tx,
    db: Database,
    image: &Image,
) -> Result<HashMap<Short, V>> {
    let seed = db.seed_for(tx, image.at())?;
    let fields = HashMap::create_seeded(tx, seed)?;
    for (field, value) in image.iter() {
        fields.set(tx, field, V::lend(value))?;
    }
    if image.at() != 0 {
        tx.free(image.at())?;
    }
    Ok(fields)
}
