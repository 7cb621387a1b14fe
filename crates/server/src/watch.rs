//! WATCH: version numbers of keys, for optimistic transactions of clients.
//!
//! Keys share a fixed number of slots, so a watcher may be disturbed by another key: then its
//! EXEC fails where it need not, which clients must expect anyway.
//!
//! Readers go on beside a writer, and see what was there before until it has committed. A version
//! that moved once, before the commit or after it, would let somebody who begins to watch in
//! between read the old value and not be told. So a slot counts transactions that write one of
//! its keys twice: from within, and when they are over. Who begins to watch while the counts
//! differ has watched in vain.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 4096;
/// Room for slots that a thread keeps from one transaction to the next.
const KEEP: usize = 2 * SLOTS;

/// The versions of all keys of all databases.
pub(crate) struct Watch(Box<[Slot]>);

/// How often keys were written.
#[derive(Default)]
struct Slot {
    begun: AtomicU64,
    /// Of these, by transactions that are over.
    over: AtomicU64,
}

/// A key's slot and the version it had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    slot: usize,
    /// None if the key was being written.
    version: Option<u64>,
}

/// What a client watches. Of keys that share a slot the one that was watched first stands for all:
/// if it was written since, EXEC fails. So the list is never longer than there are slots.
#[derive(Debug, Default)]
pub(crate) struct WatchList(BTreeMap<usize, Watched>);

impl WatchList {
    /// Adds a key. One that is watched already is watched since then.
    pub(crate) fn add(&mut self, watched: Watched) {
        self.0.entry(watched.slot).or_insert(watched);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What one thread's transaction has written.
#[derive(Default)]
pub(crate) struct Touched(RefCell<Vec<usize>>);

impl Watch {
    pub(crate) fn new() -> Self {
        Watch((0..SLOTS).map(|_| Slot::default()).collect())
    }

    fn slot(db: u8, key: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        (db, key).hash(&mut hasher);
        hasher.finish() as usize % SLOTS
    }

    /// Starts watching a key.
    pub(crate) fn watch(&self, db: u8, key: &[u8]) -> Watched {
        let slot = Watch::slot(db, key);
        // In this order: if they are equal, nobody was in between.
        let over = self.0[slot].over.load(Ordering::SeqCst);
        let begun = self.0[slot].begun.load(Ordering::SeqCst);
        Watched { slot, version: (over == begun).then_some(begun) }
    }

    /// Whether the keys were left alone.
    pub(crate) fn unchanged(&self, watched: &WatchList) -> bool {
        watched
            .0
            .values()
            .all(|one| one.version == Some(self.0[one.slot].begun.load(Ordering::SeqCst)))
    }

    /// A key is written, in a transaction that is under way.
    pub(crate) fn touch(&self, db: u8, key: &[u8], touched: &Touched) {
        self.touch_slot(Watch::slot(db, key), touched);
    }

    /// Everything is written.
    pub(crate) fn touch_all(&self, touched: &Touched) {
        (0..SLOTS).for_each(|slot| self.touch_slot(slot, touched));
    }

    fn touch_slot(&self, slot: usize, touched: &Touched) {
        self.0[slot].begun.fetch_add(1, Ordering::SeqCst);
        touched.0.borrow_mut().push(slot);
    }

    /// The transaction is over, whether it was committed or not: everybody sees what it wrote.
    pub(crate) fn settle(&self, touched: &Touched) {
        let mut touched = touched.0.borrow_mut();
        for slot in touched.drain(..) {
            self.0[slot].over.fetch_add(1, Ordering::SeqCst);
        }
        touched.shrink_to(KEEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_watched_once_and_since_it_was_watched_first() {
        let (watch, touched) = (Watch::new(), Touched::default());
        let mut list = WatchList::default();
        for _ in 0..3 {
            list.add(watch.watch(0, b"key"));
        }
        assert_eq!(list.0.len(), 1);
        assert!(watch.unchanged(&list));
        watch.touch(0, b"key", &touched);
        watch.settle(&touched);
        list.add(watch.watch(0, b"key"));
        assert!(!watch.unchanged(&list), "a write before it was watched again is forgotten");
        for number in 0..10 * SLOTS {
            list.add(watch.watch(0, &number.to_le_bytes()));
        }
        assert!(list.0.len() <= SLOTS);
        list.clear();
        assert!(watch.unchanged(&list));
    }
}
