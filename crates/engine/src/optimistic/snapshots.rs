//! The snapshots of transactions on software transactional memory: which there are, so that commits keep each word
//! once for all that can see it, and what none of them needs is forgotten.
//!
//! What always holds: a snapshot that a commit does not find here, neither [beginning](Snapshots::begin) nor
//! [taken](Snapshots::taken), has a moment no earlier than that commit's number. For it begins by announcing itself, and
//! then waits for the commits in progress before it ticks the clock.

use perdura_memory::{Memory, Object, Traced, WORD};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The snapshots.
pub(super) struct Snapshots {
    /// The lane of each, and its moment.
    taken: Mutex<Vec<(usize, u64)>>,
    /// How many are announced whose moment is not known yet.
    beginning: AtomicU64,
    /// The latest moment that one of them has.
    newest: AtomicU64,
    own: Object,
}

impl Snapshots {
    pub(super) fn new<M: Memory>(memory: &M) -> Self {
        Snapshots {
            taken: Mutex::default(),
            beginning: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            own: memory.object(WORD),
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<(usize, u64)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces one.
    pub(super) fn begin<M: Memory>(&self, memory: &M) {
        Traced::new(memory, self.own).exchange(0, WORD);
        self.beginning.fetch_add(1, Ordering::SeqCst);
    }

    /// An announced one, of the transaction in this lane, has this moment.
    pub(super) fn taken<M: Memory>(&self, memory: &M, lane: usize, number: u64) {
        Traced::new(memory, self.own).exchange(0, WORD);
        let mut all = self.all();
        all.push((lane, number));
        self.set_newest(&all);
        drop(all);
        self.beginning.fetch_sub(1, Ordering::SeqCst);
    }

    /// That transaction has none any more. The moment of the one that it had.
    pub(super) fn end<M: Memory>(&self, memory: &M, lane: usize) -> Option<u64> {
        Traced::new(memory, self.own).exchange(0, WORD);
        let mut all = self.all();
        let place = all.iter().position(|taken| taken.0 == lane)?;
        let (_, number) = all.swap_remove(place);
        self.set_newest(&all);
        Some(number)
    }

    fn set_newest(&self, all: &[(usize, u64)]) {
        let newest = all.iter().map(|taken| taken.1).max().unwrap_or(0);
        self.newest.store(newest, Ordering::SeqCst);
    }

    /// A moment that none of them is later than, if that is known.
    pub(super) fn newest<M: Memory>(&self, memory: &M) -> Option<u64> {
        Traced::new(memory, self.own).read(0, WORD);
        // In this order: one that is not beginning any more has been counted.
        let known = self.beginning.load(Ordering::SeqCst) == 0;
        known.then(|| self.newest.load(Ordering::SeqCst))
    }

    /// Whether one is beginning.
    pub(super) fn any_begins(&self) -> bool {
        self.beginning.load(Ordering::SeqCst) > 0
    }

    /// Whether the transaction in this lane has one.
    pub(super) fn has(&self, lane: usize) -> bool {
        self.all().iter().any(|taken| taken.0 == lane)
    }

    /// Their moments, earliest first.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.all().iter().map(|taken| taken.1).collect();
        numbers.sort_unstable();
        numbers
    }
}
