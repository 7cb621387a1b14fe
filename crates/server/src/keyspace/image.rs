//! A small hash in one block: field-value pairs one after the other, read and searched as a
//! whole.
//!
//! The first word is `0xC4 << 56 | pairs << 32 | bytes`, the latter with this word. A pair is the
//! field's length and the value's, a byte each if below 128, else two (the low seven bits and the
//! highest, then the rest), the field and the value, filled up to half a word. A value of the
//! same length is thus overwritten in place; of whatever changes, only the words that differ are
//! written.

use perdura::{Error, Purpose, Result, Tx};
use std::ops::Range;

const TAG: u64 = 0xC4;
const WORD: usize = 8;
/// The length that pairs are filled up to.
const GRAIN: usize = 4;
/// Bytes that an image may have; a larger hash becomes a hash map.
pub(super) const LARGEST: usize = 4064;

/// A copy of a small hash, to be looked at and changed, and then written back.
pub(crate) struct Image {
    /// Where it came from; 0 for a new one.
    at: u64,
    bytes: Vec<u8>,
    /// The stored bytes, once something has changed.
    stored: Option<Vec<u8>>,
}

/// Where a pair lies.
struct Place {
    start: usize,
    field: Range<usize>,
    value: Range<usize>,
    end: usize,
}

/// Bytes of a length.
const fn length_bytes(len: usize) -> usize {
    if len < 0x80 { 1 } else { 2 }
}

fn push_length(bytes: &mut Vec<u8>, len: usize) {
    if len < 0x80 {
        bytes.push(len as u8);
    } else {
        bytes.extend_from_slice(&[len as u8 | 0x80, (len >> 7) as u8]);
    }
}

/// A length, and the bytes after it.
fn split_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match *bytes {
        [low, ref rest @ ..] if low < 0x80 => Some((low.into(), rest)),
        [low, high, ref rest @ ..] => {
            Some((usize::from(high) << 7 | usize::from(low & 0x7F), rest))
        }
        _ => None,
    }
}

/// Bytes of a pair.
const fn pair_bytes(field: usize, value: usize) -> usize {
    (length_bytes(field) + length_bytes(value) + field + value).next_multiple_of(GRAIN)
}

fn pair(field: &[u8], value: &[u8]) -> Vec<u8> {
    let len = pair_bytes(field.len(), value.len());
    let mut bytes = Vec::with_capacity(len);
    push_length(&mut bytes, field.len());
    push_length(&mut bytes, value.len());
    bytes.extend_from_slice(field);
    bytes.extend_from_slice(value);
    bytes.resize(len, 0);
    bytes
}

/// The word at `at`, if it is whole.
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + WORD)?.try_into().ok()?))
}

impl Image {
    /// An empty one, which is not stored yet.
    pub(super) fn new() -> Self {
        let mut image = Image { at: 0, bytes: vec![0; WORD], stored: None };
        image.set_head(0);
        image
    }

    /// The one at `at`.
    pub(super) fn load(tx: &mut dyn Tx, at: u64) -> Result<Self> {
        let head = tx.read_word(at)?;
        let len = (head & 0xFFFF_FFFF) as usize;
        if head >> 56 != TAG || !(WORD..=LARGEST).contains(&len) {
            return Err(Error::corrupt("a small hash's header", at));
        }
        let mut bytes = vec![0; len];
        tx.read_bytes(at, &mut bytes)?;
        let image = Image { at, bytes, stored: None };
        let walk = |(pairs, _), place: Place| (pairs + 1, place.end);
        if image.places().fold((0, WORD), walk) != (image.len(), len) {
            return Err(Error::corrupt("a small hash", at));
        }
        Ok(image)
    }

    fn set_head(&mut self, pairs: usize) {
        let head = TAG << 56 | (pairs as u64) << 32 | self.bytes.len() as u64;
        self.bytes[..WORD].copy_from_slice(&head.to_le_bytes());
    }

    /// The number of pairs.
    pub(super) fn len(&self) -> usize {
        (self.bytes[4] as usize) | (self.bytes[5] as usize) << 8 | (self.bytes[6] as usize) << 16
    }

    /// The pair that begins at `start`; none where the bytes end, or are damaged.
    fn place(&self, start: usize) -> Option<Place> {
        let (field, rest) = split_length(self.bytes.get(start..)?)?;
        let (value, rest) = split_length(rest)?;
        let from = self.bytes.len() - rest.len();
        let end = start + (from - start + field + value).next_multiple_of(GRAIN);
        (end <= self.bytes.len()).then_some(Place {
            start,
            field: from..from + field,
            value: from + field..from + field + value,
            end,
        })
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        let mut at = WORD;
        std::iter::from_fn(move || {
            let place = self.place(at)?;
            at = place.end;
            Some(place)
        })
    }

    fn find(&self, field: &[u8]) -> Option<Place> {
        self.places().find(|place| &self.bytes[place.field.clone()] == field)
    }

    /// The value of a field.
    pub(super) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.find(field).map(|place| &self.bytes[place.value])
    }

    /// The pairs, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.places().map(|place| (&self.bytes[place.field], &self.bytes[place.value]))
    }

    /// Whether it stays small with this pair.
    pub(super) fn has_room(&self, field: &[u8], value: &[u8]) -> bool {
        let old = self.find(field).map_or(0, |place| place.end - place.start);
        let large = field.len() > LARGEST || value.len() > LARGEST;
        !large && self.bytes.len() - old + pair_bytes(field.len(), value.len()) <= LARGEST
    }

    /// Sets a pair, for which there is room. Whether the field is new.
    pub(super) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        let found = self.find(field);
        let place = match &found {
            Some(place) => place.start..place.end,
            None => self.bytes.len()..self.bytes.len(),
        };
        self.replace(place, &pair(field, value), self.len() + usize::from(found.is_none()));
        found.is_none()
    }

    /// Removes a field. Whether it was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let Some(place) = self.find(field) else { return false };
        self.replace(place.start..place.end, &[], self.len() - 1);
        true
    }

    /// Puts these bytes in the place of others; there are `pairs` pairs then.
    fn replace(&mut self, place: Range<usize>, bytes: &[u8], pairs: usize) {
        if self.at != 0 && self.stored.is_none() {
            self.stored = Some(self.bytes.clone());
        }
        if place.len() == bytes.len() {
            self.bytes[place].copy_from_slice(bytes);
        } else {
            self.bytes.splice(place, bytes.iter().copied());
        }
        self.set_head(pairs);
    }

    /// Writes changes back; returns the block's new place.
    pub(super) fn save(self, tx: &mut dyn Tx) -> Result<u64> {
        if self.at != 0 {
            let Some(stored) = &self.stored else { return Ok(self.at) };
            if self.fits(tx)? {
                self.write(tx, stored)?;
                return Ok(self.at);
            }
        }
        let new = tx.allocate(Purpose::Value, self.bytes.len() as u64)?;
        tx.write_fresh(new, 0, &self.bytes)?;
        if self.at != 0 {
            tx.free(self.at)?;
        }
        Ok(new.at())
    }

    /// Whether its block is large enough, and not much too large.
    fn fits(&self, tx: &mut dyn Tx) -> Result<bool> {
        let usable = tx.usable(self.at)? as usize;
        Ok(self.bytes.len() <= usable && (usable <= 128 || self.bytes.len() * 2 >= usable))
    }

    /// Writes the words that differ from the stored ones, those that follow one another at once.
    fn write(&self, tx: &mut dyn Tx, stored: &[u8]) -> Result<()> {
        let mut start = 0;
        while start < self.bytes.len() {
            let mut end = start;
            while end < self.bytes.len() && self.differs(stored, end) {
                end += WORD;
            }
            if end > start {
                let last = end.min(self.bytes.len());
                tx.write_bytes(self.at + start as u64, &self.bytes[start..last])?;
            }
            start = end.max(start + WORD);
        }
        Ok(())
    }

    /// Whether the word at `at` differs from the stored one.
    fn differs(&self, stored: &[u8], at: usize) -> bool {
        match (word(&self.bytes, at), word(stored, at)) {
            (Some(new), Some(old)) => new != old,
            _ => self.bytes.get(at..) != stored.get(at..),
        }
    }

    /// Where it came from, to be freed.
    pub(super) fn at(&self) -> u64 {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;
    use proptest::prelude::*;

    fn small() -> impl Strategy<Value = Vec<u8>> {
        let bytes = |len| prop::collection::vec(any::<u8>(), len);
        prop_oneof![3 => bytes(0..30), 1 => bytes(100..200)]
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(
            steps in prop::collection::vec((0u8..8, prop::option::of(small())), 0..60),
        ) {
            let mut heap = TestHeap::new();
            let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let mut at = 0;
            for (field, value) in steps {
                let field = vec![b'f'; field as usize];
                let found = model.iter().position(|pair| pair.0 == field);
                let mut image =
                    if at == 0 { Image::new() } else { Image::load(&mut heap, at).unwrap() };
                match value {
                    Some(value) => {
                        prop_assert!(image.has_room(&field, &value));
                        prop_assert_eq!(image.set(&field, &value), found.is_none());
                        match found {
                            Some(index) => model[index].1 = value,
                            None => model.push((field, value)),
                        }
                    }
                    None => {
                        prop_assert_eq!(image.remove(&field), found.is_some());
                        if let Some(index) = found {
                            model.remove(index);
                        }
                    }
                }
                at = image.save(&mut heap).unwrap();
                heap.commit();
                let image = Image::load(&mut heap, at).unwrap();
                let stored = image.iter().map(|(f, v)| (f.to_vec(), v.to_vec()));
                prop_assert_eq!(stored.collect::<Vec<_>>(), model.clone());
                prop_assert_eq!(image.len(), model.len());
                prop_assert_eq!(heap.live(), 1);
            }
        }
    }
}
