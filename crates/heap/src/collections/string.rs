//! Byte strings as keys and values: [`Bytes`].

use super::bytes::Blob;
use super::codec::{Item, OrderedItem};
use super::form::{self, Form, NOT_POINTER, blob_in};
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

/// A prepared byte string.
#[derive(Clone, Copy)]
pub struct BytesProbe<'a, const W: usize> {
    bytes: &'a [u8],
    /// The words as stored; of a long string's last word, all but the pointer.
    words: [u64; W],
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
        words[W - 1] |= if inline { kept as u64 } else { hash >> 53 << 53 | form::POINTER };
        BytesProbe { bytes, words }
    }
}

fn big_endian(part: &[u8]) -> u64 {
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

/// What a byte string is used as.
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
            hash >> 53 << 53 | form::POINTER | pointing(blob)
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

    fn matches<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: BytesProbe<'_, W>) -> Result<bool> {
        let end = at + 8 * (W as u64 - 1);
        let last = tx.read_word(end)?;
        let blob = blob_in(last);
        let seen = if blob.is_some() { last & NOT_POINTER } else { last };
        if seen != probe.words[W - 1] {
            return Ok(false);
        }
        for (word, wanted) in probe.words[..W - 1].iter().enumerate() {
            if tx.read_word(at + word as u64 * 8)? != *wanted {
                return Ok(false);
            }
        }
        let equals = |blob: Blob| blob.equals(tx, probe.bytes).map_err(Error::in_pool);
        blob.map_or(Ok(true), equals)
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
