//! WATCH: version numbers of keys, for optimistic transactions of clients.
//!
//! Keys share a fixed number of slots, so a watcher may be disturbed by another key: then its
//! EXEC fails where it need not, which clients must expect anyway.
//!
//! Readers go on while a writer works, and see the old values until it has committed. A version
//! that moved once, before the commit or after it, would let a client that begins to watch in
//! between read the old value and miss the change. So a slot counts transactions that write one of
//! its keys twice: from within, and when they are over. A client that begins to watch while the
//! counts differ has watched in vain. A transaction that was not committed, or is run again, takes back its
//! counts.
//!
//! With engines whose transactions run concurrently the counts alone do not keep a key as it was until an EXEC
//! has committed. So EXEC reads its watched keys' entries in its transaction, before it looks at the counts, and a command
//! that writes a watched key stores to the entry, even if only the value that it leads to changes: the later one of
//! the two is in conflict, and is run again. A slot counts its watchers for that. A writer counts before it looks whether
//! there are watchers, and a client is counted as one before it looks whether the key is being written.
//!
//! FLUSHALL, FLUSHDB and expiry write only keys that are there, as Redis sees it. So the watched
//! keys themselves are listed too, each once: a flush looks which of them it deletes. It counts
//! in a slot of its own before it reads the list; a client is on the list before it reads that slot.
//! So a client that began too late for the list has watched in vain until the flush is over.

use crate::keyspace::now;
use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Slots of keys.
const SLOTS: usize = 4096;
/// A factor that changes half of the bits.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
/// The slot that every flush writes.
const FLUSHES: usize = SLOTS;
/// Behind it, as many slots again: of keys that have expired. They disturb nobody who watches, but what clients remember of
/// their reads (`tracking`).
const EXPIRIES: usize = FLUSHES + 1;
/// Room for slots that a thread keeps from one transaction to the next.
const KEEP: usize = 2 * SLOTS;

/// The versions of all keys of all databases.
pub(crate) struct Watch {
    table: Arc<Table>,
    /// Whether one thread alone writes keys and has clients: then counting takes no atomic addition.
    alone: AtomicBool,
}

/// How often keys were written.
#[derive(Default)]
struct Slot {
    begun: AtomicU64,
    /// Of these, by transactions that are over.
    over: AtomicU64,
    /// Clients that watch them.
    watchers: AtomicU64,
}

/// The slots, and the keys that clients watch.
struct Table {
    slots: Box<[Slot]>,
    names: Mutex<Names>,
}

/// Keys by their databases.
type Names = HashMap<u8, HashMap<Arc<[u8]>, Watchers>>;

/// The clients that watch a key.
struct Watchers {
    count: usize,
    /// When the first of them began, in milliseconds since 1970.
    since: u64,
}

/// A key that a client watches, and the version it had. On the list until it is dropped.
pub(crate) struct Watched {
    slot: usize,
    /// None if the key was being written.
    version: Option<u64>,
    db: u8,
    key: Arc<[u8]>,
    since: u64,
    table: Arc<Table>,
}

/// Bytes of memory that a watched key takes besides its name.
const PER_KEY: usize = 200;

/// The keys that a client watches: each once, since it was watched first.
#[derive(Default)]
pub(crate) struct WatchList {
    keys: BTreeMap<(u8, Arc<[u8]>), Watched>,
    bytes: usize,
}

impl WatchList {
    /// Adds a key. One that is watched already is watched since then. False if all of them would take
    /// more than `most` bytes of memory.
    pub(crate) fn add(&mut self, watched: Watched, most: usize) -> bool {
        if let Entry::Vacant(place) = self.keys.entry((watched.db, Arc::clone(&watched.key))) {
            let bytes = self.bytes + watched.key.len() + PER_KEY;
            if bytes > most {
                return false;
            }
            self.bytes = bytes;
            place.insert(watched);
        }
        true
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Watched> {
        self.keys.values()
    }

    pub(crate) fn clear(&mut self) {
        *self = WatchList::default();
    }
}

/// The keys that one thread's transaction has written.
#[derive(Default)]
pub(crate) struct Touched(RefCell<Vec<usize>>);

impl Touched {
    /// How many keys were written so far, for [`has`](Self::has).
    pub(crate) fn mark(&self) -> usize {
        self.0.borrow().len()
    }

    /// Visits the slots that were counted in.
    pub(crate) fn each(&self, visit: impl FnMut(usize)) {
        self.0.borrow().iter().copied().for_each(visit);
    }

    /// Whether a key was written since the mark, or another key of its slot.
    pub(crate) fn has(&self, since: usize, db: u8, key: &[u8]) -> bool {
        let slot = Watch::slot(db, key);
        self.0.borrow().iter().skip(since).any(|touched| *touched == slot)
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, db: u8, key: &[u8], since: u64) -> Arc<[u8]> {
        let mut list = self.lock();
        let keys = list.entry(db).or_default();
        let key =
            keys.get_key_value(key).map_or_else(|| Arc::from(key), |(key, _)| Arc::clone(key));
        let watchers = keys.entry(Arc::clone(&key)).or_insert(Watchers { count: 0, since });
        watchers.count += 1;
        key
    }

    fn leave(&self, db: u8, key: &[u8]) {
        let mut list = self.lock();
        let Some(keys) = list.get_mut(&db) else { return };
        if let Some(watchers) = keys.get_mut(key) {
            watchers.count -= 1;
            if watchers.count == 0 {
                keys.remove(key);
            }
            if keys.is_empty() {
                // Room that many watched keys needed is given back.
                keys.shrink_to(KEEP);
            }
        }
    }
}

impl Watched {
    /// The database and the key.
    pub(crate) fn name(&self) -> (u8, &[u8]) {
        (self.db, &self.key)
    }

    /// Whether a key that expires at `time`, and is still there at `now`, has expired since the client began to
    /// watch it. For Redis a key that had expired before that has not changed.
    pub(crate) fn expired(&self, time: u64, now: u64) -> bool {
        self.since < time && time <= now
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.table.slots[self.slot].watchers.fetch_sub(1, Ordering::SeqCst);
        self.table.leave(self.db, &self.key);
    }
}

impl Watch {
    /// For so many threads that write keys, or have clients.
    pub(crate) fn new(threads: usize) -> Self {
        let slots = (0..EXPIRIES + SLOTS).map(|_| Slot::default()).collect();
        Watch {
            table: Arc::new(Table { slots, names: Mutex::default() }),
            alone: AtomicBool::new(threads == 1),
        }
    }

    /// From now on another thread writes keys, too: to be called by the one that has been alone, or before it begins.
    pub(crate) fn share(&self) {
        self.alone.store(false, Ordering::SeqCst);
    }

    /// Adds to a count.
    #[inline]
    fn add(&self, count: &AtomicU64, more: u64) {
        match self.alone.load(Ordering::Relaxed) {
            true => {
                count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed)
            }
            false => drop(count.fetch_add(more, Ordering::SeqCst)),
        }
    }

    fn slot(db: u8, key: &[u8]) -> usize {
        // Not a hash map's: keys that share a slot only disturb one another's watchers.
        let add = |hash: u64, word: u64| (hash ^ word).wrapping_mul(MIX).rotate_left(29);
        let mut words = key.chunks_exact(8);
        let mut hash = add(u64::from(db), key.len() as u64);
        for word in &mut words {
            hash = add(hash, u64::from_le_bytes(std::array::from_fn(|index| word[index])));
        }
        let rest = words.remainder().iter().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
        (add(hash, rest).wrapping_mul(MIX) >> 32) as usize % SLOTS
    }

    /// Whether two keys of a database share a slot.
    #[cfg(test)]
    pub(crate) fn are_together(db: u8, keys: [&[u8]; 2]) -> bool {
        Watch::slot(db, keys[0]) == Watch::slot(db, keys[1])
    }

    /// A slot's version, unless it is being written.
    fn version(&self, slot: usize) -> Option<u64> {
        // In this order: if they are equal, no transaction was in between.
        let over = self.table.slots[slot].over.load(Ordering::SeqCst);
        let begun = self.table.slots[slot].begun.load(Ordering::SeqCst);
        (over == begun).then_some(begun)
    }

    /// Where the versions of a key are, for [`version_at`](Self::version_at).
    pub(crate) fn place(&self, db: u8, key: &[u8]) -> usize {
        Watch::slot(db, key)
    }

    /// The slots that count what becomes of the keys of a place.
    fn slots_of(place: usize) -> [usize; 3] {
        [place, EXPIRIES + place, FLUSHES]
    }

    /// A version of the keys of a place, which any write, expiry or flush changes, unless one is under way.
    pub(crate) fn version_at(&self, place: usize) -> Option<u64> {
        let versions = Watch::slots_of(place).map(|slot| self.version(slot));
        versions.into_iter().try_fold(0_u64, |sum, one| Some(sum.wrapping_add(one?)))
    }

    /// The same, as of all that have begun.
    pub(crate) fn begun_at(&self, place: usize) -> u64 {
        let begun = |slot: usize| self.table.slots[slot].begun.load(Ordering::SeqCst);
        Watch::slots_of(place).into_iter().fold(0, |sum, slot| sum.wrapping_add(begun(slot)))
    }

    /// A transaction has counted in a slot: counts that in versions of places, too.
    pub(crate) fn add_to_versions(versions: &mut HashMap<usize, Option<u64>>, slot: usize) {
        let add = |version: &mut Option<u64>| *version = version.map(|one| one.wrapping_add(1));
        match slot {
            FLUSHES => versions.values_mut().for_each(add),
            0..SLOTS => versions.get_mut(&slot).into_iter().for_each(add),
            _ => versions.get_mut(&(slot - EXPIRIES)).into_iter().for_each(add),
        }
    }

    /// Whether no transaction that may have written a key is under way.
    pub(crate) fn is_settled(&self, db: u8, key: &[u8]) -> bool {
        self.version(Watch::slot(db, key)).is_some()
    }

    /// Starts watching a key.
    pub(crate) fn watch(&self, db: u8, key: &[u8]) -> Watched {
        let (slot, since) = (Watch::slot(db, key), now());
        // On the list, and counted, first: see above.
        let key = self.table.enter(db, key, since);
        self.table.slots[slot].watchers.fetch_add(1, Ordering::SeqCst);
        let version = self.version(FLUSHES).and_then(|_| self.version(slot));
        Watched { slot, version, db, key, since, table: Arc::clone(&self.table) }
    }

    /// Whether no transaction has written the keys.
    pub(crate) fn unchanged(&self, watched: &WatchList) -> bool {
        watched.iter().all(|one| self.is_unchanged(one))
    }

    /// Whether no transaction has written a key.
    pub(crate) fn is_unchanged(&self, watched: &Watched) -> bool {
        let begun = self.table.slots[watched.slot].begun.load(Ordering::SeqCst);
        watched.version == Some(begun)
    }

    /// A key is written, in a transaction that is under way. Whether it may be watched.
    pub(crate) fn touch(&self, db: u8, key: &[u8], touched: &Touched) -> bool {
        let slot = Watch::slot(db, key);
        self.touch_slot(slot, touched);
        self.table.slots[slot].watchers.load(Ordering::SeqCst) > 0
    }

    /// A key that expired at `time` is removed: only clients that watched it before are disturbed.
    pub(crate) fn touch_expired(&self, db: u8, key: &[u8], time: u64, touched: &Touched) {
        self.touch_slot(EXPIRIES + Watch::slot(db, key), touched);
        let list = self.table.lock();
        let watchers = list.get(&db).and_then(|keys| keys.get(key));
        if watchers.is_some_and(|watchers| watchers.since < time) {
            self.touch(db, key, touched);
        }
    }

    /// A database is being flushed: its watched keys, and since when they are watched. The caller
    /// touches those that it deletes.
    pub(crate) fn flush(&self, db: u8, touched: &Touched) -> Vec<(Arc<[u8]>, u64)> {
        self.touch_slot(FLUSHES, touched);
        let list = self.table.lock();
        let keys = list.get(&db).into_iter().flatten();
        keys.map(|(key, watchers)| (Arc::clone(key), watchers.since)).collect()
    }

    fn touch_slot(&self, slot: usize, touched: &Touched) {
        self.add(&self.table.slots[slot].begun, 1);
        touched.0.borrow_mut().push(slot);
    }

    /// The transaction was committed: every client sees its writes.
    pub(crate) fn settle(&self, touched: &Touched) {
        self.drain(touched, |slot| self.add(&slot.over, 1));
    }

    /// The transaction was not committed, or is run again: its keys are as they were.
    pub(crate) fn retract(&self, touched: &Touched) {
        self.drain(touched, |slot| self.add(&slot.begun, 1u64.wrapping_neg()));
    }

    fn drain(&self, touched: &Touched, count: impl Fn(&Slot)) {
        let mut touched = touched.0.borrow_mut();
        for slot in touched.drain(..) {
            count(&self.table.slots[slot]);
        }
        touched.shrink_to(KEEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of these keys.
    fn list(watched: impl IntoIterator<Item = Watched>) -> WatchList {
        let mut list = WatchList::default();
        assert!(watched.into_iter().all(|one| list.add(one, usize::MAX)));
        list
    }

    #[test]
    fn a_key_is_watched_once_and_since_it_was_watched_first() {
        let (watch, touched) = (Watch::new(1), Touched::default());
        let (mut list, most) = (WatchList::default(), 10 * (PER_KEY + 8));
        for _ in 0..100 {
            assert!(list.add(watch.watch(0, b"key"), most));
        }
        assert!(list.iter().count() == 1 && watch.unchanged(&list));
        watch.touch(0, b"key", &touched);
        watch.settle(&touched);
        assert!(list.add(watch.watch(0, b"key"), most));
        assert!(!watch.unchanged(&list), "a write before it was watched again is forgotten");
        list.clear();
        assert!(watch.unchanged(&list));
        let taken = (0_u64..20).filter(|n| list.add(watch.watch(0, &n.to_le_bytes()), most));
        assert_eq!(taken.count(), 10);
    }

    #[test]
    fn a_key_is_listed_while_a_client_watches_it() {
        let (watch, touched) = (Watch::new(1), Touched::default());
        let listed = |db| {
            let keys = watch.flush(db, &touched);
            watch.settle(&touched);
            keys.iter().map(|(key, _)| key.to_vec()).collect::<Vec<_>>()
        };
        let (first, second) = (watch.watch(1, b"key"), watch.watch(1, b"key"));
        assert_eq!((listed(1), listed(0)), (vec![b"key".to_vec()], vec![]));
        drop(first);
        assert_eq!(listed(1), [b"key".to_vec()]);
        drop(second);
        assert!(listed(1).is_empty());
    }

    #[test]
    fn rollback_disturbs_nobody() {
        let (watch, touched) = (Watch::new(1), Touched::default());
        assert!(!watch.touch(0, b"key", &touched), "nobody watches it");
        let during = list([watch.watch(0, b"key")]);
        watch.retract(&touched);
        assert!(!watch.unchanged(&during), "it was being written");
        drop(during);
        let before = list([watch.watch(0, b"key")]);
        assert!(watch.touch(0, b"key", &touched));
        assert!(!watch.unchanged(&before));
        watch.retract(&touched);
        assert!(watch.unchanged(&before));
        drop(before);
        assert!(!watch.touch(0, b"key", &touched));
    }

    #[test]
    fn a_watch_that_begins_during_a_flush_is_in_vain() {
        let (watch, touched) = (Watch::new(1), Touched::default());
        watch.flush(0, &touched);
        let during = watch.watch(0, b"key");
        watch.settle(&touched);
        assert!(!watch.unchanged(&list([during])));
        assert!(watch.unchanged(&list([watch.watch(0, b"key")])));
    }

    #[test]
    fn expiry_disturbs_earlier_watches() {
        let (watch, touched) = (Watch::new(1), Touched::default());
        let watched = list([watch.watch(0, b"key")]);
        let one = watched.iter().next().expect("the key");
        let since = one.since;
        watch.touch_expired(0, b"key", since, &touched);
        assert!(watch.unchanged(&watched) && !one.expired(since, since + 1));
        assert!(one.expired(since + 1, since + 1) && !one.expired(since + 2, since + 1));
        watch.touch_expired(0, b"key", since + 1, &touched);
        assert!(!watch.unchanged(&watched));
    }
}
