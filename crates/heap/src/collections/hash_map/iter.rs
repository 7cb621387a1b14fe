//! Iteration over a hash map that does not change meanwhile.

use super::{HashMap, Item};
use crate::{Result, Tx};
use std::fmt;
use std::vec;

/// An owned entry.
type Entry<K, V> = (<K as Item>::Owned, <V as Item>::Owned);

/// Buckets read at a time.
const SOME: u64 = 1;

/// The entries of a hash map, in no particular order: see [`HashMap::iter`].
pub struct Iter<'t, K: Item, V: Item, T: ?Sized, const COUNTED: bool> {
    tx: &'t mut T,
    map: HashMap<K, V, COUNTED>,
    found: vec::IntoIter<Entry<K, V>>,
    /// The cursor of the next entries; `None` at the end.
    cursor: Option<u64>,
}

impl<'t, K: Item, V: Item, T: Tx + ?Sized, const COUNTED: bool> Iter<'t, K, V, T, COUNTED> {
    pub(super) fn new(tx: &'t mut T, map: HashMap<K, V, COUNTED>) -> Result<Self> {
        let (cursor, found) = map.scan(tx, 0, SOME)?;
        Ok(Iter { tx, map, found: found.into_iter(), cursor: (cursor != 0).then_some(cursor) })
    }
}

impl<K: Item, V: Item, T: Tx + ?Sized, const COUNTED: bool> Iterator
    for Iter<'_, K, V, T, COUNTED>
{
    type Item = Result<Entry<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.found.next() {
                return Some(Ok(entry));
            }
            match self.map.scan(self.tx, self.cursor.take()?, SOME) {
                Ok((cursor, found)) => {
                    self.found = found.into_iter();
                    self.cursor = (cursor != 0).then_some(cursor);
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl<K: Item, V: Item, T: ?Sized, const COUNTED: bool> fmt::Debug for Iter<'_, K, V, T, COUNTED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("map", &self.map).finish_non_exhaustive()
    }
}
