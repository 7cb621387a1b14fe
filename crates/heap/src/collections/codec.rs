//! How keys and values are stored: a fixed number of words each, inside the collection.
//!
//! - Every [`Persist`] type of up to 256 bytes: its bytes, filled up with zeros to a word. A larger value is an object of
//!   its own ([`TxExt::new_object`](crate::TxExt::new_object)), with its [`Ptr`](crate::Ptr) in the collection.
//! - [`Bytes<W>`](super::Bytes): a byte string in `W` words: up to `8 W - 1` bytes inline, longer
//!   ones in a [`Blob`](super::Blob), with their first `8 (W - 1)` bytes kept inline to compare by.
//! - [`Pair<A, B>`](Pair): `A`, then `B`; ordered by `A`, then by `B`.
//! - [`Total`]: an `f64` with a total order.

use super::form::{self, Form};
use crate::persist::{TypeName, size};
use crate::{Error, Persist, Purpose, Result, Tx};
use std::cmp::Ordering;
use std::marker::PhantomData;

/// A type that collections store.
///
/// A [`Ref`](Item::Ref) is the form of arguments: the value itself for plain data, a slice for byte strings. A
/// [`Probe`](Item::Probe) is a `Ref` prepared for comparison with many stored items.
///
/// ```
/// use perdura::collections::{HashMap, Item};
/// use perdura::{Result, Tx};
///
/// /// Works on a map with keys of any type.
/// fn count_up<K: Item>(tx: &mut dyn Tx, map: HashMap<K, u64>, key: K::Ref<'_>) -> Result<()> {
///     let count = map.get(tx, key)?.unwrap_or(0) + 1;
///     map.set(tx, key, count).map(drop)
/// }
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// # let map = HashMap::<u64, u64>::create(tx)?;
/// # count_up(tx, map, 3)
/// # }).unwrap();
/// ```
pub trait Item: 'static {
    /// Its form in the pool.
    const FORM: Form;
    /// The name of its type.
    const TYPE: TypeName;
    /// The borrowed form: arguments.
    type Ref<'a>: Copy;
    /// The owned form: results.
    type Owned;
    /// A borrowed form, prepared.
    type Probe<'a>: Copy;

    /// The owned form, borrowed.
    fn borrow(owned: &Self::Owned) -> Self::Ref<'_>;

    /// Hashes it, with the same result as the stored words.
    fn hash(item: Self::Ref<'_>, hash: u64) -> u64;

    /// Prepares it for comparison. `hash` tells long byte strings apart; 0 in ordered collections.
    fn probe(item: Self::Ref<'_>, hash: u64) -> Self::Probe<'_>;

    /// Prepares it to be stored, and never compared: parts that only help to compare are omitted, so that they need
    /// not be written when it is replaced.
    fn probe_value(item: Self::Ref<'_>) -> Self::Probe<'_> {
        Self::probe(item, 0)
    }

    /// Whether the item at `at` equals this one.
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
///
/// ```
/// use perdura::collections::{OrderedItem, OrderedMap};
/// use perdura::{Result, Tx};
///
/// fn least<K: OrderedItem>(tx: &mut dyn Tx, map: OrderedMap<K, ()>) -> Result<Option<K::Owned>> {
///     Ok(map.first(tx)?.map(|(key, ())| key))
/// }
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// # let map = OrderedMap::<u64, ()>::create(tx)?;
/// # map.insert(tx, 3, ())?;
/// # assert_eq!(least(tx, map)?, Some(3));
/// # Ok(())
/// # }).unwrap();
/// ```
pub trait OrderedItem: Item {
    /// How the item at `at` compares with this one.
    ///
    /// # Errors
    /// `Corrupt` where it is damaged.
    fn compare<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: Self::Probe<'_>) -> Result<Ordering>;

    /// Stores at `at` a separator: an item that is greater than `left`, and not greater than `right`; if possible a
    /// short one.
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

const fn words_of<T: Persist>() -> usize {
    assert!(
        size::<T>() <= 256,
        "a collection's items have at most 256 bytes: keep a larger value as an object (`TxExt::new_object`) and its `Ptr` in the collection, or its bytes as `Bytes`"
    );
    size::<T>().div_ceil(8)
}

/// Calls `each` with the words of a plain item.
#[inline]
pub(super) fn each_word<P: Persist>(
    item: P,
    mut each: impl FnMut(u64) -> Result<bool>,
) -> Result<bool> {
    for part in bytemuck::bytes_of(&item.to_stored()).chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        if !each(u64::from_le_bytes(word))? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<P: Persist> Item for P {
    const FORM: Form = Form::plain(words_of::<P>());
    const TYPE: TypeName = <P as Persist>::TYPE_NAME;
    type Ref<'a> = P;
    type Owned = P;
    type Probe<'a> = P;

    fn borrow(owned: &P) -> P {
        *owned
    }

    #[inline]
    fn hash(item: P, hash: u64) -> u64 {
        let mut hash = hash;
        let _ = each_word(item, |word| {
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
        each_word(probe, |word| {
            at += 8;
            Ok(tx.read_word(at - 8)? == word)
        })
    }

    #[inline]
    fn store<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: P, _: Purpose) -> Result<()> {
        let mut at = at;
        each_word(probe, |word| {
            at += 8;
            if size::<P>() <= 8 {
                return tx.write_word(at - 8, word).map(|()| true);
            }
            form::update_word(tx, at - 8, word).map(|()| true)
        })?;
        Ok(())
    }

    #[inline(always)]
    fn load<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<P> {
        let mut bytes = <P::Bytes as bytemuck::Zeroable>::zeroed();
        for (word, part) in bytemuck::bytes_of_mut(&mut bytes).chunks_mut(8).enumerate() {
            let stored = tx.read_word(at + word as u64 * 8)?.to_le_bytes();
            part.copy_from_slice(&stored[..part.len()]);
        }
        // An error is as large as a line: it is made only if it is needed.
        P::from_stored(&bytes).ok_or_else(|| no_value(at))
    }
}

#[cold]
fn no_value(at: u64) -> Error {
    Error::corrupt("an item whose bytes are no value", at)
}

impl<P: Persist + Ord> OrderedItem for P {
    #[inline(always)]
    fn compare<T: Tx + ?Sized>(tx: &mut T, at: u64, probe: P) -> Result<Ordering> {
        Ok(Self::load(tx, at)?.cmp(&probe))
    }

    fn separate<T: Tx + ?Sized>(tx: &mut T, at: u64, _: P, right: P) -> Result<()> {
        Self::store(tx, at, right, Purpose::General)
    }
}

/// An `f64` in IEEE's total order, so that it can be a key.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::collections::{OrderedMap, Total};
///
/// let heights = OrderedMap::<Total, u64>::create(tx)?;
/// heights.insert(tx, Total(8848.9), 1)?;
/// heights.insert(tx, Total(-430.5), 2)?;
/// assert_eq!(heights.first(tx)?, Some((Total(-430.5), 2)));
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Persist)]
#[persist(name = "Total")]
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

/// Two items, the first of them plain.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::collections::{Bytes, OrderedMap, Pair};
///
/// // By year, then by name.
/// let films = OrderedMap::<Pair<u64, Bytes>, ()>::create(tx)?;
/// films.insert(tx, (1927, b"Metropolis"), ())?;
/// films.insert(tx, (1922, b"Nosferatu"), ())?;
/// films.insert(tx, (1927, b"Wings"), ())?;
/// let year = films.range(tx, (1927, b"".as_slice())..(1928, b"".as_slice()))?;
/// assert_eq!(year.count(), 2);
/// # Ok(())
/// # }).unwrap();
/// ```
pub struct Pair<A, B>(PhantomData<fn() -> (A, B)>);

impl<A: Item, B: Item> Pair<A, B> {
    const SECOND: u64 = A::FORM.bytes();
}

impl<A: Item, B: Item> Item for Pair<A, B> {
    const FORM: Form = {
        assert!(A::FORM.string == 0, "only the last item of a pair may be a byte string");
        Form { words: A::FORM.words + B::FORM.words, string: B::FORM.string }
    };
    const TYPE: TypeName = TypeName::generic("Pair", &[A::TYPE, B::TYPE]);
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

    fn probe_value(item: Self::Ref<'_>) -> Self::Probe<'_> {
        (A::probe_value(item.0), B::probe_value(item.1))
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
