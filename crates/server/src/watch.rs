//! WATCH: version numbers of keys, for optimistic transactions of clients.
//!
//! Keys share a fixed number of slots, so a watcher may be disturbed by another key: then its
//! EXEC fails where it need not, which clients must expect anyway.
//!
//! A version moves inside the transaction that writes the key, and only while somebody watches
//! something. That is enough as long as nobody reads a key's old value while its writer is
//! under way, which every engine with a lock sees to: who begins to watch after the writer has
//! looked for watchers reads the key after the writer's commit.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 4096;

/// The versions of all keys of all databases.
pub(crate) struct Watch {
    versions: Box<[AtomicU64]>,
    watchers: AtomicU64,
}

/// A key's slot and the version it had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    slot: usize,
    version: u64,
}

impl Watch {
    pub(crate) fn new() -> Self {
        let versions = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Watch { versions, watchers: AtomicU64::new(0) }
    }

    fn slot(db: u8, key: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        (db, key).hash(&mut hasher);
        hasher.finish() as usize % SLOTS
    }

    /// Starts watching a key; [`end`](Watch::end) it once.
    pub(crate) fn watch(&self, db: u8, key: &[u8]) -> Watched {
        self.watchers.fetch_add(1, Ordering::SeqCst);
        let slot = Watch::slot(db, key);
        Watched { slot, version: self.versions[slot].load(Ordering::SeqCst) }
    }

    /// Watches no more.
    pub(crate) fn end(&self, watched: &[Watched]) {
        self.watchers.fetch_sub(watched.len() as u64, Ordering::SeqCst);
    }

    /// Whether the keys were left alone.
    pub(crate) fn unchanged(&self, watched: &[Watched]) -> bool {
        let same = |one: &Watched| self.versions[one.slot].load(Ordering::SeqCst) == one.version;
        watched.iter().all(same)
    }

    /// A key was written.
    pub(crate) fn touch(&self, db: u8, key: &[u8]) {
        if self.watchers.load(Ordering::SeqCst) > 0 {
            self.versions[Watch::slot(db, key)].fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Everything was written.
    pub(crate) fn touch_all(&self) {
        for version in &self.versions {
            version.fetch_add(1, Ordering::SeqCst);
        }
    }
}
