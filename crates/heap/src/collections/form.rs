//! The form of stored items: enough to move, hash and free them (`string.rs`) without knowing their types. The first
//! word of every collection's header, its tag, holds the forms of its items, so that a pool can be checked by a program
//! that does not know the types.

use crate::{Result, Tx};

/// The maximum number of words that one item may have.
pub const MAX_WORDS: usize = 40;

/// The shape of a stored item: a number of words, the last few of which may be a byte string
/// ([`Bytes`](super::Bytes)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Number of words.
    pub words: usize,
    /// How many of the last words are a byte string; 0 if there is none.
    pub string: usize,
}

impl Form {
    /// An item of plain words.
    pub const fn plain(words: usize) -> Self {
        Form { words, string: 0 }
    }

    /// Bytes that the item takes.
    pub const fn bytes(self) -> u64 {
        self.words as u64 * 8
    }

    /// As 10 bits of a header's first word.
    pub(super) const fn pack(self) -> u64 {
        assert!(self.words <= MAX_WORDS && self.string <= 15 && self.string <= self.words);
        (self.words as u64) << 4 | self.string as u64
    }

    /// Decodes [`pack`](Form::pack); `None` if the bits are no form.
    pub(super) const fn unpack(bits: u64) -> Option<Self> {
        let form = Form { words: (bits >> 4 & 0x3F) as usize, string: (bits & 15) as usize };
        let whole = form.words <= MAX_WORDS && form.string <= form.words && form.string != 1;
        if whole { Some(form) } else { None }
    }
}

/// Adds a word to a hash.
#[inline]
pub(crate) const fn mix(hash: u64, word: u64) -> u64 {
    let x = (hash ^ word ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 32)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 29)
}

/// Adds bytes to a hash.
#[inline]
pub(super) fn hash_bytes(hash: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, hash)
}

/// Writes a word if it differs from the stored one: an unwritten word needs no log. The words of a slot that was used
/// before are often the same.
#[inline]
pub(super) fn update_word<T: Tx + ?Sized>(tx: &mut T, at: u64, word: u64) -> Result<()> {
    if tx.read_word(at)? == word { Ok(()) } else { tx.write_word(at, word) }
}
