//! Blocks whose contents their first two words determine: the length, and a seed of the rest.

use crate::case::mix;
use perdura::{Error, Purpose, Result, Tx};
use perdura_memory::random::SplitMix64;

/// The longest that is rewritten in place, through the log.
const REWRITTEN: u64 = 8 << 10;
/// Doublings of 16 bytes: up to half a megabyte.
const DOUBLINGS: u64 = 15;
const LONGEST: u64 = 16 << DOUBLINGS;
const HEADER: u64 = 16;

/// A length of a block's contents behind its header, of any order of magnitude.
pub(super) fn draw_len(random: &mut SplitMix64) -> u64 {
    let least = 16 << random.below(DOUBLINGS);
    (least + random.below(least)) & !7
}

fn contents(len: u64, seed: u64) -> Vec<u64> {
    let words = (0..len / 8).map(|index| mix(seed, index));
    [len, seed].into_iter().chain(words).collect()
}

/// Allocates a block.
pub(super) fn make(tx: &mut dyn Tx, len: u64, seed: u64) -> Result<u64> {
    let new = tx.allocate(Purpose::Value, HEADER + len)?;
    tx.write_fresh(new, 0, bytemuck::cast_slice(&contents(len, seed)))?;
    Ok(new.at())
}

/// Gives a short block other contents, in place; a long one stays.
pub(super) fn rewrite(tx: &mut dyn Tx, at: u64, seed: u64) -> Result<()> {
    match tx.read_word(at)? {
        len @ ..=REWRITTEN => tx.write_bytes(at, bytemuck::cast_slice(&contents(len, seed))),
        _ => Ok(()),
    }
}

/// Checks a block's contents.
///
/// # Errors
/// `Corrupt` if they are not those that its header determines; as the transaction.
pub(super) fn check(tx: &mut dyn Tx, at: u64) -> Result<()> {
    let len = tx.read_word(at)?;
    if len > LONGEST || !len.is_multiple_of(8) {
        return Err(Error::corrupt("stress: a block of an impossible length", at));
    }
    let mut words = vec![0; (2 + len / 8) as usize];
    tx.read_bytes(at, bytemuck::cast_slice_mut(&mut words))?;
    let seed = words[1];
    let right = words[0] == len
        && words[2..].iter().zip(0..).all(|(word, index)| *word == mix(seed, index));
    if right { Ok(()) } else { Err(Error::corrupt("stress: a block with others' contents", at)) }
}
