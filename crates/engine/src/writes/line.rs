//! Words of one line.

use perdura_memory::{LINE, Memory, Traced};

/// The mask of a line that is stored whole.
pub const ALL: u8 = 0xFF;

/// Words to be stored in one line.
#[derive(Clone, Copy)]
pub struct LineWrite {
    /// Offset of the line.
    pub line: u64,
    /// Bit `i` is set where `words[i]` is to be stored.
    pub mask: u8,
    /// The words; those outside the mask have no meaning.
    pub words: [u64; 8],
}

/// Nothing to be stored.
pub(super) const NOTHING: LineWrite = LineWrite { line: 0, mask: 0, words: [0; 8] };

/// The offset of the entry at a place from the first one.
#[inline(always)]
pub(super) const fn entry_at(place: usize) -> u64 {
    place as u64 * size_of::<LineWrite>() as u64
}

/// Reports stores to the mask and a word of the entry at `entry` in an object.
#[inline(always)]
pub(super) fn wrote_word<M: Memory>(own: Traced<'_, M>, entry: u64, word: usize) {
    own.wrote(entry + 8, 8 + (word as u64 + 1) * 8);
}

/// Reports loads of the mask and a word of that entry.
#[inline(always)]
pub(super) fn read_word<M: Memory>(own: Traced<'_, M>, entry: u64, word: usize) {
    own.value(entry + 8, 8 + (word as u64 + 1) * 8);
}

/// The index of the word at `at` in its line.
#[inline(always)]
pub(crate) fn word_in_line(at: u64) -> usize {
    (at % LINE / 8) as usize
}

/// A hash of the line of `at`.
#[inline(always)]
pub(crate) fn hash(at: u64) -> u64 {
    (at / LINE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}
