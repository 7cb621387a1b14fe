//! An ordered map: a B+ tree of small nodes, in which an insertion moves no entries.

mod build;
mod change;
mod check;
mod compact;
mod cursor;
mod iter;
mod path;
mod search;
mod tree;
mod untyped;

use self::path::Path;
use self::search::Sought;
use self::tree::ROOT;
pub(super) use self::tree::Tree;
use super::codec::{Item, OrderedItem, Pair};
use super::form::{Form, update_word};
use super::tag::{Expected, Tag};
use super::{Visit, kind};
use crate::{Ptr, Purpose, Result, Tx};
pub use cursor::Cursor;
pub use iter::Iter;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
pub(super) use untyped::{create_untyped, flags, is_counted};

/// The flag in the tag of a map that counts its entries.
const COUNTED_FLAG: u64 = 1;

/// An ordered map: a handle to it.
///
/// `K` and `V` say how keys and values are stored ([`Item`]): `OrderedMap<u64, u64>`,
/// `OrderedMap<Bytes, Bytes>`, `OrderedMap<Pair<Total, Bytes>, (), true>`.
///
/// With `COUNTED`, it knows how many entries each subtree has, for [`rank`](OrderedMap::rank),
/// [`nth`](OrderedMap::nth) and a fast [`len`](OrderedMap::len), and an insertion or removal costs one line more for
/// each level from the second above the leaves on. Without it, `len` walks the leaves.
///
/// In addition to the errors listed for each operation, all fail with `WrongType` if the header is that of another
/// collection, or of one with other types, and with `Misuse` if there is no header.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::TxExt;
/// use perdura::collections::{Bytes, OrderedMap};
///
/// let events = tx.open_or_create::<OrderedMap<u64, Bytes>>("events")?;
/// events.insert(tx, 1969, b"moon")?;
/// events.insert(tx, 1903, b"flight")?;
/// assert_eq!(events.first(tx)?, Some((1903, b"flight".to_vec())));
/// assert_eq!(events.range(tx, 1950..)?.count(), 1);
/// # Ok(())
/// # }).unwrap();
/// ```
pub struct OrderedMap<K, V, const COUNTED: bool = false> {
    at: u64,
    /// The identifier of the pool that the handle was made in; 0 if unknown.
    pool: u64,
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

impl<K: OrderedItem, V: Item, const COUNTED: bool> OrderedMap<K, V, COUNTED> {
    const VALUE: u64 = K::FORM.bytes();
    const TAG: u64 = {
        let flags = COUNTED as u64 * COUNTED_FLAG;
        Tag::of(kind::ORDERED_MAP, (K::FORM, V::FORM), &[K::TYPE, V::TYPE], flags).word()
    };

    /// The map whose header is at `at`.
    pub const fn new(at: u64) -> Self {
        OrderedMap { at, pool: 0, of: PhantomData }
    }

    /// The map whose header is at `at`, after a check of its types.
    ///
    /// # Errors
    /// `WrongType` if it is another collection; `Misuse` if there is none.
    pub fn open<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Self> {
        let map = OrderedMap { pool: tx.moment().pool, ..Self::new(at) };
        map.tree(tx).map(|_| map)
    }

    /// The offset of its header, which a root keeps. Kept elsewhere it is a number to the pool: a check then reports
    /// the collection as reached by an offset, and a copy must keep all offsets (docs/collections.md).
    pub const fn at(self) -> u64 {
        self.at
    }

    /// A new, empty one.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<T: Tx + ?Sized>(tx: &mut T) -> Result<Self> {
        let words = [Self::TAG, 0];
        let header = tx.allocate(Purpose::General, ROOT + 8)?;
        tx.write_fresh(header, 0, bytemuck::bytes_of(&words))?;
        Ok(OrderedMap { at: header.at(), pool: tx.moment().pool, of: PhantomData })
    }

    /// The tree of such a map, but for its place.
    const TREE: Tree = Tree::of(0, K::FORM, V::FORM, COUNTED);

    #[inline(always)]
    fn tree<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Tree> {
        if Expected::is_elsewhere(self.pool, tx) || tx.read_word(self.at)? != Self::TAG {
            return Err(self.expected().missing(tx, self.at));
        }
        Ok(Tree { at: self.at, ..Self::TREE })
    }

    fn expected(self) -> Expected {
        let name = || match COUNTED {
            true => format!("OrderedMap<{}, {}, true>", K::TYPE, V::TYPE),
            false => format!("OrderedMap<{}, {}>", K::TYPE, V::TYPE),
        };
        Expected { kind: kind::ORDERED_MAP, name, pool: self.pool }
    }

    /// The address of a key's value, if the key is there, to read or write parts of it. It is valid until something is
    /// inserted or removed, or the transaction ends: between transactions the pool may move it.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn slot<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<Option<Ptr<V>>> {
        let tree = self.tree(tx)?;
        let slot = tree.find::<T, K>(tx, K::probe(key, 0))?;
        Ok(slot.map(|slot| Ptr::new(slot + Self::VALUE)))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn get<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        match self.slot(tx, key)? {
            Some(slot) => V::load(tx, slot.at()).map(Some),
            None => Ok(None),
        }
    }

    /// Whether a key is there.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn contains<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<bool> {
        Ok(self.slot(tx, key)?.is_some())
    }

    /// Inserts a key, or replaces its value; returns the old value.
    ///
    /// # Errors
    /// As [`Tx::allocate`]; `Corrupt` if the map is damaged.
    pub fn insert<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Option<V::Owned>> {
        self.put::<T, _, true>(tx, key, value, V::load)
    }

    /// Inserts a key, unless it is there already; returns whether it was inserted. One look, where
    /// [`contains`](OrderedMap::contains) and [`set`](OrderedMap::set) take two.
    ///
    /// # Errors
    /// As [`Tx::allocate`]; `Corrupt` if the map is damaged.
    pub fn insert_if_absent<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<bool> {
        Ok(self.put::<T, _, false>(tx, key, value, |_, _| Ok(()))?.is_none())
    }

    /// As [`insert`](OrderedMap::insert), but does not read the old value; `true` if there was
    /// none.
    ///
    /// # Errors
    /// As [`Tx::allocate`]; `Corrupt` if the map is damaged.
    pub fn set<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<bool> {
        Ok(self.put::<T, _, true>(tx, key, value, |_, _| Ok(()))?.is_none())
    }

    /// Inserts a key; if it is there, returns what `old` makes of its value's place, and replaces the value if it
    /// `REPLACES`.
    fn put<T: Tx + ?Sized, R, const REPLACES: bool>(
        self,
        tx: &mut T,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
        old: impl FnOnce(&mut T, u64) -> Result<R>,
    ) -> Result<Option<R>> {
        let tree = self.tree(tx)?;
        let (key, value) = (K::probe(key, 0), V::probe_value(value));
        let sought = tree.seek::<T, K>(tx, key)?;
        if let Some(at) = sought.entry(tx, &tree)? {
            let old = old(tx, at + Self::VALUE)?;
            if REPLACES {
                V::replace(tx, at + Self::VALUE, value, Purpose::Value)?;
            }
            return Ok(Some(old));
        }
        let at = tree.open_at::<T, K>(tx, sought, key)?;
        K::store(tx, at, key, Purpose::Key)?;
        V::store(tx, at + Self::VALUE, value, Purpose::Value)?;
        Ok(None)
    }

    /// Removes a key; returns its value.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; `ReadOnly`, `TooLarge`.
    pub fn remove<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        let tree = self.tree(tx)?;
        let sought = tree.seek::<T, K>(tx, K::probe(key, 0))?;
        let Some(at) = sought.entry(tx, &tree)? else { return Ok(None) };
        let old = V::load(tx, at + Self::VALUE)?;
        tree.release(tx, at)?;
        tree.close_at(tx, &sought)?;
        Ok(Some(old))
    }

    /// The entry with the least key.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn first<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<Entry<K, V>>> {
        self.cursor(tx, ..)?.next(tx)
    }

    /// The address of the least key, to read a part of it: [`first`](OrderedMap::first) reads all of it, and a byte
    /// string may be long. It is valid until something is inserted or removed, or the transaction ends.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn first_slot<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<Ptr<K>>> {
        let tree = self.tree(tx)?;
        let path = Path::to_edge(tx, &tree, false)?;
        if path.len() == 0 {
            return Ok(None);
        }
        path.entry(tx, &tree).map(|at| Some(Ptr::new(at)))
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn last<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<Entry<K, V>>> {
        self.cursor(tx, ..)?.at_end().prev(tx)
    }

    /// The entries whose keys are in a range: a cursor before the first of them. For the other
    /// direction, call [`at_end`](Cursor::at_end).
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn cursor<'k, T: Tx + ?Sized>(
        self,
        tx: &mut T,
        range: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<Cursor<K, V>> {
        let tree = self.tree(tx)?;
        let low = match range.start_bound().cloned() {
            Bound::Unbounded => Path::to_edge(tx, &tree, false)?,
            Bound::Included(key) => tree.gap::<T, K>(tx, K::probe(key, 0), false)?,
            Bound::Excluded(key) => tree.gap::<T, K>(tx, K::probe(key, 0), true)?,
        };
        let high = match range.end_bound().cloned() {
            Bound::Unbounded => Path::to_edge(tx, &tree, true)?,
            Bound::Included(key) => tree.gap::<T, K>(tx, K::probe(key, 0), true)?,
            Bound::Excluded(key) => tree.gap::<T, K>(tx, K::probe(key, 0), false)?,
        };
        Ok(Cursor::new(tree, Self::TAG, tx.moment(), low, high))
    }

    /// Iterates over the entries whose keys are in a range, from either end. While the iterator lives, the transaction
    /// can do nothing else; with a [`cursor`](OrderedMap::cursor) it can.
    ///
    /// ```
    /// use perdura::TxExt;
    /// use perdura::collections::{Bytes, OrderedMap};
    ///
    /// # perdura::testing::TestHeap::new().run(&mut |tx| {
    /// let prices = tx.open_or_create::<OrderedMap<u64, Bytes>>("prices")?;
    /// for (price, name) in [(30, "pear"), (10, "apple"), (20, "plum")] {
    ///     prices.insert(tx, price, name.as_bytes())?;
    /// }
    /// let cheap: perdura::Result<Vec<_>> = prices.range(tx, ..=20)?.collect();
    /// assert_eq!(cheap?, [(10, b"apple".to_vec()), (20, b"plum".to_vec())]);
    /// let dearest = prices.iter(tx)?.next_back().transpose()?;
    /// assert_eq!(dearest, Some((30, b"pear".to_vec())));
    /// # Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn range<'t, 'k, T: Tx + ?Sized>(
        self,
        tx: &'t mut T,
        range: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<Iter<'t, K, V, T>> {
        let range = self.cursor(tx, range)?;
        Ok(Iter::new(tx, range))
    }

    /// Iterates over all entries: the [`range`](OrderedMap::range) without bounds.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn iter<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Iter<'_, K, V, T>> {
        self.range(tx, ..)
    }

    /// Calls `each` with every entry, in order; an error that it returns ends the walk.
    ///
    /// # Errors
    /// The errors of `each`; `Corrupt` if the map is damaged.
    pub fn for_each<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        each: &mut dyn FnMut(K::Owned, V::Owned) -> Result<()>,
    ) -> Result<()> {
        let mut cursor = self.cursor(tx, ..)?;
        while let Some((key, value)) = cursor.next(tx)? {
            each(key, value)?;
        }
        Ok(())
    }

    /// The number of entries; in a map that does not count them, by walking the leaves.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn len<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
        let tree = self.tree(tx)?;
        let Some(root) = tree.root(tx)? else { return Ok(0) };
        if COUNTED { tree.weights(tx, &root, 0..root.order.len()) } else { tree.walk_len(tx) }
    }

    /// Whether there are no entries.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn is_empty<T: Tx + ?Sized>(self, tx: &mut T) -> Result<bool> {
        Ok(self.tree(tx)?.root(tx)?.is_none())
    }

    /// Removes all entries.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; `ReadOnly`, `TooLarge`.
    pub fn clear<T: Tx + ?Sized>(self, tx: &mut T) -> Result<()> {
        self.tree(tx)?.clear(tx)
    }

    /// Frees the map and its contents.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; `ReadOnly`, `TooLarge`.
    pub fn destroy<T: Tx + ?Sized>(self, tx: &mut T) -> Result<()> {
        self.destroy_some(tx, u64::MAX).map(drop)
    }

    /// Frees about `budget` entries and nodes. Returns `true` when all are freed, including the map itself. In between
    /// it is a smaller map.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; `ReadOnly`, `TooLarge`.
    pub fn destroy_some<T: Tx + ?Sized>(self, tx: &mut T, budget: u64) -> Result<bool> {
        self.tree(tx)?.destroy_some(tx, budget)
    }

    /// Moves nodes, and keys and values with blocks of their own, out of pages that are to be emptied
    /// ([`Tx::is_sparse`]), in `leaves` leaves from the cursor on. Returns the cursor to go on with: begin with 0, and
    /// stop when 0 is returned. Leaves may be missed, or visited twice, if entries are inserted or removed in between.
    ///
    /// # Errors
    /// As [`Tx::allocate`]; `Corrupt` if the map is damaged.
    pub fn compact_some<T: Tx + ?Sized>(self, tx: &mut T, cursor: u64, leaves: u64) -> Result<u64> {
        let mut budget = leaves;
        self.tree(tx)?.compact_some(tx, cursor, &mut budget)
    }

    /// Checks the whole map, and reports every block that it owns.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged; the errors of `visit`.
    pub fn check<T: Tx + ?Sized>(self, tx: &mut T, visit: &mut Visit<'_>) -> Result<()> {
        let tree = self.tree(tx)?;
        tree.check(tx, visit)?;
        tree.check_order::<T, K>(tx)
    }
}

impl<K: OrderedItem, V: Item> OrderedMap<K, V, true> {
    /// How many keys are less than `key`, and whether `key` itself is there.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn rank<T: Tx + ?Sized>(self, tx: &mut T, key: K::Ref<'_>) -> Result<(u64, bool)> {
        let tree = self.tree(tx)?;
        let Sought { path, found, .. } = tree.seek::<T, K>(tx, K::probe(key, 0))?;
        Ok((path.rank(tx, &tree)?, found))
    }

    /// The entry with `index` entries before it.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn nth<T: Tx + ?Sized>(self, tx: &mut T, index: u64) -> Result<Option<Entry<K, V>>> {
        self.at_index(tx, index)?.next(tx)
    }

    /// A cursor over the whole map, before the entry with `index` entries before it.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn at_index<T: Tx + ?Sized>(self, tx: &mut T, index: u64) -> Result<Cursor<K, V>> {
        let tree = self.tree(tx)?;
        let place = Path::to_index(tx, &tree, index)?;
        Ok(self.cursor(tx, ..)?.placed(place))
    }
}

impl<A: OrderedItem, B: OrderedItem, V: Item, const COUNTED: bool>
    OrderedMap<Pair<A, B>, V, COUNTED>
{
    /// Changes the first item of an entry's key, and so its place: as removing the entry and inserting it with another
    /// key, but the second item and the value are not stored anew. If the new place is between the same neighbours,
    /// which are in the same leaf, nothing but the first item is written. An entry that has the new key is replaced.
    /// Returns `false` if there is no entry with the old key.
    ///
    /// ```
    /// # perdura::testing::TestHeap::new().run(&mut |tx| {
    /// use perdura::collections::{Bytes, OrderedMap, Pair};
    ///
    /// let scores = OrderedMap::<Pair<u64, Bytes>, (), true>::create(tx)?;
    /// scores.insert(tx, (7, b"ann"), ())?;
    /// scores.insert(tx, (8, b"bob"), ())?;
    /// assert!(scores.set_first(tx, (7, b"ann"), 9)?);
    /// assert_eq!(scores.rank(tx, (9, b"ann"))?, (1, true));
    /// # Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Tx::allocate`]; `Corrupt` if the map is damaged.
    pub fn set_first<'a, T: Tx + ?Sized>(
        self,
        tx: &mut T,
        (old, second): (A::Ref<'a>, B::Ref<'a>),
        first: A::Ref<'a>,
    ) -> Result<bool> {
        let tree = self.tree(tx)?;
        let new = Pair::<A, B>::probe((first, second), 0);
        let sought = tree.seek::<T, Pair<A, B>>(tx, Pair::<A, B>::probe((old, second), 0))?;
        let Some(at) = sought.entry(tx, &tree)? else { return Ok(false) };
        if tree.stays::<T, Pair<A, B>>(tx, &sought, at, new)? {
            A::store(tx, at, new.0, Purpose::Key)?;
            return Ok(true);
        }
        let rest = (A::FORM.bytes()..tree.leaf.slot).step_by(8);
        let words: Vec<u64> =
            rest.clone().map(|word| tx.read_word(at + word)).collect::<Result<_, _>>()?;
        tree.close_at(tx, &sought)?;
        let sought = tree.seek::<T, Pair<A, B>>(tx, new)?;
        let at = match sought.entry(tx, &tree)? {
            Some(at) => {
                tree.release(tx, at)?;
                at
            }
            None => tree.open_at::<T, Pair<A, B>>(tx, sought, new)?,
        };
        A::store(tx, at, new.0, Purpose::Key)?;
        for (word, value) in rest.zip(words) {
            update_word(tx, at + word, value)?;
        }
        Ok(true)
    }
}

/// The tree at `at`, whatever its types.
pub(super) const fn open(at: u64, key: Form, value: Form, flags: u64) -> Tree {
    Tree::of(at, key, value, flags & COUNTED_FLAG != 0)
}
