//! An ordered map: a B+ tree of small nodes, whose slots are not moved to be kept in order.

mod tree;

use super::Item;
use super::Visit;
use super::codec::OrderedItem;
use crate::{Error, Ptr, Result, Tx};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;
pub(super) use tree::open;

const TODO: Error = Error::Invalid("not there yet");

/// An ordered map: a handle to it.
///
/// `K` and `V` say how keys and values are stored ([`Item`]): `OrderedMap<u64, u64>`,
/// `OrderedMap<Bytes, Bytes>`, `OrderedMap<Pair<Total, Bytes>, (), true>`.
///
/// If it is `COUNTED`, it knows how many entries each subtree has, which gives it
/// [`rank`](OrderedMap::rank), [`nth`](OrderedMap::nth) and a quick [`len`](OrderedMap::len), and
/// costs an insertion or removal one line for each level of the tree.
pub struct OrderedMap<K, V, const COUNTED: bool = false> {
    at: u64,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K, V, const COUNTED: bool> Clone for OrderedMap<K, V, COUNTED> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V, const COUNTED: bool> Copy for OrderedMap<K, V, COUNTED> {}
impl<K, V, const COUNTED: bool> fmt::Debug for OrderedMap<K, V, COUNTED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrderedMap({:#x})", self.at)
    }
}

/// An owned entry.
pub type Entry<K, V> = (<K as Item>::Owned, <V as Item>::Owned);

/// A place between two entries of an ordered map. It is good until the map is changed.
pub struct Cursor<K, V> {
    of: PhantomData<fn() -> (K, V)>,
}

impl<K: OrderedItem, V: Item> Cursor<K, V> {
    /// The entry after this place, and moves behind it; `None` at the range's end.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn next<T: Tx + ?Sized>(&mut self, _tx: &mut T) -> Result<Option<Entry<K, V>>> {
        Err(TODO)
    }

    /// The entry before this place, and moves before it; `None` at the range's beginning.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn prev<T: Tx + ?Sized>(&mut self, _tx: &mut T) -> Result<Option<Entry<K, V>>> {
        Err(TODO)
    }
}

#[allow(missing_docs, clippy::missing_errors_doc)]
impl<K: OrderedItem, V: Item, const COUNTED: bool> OrderedMap<K, V, COUNTED> {
    /// The map whose header is at `at`.
    pub const fn new(at: u64) -> Self {
        OrderedMap { at, of: PhantomData }
    }

    /// The offset of its header: what a root or another object keeps.
    pub const fn at(self) -> u64 {
        self.at
    }

    /// A new, empty one.
    pub fn create<T: Tx + ?Sized>(_tx: &mut T) -> Result<Self> {
        Err(TODO)
    }
    /// Where the value of a key is.
    pub fn slot<T: Tx + ?Sized>(self, _tx: &mut T, _key: K::Ref<'_>) -> Result<Option<Ptr<V>>> {
        Err(TODO)
    }
    pub fn get<T: Tx + ?Sized>(self, _tx: &mut T, _key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        Err(TODO)
    }
    pub fn contains<T: Tx + ?Sized>(self, _tx: &mut T, _key: K::Ref<'_>) -> Result<bool> {
        Err(TODO)
    }
    pub fn insert<T: Tx + ?Sized>(
        self,
        _tx: &mut T,
        _key: K::Ref<'_>,
        _value: V::Ref<'_>,
    ) -> Result<Option<V::Owned>> {
        Err(TODO)
    }
    /// As `insert`, but does not read the old value; `true` if there was none.
    pub fn set<T: Tx + ?Sized>(
        self,
        _tx: &mut T,
        _key: K::Ref<'_>,
        _value: V::Ref<'_>,
    ) -> Result<bool> {
        Err(TODO)
    }
    pub fn remove<T: Tx + ?Sized>(self, _tx: &mut T, _key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        Err(TODO)
    }
    pub fn first<T: Tx + ?Sized>(self, _tx: &mut T) -> Result<Option<Entry<K, V>>> {
        Err(TODO)
    }
    pub fn last<T: Tx + ?Sized>(self, _tx: &mut T) -> Result<Option<Entry<K, V>>> {
        Err(TODO)
    }
    /// A cursor over the entries within the bounds: `next` from the beginning.
    pub fn range<T: Tx + ?Sized>(
        self,
        _tx: &mut T,
        _from: Bound<K::Ref<'_>>,
        _to: Bound<K::Ref<'_>>,
    ) -> Result<Cursor<K, V>> {
        Err(TODO)
    }
    /// The same, placed at the end: `prev` from there.
    pub fn range_back<T: Tx + ?Sized>(
        self,
        _tx: &mut T,
        _from: Bound<K::Ref<'_>>,
        _to: Bound<K::Ref<'_>>,
    ) -> Result<Cursor<K, V>> {
        Err(TODO)
    }
    pub fn len<T: Tx + ?Sized>(self, _tx: &mut T) -> Result<u64> {
        Err(TODO)
    }
    pub fn is_empty<T: Tx + ?Sized>(self, _tx: &mut T) -> Result<bool> {
        Err(TODO)
    }
    pub fn clear<T: Tx + ?Sized>(self, _tx: &mut T) -> Result<()> {
        Err(TODO)
    }
    pub fn destroy<T: Tx + ?Sized>(self, _tx: &mut T) -> Result<()> {
        Err(TODO)
    }
    pub fn destroy_some<T: Tx + ?Sized>(self, _tx: &mut T, _budget: u64) -> Result<bool> {
        Err(TODO)
    }
    pub fn check<T: Tx + ?Sized>(self, _tx: &mut T, _visit: &mut Visit<'_>) -> Result<()> {
        Err(TODO)
    }
}

#[allow(clippy::missing_errors_doc)]
impl<K: OrderedItem, V: Item> OrderedMap<K, V, true> {
    /// How many keys are less than `key`, and whether `key` itself is there.
    pub fn rank<T: Tx + ?Sized>(self, _tx: &mut T, _key: K::Ref<'_>) -> Result<(u64, bool)> {
        Err(TODO)
    }
    /// The entry with `index` entries before it.
    pub fn nth<T: Tx + ?Sized>(self, _tx: &mut T, _index: u64) -> Result<Option<Entry<K, V>>> {
        Err(TODO)
    }
    /// A cursor before the entry with `index` entries before it.
    pub fn at_index<T: Tx + ?Sized>(self, _tx: &mut T, _index: u64) -> Result<Cursor<K, V>> {
        Err(TODO)
    }
}
