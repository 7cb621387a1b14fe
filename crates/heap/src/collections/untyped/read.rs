//! Reads the contents of a collection.

use super::{Description, Element, Items, MOST_PITCH};
use crate::collections::tag::Tag;
use crate::collections::{Blob, hash_map, kind, ordered_map, vector};
use crate::{Error, Result, Root, Tx};

/// Called with an entry: its key, which is empty in blobs and vectors, and its value.
pub type Each<'a> = dyn FnMut(Element, Element) -> Result<()> + 'a;

/// The description of a root's collection; `None` if it is none of the heap's.
///
/// # Errors
/// `Corrupt` if it is damaged.
pub fn describe<T: Tx + ?Sized>(tx: &mut T, root: Root) -> Result<Option<Description>> {
    let items = |tag: Tag, counted| Items {
        key: tag.key,
        value: tag.value,
        counted,
        types: tag.types as u32,
    };
    let description = match root.kind {
        kind::BLOB => Description::Blob,
        kind::HASH_MAP => {
            let tag = tagged(tx, root)?;
            Description::HashMap(items(tag, hash_map::is_counted(tag.flags)))
        }
        kind::ORDERED_MAP => {
            let tag = tagged(tx, root)?;
            Description::OrderedMap(items(tag, ordered_map::is_counted(tag.flags)))
        }
        kind::VECTOR => {
            let tag = tagged(tx, root)?;
            let (segments, _) = vector::open(tx, root.at)?;
            Description::Vector { pitch: segments.pitch(), types: tag.types as u32 }
        }
        _ => return Ok(None),
    };
    let is_known = match &description {
        Description::Blob => true,
        Description::HashMap(_) => hash_map::is_known(tx.read_word(root.at)?, description.tag()),
        Description::OrderedMap(_) | Description::Vector { .. } => {
            tx.read_word(root.at)? == description.tag()
        }
    };
    if !is_known || description.check().is_err() {
        return Err(Error::corrupt("a collection's header", root.at));
    }
    Ok(Some(description))
}

fn tagged<T: Tx + ?Sized>(tx: &mut T, root: Root) -> Result<Tag> {
    let tag = Tag::read(tx, root.at)?;
    match tag.kind == root.kind {
        true => Ok(tag),
        false => Err(Error::corrupt("a collection's kind", root.at)),
    }
}

/// Calls `each` with every entry of the collection at `at`, in its order if it has one; an error that it returns ends
/// the walk.
///
/// # Errors
/// The errors of `each`; `Corrupt` if the collection is damaged.
pub fn for_each<T: Tx + ?Sized>(
    tx: &mut T,
    description: &Description,
    at: u64,
    each: &mut Each<'_>,
) -> Result<()> {
    match description {
        Description::Blob => {
            let bytes = Blob::new(at).read(tx).map_err(Error::in_pool)?;
            each(Element::default(), Element { words: Vec::new(), string: Some(bytes) })
        }
        Description::HashMap(Items { key, value, .. }) => {
            let flags = Tag::read(tx, at)?.flags;
            let table = hash_map::open(tx, at, *key, *value, flags)?;
            table.walk(tx, &mut |tx, place| {
                let found = Element::load(tx, *key, place)?;
                each(found, Element::load(tx, *value, place + key.bytes())?)
            })
        }
        Description::OrderedMap(Items { key, value, counted, .. }) => {
            let tree = ordered_map::open(at, *key, *value, ordered_map::flags(*counted));
            tree.walk(tx, &mut |tx, place| {
                let found = Element::load(tx, *key, place)?;
                each(found, Element::load(tx, *value, place + key.bytes())?)
            })
        }
        Description::Vector { pitch, .. } => {
            let (segments, len) = vector::open(tx, at)?;
            let mut bytes = vec![0; (*pitch).min(MOST_PITCH).next_multiple_of(8) as usize];
            for index in 0..len {
                let place = segments.address(tx, index)?;
                tx.read_bytes(place, &mut bytes[..*pitch as usize]).map_err(Error::in_pool)?;
                let words = bytes
                    .chunks_exact(8)
                    .map(|part| u64::from_le_bytes(std::array::from_fn(|byte| part[byte])));
                each(Element::default(), Element { words: words.collect(), string: None })?;
            }
            Ok(())
        }
    }
}
