//! The first word of a collection's header: its kind and its items' types; of a byte string: its length. And the error
//! when it is not what the program expects: the program's mistake, if it can be one.

use super::form::Form;
use super::kind;
use crate::persist::TypeName;
use crate::roots;
use crate::{Error, Purpose, Result, Tx};

/// A collection's kind, the forms and the types of its items, and flags of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) kind: u32,
    pub(super) key: Form,
    pub(super) value: Form,
    pub(super) flags: u64,
    /// 24 bits of a hash of the types' names.
    pub(super) types: u64,
}

const TYPES: u64 = (1 << 24) - 1;

impl Tag {
    /// The hash of a collection of such items.
    pub(super) const fn of(kind: u32, forms: (Form, Form), types: &[TypeName], flags: u64) -> Self {
        let (mut hash, mut index) = (0, 0);
        while index < types.len() {
            hash = types[index].hash(hash);
            index += 1;
        }
        Tag { kind, key: forms.0, value: forms.1, flags, types: hash & TYPES }
    }

    /// As a word: `check << 52 | types << 28 | kind << 24 | flags << 20 | key << 10 | value`.
    pub(super) const fn word(self) -> u64 {
        assert!(self.kind < 16 && self.flags < 16);
        let parts = self.types << 28 | (self.kind as u64) << 24 | self.flags << 20;
        let parts = parts | self.key.pack() << 10 | self.value.pack();
        check(parts) << 52 | parts
    }

    /// Decodes a [`word`](Tag::word); `None` if it is no tag.
    pub(super) const fn from_word(word: u64) -> Option<Self> {
        let (Some(key), Some(value)) =
            (Form::unpack(word >> 10 & 0x3FF), Form::unpack(word & 0x3FF))
        else {
            return None;
        };
        let (kind, flags) = ((word >> 24 & 15) as u32, word >> 20 & 15);
        let tag = Tag { kind, key, value, flags, types: word >> 28 & TYPES };
        if tag.word() == word { Some(tag) } else { None }
    }

    /// The tag of the header at `at`; its owner in the pool says that there is one.
    pub(super) fn read<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Tag> {
        let word = tx.read_word(at).map_err(Error::in_pool)?;
        Tag::from_word(word).ok_or_else(|| Error::corrupt("a collection's tag", at))
    }
}

/// A 12-bit CRC of 52 bits: it detects any one or two changed bits, and is not 0 for 0.
const fn check(parts: u64) -> u64 {
    let (mut crc, mut bit) = (0xFFF, 52);
    while bit > 0 {
        bit -= 1;
        let out = crc >> 11 & 1 ^ parts >> bit & 1;
        crc = crc << 1 & 0xFFF;
        if out == 1 {
            crc ^= 0x80F;
        }
    }
    crc
}

/// Longest byte string, in bytes.
pub const MAX_LEN: u64 = (1 << 40) - 1;
const BLOB: u64 = 0xB1;
const BLOB_IN_PIECES: u64 = 0xB2;

/// A byte string's first word.
#[derive(Clone, Copy)]
pub(super) struct BlobHead {
    pub(super) purpose: Purpose,
    pub(super) len: u64,
    pub(super) in_pieces: bool,
}

impl BlobHead {
    /// As a word: `0xB1 << 56 | purpose << 48 | length`; `0xB2` if the string is in pieces.
    pub(super) const fn word(self) -> u64 {
        let tag = if self.in_pieces { BLOB_IN_PIECES } else { BLOB };
        tag << 56 | (self.purpose as u64) << 48 | self.len
    }

    /// Decodes a [`word`](BlobHead::word); `None` if it is no byte string's.
    pub(super) fn from_word(word: u64) -> Option<Self> {
        let (len, in_pieces) = (word & ((1 << 48) - 1), word >> 56 == BLOB_IN_PIECES);
        let purpose = *Purpose::ALL.get((word >> 48 & 0xFF) as usize)?;
        let is_head = (in_pieces || word >> 56 == BLOB) && len <= MAX_LEN;
        is_head.then_some(BlobHead { purpose, len, in_pieces })
    }
}

/// Frees a header, and voids its tag, so that a remaining handle is detected.
pub(super) fn end<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<()> {
    tx.write_word(at, 0)?;
    tx.free(at)
}

/// A program's expectations of a collection.
pub(super) struct Expected {
    pub(super) kind: u32,
    pub(super) name: fn() -> String,
    /// The identifier of the handle's pool; 0 if unknown.
    pub(super) pool: u64,
}

impl Expected {
    /// Whether the handle is of another pool than the transaction.
    #[inline]
    pub(super) fn is_elsewhere<T: Tx + ?Sized>(pool: u64, tx: &T) -> bool {
        pool != 0 && ![0, pool].contains(&tx.moment().pool)
    }

    /// The error for a header at `at` that is not as expected. Only if a named root leads to it is it certainly
    /// damaged; anything else may have been put there since, or was there before if the handle is not of this pool.
    #[cold]
    pub(super) fn missing<T: Tx + ?Sized>(&self, tx: &mut T, at: u64) -> Error {
        self.why(tx, at).unwrap_or_else(|error| error)
    }

    fn why<T: Tx + ?Sized>(&self, tx: &mut T, at: u64) -> Result<Error> {
        let misuse = |what| Ok(Error::misuse(what, at));
        if Self::is_elsewhere(self.pool, tx) {
            return misuse("another pool's collection was meant");
        }
        match tx.extent(at)? {
            None => return misuse("nothing is allocated"),
            Some(extent) if extent.at != at => return misuse("no object begins"),
            Some(_) => {}
        }
        let word = tx.read_word(at)?;
        if Tag::from_word(word).is_some() || BlobHead::from_word(word).is_some() {
            return Ok(Error::WrongType { root: None, expected: (self.name)().into(), at });
        }
        let owned = |named: &roots::NamedRoot| named.root.at == at && named.root.kind == self.kind;
        if roots::all(tx)?.iter().any(owned) {
            return Ok(Error::corrupt("a collection's tag", at));
        }
        misuse(match self.kind {
            kind::VECTOR => "no vector begins",
            kind::HASH_MAP => "no hash map begins",
            kind::ORDERED_MAP => "no ordered map begins",
            _ => "no byte string begins",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Persist;

    #[test]
    fn a_tag_is_its_word() {
        for (key, value) in [(1, 0), (3, 3), (40, 40)] {
            for kind in [kind::HASH_MAP, kind::ORDERED_MAP, kind::VECTOR] {
                let string = Form { words: value, string: value.min(15) & !1 };
                let types = [<[u64; 4]>::TYPE_NAME, u64::TYPE_NAME];
                let tag = Tag::of(kind, (Form::plain(key), string), &types, 1);
                assert_eq!(Tag::from_word(tag.word()), Some(tag));
                for bit in 0..64 {
                    assert_eq!(Tag::from_word(tag.word() ^ 1 << bit), None, "bit {bit}");
                    for other in 0..bit {
                        let flips = 1 << bit | 1 << other;
                        assert_eq!(Tag::from_word(tag.word() ^ flips), None, "{bit} and {other}");
                    }
                }
            }
        }
        assert_eq!(Tag::from_word(0), None);
        assert_eq!(Tag::from_word(u64::MAX), None);
    }
}
