//! Moving blocks out of pages that are to be emptied ([`Pool::compact`](crate::Pool::compact)), by code that knows the
//! pointers to them.
//!
//! What never moves: headers, a byte string's first block if it is a root, and the segments of vectors and of hash
//! maps' buckets. Programs keep offsets of the first, and addresses in the others.

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
/// `Corrupt` if the collection is damaged; what `visit` returns.
pub(crate) fn unmoved<T: Tx + ?Sized>(tx: &mut T, root: Root, visit: &mut Visit<'_>) -> Result<()> {
    match root.kind {
        kind::VECTOR => vector::check(tx, root.at, visit),
        kind::HASH_MAP => {
            let tag = tagged(tx, root)?;
            visit(root.at)?;
            hash_map::open(tx, root.at, tag.key, tag.value, tag.flags)?.check_segments(tx, visit)
        }
        _ => visit(root.at),
    }
}
