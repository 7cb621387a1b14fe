//! Which inserts are done: reads must not choose a record that is not there yet.
//!
//! Threads insert records in the order of a shared counter, and finish in any order. A record
//! counts as there when it and all before it are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Inserts that may be under way at once.
const WINDOW: u64 = 1 << 20;

/// The records that exist: `0..existing()`.
pub(super) struct Acknowledged {
    existing: AtomicU64,
    next: AtomicU64,
    done: Box<[AtomicBool]>,
    advancing: Mutex<()>,
}

impl Acknowledged {
    /// Records `0..records` exist.
    pub(super) fn new(records: u64) -> Self {
        Acknowledged {
            existing: AtomicU64::new(records),
            next: AtomicU64::new(records),
            done: (0..WINDOW).map(|_| AtomicBool::new(false)).collect(),
            advancing: Mutex::new(()),
        }
    }

    /// Records that exist, without a gap.
    #[inline]
    pub(super) fn existing(&self) -> u64 {
        self.existing.load(Ordering::Acquire)
    }

    /// The number of the next record to insert: no other thread gets it.
    pub(super) fn take_next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Records handed out for insertion, done or not.
    pub(super) fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Record `record`, from [`take_next`](Self::take_next), is there for all threads.
    ///
    /// # Panics
    /// If 2^20 inserts are under way at once.
    pub(super) fn acknowledge(&self, record: u64) {
        let _guard = self.advancing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut existing = self.existing.load(Ordering::Relaxed);
        assert!(record - existing < WINDOW, "too many inserts under way");
        self.slot(record).store(true, Ordering::Relaxed);
        while self.slot(existing).swap(false, Ordering::Relaxed) {
            existing += 1;
        }
        self.existing.store(existing, Ordering::Release);
    }

    fn slot(&self, record: u64) -> &AtomicBool {
        &self.done[(record % WINDOW) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advances_over_contiguous_inserts_only() {
        let inserts = Acknowledged::new(10);
        let taken: Vec<u64> = (0..3).map(|_| inserts.take_next()).collect();
        assert_eq!(taken, [10, 11, 12]);
        inserts.acknowledge(12);
        inserts.acknowledge(11);
        assert_eq!(inserts.existing(), 10);
        inserts.acknowledge(10);
        assert_eq!(inserts.existing(), 13);
    }

    #[test]
    fn the_window_is_reused() {
        let inserts = Acknowledged::new(0);
        for _ in 0..WINDOW + 10 {
            let record = inserts.take_next();
            inserts.acknowledge(record);
        }
        assert_eq!(inserts.existing(), WINDOW + 10);
    }
}
