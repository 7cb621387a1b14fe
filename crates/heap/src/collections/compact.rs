//! Moving blocks out of pages that are to be emptied ([`Pool::compact`](crate::Pool::compact)), by code that knows the
//! pointers to them.

use crate::{Error, Purpose, Result, Tx};

/// Moves the block at `at` if its page is to be emptied. Returns where it is now. The caller updates the pointers to
/// it; its contents must not depend on its place.
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
    // Pages that are one object do not record their purpose.
    let purpose = extent.purpose.unwrap_or(Purpose::General);
    let mut bytes = vec![0; extent.bytes as usize];
    tx.read_bytes(at, &mut bytes)?;
    let new = tx.allocate(purpose, extent.bytes)?;
    tx.write_fresh(new, 0, &bytes)?;
    tx.free(at)?;
    Ok(new.at())
}
