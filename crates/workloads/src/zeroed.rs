//! Large blocks of zeros.

use perdura::{Purpose, Result, Tx};

/// Bytes cleared at once: enough that no engine logs them.
const PIECE: u64 = 1 << 20;

/// Allocates `len` bytes that are all 0.
///
/// # Errors
/// As [`Tx::allocate`].
pub(crate) fn allocate<T: Tx + ?Sized>(tx: &mut T, len: u64) -> Result<u64> {
    let new = tx.allocate(Purpose::General, len)?;
    let zeros = vec![0; PIECE.min(len) as usize];
    for first in (0..len).step_by(PIECE as usize) {
        tx.write_fresh(new, first, &zeros[..PIECE.min(len - first) as usize])?;
    }
    Ok(new.at())
}
