//! The kinds of maps: one list, by which calls find the collection that they work on.
//!
//! A key or value is bytes for C, whatever its type: the bytes of a byte string, or the eight of a
//! word, in the order of the machine.

use super::cursors::{Entry, Step, Walk};
use crate::codes::*;
use crate::fail::{Fail, Result};
use crate::memory::invalid;
use crate::types::{PERDURA_HASH_MAP, PERDURA_ORDERED_MAP, PERDURA_U64_KEYS, PERDURA_U64_VALUES};
use perdura::collections::{Bytes, Collection, Cursor, HashMap, Item, OrderedItem, OrderedMap};
use perdura::{Error, Tx};
use std::marker::PhantomData;
use std::ops::Bound;

macro_rules! kinds {
    ($($kind:expr => $of:ty;)*) => {
        static KINDS: &[(i32, &dyn Kind)] = &[$(($kind, &Of::<$of>(PhantomData)),)*];
    };
}

kinds! {
    PERDURA_HASH_MAP => HashMap<Bytes, Bytes>;
    PERDURA_HASH_MAP | PERDURA_U64_KEYS => HashMap<u64, Bytes>;
    PERDURA_HASH_MAP | PERDURA_U64_VALUES => HashMap<Bytes, u64>;
    PERDURA_HASH_MAP | PERDURA_U64_KEYS | PERDURA_U64_VALUES => HashMap<u64, u64>;
    PERDURA_ORDERED_MAP => OrderedMap<Bytes, Bytes>;
    PERDURA_ORDERED_MAP | PERDURA_U64_KEYS => OrderedMap<u64, Bytes>;
    PERDURA_ORDERED_MAP | PERDURA_U64_VALUES => OrderedMap<Bytes, u64>;
    PERDURA_ORDERED_MAP | PERDURA_U64_KEYS | PERDURA_U64_VALUES => OrderedMap<u64, u64>;
}

/// The kind with this number.
pub(super) fn find(number: i32) -> Result<&'static dyn Kind> {
    let known = KINDS.iter().find(|(kind, _)| *kind == number);
    known.map(|(_, kind)| *kind).ok_or_else(|| {
        invalid(format!(
            "the kind {number}: pass PERDURA_HASH_MAP or PERDURA_ORDERED_MAP, with \
             PERDURA_U64_KEYS, PERDURA_U64_VALUES, both or neither"
        ))
    })
}

/// The operations of maps of one kind. `at` is where a map's header is.
pub(super) trait Kind: Sync {
    /// The kind of a root to one.
    fn root(&self) -> u32;
    fn create(&self, tx: &mut dyn Tx) -> Result<u64>;
    /// Fails if the header at `at` is not one of this kind.
    fn open(&self, tx: &mut dyn Tx, at: u64) -> Result<()>;
    /// Calls `to` with the key's value; whether it is there.
    fn get(&self, tx: &mut dyn Tx, at: u64, key: &[u8], to: &mut dyn FnMut(&[u8])) -> Result<bool>;
    /// Whether the key was there before.
    fn put(&self, tx: &mut dyn Tx, at: u64, key: &[u8], value: &[u8]) -> Result<bool>;
    /// Whether the key was there.
    fn remove(&self, tx: &mut dyn Tx, at: u64, key: &[u8]) -> Result<bool>;
    fn contains(&self, tx: &mut dyn Tx, at: u64, key: &[u8]) -> Result<bool>;
    fn len(&self, tx: &mut dyn Tx, at: u64) -> Result<u64>;
    fn clear(&self, tx: &mut dyn Tx, at: u64) -> Result<()>;
    /// Whether all of it is freed.
    fn destroy_some(&self, tx: &mut dyn Tx, at: u64, budget: u64) -> Result<bool>;
    /// The next cursor, and the entries before it.
    fn scan(&self, tx: &mut dyn Tx, at: u64, from: u64, count: u64) -> Result<(u64, Vec<Entry>)>;
    fn range(&self, tx: &mut dyn Tx, at: u64, range: [Bound<&[u8]>; 2]) -> Result<Box<dyn Walk>>;
}

struct Of<M>(PhantomData<fn() -> M>);

impl<M: Map> Kind for Of<M> {
    fn root(&self) -> u32 {
        M::KIND
    }

    fn create(&self, tx: &mut dyn Tx) -> Result<u64> {
        Ok(<M as Collection>::create(tx)?.at())
    }

    fn open(&self, tx: &mut dyn Tx, at: u64) -> Result<()> {
        Ok(<M as Collection>::open(tx, at).map(drop)?)
    }

    fn get(&self, tx: &mut dyn Tx, at: u64, key: &[u8], to: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = M::new(at).get(tx, M::Key::of(key, "key")?)?;
        Ok(value.map(|value| M::Value::with(&value, to)).is_some())
    }

    fn put(&self, tx: &mut dyn Tx, at: u64, key: &[u8], value: &[u8]) -> Result<bool> {
        let (key, value) = (M::Key::of(key, "key")?, M::Value::of(value, "value")?);
        Ok(!M::new(at).set(tx, key, value)?)
    }

    fn remove(&self, tx: &mut dyn Tx, at: u64, key: &[u8]) -> Result<bool> {
        Ok(M::new(at).remove(tx, M::Key::of(key, "key")?)?)
    }

    fn contains(&self, tx: &mut dyn Tx, at: u64, key: &[u8]) -> Result<bool> {
        Ok(M::new(at).contains(tx, M::Key::of(key, "key")?)?)
    }

    fn len(&self, tx: &mut dyn Tx, at: u64) -> Result<u64> {
        Ok(M::new(at).len(tx)?)
    }

    fn clear(&self, tx: &mut dyn Tx, at: u64) -> Result<()> {
        Ok(M::new(at).clear(tx)?)
    }

    fn destroy_some(&self, tx: &mut dyn Tx, at: u64, budget: u64) -> Result<bool> {
        Ok(M::new(at).destroy_some(tx, budget)?)
    }

    fn scan(&self, tx: &mut dyn Tx, at: u64, from: u64, count: u64) -> Result<(u64, Vec<Entry>)> {
        let (next, found) = M::new(at).scan(tx, from, count)?;
        Ok((next, found.iter().map(entry::<M::Key, M::Value>).collect()))
    }

    fn range(&self, tx: &mut dyn Tx, at: u64, range: [Bound<&[u8]>; 2]) -> Result<Box<dyn Walk>> {
        M::new(at).range(tx, range)
    }
}

/// An entry as C sees it.
fn entry<K: Stored, V: Stored>((key, value): &(K::Owned, V::Owned)) -> Entry {
    let (mut entry, mut bytes) = (Entry::default(), Vec::new());
    K::with(key, &mut |key| bytes = key.to_vec());
    entry.key = std::mem::take(&mut bytes);
    V::with(value, &mut |value| bytes = value.to_vec());
    entry.value = bytes;
    entry
}

impl<K: Stored, V: Stored> Walk for Cursor<K, V> {
    fn step(&mut self, tx: &mut dyn Tx, step: Step) -> Result<Option<Entry>> {
        let found = match step {
            Step::Next => self.next(tx),
            Step::Prev => self.prev(tx),
        };
        let found = found.map_err(|error| match error {
            Error::Misuse { .. } => {
                let text = "entries were inserted or removed since the cursor was opened, and its \
                            place is gone: abort the transaction; where a map changes, open \
                            another cursor after the change, from the last key on";
                Fail::new(PERDURA_ERR_STALE, text)
            }
            other => other.into(),
        })?;
        Ok(found.as_ref().map(entry::<K, V>))
    }

    fn to_end(self: Box<Self>) -> Box<dyn Walk> {
        Box::new((*self).at_end())
    }
}

/// A type of keys and values.
trait Stored: OrderedItem {
    /// What these bytes are; `what` is for the error's message.
    fn of<'a>(bytes: &'a [u8], what: &str) -> Result<Self::Ref<'a>>;
    /// Calls `to` with its bytes.
    fn with(owned: &Self::Owned, to: &mut dyn FnMut(&[u8]));
}

impl Stored for Bytes {
    fn of<'a>(bytes: &'a [u8], _: &str) -> Result<&'a [u8]> {
        Ok(bytes)
    }

    fn with(owned: &Vec<u8>, to: &mut dyn FnMut(&[u8])) {
        to(owned);
    }
}

impl Stored for u64 {
    fn of(bytes: &[u8], what: &str) -> Result<u64> {
        bytes.try_into().map(u64::from_ne_bytes).map_err(|_| {
            let len = bytes.len();
            invalid(format!("a {what} of {len} bytes in a map of uint64_t {what}s: pass 8 bytes"))
        })
    }

    fn with(owned: &u64, to: &mut dyn FnMut(&[u8])) {
        to(&owned.to_ne_bytes());
    }
}

type Ref<'a, T> = <T as Item>::Ref<'a>;
/// The result of a scan: the next cursor, and entries.
type Scanned<K, V> = (u64, Vec<(<K as Item>::Owned, <V as Item>::Owned)>);

/// The common operations of hash maps and ordered maps, and those of one of them.
trait Map: Collection + 'static {
    type Key: Stored;
    type Value: Stored;

    fn new(at: u64) -> Self;
    fn get(
        self,
        tx: &mut dyn Tx,
        key: Ref<'_, Self::Key>,
    ) -> perdura::Result<Option<<Self::Value as Item>::Owned>>;
    fn set(
        self,
        tx: &mut dyn Tx,
        key: Ref<'_, Self::Key>,
        value: Ref<'_, Self::Value>,
    ) -> perdura::Result<bool>;
    fn remove(self, tx: &mut dyn Tx, key: Ref<'_, Self::Key>) -> perdura::Result<bool>;
    fn contains(self, tx: &mut dyn Tx, key: Ref<'_, Self::Key>) -> perdura::Result<bool>;
    fn len(self, tx: &mut dyn Tx) -> perdura::Result<u64>;
    fn clear(self, tx: &mut dyn Tx) -> perdura::Result<()>;

    fn scan(self, _: &mut dyn Tx, _: u64, _: u64) -> Result<Scanned<Self::Key, Self::Value>> {
        let text = "an ordered map is not scanned: open a cursor on it with perdura_cursor_open";
        Err(Fail::new(PERDURA_ERR_TYPE, text))
    }

    fn range(self, _: &mut dyn Tx, _: [Bound<&[u8]>; 2]) -> Result<Box<dyn Walk>> {
        let text = "a hash map has no order that a cursor could follow: use perdura_map_scan";
        Err(Fail::new(PERDURA_ERR_TYPE, text))
    }
}

macro_rules! maps {
    ($($map:ident { $($own:tt)* })*) => {
        $(impl<K: Stored, V: Stored> Map for $map<K, V> {
            type Key = K;
            type Value = V;

            fn new(at: u64) -> Self {
                Self::new(at)
            }

            fn get(self, tx: &mut dyn Tx, key: Ref<'_, K>) -> perdura::Result<Option<V::Owned>> {
                self.get(tx, key)
            }

            fn set(
                self,
                tx: &mut dyn Tx,
                key: Ref<'_, K>,
                value: Ref<'_, V>,
            ) -> perdura::Result<bool> {
                self.set(tx, key, value)
            }

            fn remove(self, tx: &mut dyn Tx, key: Ref<'_, K>) -> perdura::Result<bool> {
                Ok(self.remove(tx, key)?.is_some())
            }

            fn contains(self, tx: &mut dyn Tx, key: Ref<'_, K>) -> perdura::Result<bool> {
                self.contains(tx, key)
            }

            fn len(self, tx: &mut dyn Tx) -> perdura::Result<u64> {
                self.len(tx)
            }

            fn clear(self, tx: &mut dyn Tx) -> perdura::Result<()> {
                self.clear(tx)
            }

            $($own)*
        })*
    };
}

maps! {
    HashMap {
        fn scan(self, tx: &mut dyn Tx, from: u64, count: u64) -> Result<Scanned<K, V>> {
            Ok(self.scan(tx, from, count)?)
        }
    }
    OrderedMap {
        fn range(self, tx: &mut dyn Tx, range: [Bound<&[u8]>; 2]) -> Result<Box<dyn Walk>> {
            let [low, high] = range.map(|bound| match bound {
                Bound::Included(key) => K::of(key, "key").map(Bound::Included),
                Bound::Excluded(key) => K::of(key, "key").map(Bound::Excluded),
                Bound::Unbounded => Ok(Bound::Unbounded),
            });
            Ok(Box::new(self.cursor(tx, (low?, high?))?))
        }
    }
}
