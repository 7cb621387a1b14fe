//! A chunk: some elements of a list, one after the other in one block.
//!
//! Words: `0xC5 << 56 | elements << 40 | end << 20 | start`, the chunk before and the one after (0: none). The elements
//! lie from `start` to `end`, with room on either side, so that one word and the element's own bytes are written when it
//! comes or goes at an end. An element is its length, its bytes, and its length backwards, by which the one before is
//! found: a byte if the length is below 128, else two. An element of more than [`LONG`] bytes is a blob, and its bytes
//! here are its offset.

use super::image::LARGEST;
use perdura::collections::Blob;
use perdura::{Error, Fresh, Purpose, Result, Tx};
use std::ops::Range;

const TAG: u64 = 0xC5;
/// Bytes before the elements.
pub(super) const HEADER: usize = 24;
/// Offsets of the neighbours.
const BEFORE: u64 = 8;
const AFTER: u64 = 16;
/// Longest element in the chunk itself: a longer one's bytes need no log in a block of their own.
pub(super) const LONG: usize = 1024;
/// The length that says that the bytes are a blob's offset.
const BLOB: usize = 0x7FFF;
/// Room of the smallest chunk.
const SMALLEST: usize = 64;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where its first element is.
    Left,
    /// Where its last element is.
    Right,
}

/// An element where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element<'a> {
    Here(&'a [u8]),
    Blob(Blob),
}

impl Element<'_> {
    pub(super) fn read(self, tx: &mut dyn Tx) -> Result<Vec<u8>> {
        match self {
            Element::Here(bytes) => Ok(bytes.to_vec()),
            Element::Blob(blob) => blob.read(tx),
        }
    }

    /// Whether it has these bytes.
    pub(super) fn is(self, tx: &mut dyn Tx, bytes: &[u8]) -> Result<bool> {
        match self {
            Element::Here(own) => Ok(own == bytes),
            // A short one would be here.
            Element::Blob(blob) => Ok(bytes.len() > LONG && blob.equals(tx, bytes)?),
        }
    }

    /// Frees what it has outside of the chunk.
    pub(super) fn free(self, tx: &mut dyn Tx) -> Result<()> {
        match self {
            Element::Here(_) => Ok(()),
            Element::Blob(blob) => blob.free(tx),
        }
    }
}

/// The bytes of an element in a chunk. A long one gets its blob.
pub(super) fn encode(tx: &mut dyn Tx, value: &[u8]) -> Result<Vec<u8>> {
    if value.len() <= LONG {
        return Ok(with_lengths(value.len(), value));
    }
    let blob = Blob::create(tx, Purpose::Value, value)?;
    Ok(with_lengths(BLOB, &blob.at().to_le_bytes()))
}

fn with_lengths(length: usize, bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len() + 4);
    let (high, low) = (0x80 | (length >> 8) as u8, length as u8);
    if length < 0x80 {
        all.push(low);
        all.extend_from_slice(bytes);
        all.push(low);
    } else {
        all.extend_from_slice(&[high, low]);
        all.extend_from_slice(bytes);
        all.extend_from_slice(&[low, high]);
    }
    all
}

/// A length from its first byte, or last, and the one beside it; how many bytes it takes.
fn length(outer: u8, inner: u8) -> (usize, usize) {
    match outer {
        0..0x80 => (outer.into(), 1),
        _ => (usize::from(outer & 0x7F) << 8 | usize::from(inner), 2),
    }
}

/// Bytes of an element with this length, both lengths included.
fn whole((length, lengths): (usize, usize)) -> usize {
    2 * lengths + if length == BLOB { 8 } else { length }
}

/// The element that begins at `at`, and where it ends.
fn element(bytes: &[u8], at: usize) -> Option<(Element<'_>, usize)> {
    let found = length(*bytes.get(at)?, *bytes.get(at + 1)?);
    let (own, lengths) = found;
    let end = at + whole(found);
    let data = bytes.get(at + lengths..end.checked_sub(lengths)?)?;
    let backwards = length(*bytes.get(end.checked_sub(1)?)?, *bytes.get(end.checked_sub(2)?)?);
    let is_canonical = (lengths == 2) == (own >= 0x80) && (own <= LONG || own == BLOB);
    if backwards != found || !is_canonical {
        return None;
    }
    let element = match own {
        BLOB => Element::Blob(Blob::new(u64::from_le_bytes(data.try_into().ok()?))),
        _ => Element::Here(data),
    };
    Some((element, end))
}

/// Elements in bytes, each with its place; they end early where the bytes are damaged.
pub(super) fn elements(bytes: &[u8]) -> impl Iterator<Item = (Element<'_>, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let (element, end) = element(bytes, start)?;
        at = end;
        Some((element, start..end))
    })
}

/// A chunk's words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) at: u64,
    pub(super) count: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) before: u64,
    pub(super) after: u64,
}

const fn damaged(at: u64) -> Error {
    Error::corrupt("a chunk of a list", at)
}

impl Chunk {
    pub(super) fn load<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Self> {
        let mut words = [0; 3];
        tx.read_words(at, &mut words).map_err(Error::in_pool)?;
        let [head, before, after] = words;
        let part = |shift: u32, bits: u32| (head >> shift & ((1 << bits) - 1)) as usize;
        let (count, end, start) = (part(40, 16), part(20, 20), part(0, 20));
        let chunk = Chunk { at, count, start, end, before, after };
        let is_whole = head >> 56 == TAG && HEADER <= start && start <= end && end <= 2 * LARGEST;
        if !is_whole || 2 * count > end - start || (count == 0) != (start == end) {
            return Err(damaged(at));
        }
        Ok(chunk)
    }

    fn head(&self) -> u64 {
        TAG << 56 | (self.count as u64) << 40 | (self.end as u64) << 20 | self.start as u64
    }

    /// Writes its first word.
    pub(super) fn write_head(&self, tx: &mut dyn Tx) -> Result<()> {
        tx.write_word(self.at, self.head())
    }

    pub(super) fn write_before(&mut self, tx: &mut dyn Tx, before: u64) -> Result<()> {
        self.before = before;
        tx.write_word(self.at + BEFORE, before)
    }

    pub(super) fn write_after(&mut self, tx: &mut dyn Tx, after: u64) -> Result<()> {
        self.after = after;
        tx.write_word(self.at + AFTER, after)
    }

    /// Bytes of its elements.
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The bytes of its elements, all of them whole.
    pub(super) fn read(&self, tx: &mut dyn Tx) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len()];
        tx.read_bytes(self.at + self.start as u64, &mut bytes).map_err(Error::in_pool)?;
        let walk = |(count, _), (_, place): (Element<'_>, Range<usize>)| (count + 1, place.end);
        if elements(&bytes).fold((0, 0), walk) != (self.count, bytes.len()) {
            return Err(damaged(self.at));
        }
        Ok(bytes)
    }

    /// The bytes of the element at an end.
    pub(super) fn outermost(&self, tx: &mut dyn Tx, end: End) -> Result<Vec<u8>> {
        let mut lengths = [0; 2];
        let from = if end == End::Left { self.start } else { self.end.saturating_sub(2) };
        tx.read_bytes(self.at + from as u64, &mut lengths).map_err(Error::in_pool)?;
        let [first, second] = lengths;
        let found = if end == End::Left { length(first, second) } else { length(second, first) };
        let whole = whole(found);
        if whole > self.len() {
            return Err(damaged(self.at));
        }
        let from = if end == End::Left { self.start } else { self.end - whole };
        let mut bytes = vec![0; whole];
        tx.read_bytes(self.at + from as u64, &mut bytes).map_err(Error::in_pool)?;
        match element(&bytes, 0) {
            Some((_, end)) if end == whole => Ok(bytes),
            _ => Err(damaged(self.at)),
        }
    }

    /// Adds an element at an end, if there is room for it.
    pub(super) fn push(&mut self, tx: &mut dyn Tx, end: End, element: &[u8]) -> Result<bool> {
        let room = tx.usable(self.at)? as usize;
        if self.end > room {
            return Err(damaged(self.at));
        }
        if self.count == 0 {
            let room = room.min(LARGEST);
            let at = if end == End::Left { room } else { HEADER };
            (self.start, self.end) = (at, at);
        }
        match end {
            End::Left if element.len() <= self.start - HEADER => self.start -= element.len(),
            End::Right if self.end + element.len() <= room => self.end += element.len(),
            End::Left | End::Right => return Ok(false),
        }
        let from = if end == End::Left { self.start } else { self.end - element.len() };
        tx.write_bytes(self.at + from as u64, element)?;
        self.count += 1;
        self.write_head(tx).map(|()| true)
    }

    /// Takes `len` bytes, of `count` elements, from an end.
    pub(super) fn cut(
        &mut self,
        tx: &mut dyn Tx,
        end: End,
        len: usize,
        count: usize,
    ) -> Result<()> {
        match end {
            End::Left => self.start += len,
            End::Right => self.end -= len,
        }
        self.count -= count;
        if self.count == 0 {
            (self.start, self.end) = (HEADER, HEADER);
        }
        self.write_head(tx)
    }

    /// A new one of these elements, with `room` bytes at least, that grows at `end`.
    pub(super) fn create(
        tx: &mut dyn Tx,
        (bytes, count): (&[u8], usize),
        end: End,
        room: usize,
        [before, after]: [u64; 2],
    ) -> Result<Self> {
        let room = room.clamp(SMALLEST, LARGEST).max(HEADER + bytes.len());
        let block = tx.allocate(Purpose::Value, room as u64)?;
        let start = if end == End::Left { room - bytes.len() } else { HEADER };
        let (at, end) = (block.at(), start + bytes.len());
        let chunk = Chunk { at, count, start, end, before, after };
        tx.write_fresh(block, 0, bytemuck::bytes_of(&[chunk.head(), before, after]))?;
        write_fresh(tx, block, start, bytes)?;
        Ok(chunk)
    }

    /// Replaces all elements, `old`, if there is room for the new ones. Writes those bytes that differ.
    pub(super) fn rewrite(
        &mut self,
        tx: &mut dyn Tx,
        old: &[u8],
        (new, count): (&[u8], usize),
    ) -> Result<bool> {
        let room = tx.usable(self.at)? as usize;
        if HEADER + new.len() > room {
            return Ok(false);
        }
        let stays = self.start + new.len() <= room;
        let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let same = if stays { same } else { 0 };
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new);
        let tail =
            if stays && old.len() == new.len() { tail.count().min(new.len() - same) } else { 0 };
        if !stays {
            self.start = HEADER;
        }
        let changed = &new[same..new.len() - tail];
        if !changed.is_empty() {
            tx.write_bytes(self.at + (self.start + same) as u64, changed)?;
        }
        (self.end, self.count) = (self.start + new.len(), count);
        self.write_head(tx).map(|()| true)
    }

    /// Frees it and the blobs of its elements. Returns the number of those.
    pub(super) fn free(self, tx: &mut dyn Tx) -> Result<u64> {
        let bytes = self.read(tx)?;
        let mut blobs = 0;
        for (element, _) in elements(&bytes) {
            element.free(tx)?;
            blobs += u64::from(matches!(element, Element::Blob(_)));
        }
        tx.free(self.at)?;
        Ok(blobs)
    }

    /// The blobs of its elements, each with its offset's place in the pool.
    pub(super) fn blobs(&self, tx: &mut dyn Tx) -> Result<Vec<(Blob, u64)>> {
        let bytes = self.read(tx)?;
        let start = self.at + self.start as u64;
        let blobs = elements(&bytes).filter_map(|(element, place)| match element {
            // After a length of two bytes.
            Element::Blob(blob) => Some((blob, start + place.start as u64 + 2)),
            Element::Here(_) => None,
        });
        Ok(blobs.collect())
    }
}

/// Fills fresh memory from any byte on; the bytes before it in the same word become zero.
fn write_fresh(tx: &mut dyn Tx, block: Fresh, from: usize, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let skip = from % 8;
    if skip == 0 {
        return tx.write_fresh(block, from as u64, bytes);
    }
    let mut aligned = vec![0; skip];
    aligned.extend_from_slice(bytes);
    tx.write_fresh(block, (from - skip) as u64, &aligned)
}
