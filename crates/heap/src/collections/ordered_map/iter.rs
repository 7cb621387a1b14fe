//! Iteration over an ordered map that nothing changes meanwhile.

use super::{Cursor, Entry, Item, OrderedItem};
use crate::{Result, Tx};
use std::fmt;

/// The entries of a range, from both ends: see [`OrderedMap::iter`](super::OrderedMap::iter). After an error there are no
/// more.
pub struct Iter<'t, K, V, T: ?Sized> {
    tx: &'t mut T,
    /// What is left of the range; `None` after an error.
    rest: Option<Cursor<K, V>>,
}

impl<'t, K: OrderedItem, V: Item, T: Tx + ?Sized> Iter<'t, K, V, T> {
    pub(super) fn new(tx: &'t mut T, range: Cursor<K, V>) -> Self {
        Iter { tx, rest: Some(range) }
    }

    #[allow(clippy::type_complexity)]
    fn take(
        &mut self,
        from: fn(&mut Cursor<K, V>, &mut T) -> Result<Option<Entry<K, V>>>,
    ) -> Option<Result<Entry<K, V>>> {
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
