//! Entries of a mechanism's table that the controller has copies of, where the table is in DRAM.
//!
//! What always holds: a copy that has changed is newer than the entry in DRAM, until it is replaced and its caller has
//! written it there.

use crate::lru::Lru;

struct CachedEntry<T> {
    fields: T,
    changed: bool,
}

/// The copies, by the numbers of their entries. The least recently used one is replaced.
pub(super) struct CachedEntries<T> {
    entries: Lru,
    copies: Vec<CachedEntry<T>>,
}

impl<T> CachedEntries<T> {
    /// With room for this many, one at least.
    pub(super) fn new(places: usize) -> Self {
        CachedEntries { entries: Lru::new(1, places.max(1)), copies: Vec::new() }
    }

    /// Whether there is a copy of an entry, which counts as used.
    pub(super) fn touch(&mut self, entry: u64) -> bool {
        self.entries.touch(entry).is_some()
    }

    /// The copy of an entry, which does not count as used.
    pub(super) fn peek(&self, entry: u64) -> Option<&T> {
        self.entries.peek(entry).map(|place| &self.copies[place].fields)
    }

    /// The copy of an entry, to be changed; it does not count as used.
    pub(super) fn change(&mut self, entry: u64) -> Option<&mut T> {
        let copy = &mut self.copies[self.entries.peek(entry)?];
        copy.changed = true;
        Some(&mut copy.fields)
    }

    /// Makes a copy of an entry that has none. Returns the entry that it replaces, if that is to be written to DRAM.
    pub(super) fn insert(&mut self, entry: u64, fields: T, changed: bool) -> Option<(u64, T)> {
        let copy = CachedEntry { fields, changed };
        match self.entries.insert(entry) {
            (_, None) => {
                self.copies.push(copy);
                None
            }
            (place, Some(replaced)) => {
                let old = std::mem::replace(&mut self.copies[place], copy);
                old.changed.then_some((replaced, old.fields))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_entries_are_written_back_once_when_they_are_replaced() {
        let mut cached = CachedEntries::new(2);
        assert_eq!(cached.insert(5, 'a', false), None);
        assert_eq!(cached.insert(6, 'b', false), None);
        *cached.change(5).expect("a copy") = 'c';
        assert_eq!((cached.peek(5), cached.peek(7)), (Some(&'c'), None));
        // Neither a look at it nor a change of it is a use.
        assert_eq!(cached.insert(7, 'd', true), Some((5, 'c')));
        assert!(cached.touch(6) && !cached.touch(5) && cached.change(5).is_none());
        assert_eq!(cached.insert(5, 'c', false), Some((7, 'd')));
        assert_eq!(cached.insert(8, 'e', false), None, "6 has not changed");
        assert_eq!(cached.insert(9, 'f', false), None, "nor has 5 since it was written back");
    }
}
