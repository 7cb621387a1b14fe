//! Looking ahead: announcing keys that will be looked for soon, and hints where they are.

use super::super::codec::Item;
use super::HashMap;
use super::table::Table;
use crate::{Ptr, Result, Tx};
use std::marker::PhantomData;

/// Bytes of buckets from which on it is worth it to announce keys.
const ANNOUNCED: u64 = 1 << 20;

/// Announces keys that will be looked for soon, so that the processor fetches their buckets at the same time, and not one
/// after the other. Made by [`HashMap::announcer`]; if the map has changed since, it may fetch in vain.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::collections::HashMap;
///
/// let map = HashMap::<u64, u64>::create(tx)?;
/// assert!(map.announcer(tx)?.is_none(), "a small map is in the caches");
/// for key in 0..100_000 {
///     map.insert(tx, key, 1)?;
/// }
/// let wanted = [5, 77_777, 40_000, 1_000_000];
/// if let Some(announcer) = map.announcer(tx)? {
///     for key in wanted {
///         announcer.announce(tx, key)?;
///     }
/// }
/// let mut sum = 0;
/// for key in wanted {
///     sum += map.get(tx, key)?.unwrap_or(0);
/// }
/// assert_eq!(sum, 3);
/// # Ok(())
/// # }).unwrap();
/// ```
pub struct Announcer<K> {
    table: Table,
    seed: u64,
    of: PhantomData<fn() -> K>,
}

impl<K: Item> Announcer<K> {
    /// Has a key's bucket fetched.
    ///
    /// # Errors
    /// As a look for the key.
    #[inline]
    pub fn announce<T: Tx + ?Sized>(&self, tx: &mut T, key: K::Ref<'_>) -> Result<()> {
        let bucket = self.table.bucket(K::hash(key, self.seed));
        let block = self.table.block(tx, bucket)?;
        for line in (0..self.table.shape.block).step_by(64) {
            tx.prefetch(block.wrapping_add(line));
        }
        Ok(())
    }
}

/// Where a key was found ([`HashMap::slot_and_hint`]), for a look that follows soon: it takes less if the map has not changed
/// much, and is as right as any other whatever has happened since. The default says nothing.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::collections::{Bytes, HashMap};
///
/// let map = HashMap::<Bytes<3>, u64>::create(tx)?;
/// map.insert(tx, b"a", 1)?;
/// let (_, hint) = map.slot_and_hint(tx, b"a")?.expect("it is there");
/// map.set_near(tx, b"a", 2, hint)?;
/// map.insert(tx, b"b", 3)?;
/// assert!(map.slot_near(tx, b"a", hint)?.is_some());
/// map.remove(tx, b"a")?;
/// assert!(map.slot_near(tx, b"a", hint)?.is_none());
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The key's bucket; a number that no bucket has if it says nothing.
    bucket: u64,
    /// The key's slot in the bucket's first block.
    slot: u64,
}

impl Default for Hint {
    fn default() -> Self {
        Hint { bucket: u64::MAX, slot: 0 }
    }
}

impl Hint {
    /// The address of the key's slot, if it is still there: a slot in use that has this key, in whatever bucket, is the key's.
    #[inline]
    pub(super) fn recall<K: Item, T: Tx + ?Sized>(
        self,
        tx: &mut T,
        table: &Table,
        key: K::Ref<'_>,
    ) -> Result<Option<u64>> {
        if self.bucket >= table.buckets {
            return Ok(None);
        }
        let block = table.block(tx, self.bucket)?;
        if table.meta(tx, block)?.used >> self.slot & 1 == 0 {
            return Ok(None);
        }
        let at = table.slot(block, self.slot);
        Ok(K::matches(tx, at, K::probe(key, 0))?.then_some(at))
    }
}

impl<K: Item, V: Item, const COUNTED: bool> HashMap<K, V, COUNTED> {
    /// The map as it is now, to announce keys that will be looked for soon ([`Announcer::announce`]); `None` if the map
    /// is so small that it is in the processor's caches anyway.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn announcer<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<Announcer<K>>> {
        let (table, seed) = self.table_and_seed(tx)?;
        let is_large = table.buckets * Self::SHAPE.block >= ANNOUNCED;
        Ok(is_large.then_some(Announcer { table, seed, of: PhantomData }))
    }

    /// As [`slot`](HashMap::slot), with a hint for a later look, which says nothing if a key is in an unusual place.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    #[inline]
    pub fn slot_and_hint<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
    ) -> Result<Option<(Ptr<V>, Hint)>> {
        let (table, seed) = self.table_and_seed(tx)?;
        let hash = K::hash(key, seed);
        let place = Self::find(tx, &table, hash, K::probe(key, hash))?;
        let Some(slot) = place.slot else { return Ok(None) };
        let hint = match place.is_first {
            true => Hint { bucket: place.bucket, slot },
            false => Hint::default(),
        };
        Ok(Some((Ptr::new(table.slot(place.block, slot) + Self::VALUE), hint)))
    }

    /// As [`slot`](HashMap::slot), with a hint from an earlier look.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    #[inline]
    pub fn slot_near<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        hint: Hint,
    ) -> Result<Option<Ptr<V>>> {
        let (table, seed) = self.table_and_seed(tx)?;
        if let Some(slot) = hint.recall::<K, T>(tx, &table, key)? {
            return Ok(Some(Ptr::new(slot + Self::VALUE)));
        }
        let hash = K::hash(key, seed);
        let place = Self::find(tx, &table, hash, K::probe(key, hash))?;
        Ok(place.slot.map(|slot| Ptr::new(table.slot(place.block, slot) + Self::VALUE)))
    }

    /// As [`set`](HashMap::set), with a hint from an earlier look.
    ///
    /// # Errors
    /// As [`Tx::allocate`]; `Corrupt` if the map is damaged.
    #[inline]
    pub fn set_near<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
        hint: Hint,
    ) -> Result<bool> {
        Ok(self.put::<T, _, true>(tx, key, value, hint, |_, _| Ok(()))?.is_none())
    }
}
