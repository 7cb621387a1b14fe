//! A byte string in a block of its own: a word with its length, then the bytes.
//!
//! The first word is `0xB1 << 56 | purpose << 48 | length`. Short strings are overwritten in
//! place; long ones are replaced by a new block, whose bytes need no log.

use super::tag::Expected;
use super::{Visit, kind};
use crate::{Error, Fresh, Purpose, Result, Tx};

const TAG: u64 = 0xB1;
/// Offset of the bytes in the block.
const DATA: u64 = 8;
/// Longest byte string, in bytes.
pub const MAX_LEN: u64 = (1 << 40) - 1;
/// Up to so many bytes, logging them is cheaper than the metadata of a new block.
const IN_PLACE: u64 = 1024;
/// Lengths up to here are believed; longer ones are compared with the block's size first.
const TRUSTED: u64 = 4096 - DATA;
/// Bytes moved at a time.
const CHUNK: usize = 4096;

/// A byte string in a block: a handle to it. [`set`](Blob::set), [`append`](Blob::append) and
/// [`resize`](Blob::resize) may move it; the handle they return takes the place of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blob {
    at: u64,
}

struct Head {
    purpose: Purpose,
    len: u64,
}

impl Blob {
    /// The blob whose block is at `at`.
    pub const fn new(at: u64) -> Self {
        Blob { at }
    }

    /// The offset of its block.
    pub const fn at(self) -> u64 {
        self.at
    }

    /// A new one that holds `bytes`.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<T: Tx + ?Sized>(tx: &mut T, purpose: Purpose, bytes: &[u8]) -> Result<Self> {
        let block = Self::with_room(tx, purpose, bytes.len() as u64, bytes.len() as u64)?;
        if !bytes.is_empty() {
            tx.write_fresh(block, DATA, bytes)?;
        }
        Ok(Blob { at: block.at() })
    }

    /// A fresh block for `room` bytes, of which `len` are to be filled.
    fn with_room<T: Tx + ?Sized>(
        tx: &mut T,
        purpose: Purpose,
        len: u64,
        room: u64,
    ) -> Result<Fresh> {
        if room > MAX_LEN {
            return Err(Error::Invalid("a byte string of more than 2^40 bytes"));
        }
        let block = tx.allocate(purpose, DATA + room)?;
        tx.write_fresh(block, 0, &head(purpose, len).to_le_bytes())?;
        Ok(block)
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
        let len = self.head(tx)?.len;
        self.extend(tx, 0, len, to)
    }

    /// Bytes `from` and on, at most `len` of them.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn read_range<T: Tx + ?Sized>(self, tx: &mut T, from: u64, len: u64) -> Result<Vec<u8>> {
        let all = self.head(tx)?.len;
        let from = from.min(all);
        let mut bytes = Vec::new();
        self.extend(tx, from, len.min(all - from), &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `to` from the byte `from` on; the range is known to be inside.
    pub(super) fn copy_out<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        from: u64,
        to: &mut [u8],
    ) -> Result<()> {
        tx.read_bytes(self.at + DATA + from, to)
    }

    fn extend<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        from: u64,
        len: u64,
        to: &mut Vec<u8>,
    ) -> Result<()> {
        let start = to.len();
        to.resize(start + len as usize, 0);
        self.copy_out(tx, from, &mut to[start..])
    }

    /// Overwrites the bytes from `from` on.
    ///
    /// # Errors
    /// `Invalid` if the range ends behind the string's end; `Misuse` or `WrongType` if this is no blob;
    /// `ReadOnly`, `TooLarge`.
    pub fn write_range<T: Tx + ?Sized>(self, tx: &mut T, from: u64, bytes: &[u8]) -> Result<()> {
        let len = self.head(tx)?.len;
        if from.checked_add(bytes.len() as u64).is_none_or(|end| end > len) {
            return Err(Error::Invalid("a write behind the end of a byte string"));
        }
        tx.write_bytes(self.at + DATA + from, bytes)
    }

    /// Replaces all bytes: in place if they are few, fit, and leave no more than half of the
    /// block unused; otherwise in a new block, and this one is freed.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob; as [`Tx::allocate`] otherwise.
    pub fn set<T: Tx + ?Sized>(self, tx: &mut T, bytes: &[u8]) -> Result<Self> {
        let old = self.head(tx)?;
        let len = bytes.len() as u64;
        if len <= IN_PLACE && self.suits(tx, old.len, len)? {
            if len != old.len {
                tx.write_word(self.at, head(old.purpose, len))?;
            }
            tx.write_bytes(self.at + DATA, bytes)?;
            return Ok(self);
        }
        let new = Self::create(tx, old.purpose, bytes)?;
        tx.free(self.at)?;
        Ok(new)
    }

    /// Whether the block is a good one for `len` bytes.
    fn suits<T: Tx + ?Sized>(self, tx: &mut T, old: u64, len: u64) -> Result<bool> {
        if old.next_multiple_of(8) == len.next_multiple_of(8) {
            return Ok(true);
        }
        let size = tx.usable(self.at)?;
        Ok(DATA + len <= size && (size <= 64 || (DATA + len) * 2 >= size))
    }

    /// Appends `bytes`, in place if there is room; a block that must grow gets twice the size
    /// (1 MiB more, from there on).
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob; as [`Tx::allocate`] otherwise.
    pub fn append<T: Tx + ?Sized>(self, tx: &mut T, bytes: &[u8]) -> Result<Self> {
        let old = self.head(tx)?;
        let len = old.len.saturating_add(bytes.len() as u64);
        if DATA + len <= tx.usable(self.at)? {
            tx.write_word(self.at, head(old.purpose, len))?;
            tx.write_bytes(self.at + DATA + old.len, bytes)?;
            return Ok(self);
        }
        let new = Self::with_room(tx, old.purpose, len, len + len.min(1 << 20))?;
        self.fill(tx, new, old.len, bytes)?;
        tx.free(self.at)?;
        Ok(Blob { at: new.at() })
    }

    /// Fills a new block with `kept` bytes of this one, then `more`.
    fn fill<T: Tx + ?Sized>(self, tx: &mut T, new: Fresh, kept: u64, more: &[u8]) -> Result<()> {
        let mut buffer = Vec::with_capacity(CHUNK);
        let whole = kept - kept % 8;
        let mut done = 0;
        while done < whole {
            let step = (whole - done).min(CHUNK as u64);
            buffer.clear();
            self.extend(tx, done, step, &mut buffer)?;
            tx.write_fresh(new, DATA + done, &buffer)?;
            done += step;
        }
        // The rest begins at a word's edge, as fresh writes must.
        buffer.clear();
        self.extend(tx, whole, kept - whole, &mut buffer)?;
        let head = more.len().min(8 - buffer.len());
        buffer.extend_from_slice(&more[..head]);
        tx.write_fresh(new, DATA + whole, &buffer)?;
        if head < more.len() {
            tx.write_fresh(new, DATA + whole + 8, &more[head..])?;
        }
        Ok(())
    }

    /// Makes it `len` bytes long: cut, or filled up with zeros.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob; as [`Tx::allocate`] otherwise.
    pub fn resize<T: Tx + ?Sized>(self, tx: &mut T, len: u64) -> Result<Self> {
        let old = self.head(tx)?;
        if len <= old.len {
            tx.write_word(self.at, head(old.purpose, len))?;
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
        tx.free(self.at)
    }

    /// Whether it holds just `bytes`. Allocates nothing.
    ///
    /// # Errors
    /// `Misuse` or `WrongType` if this is no blob.
    pub fn equals<T: Tx + ?Sized>(self, tx: &mut T, bytes: &[u8]) -> Result<bool> {
        if self.head(tx)?.len != bytes.len() as u64 {
            return Ok(false);
        }
        let mut buffer = [0; 256];
        let mut from = 0;
        for part in bytes.chunks(buffer.len()) {
            let stored = &mut buffer[..part.len()];
            self.copy_out(tx, from, stored)?;
            if stored != part {
                return Ok(false);
            }
            from += part.len() as u64;
        }
        Ok(true)
    }

    /// Checks it, and reports its block.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; what `visit` returns.
    pub fn check<T: Tx + ?Sized>(self, tx: &mut T, visit: &mut Visit<'_>) -> Result<()> {
        let len = self.head(tx)?.len;
        if DATA + len > tx.usable(self.at)? {
            return Err(Error::corrupt("a byte string longer than its block", self.at));
        }
        visit(self.at)
    }

    fn head<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Head> {
        let word = tx.read_word(self.at)?;
        let len = word & MAX_LEN;
        let purpose = Purpose::ALL.get((word >> 48 & 0xFF) as usize);
        let (TAG, Some(&purpose)) = (word >> 56, purpose) else {
            return Err(EXPECTED.missing(tx, self.at));
        };
        if len > TRUSTED && DATA + len > tx.usable(self.at)? {
            return Err(Error::corrupt("a byte string longer than its block", self.at));
        }
        Ok(Head { purpose, len })
    }
}

const EXPECTED: Expected =
    Expected { kind: kind::BLOB, name: || "byte string".to_owned(), pool: 0 };

/// Whether a word can be a byte string's first.
pub(super) const fn is_head(word: u64) -> bool {
    word >> 56 == TAG
        && (word >> 48 & 0xFF) < Purpose::ALL.len() as u64
        && word & MAX_LEN == word & ((1 << 48) - 1)
}

fn head(purpose: Purpose, len: u64) -> u64 {
    TAG << 56 | (purpose as u64) << 48 | len
}
