//! Byte strings as keys and values: [`Bytes`]; and items with and without one, by their [`Form`] alone.

use super::Visit;
use super::bytes::Blob;
use super::codec::{Item, OrderedItem};
use super::form::{self, Form};
use crate::persist::TypeName;
use crate::{Error, Purpose, Result, Tx};
use std::cmp::Ordering;

/// A byte string of any length, in `W` words (2 to 15); up to `8 W - 1` bytes are inline.
///
/// The words hold the first bytes, big-endian, so that comparing words compares strings. The
/// last word's low byte is the length of an inline string, or `0xFF`: then the word is
/// `fingerprint << 53 | blob / 8 << 8 | 0xFF`, and the blob holds the whole string.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::collections::{Bytes, HashMap};
///
/// // Keys of up to 23 bytes lie in the buckets; longer ones have a block of their own.
/// let map = HashMap::<Bytes<3>, Bytes>::create(tx)?;
/// map.insert(tx, b"short", b"a value of any length")?;
/// assert_eq!(map.get(tx, b"short")?, Some(b"a value of any length".to_vec()));
/// # Ok(())
/// # }).unwrap();
/// ```
pub struct Bytes<const W: usize = 2>;

/// The low byte of a byte string's last word if that word is a pointer.
const POINTER: u64 = 0xFF;

/// The bits of a pointing last word other than the pointer.
const NOT_POINTER: u64 = !(((1 << 45) - 1) << 8);

/// The blob that a byte string's last word points to, if it is a pointer.
const fn blob_in(last: u64) -> Option<Blob> {
    if last & 0xFF == POINTER { Some(Blob::new((last >> 8 & ((1 << 45) - 1)) << 3)) } else { None }
}

/// A prepared byte string.
#[derive(Clone, Copy)]
pub struct BytesProbe<'a, const W: usize> {
    bytes: &'a [u8],
    /// The words as stored; of a long string's last word, all but the pointer.
    words: [u64; W],
    /// The word by which strings are told apart first: the one with the last byte, since many keys begin alike.
    first: usize,
}

impl<const W: usize> Bytes<W> {
    const INLINE: usize = 8 * W - 1;

    fn prepare(bytes: &[u8], hash: u64) -> BytesProbe<'_, W> {
        let inline = bytes.len() <= Self::INLINE;
        let mut words = [0; W];
        let kept = if inline { bytes.len() } else { 8 * (W - 1) };
        for (word, part) in words.iter_mut().zip(bytes[..kept].chunks(8)) {
            *word = big_endian(part);
        }
        words[W - 1] |= if inline { kept as u64 } else { hash >> 53 << 53 | POINTER };
        let first = if inline { kept.saturating_sub(1) / 8 } else { W - 1 };
        BytesProbe { bytes, words, first }
    }

    /// Whether the string at `at`, of which one word is equal, is equal.
    #[inline(never)]
    fn matches_whole<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        probe: BytesProbe<'_, W>,
    ) -> Result<bool> {
        let mut stored = [0; W];
        tx.read_words(at, &mut stored)?;
        let last = stored[W - 1];
        if as_compared(last) != probe.words[W - 1] || stored[..W - 1] != probe.words[..W - 1] {
            return Ok(false);
        }
        let equals = |blob: Blob| blob.equals(tx, probe.bytes).map_err(Error::in_pool);
        blob_in(last).map_or(Ok(true), equals)
    }
}

/// A last word, without the pointer if it is one.
const fn as_compared(last: u64) -> u64 {
    if last & 0xFF == POINTER { last & NOT_POINTER } else { last }
}

fn big_endian(part: &[u8]) -> u64 {
    // Most are whole words: these take no copy of a length that is not known.
    if let Some(whole) = part.first_chunk() {
        return u64::from_be_bytes(*whole);
    }
    let mut word = [0; 8];
    word[..part.len()].copy_from_slice(part);
    u64::from_be_bytes(word)
}

/// Calls `with` with the byte string stored in `words` words at `at`.
pub(super) fn with_string<T: Tx + ?Sized, R>(
    tx: &mut T,
    at: u64,
    words: usize,
    with: impl FnOnce(&[u8]) -> R,
) -> Result<R> {
    let last = tx.read_word(at + words as u64 * 8 - 8)?;
    let mut buffer = [0; 128];
    if let Some(blob) = blob_in(last) {
        let len = blob.len(tx).map_err(Error::in_pool)? as usize;
        if len > buffer.len() {
            return Ok(with(&blob.read(tx).map_err(Error::in_pool)?));
        }
        blob.copy_out(tx, &mut buffer[..len]).map_err(Error::in_pool)?;
        return Ok(with(&buffer[..len]));
    }
    let len = (last & 0xFF) as usize;
    if len >= words * 8 {
        return Err(Error::corrupt("an inline string's length", at));
    }
    for word in 0..len.div_ceil(8) {
        let stored = tx.read_word(at + word as u64 * 8)?;
        buffer[word * 8..word * 8 + 8].copy_from_slice(&stored.to_be_bytes());
    }
    Ok(with(&buffer[..len]))
}

/// Items own nothing but the block of their byte string.
impl Form {
    /// The blob of the item at `at`, if it has one.
    pub(super) fn blob<T: Tx + ?Sized>(self, tx: &mut T, at: u64) -> Result<Option<Blob>> {
        if self.string == 0 {
            return Ok(None);
        }
        Ok(blob_in(tx.read_word(at + self.bytes() - 8)?))
    }

    /// Frees the memory that the item at `at` owns.
    pub(super) fn release<T: Tx + ?Sized>(self, tx: &mut T, at: u64) -> Result<()> {
        match self.blob(tx, at)? {
            Some(blob) => blob.free(tx).map_err(Error::in_pool),
            None => Ok(()),
        }
    }

    /// Moves the blocks that the item at `at` owns out of pages that are to be emptied.
    pub(super) fn compact<T: Tx + ?Sized>(self, tx: &mut T, at: u64) -> Result<()> {
        if self.string == 0 {
            return Ok(());
        }
        let last = at + self.bytes() - 8;
        let word = tx.read_word(last)?;
        let Some(blob) = blob_in(word) else { return Ok(()) };
        let moved = blob.compact(tx).map_err(Error::in_pool)?;
        if moved == blob {
            return Ok(());
        }
        tx.write_word(last, word & NOT_POINTER | pointing(moved))
    }

    /// Checks the item at `at`, and reports the blocks it owns.
    pub(super) fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        at: u64,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        if self.string == 0 {
            return Ok(());
        }
        let last = tx.read_word(at + self.bytes() - 8)?;
        match blob_in(last) {
            Some(blob) => blob.check(tx, visit).map_err(Error::in_pool),
            None if last & 0xFF < self.string as u64 * 8 => Ok(()),
            None => Err(Error::corrupt("an inline string's length", at)),
        }
    }

    /// The hash of the item at `at`, equal to [`Item::hash`](super::Item::hash).
    pub(super) fn hash<T: Tx + ?Sized>(self, tx: &mut T, at: u64, seed: u64) -> Result<u64> {
        let plain = self.words - self.string;
        let mut hash = seed;
        for word in 0..plain as u64 {
            hash = form::mix(hash, tx.read_word(at + word * 8)?);
        }
        if self.string == 0 {
            return Ok(hash);
        }
        let string = at + plain as u64 * 8;
        with_string(tx, string, self.string, |bytes| form::hash_bytes(hash, bytes))
    }
}

/// The use of a byte string.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// A key with this hash (0 in ordered collections).
    Key(u64),
    Value,
}

/// Stores a byte string in `words` words at `at`, where none is, like [`Bytes`] of this many words.
pub(super) fn store_string<T: Tx + ?Sized>(
    tx: &mut T,
    at: u64,
    words: usize,
    bytes: &[u8],
    role: Role,
) -> Result<()> {
    let (last, inline) = (words - 1, bytes.len() < 8 * words);
    let (kept, hash) = match role {
        _ if inline => (bytes.len(), 0),
        Role::Key(hash) => (8 * last, hash),
        Role::Value => (0, 0),
    };
    let mut stored = vec![0; words];
    for (word, part) in stored.iter_mut().zip(bytes[..kept].chunks(8)) {
        *word = big_endian(part);
    }
    stored[last] |= match inline {
        true => kept as u64,
        false => {
            let blob = Blob::create(tx, role.purpose(), bytes)?;
            hash >> 53 << 53 | POINTER | pointing(blob)
        }
    };
    update_words(tx, at, &stored)
}

impl<const W: usize> Item for Bytes<W> {
    const FORM: Form = {
        assert!(W >= 2 && W <= 15, "byte strings take 2 to 15 words");
        Form { words: W, string: W }
    };
    const TYPE: TypeName = TypeName::counted("Bytes", W);
    type Ref<'a> = &'a [u8];
    type Owned = Vec<u8>;
    type Probe<'a> = BytesProbe<'a, W>;

    fn borrow(owned: &Vec<u8>) -> &[u8] {
        owned
    }

    #[inline]
    fn hash(item: &[u8], hash: u64) -> u64 {
        form::hash_bytes(hash, item)
    }

    #[inline]
    fn probe(item: Self::Ref<'_>, hash: u64) -> Self::Probe<'_> {
        Self::prepare(item, hash)
    }

    fn probe_value(item: Self::Ref<'_>) -> Self::Probe<'_> {
        let mut probe = Self::prepare(item, 0);
        if item.len() > Self::INLINE {
            probe.words[..W - 1].fill(0);
        }
        probe
    }

    #[inline(always)]
    fn matches<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: BytesProbe<'_, W>) -> Result<bool> {
        let first = probe.first.min(W - 1);
        let stored = tx.read_word(at + 8 * first as u64)?;
        let seen = if first == W - 1 { as_compared(stored) } else { stored };
        Ok(seen == probe.words[first] && Self::matches_whole(tx, at, probe)?)
    }

    fn store<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        probe: BytesProbe<'_, W>,
        purpose: Purpose,
    ) -> Result<()> {
        let mut words = probe.words;
        if probe.bytes.len() > Self::INLINE {
            let blob = Blob::create(tx, purpose, probe.bytes)?;
            words[W - 1] |= pointing(blob);
        }
        update_words(tx, at, &words)
    }

    fn replace<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        probe: BytesProbe<'_, W>,
        purpose: Purpose,
    ) -> Result<()> {
        let last = tx.read_word(at + 8 * (W as u64 - 1))?;
        let Some(old) = blob_in(last) else {
            return Self::store(tx, at, probe, purpose);
        };
        let mut words = probe.words;
        if probe.bytes.len() > Self::INLINE {
            words[W - 1] |= pointing(old.set(tx, probe.bytes).map_err(Error::in_pool)?);
        } else {
            old.free(tx).map_err(Error::in_pool)?;
        }
        update_words(tx, at, &words)
    }

    fn load<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Vec<u8>> {
        with_string(tx, at, W, <[u8]>::to_vec)
    }
}

const fn pointing(blob: Blob) -> u64 {
    blob.at() >> 3 << 8
}

/// Writes the `words` that differ from the stored ones.
fn update_words<T: Tx + ?Sized>(tx: &mut T, at: u64, words: &[u64]) -> Result<()> {
    for (index, word) in words.iter().enumerate() {
        form::update_word(tx, at + index as u64 * 8, *word)?;
    }
    Ok(())
}

impl<const W: usize> OrderedItem for Bytes<W> {
    fn compare<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: BytesProbe<'_, W>) -> Result<Ordering> {
        for (word, wanted) in probe.words[..W - 1].iter().enumerate() {
            let stored = tx.read_word(at + word as u64 * 8)?;
            if stored != *wanted {
                return Ok(stored.cmp(wanted));
            }
        }
        with_string(tx, at, W, |stored| stored.cmp(probe.bytes))
    }

    fn separate<T: Tx + ?Sized>(tx: &mut T, at: u64, left: &[u8], right: &[u8]) -> Result<()> {
        let shared = left.iter().zip(right).take_while(|(a, b)| a == b).count();
        let short = &right[..right.len().min(shared + 1)];
        Self::store(tx, at, Self::prepare(short, 0), Purpose::Key)
    }
}
