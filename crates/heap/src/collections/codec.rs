//! How keys and values are stored: a fixed number of words each, inside the collection.
//!
//! - Every `T: Pod` of up to 256 bytes: its bytes, filled up with zeros to a word.
//! - [`Bytes<W>`](Bytes): a byte string in `W` words: up to `8 W - 1` bytes inline, longer ones
//!   in a [`Blob`], with their first `8 (W - 1)` bytes kept inline to compare by.
//! - [`Pair<A, B>`](Pair): the one after the other, ordered by the first, then by the second.
//! - [`Total`]: an `f64` that is ordered.

use super::bytes::Blob;
use super::form::{self, Form, blob_in};
use crate::{Pod, Purpose, Result, Tx, Zeroable};
use std::cmp::Ordering;
use std::marker::PhantomData;

/// What collections store.
///
/// A [`Ref`](Item::Ref) is what one passes in: the value itself for plain data, a slice for
/// byte strings. A [`Probe`](Item::Probe) is a `Ref` made ready to be compared with many
/// stored items.
pub trait Item: 'static {
    /// What it looks like in the pool.
    const FORM: Form;
    /// The borrowed form: arguments.
    type Ref<'a>: Copy;
    /// The owned form: results.
    type Owned;
    /// A borrowed form, prepared.
    type Probe<'a>: Copy;

    /// The owned form, borrowed.
    fn borrow(owned: &Self::Owned) -> Self::Ref<'_>;

    /// Takes it into a hash; the same function as that of the stored words.
    fn hash(item: Self::Ref<'_>, hash: u64) -> u64;

    /// Prepares it. `hash` tells long byte strings apart; 0 in ordered collections.
    fn probe(item: Self::Ref<'_>, hash: u64) -> Self::Probe<'_>;

    /// Whether the item at `at` is this one.
    ///
    /// # Errors
    /// `Corrupt` where it is damaged.
    fn matches<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: Self::Probe<'_>) -> Result<bool>;

    /// Stores it at `at`, where no item is.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    fn store<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        probe: Self::Probe<'_>,
        purpose: Purpose,
    ) -> Result<()>;

    /// Stores it at `at`, in place of the item there.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    fn replace<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        probe: Self::Probe<'_>,
        purpose: Purpose,
    ) -> Result<()> {
        Self::FORM.release(tx, at)?;
        Self::store(tx, at, probe, purpose)
    }

    /// The item at `at`.
    ///
    /// # Errors
    /// `Corrupt` where it is damaged.
    fn load<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Self::Owned>;
}

/// An item that can be a key of an ordered collection.
pub trait OrderedItem: Item {
    /// How the item at `at` compares with this one.
    ///
    /// # Errors
    /// `Corrupt` where it is damaged.
    fn compare<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: Self::Probe<'_>) -> Result<Ordering>;

    /// Stores at `at` a separator: an item that is greater than `left`, and not greater than
    /// `right`; a short one if there is.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    fn separate<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        left: Self::Ref<'_>,
        right: Self::Ref<'_>,
    ) -> Result<()>;
}

const fn words_of<T>() -> usize {
    assert!(size_of::<T>() <= 256, "items have at most 256 bytes");
    size_of::<T>().div_ceil(8)
}

/// Calls `each` with the words of a plain item.
#[inline]
fn each_word<P: Pod>(item: &P, mut each: impl FnMut(u64) -> Result<bool>) -> Result<bool> {
    for part in bytemuck::bytes_of(item).chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        if !each(u64::from_le_bytes(word))? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<P: Pod> Item for P {
    const FORM: Form = Form::plain(words_of::<P>());
    type Ref<'a> = P;
    type Owned = P;
    type Probe<'a> = P;

    fn borrow(owned: &P) -> P {
        *owned
    }

    #[inline]
    fn hash(item: P, hash: u64) -> u64 {
        let mut hash = hash;
        let _ = each_word(&item, |word| {
            hash = form::mix(hash, word);
            Ok(true)
        });
        hash
    }

    fn probe(item: Self::Ref<'_>, _: u64) -> Self::Probe<'_> {
        item
    }

    #[inline]
    fn matches<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: P) -> Result<bool> {
        let mut at = at;
        each_word(&probe, |word| {
            at += 8;
            Ok(tx.read_word(at - 8)? == word)
        })
    }

    #[inline]
    fn store<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: P, _: Purpose) -> Result<()> {
        let mut at = at;
        each_word(&probe, |word| {
            at += 8;
            tx.write_word(at - 8, word).map(|()| true)
        })?;
        Ok(())
    }

    #[inline]
    fn load<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<P> {
        let mut value = P::zeroed();
        for (word, part) in bytemuck::bytes_of_mut(&mut value).chunks_mut(8).enumerate() {
            let stored = tx.read_word(at + word as u64 * 8)?.to_le_bytes();
            part.copy_from_slice(&stored[..part.len()]);
        }
        Ok(value)
    }
}

impl<P: Pod + Ord> OrderedItem for P {
    #[inline]
    fn compare<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: P) -> Result<Ordering> {
        Ok(Self::load(tx, at)?.cmp(&probe))
    }

    fn separate<T: Tx + ?Sized>(tx: &mut T, at: u64, _: P, right: P) -> Result<()> {
        Self::store(tx, at, right, Purpose::General)
    }
}

/// An `f64` in IEEE's total order, so that it can be a key.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct Total(pub f64);

impl Ord for Total {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
impl PartialOrd for Total {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Total {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Total {}

/// A byte string of any length, in `W` words (2 to 15): up to `8 W - 1` bytes are inline.
///
/// The words hold the first bytes, big-endian, so that comparing words compares strings. The
/// last word's low byte is the length of an inline string, or `0xFF`: then the word is
/// `fingerprint << 53 | blob / 8 << 8 | 0xFF`, and the blob holds the whole string.
pub struct Bytes<const W: usize = 2>;

/// A prepared byte string.
#[derive(Clone, Copy)]
pub struct BytesProbe<'a, const W: usize> {
    bytes: &'a [u8],
    /// As they are stored; of a long string's last word, all but the pointer.
    words: [u64; W],
}

/// The bits of a pointing last word that are not the pointer.
const NOT_POINTER: u64 = !(((1 << 45) - 1) << 8);

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
        let len = blob.len(tx)? as usize;
        if len > buffer.len() {
            return Ok(with(&blob.read(tx)?));
        }
        blob.copy_out(tx, 0, &mut buffer[..len])?;
        return Ok(with(&buffer[..len]));
    }
    let len = (last & 0xFF) as usize;
    if len >= words * 8 {
        return Err(crate::Error::corrupt("an inline string's length", at));
    }
    for word in 0..len.div_ceil(8) {
        let stored = tx.read_word(at + word as u64 * 8)?;
        buffer[word * 8..word * 8 + 8].copy_from_slice(&stored.to_be_bytes());
    }
    Ok(with(&buffer[..len]))
}

impl<const W: usize> Item for Bytes<W> {
    const FORM: Form = {
        assert!(W >= 2 && W <= 15, "byte strings take 2 to 15 words");
        Form { words: W, string: W }
    };
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
        blob.map_or(Ok(true), |blob| blob.equals(tx, probe.bytes))
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
        for (index, word) in words.iter().enumerate() {
            tx.write_word(at + index as u64 * 8, *word)?;
        }
        Ok(())
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
            words[W - 1] |= pointing(old.set(tx, probe.bytes)?);
        } else {
            old.free(tx)?;
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

/// Writes those of `words` that differ from what is there.
fn update_words<T: Tx + ?Sized>(tx: &mut T, at: u64, words: &[u64]) -> Result<()> {
    for (index, word) in words.iter().enumerate() {
        let at = at + index as u64 * 8;
        if tx.read_word(at)? != *word {
            tx.write_word(at, *word)?;
        }
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

/// Two items, the first of them plain.
pub struct Pair<A, B>(PhantomData<fn() -> (A, B)>);

impl<A: Item, B: Item> Pair<A, B> {
    const SECOND: u64 = A::FORM.bytes();
}

impl<A: Item, B: Item> Item for Pair<A, B> {
    const FORM: Form = {
        assert!(A::FORM.string == 0, "only the last item of a pair may be a byte string");
        Form { words: A::FORM.words + B::FORM.words, string: B::FORM.string }
    };
    type Ref<'a> = (A::Ref<'a>, B::Ref<'a>);
    type Owned = (A::Owned, B::Owned);
    type Probe<'a> = (A::Probe<'a>, B::Probe<'a>);

    fn borrow(owned: &Self::Owned) -> Self::Ref<'_> {
        (A::borrow(&owned.0), B::borrow(&owned.1))
    }

    fn hash(item: Self::Ref<'_>, hash: u64) -> u64 {
        B::hash(item.1, A::hash(item.0, hash))
    }

    fn probe(item: Self::Ref<'_>, hash: u64) -> Self::Probe<'_> {
        (A::probe(item.0, hash), B::probe(item.1, hash))
    }

    fn matches<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: Self::Probe<'_>) -> Result<bool> {
        Ok(A::matches(tx, at, probe.0)? && B::matches(tx, at + Self::SECOND, probe.1)?)
    }

    fn store<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        probe: Self::Probe<'_>,
        purpose: Purpose,
    ) -> Result<()> {
        A::store(tx, at, probe.0, purpose)?;
        B::store(tx, at + Self::SECOND, probe.1, purpose)
    }

    fn replace<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        probe: Self::Probe<'_>,
        purpose: Purpose,
    ) -> Result<()> {
        A::replace(tx, at, probe.0, purpose)?;
        B::replace(tx, at + Self::SECOND, probe.1, purpose)
    }

    fn load<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Self::Owned> {
        Ok((A::load(tx, at)?, B::load(tx, at + Self::SECOND)?))
    }
}

impl<A: OrderedItem, B: OrderedItem> OrderedItem for Pair<A, B> {
    fn compare<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: Self::Probe<'_>) -> Result<Ordering> {
        match A::compare(tx, at, probe.0)? {
            Ordering::Equal => B::compare(tx, at + Self::SECOND, probe.1),
            unequal => Ok(unequal),
        }
    }

    fn separate<T: Tx + ?Sized>(
        tx: &mut T,
        at: u64,
        left: Self::Ref<'_>,
        right: Self::Ref<'_>,
    ) -> Result<()> {
        A::store(tx, at, A::probe(right.0, 0), Purpose::Key)?;
        B::separate(tx, at + Self::SECOND, left.1, right.1)
    }
}
