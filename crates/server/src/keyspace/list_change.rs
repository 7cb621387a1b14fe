//! Changes in the middle of lists, and of many elements at once.
//!
//! A chunk that gets too many bytes is split in two; one that has few left joins the one before it.

use super::chunk::{Chunk, End, HEADER, elements, encode};
use super::image::LARGEST;
use super::list::{List, miscounted};
use super::{Database, garbage};
use perdura::{Error, Result, Tx};

/// Bytes of a chunk from which down it joins the one before it.
const FEW: usize = LARGEST / 8;

impl List {
    /// Replaces the element at an index. Whether there is one.
    pub(crate) fn set(&mut self, tx: &mut dyn Tx, index: u64, value: &[u8]) -> Result<bool> {
        let Some((chunk, inside)) = self.locate(tx, index)? else { return Ok(false) };
        let old = chunk.read(tx)?;
        let Some((element, place)) = elements(&old).nth(inside) else {
            return Err(Error::corrupt("a chunk of a list", chunk.at));
        };
        element.free(tx)?;
        let mut new = old.clone();
        new.splice(place, encode(tx, value)?);
        self.replace(tx, chunk, &old, (&new, chunk.count))?;
        Ok(true)
    }

    /// Inserts an element before or after the first one that equals `pivot`. Whether there is one.
    pub(crate) fn insert(
        &mut self,
        tx: &mut dyn Tx,
        pivot: &[u8],
        after: bool,
        value: &[u8],
    ) -> Result<bool> {
        let (mut at, mut passed) = (self.first, 0);
        while at != 0 {
            let chunk = Chunk::load(tx, at)?;
            self.pass(&mut passed, &chunk)?;
            let old = chunk.read(tx)?;
            for (element, place) in elements(&old) {
                if element.is(tx, pivot)? {
                    let here = if after { place.end } else { place.start };
                    let mut new = old.clone();
                    new.splice(here..here, encode(tx, value)?);
                    self.len += 1;
                    self.replace(tx, chunk, &old, (&new, chunk.count + 1))?;
                    return Ok(true);
                }
            }
            at = chunk.after;
        }
        Ok(false)
    }

    /// Removes at most `most` elements that equal `value`, from an end on. Returns their number.
    pub(crate) fn remove(
        &mut self,
        tx: &mut dyn Tx,
        value: &[u8],
        from: End,
        most: u64,
    ) -> Result<u64> {
        let mut at = if from == End::Left { self.first } else { self.last };
        let (mut removed, mut passed, len) = (0, 0, self.len);
        while at != 0 && removed < most {
            let chunk = Chunk::load(tx, at)?;
            self.pass(&mut passed, &chunk)?;
            let old = chunk.read(tx)?;
            let mut all: Vec<_> = elements(&old).collect();
            if from == End::Right {
                all.reverse();
            }
            let mut gone = Vec::new();
            for (element, place) in all {
                if removed < most && element.is(tx, value)? {
                    element.free(tx)?;
                    gone.push(place);
                    removed += 1;
                }
            }
            at = if from == End::Left { chunk.after } else { chunk.before };
            if gone.is_empty() {
                continue;
            }
            gone.sort_by_key(|place| place.start);
            let mut new = old.clone();
            gone.iter().rev().for_each(|place| drop(new.splice(place.clone(), [])));
            self.replace(tx, chunk, &old, (&new, chunk.count - gone.len()))?;
        }
        self.len = len.checked_sub(removed).ok_or_else(|| miscounted(self.first))?;
        Ok(removed)
    }

    /// Removes elements from an end, fewer than all.
    pub(crate) fn cut(
        &mut self,
        tx: &mut dyn Tx,
        db: Database,
        end: End,
        count: u64,
    ) -> Result<()> {
        let (mut left, mut chunks, mut innermost) = (count, 0, None);
        let mut chunk = Chunk::load(tx, if end == End::Left { self.first } else { self.last })?;
        self.len -= count;
        // Whole chunks are taken off as a chain, and freed now or later.
        let outermost = chunk;
        while left >= chunk.count as u64 && left > 0 {
            left -= chunk.count as u64;
            chunks += 1;
            innermost = Some(chunk);
            let inner = if end == End::Left { chunk.after } else { chunk.before };
            if inner == 0 || chunk.count == 0 {
                return Err(miscounted(chunk.at));
            }
            chunk = Chunk::load(tx, inner)?;
        }
        if let Some(mut innermost) = innermost {
            let first = match end {
                End::Left => {
                    innermost.write_after(tx, 0)?;
                    chunk.write_before(tx, 0)?;
                    self.first = chunk.at;
                    outermost
                }
                End::Right => {
                    chunk.write_after(tx, 0)?;
                    self.last = chunk.at;
                    innermost
                }
            };
            garbage::discard_chunks(tx, db, first.at, chunks)?;
        }
        if left > 0 {
            let bytes = chunk.read(tx)?;
            let mut all: Vec<_> = elements(&bytes).collect();
            if end == End::Right {
                all.reverse();
            }
            let mut len = 0;
            for (element, place) in all.into_iter().take(left as usize) {
                element.free(tx)?;
                len += place.len();
            }
            chunk.cut(tx, end, len, left as usize)?;
        }
        Ok(())
    }

    /// A walk has come to another chunk: a chain in circles, or of empty chunks, is damage.
    fn pass(&self, passed: &mut u64, chunk: &Chunk) -> Result<()> {
        // Elements that have joined the chunk before theirs are passed once more.
        *passed += chunk.count as u64;
        let is_empty = chunk.count == 0 && self.len > 0;
        if is_empty || *passed > 2 * self.len { Err(miscounted(chunk.at)) } else { Ok(()) }
    }

    /// Replaces the elements of a chunk, `old`, by others.
    fn replace(
        &mut self,
        tx: &mut dyn Tx,
        mut chunk: Chunk,
        old: &[u8],
        (new, count): (&[u8], usize),
    ) -> Result<()> {
        if count == 0 && self.first != self.last {
            self.unlink(tx, &chunk)?;
            return tx.free(chunk.at);
        }
        if new.len() < old.len() && new.len() <= FEW && self.joins(tx, &chunk, (new, count))? {
            return Ok(());
        }
        if chunk.rewrite(tx, old, (new, count))? {
            return Ok(());
        }
        if self.is_small() && HEADER + new.len() <= LARGEST {
            return self.regrow(tx, chunk, (new, count), End::Right);
        }
        self.enlarge(tx)?;
        self.split(tx, chunk, old, new)
    }

    /// Moves the elements that are left of a chunk to the end of the one before it, if there is room.
    fn joins(
        &mut self,
        tx: &mut dyn Tx,
        chunk: &Chunk,
        (bytes, count): (&[u8], usize),
    ) -> Result<bool> {
        if chunk.before == 0 {
            return Ok(false);
        }
        let mut before = Chunk::load(tx, chunk.before)?;
        if (before.end + bytes.len()) as u64 > tx.usable(before.at)? {
            return Ok(false);
        }
        tx.write_bytes(before.at + before.end as u64, bytes)?;
        before.end += bytes.len();
        before.count += count;
        before.write_head(tx)?;
        self.unlink(tx, chunk)?;
        tx.free(chunk.at)?;
        Ok(true)
    }

    /// Replaces a chunk by two, each with about half of the bytes.
    fn split(&mut self, tx: &mut dyn Tx, mut chunk: Chunk, old: &[u8], new: &[u8]) -> Result<()> {
        let (mut middle, mut count, mut rest) = (0, 0, 0);
        for (_, place) in elements(new) {
            if place.end <= new.len() / 2 || place.start == 0 {
                (middle, count) = (place.end, count + 1);
            } else {
                rest += 1;
            }
        }
        let (first, second) = new.split_at(middle);
        if !second.is_empty() {
            let links = [chunk.at, chunk.after];
            let other = Chunk::create(tx, (second, rest), End::Right, LARGEST, links)?;
            match chunk.after {
                0 => self.last = other.at,
                after => Chunk::load(tx, after)?.write_before(tx, other.at)?,
            }
            chunk.write_after(tx, other.at)?;
        }
        if !chunk.rewrite(tx, old, (first, count))? {
            let links = [chunk.before, chunk.after];
            let moved = Chunk::create(tx, (first, count), End::Right, LARGEST, links)?;
            self.relink(tx, &moved)?;
            tx.free(chunk.at)?;
        }
        Ok(())
    }
}
