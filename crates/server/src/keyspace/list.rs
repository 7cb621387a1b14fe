//! Lists: a small one is a [`Chunk`], a larger one a chain of them behind a header.
//!
//! The header's words: `0x115D << 48`, the number of elements, the first chunk and the last. No chunk of a list is empty;
//! a list that is empty is no key. What is changed in the middle is in `list_change.rs`.

use super::chunk::{Chunk, Element, End, HEADER, elements, encode};
use super::entry::{Entry, Form, Kind};
use super::image::LARGEST;
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Tx};

const TAG: u64 = 0x115D << 48;
/// Elements that a pool has room for, by far.
const LEN_MAX: u64 = 1 << 56;
/// Offsets of the header's words.
const LEN: u64 = 8;
pub(super) const FIRST: u64 = 16;

/// A list that was looked up, or a new one. Changes must be [saved](List::save).
pub(crate) struct List {
    /// Where its header is; 0 if it is one chunk.
    header: u64,
    /// The header's words as they are stored.
    stored: [u64; 3],
    pub(super) len: u64,
    /// Its chunks at the ends; 0 for a new list.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// Called with an element in a transaction; false ends the walk.
pub(crate) type EachItem<'a, E> = dyn FnMut(&mut dyn Tx, Item<'_>) -> Result<bool, E> + 'a;

/// An element's chunk, and how many others of that chunk are before it.
pub(super) type Located = (Chunk, usize);

impl List {
    /// The list of an entry; an empty one if there is none.
    pub(crate) fn load(tx: &mut dyn Tx, entry: Option<Entry>) -> Result<Self> {
        let Some(entry) = entry else {
            return Ok(List { header: 0, stored: [0; 3], len: 0, first: 0, last: 0 });
        };
        let at = entry.at();
        if entry.form() == Form::Chunk {
            let len = Chunk::load(tx, at)?.count as u64;
            if len == 0 {
                return Err(Error::corrupt("an empty list", at));
            }
            return Ok(List { header: 0, stored: [0; 3], len, first: at, last: at });
        }
        let mut words = [0; 4];
        tx.read_words(at, &mut words).map_err(Error::in_pool)?;
        let [tag, len, first, last] = words;
        if tag != TAG || len == 0 || len > LEN_MAX {
            return Err(Error::corrupt("a list's header", at));
        }
        Ok(List { header: at, stored: [len, first, last], len, first, last })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn is_small(&self) -> bool {
        self.header == 0
    }

    /// Writes changes back. Returns the list's new entry, which never expires.
    pub(crate) fn save(mut self, tx: &mut dyn Tx) -> Result<Entry> {
        if self.header != 0 && self.first == self.last && self.len > 0 {
            let chunk = Chunk::load(tx, self.first)?;
            // Well below the bytes from which on it has a header, so that it does not change to and fro.
            if chunk.len() <= LARGEST / 4 {
                tx.free(self.header)?;
                self.header = 0;
                let bytes = chunk.read(tx)?;
                self.regrow(tx, chunk, (&bytes, chunk.count), End::Right)?;
            }
        }
        if self.header == 0 {
            return Ok(Entry::outside(Kind::List, Form::Chunk, self.first));
        }
        self.save_ends(tx)?;
        Ok(Entry::outside(Kind::List, Form::Chain, self.header))
    }

    /// Writes the words of its header that have changed; it has one.
    pub(super) fn save_ends(&self, tx: &mut dyn Tx) -> Result<()> {
        let words = [self.len, self.first, self.last];
        for (index, (new, old)) in words.into_iter().zip(self.stored).enumerate() {
            if new != old {
                tx.write_word(self.header + LEN + 8 * index as u64, new)?;
            }
        }
        Ok(())
    }

    /// Gives it a header.
    pub(super) fn enlarge(&mut self, tx: &mut dyn Tx) -> Result<()> {
        if self.header == 0 {
            self.stored = [self.len, self.first, self.last];
            self.header = new_header(tx, self.stored)?;
        }
        Ok(())
    }

    /// Moves the only chunk to a new block with these elements and room to grow at `end`.
    pub(super) fn regrow(
        &mut self,
        tx: &mut dyn Tx,
        chunk: Chunk,
        (bytes, count): (&[u8], usize),
        end: End,
    ) -> Result<()> {
        let room = 2 * (HEADER + bytes.len());
        let new = Chunk::create(tx, (bytes, count), end, room, [0, 0])?;
        tx.free(chunk.at)?;
        (self.first, self.last) = (new.at, new.at);
        Ok(())
    }

    fn at_end(&self, end: End) -> u64 {
        if end == End::Left { self.first } else { self.last }
    }

    /// Adds an element at an end.
    pub(crate) fn push(&mut self, tx: &mut dyn Tx, end: End, value: &[u8]) -> Result<()> {
        let element = encode(tx, value)?;
        self.len += 1;
        if self.first == 0 {
            let room = HEADER + element.len();
            let new = Chunk::create(tx, (&element, 1), end, room, [0, 0])?;
            (self.first, self.last) = (new.at, new.at);
            return Ok(());
        }
        let mut chunk = Chunk::load(tx, self.at_end(end))?;
        if chunk.push(tx, end, &element)? {
            return Ok(());
        }
        if self.is_small() && HEADER + chunk.len() + element.len() <= LARGEST {
            let mut bytes = chunk.read(tx)?;
            let place = if end == End::Left { 0 } else { bytes.len() };
            bytes.splice(place..place, element);
            return self.regrow(tx, chunk, (&bytes, chunk.count + 1), end);
        }
        if chunk.count == 0 {
            return self.regrow(tx, chunk, (&element, 1), end);
        }
        self.enlarge(tx)?;
        match end {
            End::Left => {
                let new = Chunk::create(tx, (&element, 1), end, LARGEST, [0, chunk.at])?;
                chunk.write_before(tx, new.at)?;
                self.first = new.at;
            }
            End::Right => {
                let new = Chunk::create(tx, (&element, 1), end, LARGEST, [chunk.at, 0])?;
                chunk.write_after(tx, new.at)?;
                self.last = new.at;
            }
        }
        Ok(())
    }

    /// Removes the element at an end, and returns it.
    pub(crate) fn pop(&mut self, tx: &mut dyn Tx, end: End) -> Result<Option<Vec<u8>>> {
        if self.len == 0 {
            return Ok(None);
        }
        let mut chunk = Chunk::load(tx, self.at_end(end))?;
        let bytes = chunk.outermost(tx, end)?;
        let Some((element, _)) = elements(&bytes).next() else {
            return Err(Error::corrupt("an empty chunk of a list", chunk.at));
        };
        let value = element.read(tx)?;
        element.free(tx)?;
        chunk.cut(tx, end, bytes.len(), 1)?;
        self.len -= 1;
        if chunk.count == 0 && self.first != self.last {
            self.unlink(tx, &chunk)?;
            tx.free(chunk.at)?;
        }
        Ok(Some(value))
    }

    /// Takes a chunk out of the chain; it is not freed.
    pub(super) fn unlink(&mut self, tx: &mut dyn Tx, chunk: &Chunk) -> Result<()> {
        match chunk.before {
            0 => self.first = chunk.after,
            before => Chunk::load(tx, before)?.write_after(tx, chunk.after)?,
        }
        match chunk.after {
            0 => self.last = chunk.before,
            after => Chunk::load(tx, after)?.write_before(tx, chunk.before)?,
        }
        Ok(())
    }

    /// Where an element is, from the nearer end on.
    pub(super) fn locate(&self, tx: &mut dyn Tx, index: u64) -> Result<Option<Located>> {
        directly!(tx => self.locate_in(tx, index))
    }

    fn locate_in<T: Tx + ?Sized>(&self, tx: &mut T, index: u64) -> Result<Option<Located>> {
        if index >= self.len {
            return Ok(None);
        }
        let forwards = index < self.len / 2 || self.is_small();
        let mut chunk = Chunk::load(tx, if forwards { self.first } else { self.last })?;
        // How many elements are before it; backwards, from it on.
        let mut passed = 0;
        loop {
            let count = chunk.count as u64;
            if count == 0 {
                return Err(Error::corrupt("an empty chunk of a list", chunk.at));
            }
            let inside = match forwards {
                true => index - passed,
                // Negative: it is further back.
                false => (index + passed + count).wrapping_sub(self.len),
            };
            if inside < count {
                return Ok(Some((chunk, inside as usize)));
            }
            passed += count;
            chunk = self.beside(tx, &chunk, if forwards { End::Right } else { End::Left })?;
        }
    }

    /// The chunk beside one, which there must be.
    fn beside<T: Tx + ?Sized>(&self, tx: &mut T, chunk: &Chunk, end: End) -> Result<Chunk> {
        match if end == End::Left { chunk.before } else { chunk.after } {
            0 => Err(miscounted(self.header)),
            at => Chunk::load(tx, at),
        }
    }

    /// The element at an index.
    pub(crate) fn get(&self, tx: &mut dyn Tx, index: u64) -> Result<Option<Vec<u8>>> {
        let Some((chunk, inside)) = self.locate(tx, index)? else { return Ok(None) };
        let bytes = chunk.read(tx)?;
        match elements(&bytes).nth(inside) {
            Some((element, _)) => element.read(tx).map(Some),
            None => Err(Error::corrupt("a chunk of a list", chunk.at)),
        }
    }

    /// Calls `each` with the elements from an index on, to the last one or backwards to the first, until it returns
    /// false. Returns whether all were told.
    pub(crate) fn walk<E: From<Error>>(
        &self,
        tx: &mut dyn Tx,
        from: u64,
        backwards: bool,
        each: &mut EachItem<'_, E>,
    ) -> Result<bool, E> {
        let Some((mut chunk, inside)) = self.locate(tx, from)? else { return Ok(true) };
        let mut skip = if backwards { chunk.count - 1 - inside } else { inside };
        let mut left = if backwards { from + 1 } else { self.len - from };
        loop {
            let bytes = chunk.read(tx)?;
            let mut all: Vec<Element<'_>> = elements(&bytes).map(|(element, _)| element).collect();
            if backwards {
                all.reverse();
            }
            for element in all.into_iter().skip(std::mem::take(&mut skip)) {
                left = u64::checked_sub(left, 1).ok_or_else(|| miscounted(self.header))?;
                if !each(tx, Item(element))? {
                    return Ok(false);
                }
            }
            if left == 0 {
                return Ok(true);
            }
            chunk = self.beside(tx, &chunk, if backwards { End::Left } else { End::Right })?;
            if chunk.count == 0 {
                return Err(Error::corrupt("an empty chunk of a list", chunk.at).into());
            }
        }
    }

    /// Checks it, and reports its blocks.
    pub(super) fn check(&self, tx: &mut dyn Tx, visit: &mut Visit<'_>) -> Result<()> {
        if self.header != 0 {
            visit(self.header)?;
        }
        let (mut count, mut before, mut at) = (0, 0, self.first);
        while at != 0 {
            visit(at)?;
            let chunk = Chunk::load(tx, at)?;
            check_chunk(tx, &chunk, visit)?;
            if chunk.count == 0 || chunk.before != before || (self.is_small() && chunk.after != 0) {
                return Err(Error::corrupt("a chunk of a list", at));
            }
            count += chunk.count as u64;
            (before, at) = (at, chunk.after);
        }
        if count != self.len || count == 0 || before != self.last {
            return Err(Error::corrupt("a list's count, or its last chunk", self.header));
        }
        Ok(())
    }

    /// Moves some chunks, and the blobs of their elements, out of pages that are to be emptied: `most` from the one on
    /// that has `cursor` others before it. Returns the cursor to go on with; 0 at the end.
    pub(super) fn compact(&mut self, tx: &mut dyn Tx, cursor: u64, most: u64) -> Result<u64> {
        let mut at = self.first;
        for _ in 0..cursor {
            match at {
                0 => return Ok(0),
                here => at = Chunk::load(tx, here)?.after,
            }
        }
        for done in 0..most {
            if at == 0 {
                return Ok(0);
            }
            if done + cursor > self.len {
                return Err(Error::corrupt("a list's chain of chunks", self.header));
            }
            at = self.compact_chunk(tx, at)?;
        }
        Ok(if at == 0 { 0 } else { cursor + most })
    }

    /// Moves a chunk, and the blobs of its elements. Returns the chunk after it.
    fn compact_chunk(&mut self, tx: &mut dyn Tx, at: u64) -> Result<u64> {
        let chunk = Chunk::load(tx, at)?;
        for (blob, place) in chunk.blobs(tx)? {
            let moved = blob.compact(tx)?;
            if moved != blob {
                tx.write_bytes(place, &moved.at().to_le_bytes())?;
            }
        }
        let moved = perdura::collections::compact::move_block(tx, at)?;
        if moved != at {
            self.relink(tx, &Chunk { at: moved, ..chunk })?;
        }
        Ok(chunk.after)
    }

    /// Points the neighbours of a chunk, or the list, to where the chunk is now.
    pub(super) fn relink(&mut self, tx: &mut dyn Tx, chunk: &Chunk) -> Result<()> {
        match chunk.before {
            0 => self.first = chunk.at,
            before => Chunk::load(tx, before)?.write_after(tx, chunk.at)?,
        }
        match chunk.after {
            0 => self.last = chunk.at,
            after => Chunk::load(tx, after)?.write_before(tx, chunk.at)?,
        }
        Ok(())
    }

    /// Reports its blocks, or those of its first `most` elements and some more. Returns how many elements these are.
    pub(super) fn visit(&self, tx: &mut dyn Tx, most: u64, visit: &mut Visit<'_>) -> Result<u64> {
        if self.header != 0 {
            visit(self.header)?;
        }
        let (mut at, mut count) = (self.first, 0);
        while at != 0 && count < most.min(self.len) {
            let chunk = Chunk::load(tx, at)?;
            visit(at)?;
            for (blob, _) in chunk.blobs(tx)? {
                blob.check(tx, visit)?;
            }
            count += chunk.count.max(1) as u64;
            at = chunk.after;
        }
        Ok(count)
    }
}

/// The error of a chain of chunks that is not as its list counts.
pub(super) const fn miscounted(at: u64) -> Error {
    Error::corrupt("a list whose chunks have other elements than it counts", at)
}

/// An element of a list.
pub(crate) struct Item<'a>(Element<'a>);

impl Item<'_> {
    /// Its bytes.
    pub(crate) fn read(&self, tx: &mut dyn Tx) -> Result<Vec<u8>> {
        self.0.read(tx)
    }

    /// Whether it has these bytes.
    pub(crate) fn is(&self, tx: &mut dyn Tx, bytes: &[u8]) -> Result<bool> {
        self.0.is(tx, bytes)
    }
}

/// A header of a list, or of chunks that are to be freed.
pub(super) fn new_header(tx: &mut dyn Tx, [len, first, last]: [u64; 3]) -> Result<u64> {
    let new = tx.allocate(Purpose::General, 32)?;
    tx.write_fresh(new, 0, bytemuck::bytes_of(&[TAG, len, first, last]))?;
    Ok(new.at())
}

/// Checks a chunk's elements, and reports their blobs' blocks.
pub(super) fn check_chunk(tx: &mut dyn Tx, chunk: &Chunk, visit: &mut Visit<'_>) -> Result<()> {
    if chunk.end as u64 > tx.usable(chunk.at)? {
        return Err(Error::corrupt("a chunk of a list that is longer than its block", chunk.at));
    }
    for (blob, _) in chunk.blobs(tx)? {
        blob.check(tx, visit)?;
    }
    Ok(())
}

/// Frees the chunks of a header, about `budget` of them and of their blobs, and then the header. Returns whether all of it
/// is gone.
pub(super) fn sweep(tx: &mut dyn Tx, header: u64, budget: u64) -> Result<bool> {
    let mut left = budget;
    loop {
        let at = tx.read_word(header + FIRST)?;
        if at == 0 {
            return tx.free(header).map(|()| true);
        }
        if left == 0 {
            return Ok(false);
        }
        let chunk = Chunk::load(tx, at)?;
        let blobs = chunk.free(tx)?;
        left = left.saturating_sub(1 + blobs);
        tx.write_word(header + FIRST, chunk.after)?;
    }
}

/// As [`List::check`], for what [`sweep`] has left.
pub(super) fn check_swept(tx: &mut dyn Tx, header: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(header)?;
    if tx.read_word(header)? != TAG {
        return Err(Error::corrupt("a list's header", header));
    }
    let mut at = tx.read_word(header + FIRST)?;
    while at != 0 {
        visit(at)?;
        let chunk = Chunk::load(tx, at)?;
        check_chunk(tx, &chunk, visit)?;
        at = chunk.after;
    }
    Ok(())
}
