//! Adding and removing entries.

use super::super::chunk::{self, Chunk, End, HEADER, elements};
use super::super::image::LARGEST;
use super::super::{Database, garbage};
use super::{Id, Index, Stream, entry, miscounted, outer_id};
use perdura::{Error, Result, Tx};

/// Which entries are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// The first ones, if there are more than so many.
    Beyond(u64),
    /// Those with lesser IDs.
    Before(Id),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trim {
    pub(crate) excess: Excess,
    /// Whether only whole chunks are removed.
    pub(crate) approximate: bool,
    /// Entries that are removed at most; 0 for any number.
    pub(crate) limit: u64,
}

/// Chunks that are taken out of the index one by one, however few are left.
const MANY_CHUNKS: u64 = 8;

impl Stream {
    /// Adds an entry, whose ID is greater than the last one; `texts` are fields and values by turns. A chunk gets at most
    /// `most` entries.
    pub(crate) fn append<'t>(
        &mut self,
        tx: &mut dyn Tx,
        id: Id,
        texts: impl ExactSizeIterator<Item = &'t [u8]>,
        most: u64,
    ) -> Result<()> {
        let element = chunk::encode(tx, &entry::encode(id, texts))?;
        self.len += 1;
        self.added = self.added.saturating_add(1);
        self.last = id;
        if self.tail == 0 {
            let room = HEADER + element.len();
            let new = Chunk::create(tx, (&element, 1), End::Right, room, [0, 0])?;
            (self.first, self.tail) = (new.at, new.at);
            return Ok(());
        }
        let mut last = Chunk::load(tx, self.tail)?;
        let has_place = (last.count as u64) < most;
        if has_place && last.push(tx, End::Right, &element)? {
            return Ok(());
        }
        let is_small = self.first == self.tail && self.index == 0;
        if has_place && is_small && HEADER + last.len() + element.len() <= LARGEST {
            let mut bytes = last.read(tx)?;
            bytes.extend_from_slice(&element);
            let room = 2 * (HEADER + bytes.len());
            let new = Chunk::create(tx, (&bytes, last.count + 1), End::Right, room, [0, 0])?;
            tx.free(last.at)?;
            (self.first, self.tail) = (new.at, new.at);
            return Ok(());
        }
        let index = match self.index {
            0 => {
                let index = Index::create(tx)?;
                let first = outer_id(tx, &last, End::Left)?;
                index.set(tx, first, last.at)?;
                self.index = index.at();
                index
            }
            index => Index::new(index),
        };
        let new = Chunk::create(tx, (&element, 1), End::Right, LARGEST, [last.at, 0])?;
        last.write_after(tx, new.at)?;
        index.set(tx, id, new.at)?;
        self.tail = new.at;
        Ok(())
    }

    /// Removes an entry. Returns whether it was there.
    pub(crate) fn remove(&mut self, tx: &mut dyn Tx, id: Id) -> Result<bool> {
        let (key, at) = self.chunk_of(tx, id)?;
        if at == 0 {
            return Ok(false);
        }
        let mut chunk = Chunk::load(tx, at)?;
        let old = chunk.read(tx)?;
        let mut found = None;
        for (number, (element, place)) in elements(&old).enumerate() {
            let own = entry::id_of(tx, element, at)?;
            if own >= id {
                found = (own == id).then_some((number, element, place));
                break;
            }
        }
        let Some((number, element, place)) = found else { return Ok(false) };
        element.free(tx)?;
        self.len = self.len.checked_sub(1).ok_or_else(|| miscounted(self.at))?;
        match number {
            _ if chunk.count == 1 => self.remove_chunk(tx, key, &chunk)?,
            0 => chunk.cut(tx, End::Left, place.len(), 1)?,
            last if last + 1 == chunk.count => chunk.cut(tx, End::Right, place.len(), 1)?,
            _ => {
                let (mut new, count) = (old.clone(), chunk.count - 1);
                new.drain(place);
                // It is shorter, so that there is room for it.
                chunk.rewrite(tx, &old, (&new, count))?;
            }
        }
        Ok(true)
    }

    /// Takes a chunk, which is empty, out of the chain, and frees it.
    fn remove_chunk(&mut self, tx: &mut dyn Tx, key: Id, chunk: &Chunk) -> Result<()> {
        match chunk.before {
            0 => self.first = chunk.after,
            before => Chunk::load(tx, before)?.write_after(tx, chunk.after)?,
        }
        match chunk.after {
            0 => self.tail = chunk.before,
            after => Chunk::load(tx, after)?.write_before(tx, chunk.before)?,
        }
        if self.index != 0 {
            let index = Index::new(self.index);
            if self.first == 0 {
                index.destroy(tx)?;
                self.index = 0;
            } else {
                // With one chunk left, its ID was not looked up.
                let (key, _) = match index.slot(tx, key)? {
                    Some(_) => (key, 0),
                    None => index.cursor(tx, ..=key)?.at_end().prev(tx)?.unwrap_or((key, 0)),
                };
                index.remove(tx, key)?;
            }
        }
        tx.free(chunk.at)
    }

    /// Removes entries from the beginning on, as `trim` says. Returns their number. Chunks that are removed as a whole are
    /// freed later, if there are many.
    pub(crate) fn trim(&mut self, tx: &mut dyn Tx, db: Database, trim: Trim) -> Result<u64> {
        let (mut removed, mut chunks) = (0, 0);
        let (mut at, mut last_removed) = (self.first, None);
        let goes_on = |len: u64| match trim.excess {
            Excess::Beyond(most) => len > most,
            Excess::Before(_) => true,
        };
        while at != 0 && goes_on(self.len) {
            let chunk = Chunk::load(tx, at)?;
            let count = chunk.count as u64;
            if count == 0 || count > self.len {
                return Err(miscounted(self.at));
            }
            if trim.limit > 0 && removed + count > trim.limit {
                break;
            }
            let whole = match trim.excess {
                Excess::Beyond(most) => self.len - count >= most,
                Excess::Before(id) => outer_id(tx, &chunk, End::Right)? < id,
            };
            if !whole {
                if !trim.approximate {
                    removed += self.trim_chunk(tx, chunk, trim.excess)?;
                }
                break;
            }
            self.len -= count;
            removed += count;
            chunks += 1;
            last_removed = Some(chunk);
            at = chunk.after;
        }
        if let Some(mut last) = last_removed {
            let first = std::mem::replace(&mut self.first, at);
            match at {
                0 => self.tail = 0,
                at => Chunk::load(tx, at)?.write_before(tx, 0)?,
            }
            last.write_after(tx, 0)?;
            self.unindex(tx, db, chunks)?;
            garbage::discard_chunks(tx, db, first, chunks)?;
        }
        Ok(removed)
    }

    /// Removes entries from the beginning of a chunk, some of which stay. Returns how many.
    fn trim_chunk(&mut self, tx: &mut dyn Tx, chunk: Chunk, excess: Excess) -> Result<u64> {
        let (mut chunk, bytes) = (chunk, chunk.read(tx)?);
        let (mut gone, mut end) = (0, 0);
        for (element, place) in elements(&bytes) {
            let goes = match excess {
                Excess::Beyond(most) => self.len - gone > most,
                Excess::Before(id) => entry::id_of(tx, element, chunk.at)? < id,
            };
            if !goes {
                break;
            }
            element.free(tx)?;
            (gone, end) = (gone + 1, place.end);
        }
        if gone >= chunk.count as u64 {
            return Err(miscounted(self.at));
        }
        if gone > 0 {
            chunk.cut(tx, End::Left, end, gone as usize)?;
            self.len -= gone;
        }
        Ok(gone)
    }

    /// Removes the first `chunks` chunks, which are out of the chain already, from the index.
    fn unindex(&mut self, tx: &mut dyn Tx, db: Database, chunks: u64) -> Result<()> {
        if self.index == 0 {
            return Ok(());
        }
        let index = Index::new(self.index);
        if self.first == 0 {
            self.index = 0;
            return garbage::discard_index(tx, db, index.at());
        }
        let left = index.len(tx)?.checked_sub(chunks).ok_or_else(|| miscounted(self.at))?;
        if chunks > MANY_CHUNKS && chunks >= left {
            // To keep the rest is less.
            let before = tx.point();
            match self.index_rest(tx, left) {
                // Deleting goes on in a full pool.
                Err(error) if error.is_full() => tx.undo_to(before)?,
                new => {
                    self.index = new?;
                    return garbage::discard_index(tx, db, index.at());
                }
            }
        }
        for _ in 0..chunks {
            let Some((key, _)) = index.first(tx)? else { return Err(miscounted(self.at)) };
            index.remove(tx, key)?;
        }
        Ok(())
    }

    /// A new index of the chunks, of which there are `left`.
    fn index_rest(&self, tx: &mut dyn Tx, left: u64) -> Result<u64> {
        let (new, mut at) = (Index::create(tx)?, self.first);
        for _ in 0..left {
            let chunk = Chunk::load(tx, at).map_err(|_| miscounted(self.at))?;
            let key = outer_id(tx, &chunk, End::Left)?;
            new.set(tx, key, at)?;
            at = chunk.after;
        }
        if at == 0 { Ok(new.at()) } else { Err(miscounted(self.at)) }
    }
}

/// The error of IDs that do not rise.
pub(super) const fn unordered(at: u64) -> Error {
    Error::corrupt("a stream whose entries are not in order", at)
}
