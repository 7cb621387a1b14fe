//! Iteration over an ordered map that does not change meanwhile.

use super::{Cursor, Entry, Item, OrderedItem};
use crate::{Result, Tx};
use std::fmt;

/// The entries of a range, from both ends: see [`OrderedMap::iter`](super::OrderedMap::iter). It ends after an error.
pub struct Iter<'t, K, V, T: ?Sized> {
    tx: &'t mut T,
    /// The rest of the range; `None` after an error.
    rest: Option<Cursor<K, V>>,
}

/// Takes the first or the last entry of a range.
type Take<K, V, T> = fn(&mut Cursor<K, V>, &mut T) -> Result<Option<Entry<K, V>>>;

impl<'t, K: OrderedItem, V: Item, T: Tx + ?Sized> Iter<'t, K, V, T> {
    pub(super) fn new(tx: &'t mut T, range: Cursor<K, V>) -> Self {
        Iter { tx, rest: Some(range) }
    }

    fn take(&mut self, from: Take<K, V, T>) -> Option<Result<Entry<K, V>>> {
        let taken = from(self.rest.as_mut()?, self.tx);
        if taken.is_err() {
            self.rest = None;
        }
        taken.transpose()
    }
}

impl<K: OrderedItem, V: Item, T: Tx + ?Sized> Iterator for Iter<'_, K, V, T> {
    type Item = Result<Entry<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take(Cursor::take_first)
    }
}

impl<K: OrderedItem, V: Item, T: Tx + ?Sized> DoubleEndedIterator for Iter<'_, K, V, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(Cursor::take_last)
    }
}

impl<K, V, T: ?Sized> fmt::Debug for Iter<'_, K, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}
