//! Moving blocks out of pages that are to be emptied ([`Pool::compact`](crate::Pool::compact)), by code that knows the
//! pointers to them.
//!
//! These never move: headers, a byte string's first block if it is a root, and the segments of vectors. Programs keep
//! offsets of the first, and addresses in the last.

use super::form::Form;
use super::kind;
use super::root::tagged;
use super::{Visit, hash_map, ordered_map, pieces, vector};
use crate::tx::Root;
use crate::{Error, Purpose, Result, Tx};

/// Moves the block at `at` if its page is to be emptied. Returns where it is now: an object of several pages stays if
/// there is no other place for it. The caller updates the pointers to it; its contents must not depend on its place.
///
/// # Errors
/// `Misuse` if nothing is allocated there; as [`Tx::allocate`].
pub fn move_block<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<u64> {
    if !tx.is_sparse(at) {
        return Ok(at);
    }
    let Some(extent) = tx.extent(at)?.filter(|extent| extent.at == at) else {
        return Err(Error::misuse("no object begins", at));
    };
    let new = match extent.purpose {
        Some(purpose) => tx.allocate(purpose, extent.bytes)?,
        // Pages that are one object do not record their purpose.
        None => match tx.allocate_now(Purpose::General, extent.bytes)? {
            Some(new) => new,
            None => return Ok(at),
        },
    };
    let mut bytes = vec![0; extent.bytes as usize];
    tx.read_bytes(at, &mut bytes)?;
    tx.write_fresh(new, 0, &bytes)?;
    tx.free(at)?;
    Ok(new.at())
}

/// Moves blocks of the collection that a root points to out of pages that are to be emptied, from `cursor` on, as long
/// as there is `budget`: each bucket, leaf or byte string takes 1 of it. Returns the cursor to go on with; 0 at the
/// end. Roots of programs' own kinds are left as they are.
///
/// # Errors
/// As [`move_block`]; `Corrupt` if the collection is damaged.
pub fn compact_root_some<T: Tx + ?Sized>(
    tx: &mut T,
    root: Root,
    cursor: u64,
    budget: &mut u64,
) -> Result<u64> {
    match root.kind {
        kind::HASH_MAP => {
            let tag = tagged(tx, root)?;
            let table = hash_map::open(tx, root.at, tag.key, tag.value, tag.flags)?;
            table.compact_some(tx, cursor, budget)
        }
        kind::ORDERED_MAP => {
            let tag = tagged(tx, root)?;
            let tree = ordered_map::open(root.at, tag.key, tag.value, tag.flags);
            tree.compact_some(tx, cursor, budget)
        }
        kind::VECTOR => {
            *budget = budget.saturating_sub(1);
            let (segments, len) = vector::open(tx, root.at)?;
            segments.compact(tx, len, false).map(|()| 0)
        }
        kind::BLOB => {
            *budget = budget.saturating_sub(1);
            pieces::compact_string(tx, root.at).map(|()| 0)
        }
        _ => Ok(0),
    }
}

/// Calls `visit` with the blocks of a root's collection that never move.
///
/// # Errors
/// `Corrupt` if the collection is damaged; the errors of `visit`.
pub(crate) fn unmoved<T: Tx + ?Sized>(tx: &mut T, root: Root, visit: &mut Visit<'_>) -> Result<()> {
    visit(root.at)?;
    if root.kind == kind::VECTOR {
        let (segments, len) = vector::open(tx, root.at)?;
        segments.each_segment(tx, len, &mut |_, _, at| visit(at))?;
    }
    Ok(())
}

/// Calls `each` with the words of a collection's entries that are no parts of byte strings. Entries that are no whole
/// words are left out.
pub(crate) fn each_word<T: Tx + ?Sized>(
    tx: &mut T,
    root: Root,
    each: &mut dyn FnMut(&mut T, u64) -> Result<()>,
) -> Result<()> {
    if root.kind == kind::VECTOR {
        let (segments, len) = vector::open(tx, root.at)?;
        let words = segments.pitch() / 8;
        for index in 0..if words > 0 { len } else { 0 } {
            let at = segments.address(tx, index)?;
            words_at(tx, at, words, each)?;
        }
        return Ok(());
    }
    if ![kind::HASH_MAP, kind::ORDERED_MAP].contains(&root.kind) {
        return Ok(());
    }
    let tag = tagged(tx, root)?;
    let plain = |form: Form| (form.words - form.string) as u64;
    let mut entry = |tx: &mut T, at: u64| {
        words_at(tx, at, plain(tag.key), each)?;
        words_at(tx, at + tag.key.bytes(), plain(tag.value), each)
    };
    if root.kind == kind::HASH_MAP {
        let table = hash_map::open(tx, root.at, tag.key, tag.value, tag.flags)?;
        return table.walk(tx, &mut entry);
    }
    ordered_map::open(root.at, tag.key, tag.value, tag.flags).walk(tx, &mut entry)
}

fn words_at<T: Tx + ?Sized>(
    tx: &mut T,
    at: u64,
    words: u64,
    each: &mut dyn FnMut(&mut T, u64) -> Result<()>,
) -> Result<()> {
    (at..at + words * 8).step_by(8).try_for_each(|at| {
        let word = tx.read_word(at)?;
        each(tx, word)
    })
}
