//! What is summed: each word, passed through a bijection that its place in the matrix keys.
//!
//! The paper sums plain words ("a simple summation of cache blocks", III-C). A plain sum is the
//! same when two blocks have changed places, or when one word gains what another loses, and
//! that is what transactions do: two lost halves of a transfer of money cancel out. So here
//!
//! ```text
//! sum of a column, lane by lane = Σ over rows i    of mix(word ^ ROW_KEYS[i][lane])     mod 2^64
//! sum of a row,    lane by lane = Σ over columns j of mix(word ^ COLUMN_KEYS[j][lane])  mod 2^64
//! ```
//!
//! `mix` is Stafford's variant 13 of MurmurHash3's 64-bit finalizer, as in `splitmix64` (Steele,
//! Lea and Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014): two odd
//! multiplications between three xor-shifts, chosen by Stafford for its avalanche (each bit that
//! flips in, flips every bit out in close to half of all cases). What matters here:
//! - It is a bijection, as is the xor with a key: one unknown word of a sum can be solved for.
//! - It is far from linear over both addition and xor, which a multiplication by odd keys alone
//!   is not: there, words that differ in their top bit only could change places unseen.
//! - It begins with a xor-shift: without it the top bit of a word reaches one bit after the
//!   first multiplication, and two flipped signs cancel out far more often than they should.
//! - Whether a row or a column sums makes another function of the same word. So the sums of a
//!   row and of the columns that it crosses are independent equations, where with plain sums
//!   the total of one side is the total of the other; this is what tells the right set of lost
//!   blocks from wrong ones (`correct` in the crate `perdura-matrices`).
//!
//! Against chance, not against malice: the keys are constants that everyone can read.

use super::{Block, LANES};
use crate::random::SplitMix64;

/// Most rows, and most columns, of a matrix.
pub const MOST: usize = 64;

/// Stafford's multipliers and shifts, variant 13.
pub(super) const MULTIPLY: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
pub(super) const SHIFT: [u32; 3] = [30, 27, 31];
const UNMULTIPLY: [u64; 2] = [inverse(MULTIPLY[0]), inverse(MULTIPLY[1])];

/// Keys of the rows, for the sums of columns.
pub static ROW_KEYS: [Block; MOST] = keys(0x636f_6e73_6973_7465);
/// Keys of the columns, for the sums of rows.
pub static COLUMN_KEYS: [Block; MOST] = keys(0x636f_7272_656c_6174);
/// Keys of the rows, for the sums of diagonals.
pub static DIAGONAL_KEYS: [Block; MOST] = keys(0x6469_6167_6f6e_616c);

/// The bijection of words, without a key.
#[inline(always)]
pub const fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> SHIFT[0]).wrapping_mul(MULTIPLY[0]);
    word = (word ^ word >> SHIFT[1]).wrapping_mul(MULTIPLY[1]);
    word ^ word >> SHIFT[2]
}

/// The word that `mix` takes to this one.
#[inline]
pub const fn unmix(mut word: u64) -> u64 {
    word = unshift(word, SHIFT[2]).wrapping_mul(UNMULTIPLY[1]);
    word = unshift(word, SHIFT[1]).wrapping_mul(UNMULTIPLY[0]);
    unshift(word, SHIFT[0])
}

/// Undoes `word ^ word >> by`, for `by` of at least 22: each turn settles `by` more bits.
const fn unshift(word: u64, by: u32) -> u64 {
    let once = word ^ word >> by;
    word ^ once >> by
}

/// The inverse of an odd number, mod 2^64: Newton's iteration doubles the bits that are right,
/// from the three that the number itself has.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut turn = 0;
    while turn < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        turn += 1;
    }
    inverse
}

/// A table of keys: the splitmix64 sequence of a seed.
const fn keys(seed: u64) -> [Block; MOST] {
    let mut random = SplitMix64::new(seed);
    let mut keys = [[0; LANES]; MOST];
    let mut index = 0;
    while index < MOST * LANES {
        keys[index / LANES][index % LANES] = random.next();
        index += 1;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_word_comes_back() {
        let mut random = SplitMix64::new(5);
        let edges = (0..64).flat_map(|bit| [1 << bit, (1_u64 << bit) - 1, !(1 << bit), 0, !0]);
        for word in edges.chain((0..10_000).map(|_| random.next())) {
            assert_eq!(unmix(mix(word)), word, "{word:#x}");
        }
    }

    #[test]
    fn keys_are_distinct() {
        let all = ROW_KEYS.iter().chain(&COLUMN_KEYS).chain(&DIAGONAL_KEYS).flatten();
        assert_eq!(all.collect::<BTreeSet<_>>().len(), 3 * MOST * LANES);
    }

    /// Flips that compensate each other are the weakness of multiplications alone.
    #[test]
    fn the_top_bit_spreads_as_any_other() {
        let mut random = SplitMix64::new(6);
        for bit in 0..64 {
            let mut flipped = 0;
            for _ in 0..1000 {
                let word = random.next();
                flipped += (mix(word) ^ mix(word ^ 1 << bit)).count_ones();
            }
            let mean = f64::from(flipped) / 1000.0;
            assert!((31.0..33.0).contains(&mean), "bit {bit} flips {mean} bits on average");
        }
    }
}
