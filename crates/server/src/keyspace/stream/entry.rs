//! An entry as it lies in a chunk: its ID's two numbers, the number of fields, then fields and values by turns, each
//! after its length. All numbers are of seven bits to a byte, the lowest first.

use super::super::chunk::Element;
use super::Id;
use perdura::{Error, Result, Tx};

/// Bytes of the longest ID.
const ID_MAX: u64 = 20;

fn push_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(0x80 | number as u8);
        number >>= 7;
    }
    to.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7F);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take_id(bytes: &mut &[u8]) -> Option<Id> {
    Some(Id { ms: take_number(bytes)?, seq: take_number(bytes)? })
}

/// The bytes of an entry; `texts` are fields and values by turns.
pub(super) fn encode<'t>(id: Id, texts: impl ExactSizeIterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    push_number(&mut bytes, id.ms);
    push_number(&mut bytes, id.seq);
    push_number(&mut bytes, texts.len() as u64 / 2);
    for text in texts {
        push_number(&mut bytes, text.len() as u64);
        bytes.extend_from_slice(text);
    }
    bytes
}

/// The ID of an entry, which may be long, where it lies.
pub(super) fn id_of(tx: &mut dyn Tx, element: Element<'_>, at: u64) -> Result<Id> {
    let found = match element {
        Element::Here(mut bytes) => take_id(&mut bytes),
        Element::Blob(blob) => take_id(&mut blob.read_range(tx, 0, ID_MAX)?.as_slice()),
    };
    found.ok_or_else(|| damaged(at))
}

/// The error of an entry in the chunk at `at` that is none.
pub(super) const fn damaged(at: u64) -> Error {
    Error::corrupt("an entry of a stream", at)
}

/// An entry that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: Id,
    /// Fields and values, by turns.
    pub(crate) texts: Texts,
}

/// The fields and values of an entry, by turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    /// Where the first of them begins.
    start: usize,
    count: usize,
}

impl Entry {
    /// Reads an entry, and checks that it is whole.
    pub(super) fn read(bytes: Vec<u8>) -> Option<Self> {
        let mut rest = bytes.as_slice();
        let id = take_id(&mut rest)?;
        let count = take_number(&mut rest)?.checked_mul(2)?;
        let start = bytes.len() - rest.len();
        // Each takes a byte at least, so that the count is one that there can be.
        for _ in 0..count {
            let len = usize::try_from(take_number(&mut rest)?).ok()?;
            rest = rest.get(len..)?;
        }
        let count = usize::try_from(count).ok()?;
        rest.is_empty().then_some(())?;
        Some(Entry { id, texts: Texts { bytes, start, count } })
    }
}

impl Texts {
    /// How many there are: twice the number of fields.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[self.start..];
        std::iter::from_fn(move || {
            // They were looked at when they were read.
            let len = usize::try_from(take_number(&mut rest)?).ok()?;
            let (text, after) = rest.split_at_checked(len)?;
            rest = after;
            Some(text)
        })
    }

    /// About how many bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_read_as_they_were_written(
            ms in any::<u64>(),
            seq in any::<u64>(),
            pairs in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), any::<u16>()), 0..9),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let id = Id { ms, seq };
            let texts: Vec<Vec<u8>> = pairs
                .into_iter()
                .flat_map(|(field, value)| [field, value.to_string().into_bytes()])
                .collect();
            let mut bytes = encode(id, texts.iter().map(Vec::as_slice));
            let entry = Entry::read(bytes.clone()).expect("an entry");
            prop_assert_eq!(entry.id, id);
            prop_assert_eq!(entry.texts.len(), texts.len());
            prop_assert!(entry.texts.iter().eq(texts.iter().map(Vec::as_slice)));
            prop_assert!(Entry::read(bytes[..bytes.len() - 1].to_vec()).is_none());
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Some(entry) = Entry::read(bytes) {
                prop_assert_eq!(entry.texts.iter().count(), entry.texts.len());
            }
        }
    }
}
