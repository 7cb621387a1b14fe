//! The form of stored items: enough to move, hash and free them without knowing their types. The first word of every
//! collection's header, its tag, holds the forms of its items, so that a pool can be checked by a program that does
//! not know the types.

use super::Visit;
use super::bytes::Blob;
use crate::{Error, Result, Tx};

/// Most words that one item may have.
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

/// The low byte of a byte string's last word if that word is a pointer.
pub(super) const POINTER: u64 = 0xFF;

/// The bits of a pointing last word other than the pointer.
pub(super) const NOT_POINTER: u64 = !(((1 << 45) - 1) << 8);

/// The blob that a byte string's last word points to, if it is a pointer.
pub(super) const fn blob_in(last: u64) -> Option<Blob> {
    if last & 0xFF == POINTER { Some(Blob::new((last >> 8 & ((1 << 45) - 1)) << 3)) } else { None }
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

    /// The blob of the item at `at`, if it has one.
    pub(super) fn blob<T: Tx + ?Sized>(self, tx: &mut T, at: u64) -> Result<Option<Blob>> {
        if self.string == 0 {
            return Ok(None);
        }
        Ok(blob_in(tx.read_word(at + self.bytes() - 8)?))
    }

    /// Frees what the item at `at` owns.
    pub(super) fn release<T: Tx + ?Sized>(self, tx: &mut T, at: u64) -> Result<()> {
        match self.blob(tx, at)? {
            Some(blob) => blob.free(tx).map_err(Error::in_pool),
            None => Ok(()),
        }
    }

    /// Moves the blocks that the item at `at` owns out of pages that are to be emptied.
    pub(super) fn compact<T: Tx + ?Sized>(self, tx: &mut T, at: u64) -> Result<()> {
        if self.string == 0 {
            return Ok(());
        }
        let last = at + self.bytes() - 8;
        let word = tx.read_word(last)?;
        let Some(blob) = blob_in(word) else { return Ok(()) };
        let moved = blob.compact(tx).map_err(Error::in_pool)?;
        if moved == blob {
            return Ok(());
        }
        tx.write_word(last, word & NOT_POINTER | moved.at() >> 3 << 8)
    }

    /// Checks the item at `at`, and reports the blocks it owns.
    pub(super) fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        at: u64,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        if self.string == 0 {
            return Ok(());
        }
        let last = tx.read_word(at + self.bytes() - 8)?;
        match blob_in(last) {
            Some(blob) => blob.check(tx, visit).map_err(Error::in_pool),
            None if last & 0xFF < self.string as u64 * 8 => Ok(()),
            None => Err(Error::corrupt("an inline string's length", at)),
        }
    }

    /// The hash of the item at `at`, equal to [`Item::hash`](super::Item::hash).
    pub(super) fn hash<T: Tx + ?Sized>(self, tx: &mut T, at: u64, seed: u64) -> Result<u64> {
        let plain = self.words - self.string;
        let mut hash = seed;
        for word in 0..plain as u64 {
            hash = mix(hash, tx.read_word(at + word * 8)?);
        }
        if self.string == 0 {
            return Ok(hash);
        }
        let string = at + plain as u64 * 8;
        super::string::with_string(tx, string, self.string, |bytes| hash_bytes(hash, bytes))
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
