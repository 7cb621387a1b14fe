//! Iteration in both directions.

use super::Entry;
use super::path::Path;
use super::tree::Tree;
use crate::collections::codec::{Item, OrderedItem};
use crate::collections::tag::Expected;
use crate::{Error, Moment, Result, Tx};
use std::marker::PhantomData;

/// A position between two entries of an ordered map, inside a range. It is valid until something is inserted or
/// removed next to it or next to one of the range's ends, or until nodes above these split or merge: then it is
/// *stale*, and refused. Values may change, and nodes may be moved out of pages that are emptied. A cursor does not notice an entry that has taken exactly the place of one
/// that was removed.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::collections::OrderedMap;
///
/// let map = OrderedMap::<u64, u64>::create(tx)?;
/// for key in 0..10 {
///     map.insert(tx, key, 0)?;
/// }
/// // Unlike an iterator, a cursor lets values be changed on the way.
/// let mut cursor = map.cursor(tx, 3..6)?;
/// while let Some((key, value)) = cursor.next(tx)? {
///     map.insert(tx, key, value + key)?;
/// }
/// assert_eq!(map.get(tx, 5)?, Some(5));
/// # Ok(())
/// # }).unwrap();
/// ```
pub struct Cursor<K, V> {
    tree: Tree,
    /// The map's tag.
    tag: u64,
    /// When it was last known to be valid.
    good: Moment,
    /// The two ends are settled, which makes positions comparable.
    place: Path,
    low: Path,
    high: Path,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K: OrderedItem, V: Item> Cursor<K, V> {
    pub(super) fn new(tree: Tree, tag: u64, good: Moment, low: Path, high: Path) -> Self {
        let high = if high.is_before(&low) { low } else { high };
        Cursor { tree, tag, good, place: low, low, high, of: PhantomData }
    }

    /// Returns `Ok` if the cursor is valid now.
    #[inline]
    fn check<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<()> {
        let now = tx.moment();
        if now == self.good { Ok(()) } else { self.check_again(tx, now) }
    }

    fn check_again<T: Tx + ?Sized>(&mut self, tx: &mut T, now: Moment) -> Result<()> {
        let at = self.tree.at;
        if Expected::is_elsewhere(self.good.pool, tx) {
            return Err(Error::misuse("a cursor of another pool's ordered map", at));
        }
        let mut good = tx.read_word(at)? == self.tag;
        let moved = now.moves != self.good.moves || now.moves % 2 == 1;
        for path in [&mut self.place, &mut self.low, &mut self.high] {
            good = good && path.is_current(tx, &self.tree, moved)?;
        }
        if !good {
            let what = "a cursor made before entries were inserted or removed, of the ordered map";
            return Err(Error::misuse(what, at));
        }
        self.good = now;
        Ok(())
    }

    /// The same range, with the cursor after its last entry.
    #[must_use]
    pub fn at_end(mut self) -> Self {
        self.place = self.high;
        self
    }

    /// Moves to a position of the same map.
    pub(super) fn placed(mut self, place: Path) -> Self {
        self.place = place;
        self
    }

    /// Returns the entry after this position, and moves past it; `None` at the range's end.
    ///
    /// # Errors
    /// `Misuse` if the cursor is stale, or of another pool; `Corrupt` if the map is damaged.
    pub fn next<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<Option<Entry<K, V>>> {
        self.check(tx)?;
        if self.place.is_at(&self.high) {
            return Ok(None);
        }
        let entry = self.load(tx)?;
        self.place.forward(tx, &self.tree)?;
        Ok(Some(entry))
    }

    /// Returns the entry before this position, and moves before it; `None` at the range's beginning.
    ///
    /// # Errors
    /// As [`next`](Cursor::next).
    pub fn prev<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<Option<Entry<K, V>>> {
        self.check(tx)?;
        if self.place.is_at(&self.low) || !self.place.back(tx, &self.tree)? {
            return Ok(None);
        }
        self.load(tx).map(Some)
    }

    /// Removes the first entry from the range, and returns it.
    pub(super) fn take_first<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<Option<Entry<K, V>>> {
        self.place = self.low;
        let entry = self.next(tx)?;
        self.low = self.place;
        Ok(entry)
    }

    /// Removes the last entry from the range, and returns it.
    pub(super) fn take_last<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<Option<Entry<K, V>>> {
        self.place = self.high;
        let entry = self.prev(tx)?;
        self.high = self.place;
        Ok(entry)
    }

    fn load<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<Entry<K, V>> {
        let at = self.place.entry(tx, &self.tree)?;
        Ok((K::load(tx, at)?, V::load(tx, at + K::FORM.bytes())?))
    }
}
