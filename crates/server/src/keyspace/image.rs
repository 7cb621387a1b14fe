//! A small hash in one block: field-value pairs one after the other, read and searched as a
//! whole.
//!
//! The first word is `0xC4 << 56 | pairs << 32 | bytes`, the latter with this word. A pair is a
//! word `value length << 32 | field length`, then the field and the value, each filled up to a
//! word. A value of about the same length is thus overwritten in place, and nothing else is
//! written.

use perdura::{Error, Purpose, Result, Tx};
use std::ops::Range;

const TAG: u64 = 0xC4;
const WORD: usize = 8;
/// Bytes that an image may have; a larger hash becomes a hash map.
pub(super) const LARGEST: usize = 4064;

/// A copy of a small hash, to be looked at and changed, and then written back.
pub(crate) struct Image {
    /// Where it came from; 0 for a new one.
    at: u64,
    bytes: Vec<u8>,
    /// Whether the first word changed since.
    head_dirty: bool,
    /// What else changed since.
    dirty: Range<usize>,
}

/// Where a pair lies.
struct Place {
    start: usize,
    value: Range<usize>,
    end: usize,
}

const fn padded(len: usize) -> usize {
    len.next_multiple_of(WORD)
}

impl Image {
    /// An empty one, which is nowhere yet.
    pub(super) fn new() -> Self {
        let mut image = Image { at: 0, bytes: vec![0; WORD], head_dirty: true, dirty: 0..0 };
        image.set_head(0);
        image
    }

    /// The one at `at`.
    pub(super) fn load(tx: &mut dyn Tx, at: u64) -> Result<Self> {
        let head = tx.read_word(at)?;
        let len = (head & 0xFFFF_FFFF) as usize;
        if head >> 56 != TAG || !(WORD..=LARGEST).contains(&len) || !len.is_multiple_of(WORD) {
            return Err(Error::corrupt("a small hash's header", at));
        }
        let mut bytes = vec![0; len];
        tx.read_bytes(at, &mut bytes)?;
        let image = Image { at, bytes, head_dirty: false, dirty: 0..0 };
        image.check()?;
        Ok(image)
    }

    /// Whether the pairs fill the image and are as many as the header says.
    fn check(&self) -> Result<()> {
        let (mut at, mut pairs) = (WORD, 0);
        while at < self.bytes.len() {
            let place = self.place(at);
            if place.end > self.bytes.len() {
                return Err(Error::corrupt("a pair of a small hash", self.at + at as u64));
            }
            (at, pairs) = (place.end, pairs + 1);
        }
        if pairs == self.len() { Ok(()) } else { Err(Error::corrupt("a small hash", self.at)) }
    }

    fn word(&self, at: usize) -> u64 {
        let mut word = [0; WORD];
        word.copy_from_slice(&self.bytes[at..at + WORD]);
        u64::from_le_bytes(word)
    }

    fn set_head(&mut self, pairs: usize) {
        let head = TAG << 56 | (pairs as u64) << 32 | self.bytes.len() as u64;
        self.bytes[..WORD].copy_from_slice(&head.to_le_bytes());
        self.head_dirty = true;
    }

    fn touch(&mut self, range: Range<usize>) {
        if self.dirty.is_empty() {
            self.dirty = range;
        } else {
            self.dirty = self.dirty.start.min(range.start)..self.dirty.end.max(range.end);
        }
    }

    /// The number of pairs.
    pub(super) fn len(&self) -> usize {
        (self.word(0) >> 32 & 0xFF_FFFF) as usize
    }

    /// The pair whose word is at `start`.
    fn place(&self, start: usize) -> Place {
        let lengths = self.word(start);
        let (field, value) = ((lengths & 0xFFFF_FFFF) as usize, (lengths >> 32) as usize);
        let begin = start + WORD + padded(field);
        Place { start, value: begin..begin + value, end: begin + padded(value) }
    }

    fn field(&self, place: &Place) -> &[u8] {
        let len = (self.word(place.start) & 0xFFFF_FFFF) as usize;
        &self.bytes[place.start + WORD..place.start + WORD + len]
    }

    fn find(&self, field: &[u8]) -> Option<Place> {
        let mut at = WORD;
        while at < self.bytes.len() {
            let place = self.place(at);
            if self.field(&place) == field {
                return Some(place);
            }
            at = place.end;
        }
        None
    }

    /// The value of a field.
    pub(super) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.find(field).map(|place| &self.bytes[place.value])
    }

    /// The pairs, in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut at = WORD;
        std::iter::from_fn(move || {
            if at >= self.bytes.len() {
                return None;
            }
            let place = self.place(at);
            at = place.end;
            Some((self.field(&place), &self.bytes[place.value]))
        })
    }

    /// Whether it stays small with this pair.
    pub(super) fn has_room(&self, field: &[u8], value: &[u8]) -> bool {
        let old = self.find(field).map_or(0, |place| place.end - place.start);
        let most = LARGEST + old - self.bytes.len();
        let large = field.len() > LARGEST || value.len() > LARGEST;
        !large && WORD + padded(field.len()) + padded(value.len()) <= most
    }

    /// Sets a pair, for which there is room. Whether the field is new.
    pub(super) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        match self.find(field) {
            Some(place) => {
                self.replace(&place, value);
                false
            }
            None => {
                self.push(field, value);
                true
            }
        }
    }

    fn push(&mut self, field: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        let lengths = (value.len() as u64) << 32 | field.len() as u64;
        self.bytes.extend_from_slice(&lengths.to_le_bytes());
        for part in [field, value] {
            self.bytes.extend_from_slice(part);
            self.bytes.resize(padded(self.bytes.len()), 0);
        }
        self.touch(start..self.bytes.len());
        self.set_head(self.len() + 1);
    }

    fn replace(&mut self, place: &Place, value: &[u8]) {
        let room = place.value.start..place.end;
        let mut stored = value.to_vec();
        stored.resize(padded(value.len()), 0);
        let grown = stored.len() != room.len();
        if place.value.len() != value.len() {
            let lengths = (value.len() as u64) << 32 | self.word(place.start) & 0xFFFF_FFFF;
            self.bytes[place.start..place.start + WORD].copy_from_slice(&lengths.to_le_bytes());
            self.touch(place.start..place.start + WORD);
        }
        self.touch(room.start..room.start + value.len());
        self.bytes.splice(room, stored);
        if grown {
            self.touch(place.value.start..self.bytes.len());
            self.set_head(self.len());
        }
    }

    /// Removes a field. Whether it was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let Some(place) = self.find(field) else { return false };
        let pairs = self.len() - 1;
        self.bytes.drain(place.start..place.end);
        self.touch(place.start..self.bytes.len().max(place.start));
        self.set_head(pairs);
        true
    }

    /// Writes back what changed; returns where it is now.
    pub(super) fn save(self, tx: &mut dyn Tx) -> Result<u64> {
        if self.dirty.is_empty() && !self.head_dirty {
            return Ok(self.at);
        }
        if self.at != 0 && self.fits(tx)? {
            self.write(tx)?;
            return Ok(self.at);
        }
        let at = tx.allocate(Purpose::Value, self.bytes.len() as u64)?;
        tx.write_fresh(at, &self.bytes)?;
        if self.at != 0 {
            tx.free(self.at)?;
        }
        Ok(at)
    }

    /// Whether its block is large enough, and not much too large.
    fn fits(&self, tx: &mut dyn Tx) -> Result<bool> {
        let usable = tx.usable(self.at)? as usize;
        Ok(self.bytes.len() <= usable && (usable <= 128 || self.bytes.len() * 2 >= usable))
    }

    /// The header and a change far from it are written apart.
    fn write(&self, tx: &mut dyn Tx) -> Result<()> {
        if self.head_dirty {
            tx.write_word(self.at, self.word(0))?;
        }
        let end = self.dirty.end.min(self.bytes.len());
        let start = self.dirty.start.min(end);
        if start == end {
            return Ok(());
        }
        tx.write_bytes(self.at + start as u64, &self.bytes[start..end])
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
        prop::collection::vec(any::<u8>(), 0..30)
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
