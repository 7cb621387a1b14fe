//! Iteration in both directions.

use super::Entry;
use super::path::Path;
use super::tree::Tree;
use crate::collections::codec::{Item, OrderedItem};
use crate::{Result, Tx};
use std::marker::PhantomData;

/// A place between two entries of an ordered map, inside a range. It is good until entries are
/// inserted or removed; used after that, it returns wrong entries, or `Corrupt`.
pub struct Cursor<K, V> {
    tree: Tree,
    /// Settled, as the two ends are: that makes places comparable.
    place: Path,
    low: Path,
    high: Path,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K: OrderedItem, V: Item> Cursor<K, V> {
    pub(super) fn new(tree: Tree, low: Path, high: Path) -> Self {
        let high = if high.is_before(&low) { low } else { high };
        Cursor { tree, place: low, low, high, of: PhantomData }
    }

    /// The same range, placed behind its last entry.
    #[must_use]
    pub fn at_end(mut self) -> Self {
        self.place = self.high;
        self
    }

    /// Moves to a place of the same map.
    pub(super) fn placed(mut self, place: Path) -> Self {
        self.place = place;
        self
    }

    /// The entry behind this place, and moves behind it; `None` at the range's end.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn next<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<Option<Entry<K, V>>> {
        if self.place.is_at(&self.high) {
            return Ok(None);
        }
        let entry = self.load(tx)?;
        self.place.forward(tx, &self.tree)?;
        Ok(Some(entry))
    }

    /// The entry before this place, and moves before it; `None` at the range's beginning.
    ///
    /// # Errors
    /// `Corrupt` if the map is damaged.
    pub fn prev<T: Tx + ?Sized>(&mut self, tx: &mut T) -> Result<Option<Entry<K, V>>> {
        if self.place.is_at(&self.low) || !self.place.back(tx, &self.tree)? {
            return Ok(None);
        }
        self.load(tx).map(Some)
    }

    fn load<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<Entry<K, V>> {
        let at = self.place.entry(tx, &self.tree)?;
        Ok((K::load(tx, at)?, V::load(tx, at + K::FORM.bytes())?))
    }
}
