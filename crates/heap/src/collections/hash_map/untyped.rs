//! A table whose items are known only by their forms.

use super::table::{BlockHead, COUNTED, LANED, SEED, Shape, Table};
use crate::collections::form::{Form, mix};
use crate::collections::string::Role;
use crate::collections::tag::Tag;
use crate::collections::untyped::Element;
use crate::{Error, Result, Tx};

/// The flags of a new map that counts its entries, or does not.
pub(in crate::collections) const fn flags(counted: bool) -> u64 {
    if counted { COUNTED } else { 0 }
}

/// Whether a map with these flags counts its entries.
pub(in crate::collections) const fn is_counted(flags: u64) -> bool {
    flags & COUNTED != 0
}

/// Whether a tag is this one, which a new map has, or differs only in the flags that it may get later.
pub(in crate::collections) fn is_known(found: u64, tag: u64) -> bool {
    let of_large = |tag: Tag| Tag { flags: tag.flags | LANED, ..tag }.word();
    found == tag || Tag::from_word(tag).is_some_and(|tag| found == of_large(tag))
}

/// The present flags of the map at `at`.
pub(in crate::collections) fn flags_of<T: Tx + ?Sized>(
    tx: &mut T,
    at: u64,
    counted: bool,
) -> Result<u64> {
    let found = Tag::read(tx, at)?.flags;
    match found & !LANED == flags(counted) {
        true => Ok(found),
        false => Err(Error::corrupt("a hash map's flags", at)),
    }
}

/// A new, empty map, whose hashes depend on its place.
pub(in crate::collections) fn create_untyped<T: Tx + ?Sized>(
    tx: &mut T,
    tag: u64,
    (key, value): (Form, Form),
) -> Result<u64> {
    let at = Table::create(tx, tag, 0, Shape::of(key, value))?;
    tx.write_word(at + SEED, mix(at, 0))?;
    Ok(at)
}

impl Table {
    /// Inserts an entry. Returns false if the key is there already.
    pub(in crate::collections) fn insert_untyped<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        key: &Element,
        value: &Element,
    ) -> Result<bool> {
        let hash = key.hash(tx.read_word(self.at + SEED)?);
        let bucket = self.bucket(hash);
        for at in self.entries(tx, bucket)? {
            if key.is_at(tx, self.shape.key, at)? {
                return Ok(false);
            }
        }
        let (last, meta) = self.end_of(tx, bucket)?;
        let at = self.take_slot(tx, last, meta)?;
        key.store(tx, self.shape.key, at, Role::Key(hash))?;
        value.store(tx, self.shape.value, at + self.shape.key.bytes(), Role::Value)?;
        self.inserted(tx, hash, self.full(meta.used))?;
        Ok(true)
    }

    fn end_of<T: Tx + ?Sized>(&self, tx: &mut T, bucket: u64) -> Result<(u64, BlockHead)> {
        let chain = self.chain(tx, bucket)?;
        Ok(chain[chain.len() - 1])
    }
}
