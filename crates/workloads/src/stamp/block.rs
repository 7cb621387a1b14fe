//! Blocks of a few words, and roots.

use crate::{Failure, Outcome, Session};
use perdura::{Purpose, Result, Tx};

/// Bytes of a word.
pub(crate) const WORD: u64 = 8;

/// Allocates a block of these words.
///
/// # Errors
/// As [`Tx::allocate`].
pub(crate) fn new<T: Tx + ?Sized, const N: usize>(tx: &mut T, words: [u64; N]) -> Result<u64> {
    let new = tx.allocate(Purpose::General, N as u64 * WORD)?;
    tx.write_fresh(new, 0, words.map(u64::to_ne_bytes).as_flattened())?;
    Ok(new.at())
}

/// Allocates a block of any number of words.
///
/// # Errors
/// As [`Tx::allocate`].
pub(crate) fn new_slice<T: Tx + ?Sized>(tx: &mut T, words: &[u64]) -> Result<u64> {
    let new = tx.allocate(Purpose::General, words.len().max(1) as u64 * WORD)?;
    tx.write_fresh(new, 0, bytemuck::cast_slice(words))?;
    Ok(new.at())
}

/// Word `index` of the block at `at`.
#[inline]
pub(crate) const fn word(at: u64, index: u64) -> u64 {
    at.wrapping_add(index.wrapping_mul(WORD))
}

/// Adds to the word at `at`, modulo 2^64. Returns its old value.
///
/// # Errors
/// As the transaction's reads and writes.
#[inline]
pub(crate) fn add<T: Tx + ?Sized>(tx: &mut T, at: u64, by: u64) -> Result<u64> {
    let was = tx.read_word(at)?;
    tx.write_word(at, was.wrapping_add(by))?;
    Ok(was)
}

/// Reads words in a row.
///
/// # Errors
/// As the transaction's reads.
pub(crate) fn read<T: Tx + ?Sized>(tx: &mut T, at: u64, to: &mut [u64]) -> Result<()> {
    tx.read_bytes(at, bytemuck::cast_slice_mut(to))
}

/// The words of the block that a workload's root leads to.
///
/// # Errors
/// `Wrong` if there is no such root.
pub(crate) fn of_root<S: Session, const N: usize>(
    session: &mut S,
    name: &str,
) -> Outcome<(u64, [u64; N])> {
    let found = session.read(|tx| {
        let Some(root) = tx.root(name)? else { return Ok(None) };
        let mut words = [0; N];
        read(tx, root.at, &mut words)?;
        Ok(Some((root.at, words)))
    })?;
    found.ok_or_else(|| Failure::wrong(format!("the root {name} is gone")))
}
