//! A byte string in a block of its own: a word with its length, then the bytes. A long one is in several blocks, its
//! pieces (`pieces.rs`).
//!
//! Short strings are overwritten in place; long ones are replaced by new blocks, whose bytes need no log.

use super::pieces::{self, NewPieces};
pub use super::tag::MAX_LEN;
use super::tag::{BlobHead, Expected};
use super::{Visit, compact, kind};
use crate::{Error, Fresh, Purpose, Result, Tx};
use std::ops::Range;

/// Offset of the bytes in the block.
const DATA: u64 = 8;
/// Up to this many bytes, logging them is cheaper than the metadata of a new block.
const IN_PLACE: u64 = 1024;
/// Spare bytes that a long string gets for appending.
const MORE: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Lengths up to here fit into one block, and are believed; longer ones are compared with the blocks' sizes first.
const TRUSTED: u64 = PAGE - DATA;
/// Bytes moved at a time: whole words.
const CHUNK: usize = 1 << 20;

/// A byte string in a block, or in several: a handle to it. [`set`](Blob::set), [`append`](Blob::append) and
/// [`resize`](Blob::resize) may move it; the handle they return takes the place of this one.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::Purpose;
/// use perdura::collections::Blob;
///
/// let text = Blob::create(tx, Purpose::Value, b"once upon")?;
/// // It may move when it grows: keep the returned place.
/// let text = text.append(tx, b" a time")?;
/// text.write_range(tx, 0, b"O")?;
/// assert_eq!(text.read(tx)?, b"Once upon a time");
/// text.free(tx)?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blob {
    at: u64,
}

/// The blocks of a string under construction.
enum NewBlob {
    Block(Fresh),
    Pieces(NewPieces),
}

impl NewBlob {
    /// Fresh blocks with room for `room` bytes, `len` of which are to be filled.
    fn with_room<T: Tx + ?Sized>(
        tx: &mut T,
        purpose: Purpose,
        len: u64,
        room: u64,
    ) -> Result<Self> {
        if room > MAX_LEN {
            return Err(Error::Invalid("a byte string of more than 2^40 bytes"));
        }
        let in_pieces = pieces::are_better(room);
        let new = if in_pieces {
            NewBlob::Pieces(pieces::create(tx, purpose, room, None)?)
        } else {
            NewBlob::Block(tx.allocate(purpose, DATA + room)?)
        };
        tx.write_fresh(new.first(), 0, &BlobHead { purpose, len, in_pieces }.word().to_le_bytes())?;
        Ok(new)
    }

    fn first(&self) -> Fresh {
        match self {
            NewBlob::Block(block) => *block,
            NewBlob::Pieces(pieces) => pieces.first(),
        }
    }

    fn blob(&self) -> Blob {
        Blob { at: self.first().at() }
    }

    /// Writes bytes of the string from `from` on, a multiple of a word.
    fn write<T: Tx + ?Sized>(&self, tx: &mut T, from: u64, bytes: &[u8]) -> Result<()> {
        match self {
            NewBlob::Block(_) if bytes.is_empty() => Ok(()),
            NewBlob::Block(block) => tx.write_fresh(*block, DATA + from, bytes),
            NewBlob::Pieces(pieces) => pieces.write(tx, from, bytes),
        }
    }

    /// Fills it with the bytes of `old`, followed by `more`.
    fn fill<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        (old, head): (Blob, BlobHead),
        more: &[u8],
    ) -> Result<()> {
        let (kept, len) = (head.len, head.len + more.len() as u64);
        let mut buffer = Vec::new();
        for from in (0..len).step_by(CHUNK) {
            buffer.clear();
            let end = (from + CHUNK as u64).min(len);
            if from < kept {
                old.extend(tx, head, from, end.min(kept) - from, &mut buffer)?;
            }
            let rest = from.max(kept).min(end) - kept.min(end);
            let count = end - from - buffer.len() as u64;
            buffer.extend_from_slice(&more[rest as usize..(rest + count) as usize]);
            self.write(tx, from, &buffer)?;
        }
        Ok(())
    }
}

impl Blob {
    /// The blob whose block is at `at`.
    pub const fn new(at: u64) -> Self {
        Blob { at }
    }

    /// The offset of its block, the first if it has several.
    pub const fn at(self) -> u64 {
        self.at
    }

    /// A new one that holds `bytes`.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<T: Tx + ?Sized>(tx: &mut T, purpose: Purpose, bytes: &[u8]) -> Result<Self> {
        let len = bytes.len() as u64;
        let new = NewBlob::with_room(tx, purpose, len, len)?;
        new.write(tx, 0, bytes)?;
        Ok(new.blob())
    }

    /// Overwrites bytes within the string's room.
    fn write_old<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        head: BlobHead,
        from: u64,
        bytes: &[u8],
    ) -> Result<()> {
        if !head.in_pieces {
            return tx.write_bytes(self.at + DATA + from, bytes);
        }
        pieces::places(tx, self.at, from, bytes.len(), &mut |tx, at, part| {
            tx.write_bytes(at, &bytes[part])
        })
    }

    /// The number of bytes.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn len<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
        Ok(self.head(tx)?.len)
    }

    /// Whether it has no bytes.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn is_empty<T: Tx + ?Sized>(self, tx: &mut T) -> Result<bool> {
        Ok(self.len(tx)? == 0)
    }

    /// All bytes.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn read<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_into(tx, &mut bytes)?;
        Ok(bytes)
    }

    /// Appends all bytes to `to`.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn read_into<T: Tx + ?Sized>(self, tx: &mut T, to: &mut Vec<u8>) -> Result<()> {
        let head = self.head(tx)?;
        self.extend(tx, head, 0, head.len, to)
    }

    /// As [`read_into`](Blob::read_into), after `before` was told the length and has appended what comes first; if it
    /// returns false, nothing is appended.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn read_into_after<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        to: &mut Vec<u8>,
        before: impl FnOnce(&mut Vec<u8>, u64) -> bool,
    ) -> Result<()> {
        let head = self.head(tx)?;
        if before(to, head.len) { self.extend(tx, head, 0, head.len, to) } else { Ok(()) }
    }

    /// Bytes `from` and on, at most `len` of them.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn read_range<T: Tx + ?Sized>(self, tx: &mut T, from: u64, len: u64) -> Result<Vec<u8>> {
        let head = self.head(tx)?;
        let from = from.min(head.len);
        let mut bytes = Vec::new();
        self.extend(tx, head, from, len.min(head.len - from), &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `to` from the first byte on; the string is known to be long enough.
    pub(super) fn copy_out<T: Tx + ?Sized>(self, tx: &mut T, to: &mut [u8]) -> Result<()> {
        let head = self.head(tx)?;
        self.read_at(tx, head, 0, to)
    }

    /// Fills `to` from the byte `from` on; the range is known to be inside.
    fn read_at<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        head: BlobHead,
        from: u64,
        to: &mut [u8],
    ) -> Result<()> {
        if !head.in_pieces {
            return tx.read_bytes(self.at + DATA + from, to);
        }
        pieces::places(tx, self.at, from, to.len(), &mut |tx, at, part| {
            tx.read_bytes(at, &mut to[part])
        })
    }

    fn extend<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        head: BlobHead,
        from: u64,
        len: u64,
        to: &mut Vec<u8>,
    ) -> Result<()> {
        let start = to.len();
        to.resize(start + len as usize, 0);
        self.read_at(tx, head, from, &mut to[start..])
    }

    /// Overwrites the bytes from `from` on.
    ///
    /// # Errors
    /// `Invalid` if the range ends behind the string's end; `Misuse` or `WrongType` if this is no blob;
    /// `ReadOnly`, `TooLarge`.
    pub fn write_range<T: Tx + ?Sized>(self, tx: &mut T, from: u64, bytes: &[u8]) -> Result<()> {
        let head = self.head(tx)?;
        if from.checked_add(bytes.len() as u64).is_none_or(|end| end > head.len) {
            return Err(Error::Invalid("a write behind the end of a byte string"));
        }
        self.write_old(tx, head, from, bytes)
    }

    /// Replaces all bytes: in place if they are few, fit, and use at least half of the block; otherwise in new blocks,
    /// and the old ones are freed. In place it writes only from the first line that differs to the last one: nothing,
    /// if the bytes are the same.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob; as [`Tx::allocate`] otherwise.
    pub fn set<T: Tx + ?Sized>(self, tx: &mut T, bytes: &[u8]) -> Result<Self> {
        let old = self.head(tx)?;
        let len = bytes.len() as u64;
        if len <= IN_PLACE && !old.in_pieces && self.suits(tx, old.len, len)? {
            if len != old.len {
                tx.write_word(self.at, BlobHead { len, ..old }.word())?;
            }
            update(tx, self.at + DATA, bytes)?;
            return Ok(self);
        }
        let new = Self::create(tx, old.purpose, bytes)?;
        self.free_as(tx, old)?;
        Ok(new)
    }

    /// Whether the block suits `len` bytes.
    fn suits<T: Tx + ?Sized>(self, tx: &mut T, old: u64, len: u64) -> Result<bool> {
        if old.next_multiple_of(8) == len.next_multiple_of(8) {
            return Ok(true);
        }
        let size = tx.usable(self.at)?;
        Ok(DATA + len <= size && (size <= 64 || (DATA + len) * 2 >= size))
    }

    /// Appends `bytes`: in place if there is room. Otherwise the room is doubled (or, from 1 MiB on, grows by 1 MiB):
    /// a string in one block moves to a new one, a string in pieces gets more pieces.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob; as [`Tx::allocate`] otherwise.
    pub fn append<T: Tx + ?Sized>(self, tx: &mut T, bytes: &[u8]) -> Result<Self> {
        let old = self.head(tx)?;
        let len = old.len.saturating_add(bytes.len() as u64);
        let new = BlobHead { len, ..old };
        if old.in_pieces {
            self.append_pieces(tx, new, old.len, bytes)?;
            return Ok(self);
        }
        if DATA + len <= tx.usable(self.at)? {
            tx.write_word(self.at, new.word())?;
            self.write_old(tx, new, old.len, bytes)?;
            return Ok(self);
        }
        let new = NewBlob::with_room(tx, old.purpose, len, len + len.min(MORE))?;
        new.fill(tx, (self, old), bytes)?;
        tx.free(self.at)?;
        Ok(new.blob())
    }

    fn append_pieces<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        new: BlobHead,
        old: u64,
        bytes: &[u8],
    ) -> Result<()> {
        if new.len > MAX_LEN {
            return Err(Error::Invalid("a byte string of more than 2^40 bytes"));
        }
        let (last, room) = pieces::walk(tx, self.at, u64::MAX, &mut |_| Ok(()))?;
        tx.write_word(self.at, new.word())?;
        let (now, more) = bytes.split_at((room.max(old) - old).min(bytes.len() as u64) as usize);
        self.write_old(tx, new, old, now)?;
        if more.is_empty() {
            return Ok(());
        }
        let wanted = (more.len() as u64).max(new.len.min(MORE));
        pieces::create(tx, new.purpose, wanted, Some(last))?.write(tx, 0, more)
    }

    /// Makes it `len` bytes long: truncated, or extended with zeros.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob; as [`Tx::allocate`] otherwise.
    pub fn resize<T: Tx + ?Sized>(self, tx: &mut T, len: u64) -> Result<Self> {
        let old = self.head(tx)?;
        if len <= old.len {
            tx.write_word(self.at, BlobHead { len, ..old }.word())?;
            return Ok(self);
        }
        if len > MAX_LEN {
            return Err(Error::Invalid("a byte string of more than 2^40 bytes"));
        }
        self.append(tx, &vec![0; (len - old.len) as usize])
    }

    /// Frees it.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn free<T: Tx + ?Sized>(self, tx: &mut T) -> Result<()> {
        // A smaller block is no first piece; most are smaller, and need not be read.
        if tx.usable(self.at)? < pieces::SMALLEST {
            return tx.free(self.at);
        }
        let head = self.head(tx)?;
        self.free_as(tx, head)
    }

    fn free_as<T: Tx + ?Sized>(self, tx: &mut T, head: BlobHead) -> Result<()> {
        if head.in_pieces { pieces::free(tx, self.at) } else { tx.free(self.at) }
    }

    /// Moves the parts of it that lie in pages to be emptied. Returns the handle that replaces this one.
    ///
    /// # Errors
    /// As [`move_block`](super::compact::move_block).
    pub fn compact<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Self> {
        let at = if tx.usable(self.at)? >= pieces::SMALLEST && self.head(tx)?.in_pieces {
            pieces::compact(tx, self.at)?
        } else {
            compact::move_block(tx, self.at)?
        };
        Ok(Blob { at })
    }

    /// Whether it equals `bytes`. Allocates nothing.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn equals<T: Tx + ?Sized>(self, tx: &mut T, bytes: &[u8]) -> Result<bool> {
        let head = self.head(tx)?;
        if head.len != bytes.len() as u64 {
            return Ok(false);
        }
        if !head.in_pieces {
            return same(tx, self.at + DATA, bytes);
        }
        let mut all = true;
        pieces::places(tx, self.at, 0, bytes.len(), &mut |tx, at, part| {
            all = all && same(tx, at, &bytes[part])?;
            Ok(())
        })?;
        Ok(all)
    }

    /// Checks it, and reports its blocks.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; the errors of `visit`.
    pub fn check<T: Tx + ?Sized>(self, tx: &mut T, visit: &mut Visit<'_>) -> Result<()> {
        let head = self.head(tx)?;
        let room = if head.in_pieces {
            pieces::walk(tx, self.at, u64::MAX, visit)?.1
        } else {
            visit(self.at)?;
            tx.usable(self.at)?.saturating_sub(DATA)
        };
        if head.len > room { Err(self.too_long()) } else { Ok(()) }
    }

    fn head<T: Tx + ?Sized>(self, tx: &mut T) -> Result<BlobHead> {
        let word = tx.read_word(self.at)?;
        let Some(head) = BlobHead::from_word(word) else {
            return Err(EXPECTED.missing(tx, self.at));
        };
        if head.len > TRUSTED {
            let room = if head.in_pieces {
                pieces::walk(tx, self.at, head.len, &mut |_| Ok(()))?.1
            } else {
                tx.usable(self.at)?.saturating_sub(DATA)
            };
            if head.len > room {
                return Err(self.too_long());
            }
        }
        Ok(head)
    }

    const fn too_long(self) -> Error {
        Error::corrupt("a byte string longer than its blocks", self.at)
    }
}

const EXPECTED: Expected =
    Expected { kind: kind::BLOB, name: || "byte string".to_owned(), pool: 0 };

/// Bytes of a cache line.
const LINE: usize = 64;

/// Overwrites the bytes at `at`, a word's place, but not lines at either end that are as they should be: they need no log.
fn update<T: Tx + ?Sized>(tx: &mut T, at: u64, bytes: &[u8]) -> Result<()> {
    // How many bytes lie before the first edge of a line.
    let first = (LINE - at as usize % LINE).min(bytes.len());
    let mut start = 0;
    let mut next = first;
    while start < bytes.len() && is_line(tx, at, bytes, start..next)? {
        (start, next) = (next, (next + LINE).min(bytes.len()));
    }
    let mut end = bytes.len();
    // The line that has stopped the search differs.
    while end > next {
        let before = first + (end - 1 - first) / LINE * LINE;
        if !is_line(tx, at, bytes, before..end)? {
            break;
        }
        end = before;
    }
    if start == end { Ok(()) } else { tx.write_bytes(at + start as u64, &bytes[start..end]) }
}

/// Whether a part of `bytes`, not longer than a line, is in its place behind `at`.
fn is_line<T: Tx + ?Sized>(tx: &mut T, at: u64, bytes: &[u8], part: Range<usize>) -> Result<bool> {
    let mut stored = [0; LINE];
    let stored = &mut stored[..part.len()];
    tx.read_bytes(at + part.start as u64, stored)?;
    Ok(stored == &bytes[part])
}

/// Whether these bytes are at `at`.
fn same<T: Tx + ?Sized>(tx: &mut T, at: u64, bytes: &[u8]) -> Result<bool> {
    let (mut buffer, mut at) = ([0; 256], at);
    for part in bytes.chunks(buffer.len()) {
        let stored = &mut buffer[..part.len()];
        tx.read_bytes(at, stored)?;
        if stored != part {
            return Ok(false);
        }
        at += part.len() as u64;
    }
    Ok(true)
}
