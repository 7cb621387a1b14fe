//! Collections by their kind alone, for programs that do not know their types.

use super::tag::{BlobHead, Tag};
use super::{Blob, Visit, hash_map, kind, ordered_map, vector};
use crate::tx::Root;
use crate::{Error, Result, Tx};

/// Checks the collection that a root points to, and reports every block that it owns. Returns `false`, without a
/// check, if its kind is none of [`kind`].
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_root<T: Tx + ?Sized>(tx: &mut T, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
    match root.kind {
        kind::BLOB => Blob::new(root.at).check(tx, visit).map_err(Error::in_pool)?,
        kind::VECTOR => vector::check(tx, root.at, visit).map_err(Error::in_pool)?,
        kind::HASH_MAP => {
            let tag = tagged(tx, root)?;
            hash_map::open(tx, root.at, tag.key, tag.value, tag.flags)?.check(tx, visit)?;
        }
        kind::ORDERED_MAP => {
            let tag = tagged(tx, root)?;
            ordered_map::open(root.at, tag.key, tag.value, tag.flags).check(tx, visit)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Frees about `budget` entries and blocks of the collection that a root points to. Returns `true` when everything is
/// freed.
///
/// # Errors
/// `Invalid` if the kind is none of [`kind`]; `Corrupt` if it is damaged; `ReadOnly`,
/// `TooLarge`.
pub fn destroy_root_some<T: Tx + ?Sized>(tx: &mut T, root: Root, budget: u64) -> Result<bool> {
    match root.kind {
        kind::BLOB => Blob::new(root.at).free(tx).map(|()| true),
        kind::VECTOR => vector::destroy_some(tx, root.at, budget),
        kind::HASH_MAP => {
            let tag = tagged(tx, root)?;
            hash_map::open(tx, root.at, tag.key, tag.value, tag.flags)?.destroy_some(tx, budget)
        }
        kind::ORDERED_MAP => {
            let tag = tagged(tx, root)?;
            ordered_map::open(root.at, tag.key, tag.value, tag.flags).destroy_some(tx, budget)
        }
        _ => Err(Error::Invalid("the root is not one of the heap's collections")),
    }
}

/// The kind of the collection whose header begins at `at`, if one does: another object's first word is taken for a
/// header's with a probability of less than one in 10,000.
///
/// # Errors
/// `Misuse` if there is nothing at `at`.
pub(crate) fn tagged_kind<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Option<u32>> {
    let word = tx.read_word(at)?;
    let kinds = [kind::HASH_MAP, kind::ORDERED_MAP, kind::VECTOR];
    // Small numbers name no types.
    let tag = Tag::from_word(word).filter(|tag| tag.types != 0 && kinds.contains(&tag.kind));
    Ok(tag.map(|tag| tag.kind).or(BlobHead::from_word(word).map(|_| kind::BLOB)))
}

pub(super) fn tagged<T: Tx + ?Sized>(tx: &mut T, root: Root) -> Result<Tag> {
    let tag = Tag::read(tx, root.at)?;
    if tag.kind == root.kind {
        Ok(tag)
    } else {
        Err(Error::corrupt("a collection's kind", root.at))
    }
}
