//! New collections, filled entry by entry.

use super::{Description, Element, Items};
use crate::collections::{Blob, hash_map, ordered_map, vector};
use crate::{Error, Purpose, Result, Tx};

/// Creates an empty collection. Returns its offset; 0 for a blob, which is created by its only [`insert`].
///
/// # Errors
/// `Invalid` if there can be no such collection; as [`Tx::allocate`].
pub fn create<T: Tx + ?Sized>(tx: &mut T, description: &Description) -> Result<u64> {
    description.check()?;
    let tag = description.tag();
    match description {
        Description::Blob => Ok(0),
        Description::HashMap(Items { key, value, .. }) => {
            hash_map::create_untyped(tx, tag, (*key, *value))
        }
        Description::OrderedMap(_) => ordered_map::create_untyped(tx, tag),
        Description::Vector { pitch, .. } => vector::create_untyped(tx, tag, *pitch),
    }
}

/// Adds an entry to the collection at `at`, made by [`create`]: in an ordered map, and in a vector, after all others.
/// Returns the collection's offset from now on; if a hash map has the key already, returns `None` and changes nothing.
///
/// Entries of an ordered map must come in its order, which is not checked.
///
/// # Errors
/// `Invalid` if the entry does not have the collection's forms, or a blob has its contents already; as
/// [`Tx::allocate`].
pub fn insert<T: Tx + ?Sized>(
    tx: &mut T,
    description: &Description,
    at: u64,
    key: &Element,
    value: &Element,
) -> Result<Option<u64>> {
    let (key_form, value_form) = description.forms();
    let fits = match description {
        Description::Blob => key.bytes() == 0 && value.words.is_empty() && value.string.is_some(),
        _ => key.fits(key_form) && value.fits(value_form),
    };
    if !fits {
        return Err(Error::Invalid("an entry that is not of the collection's form"));
    }
    match description {
        Description::Blob if at != 0 => Err(Error::Invalid("a byte string has one value")),
        Description::Blob => {
            let bytes = value.string.as_deref().unwrap_or_default();
            Ok(Some(Blob::create(tx, Purpose::Value, bytes)?.at()))
        }
        Description::HashMap(Items { counted, .. }) => {
            let flags = hash_map::flags_of(tx, at, *counted)?;
            let mut table = hash_map::open(tx, at, key_form, value_form, flags)?;
            Ok(table.insert_untyped(tx, key, value)?.then_some(at))
        }
        Description::OrderedMap(Items { counted, .. }) => {
            let flags = ordered_map::flags(*counted);
            ordered_map::open(at, key_form, value_form, flags).append(tx, key, value)?;
            Ok(Some(at))
        }
        Description::Vector { pitch, .. } => {
            let bytes: Vec<u8> = value.words.iter().flat_map(|word| word.to_le_bytes()).collect();
            vector::push_untyped(tx, at, &bytes[..*pitch as usize])?;
            Ok(Some(at))
        }
    }
}
