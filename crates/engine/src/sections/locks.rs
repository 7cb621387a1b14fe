//! Locks of sections, by number. The lock of transactions is not one of them, but sections that allocate wait for it, and
//! it has a last release as they have.
//!
//! A lock knows which section released it last, and that section's clock: the next section to take it follows that one.
//! Both are read and stored by the holder alone.
//!
//! A section that would wait for itself, by way of others' locks too, gets an error instead: each waiting session says
//! what it waits for, and looks now and then whether the chain of holders and their waits leads back to it. That is
//! exact: a session on the chain waits, and so keeps its locks, until the one before it goes on; the session that looks
//! has not. Holders and waits are noted in ordinary memory for that, under a mutex that is held during no access to the
//! memory.

use crate::{Error, Result};
use perdura_memory::Memory;
use perdura_memory::own::OwnWords;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The words of a lock: its holder plus one, 0 if it is free; the section that released it last; that one's clock.
const HOLDER: usize = 0;
const SECTION: usize = 1;
const CLOCK: usize = 2;
const WORDS: usize = 3;

/// Turns of a waiting loop between two looks for a circle.
const LOOK_EVERY: u32 = 64;
/// Locks from which on the table is searched for those that are of no use any more.
const MANY: usize = 1024;

/// A lock's last release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Release {
    /// The section that released it; 0 for none.
    pub(crate) section: u64,
    /// A clock later than everything that this section, and those that it follows, had logged.
    pub(crate) clock: u64,
}

/// A lock.
pub(crate) struct SectionLock {
    /// Its number; `None` for that of transactions.
    id: Option<u64>,
    words: OwnWords,
    /// The holder again, for those that look for circles: set after it has the lock, cleared before it has not.
    noted: AtomicU64,
}

impl SectionLock {
    fn new<M: Memory>(memory: &M, id: Option<u64>) -> Self {
        SectionLock { id, words: OwnWords::new(memory, WORDS), noted: AtomicU64::new(0) }
    }

    /// Its last release. For the holder.
    pub(crate) fn last<M: Memory>(&self, memory: &M) -> Release {
        Release { section: self.words.load(memory, SECTION), clock: self.words.load(memory, CLOCK) }
    }

    /// Sets its last release. For the holder.
    pub(crate) fn set_last<M: Memory>(&self, memory: &M, release: Release) {
        self.words.store(memory, SECTION, release.section);
        self.words.store(memory, CLOCK, release.clock);
    }

    /// Takes it if it is free.
    fn try_take<M: Memory>(&self, memory: &M, session: u64) -> bool {
        let is_taken = self.words.load(memory, HOLDER) == 0
            && self.words.compare_exchange(memory, HOLDER, 0, session + 1).is_ok();
        if is_taken {
            self.noted.store(session + 1, Ordering::Release);
        }
        is_taken
    }

    /// Releases it.
    pub(crate) fn release<M: Memory>(&self, memory: &M) {
        self.noted.store(0, Ordering::Release);
        self.words.store(memory, HOLDER, 0);
    }

    /// Its number, for messages.
    pub(crate) fn id(&self) -> Option<u64> {
        self.id
    }

    /// Whether somebody has noted that it holds it.
    fn holder(&self) -> Option<u64> {
        self.noted.load(Ordering::Acquire).checked_sub(1)
    }
}

/// The locks.
pub(crate) struct LockTable {
    locks: Mutex<TableState>,
    /// What waiting sessions wait for.
    waits: Mutex<HashMap<u64, Arc<SectionLock>>>,
    /// That of transactions: its last release, and the section that holds it.
    heap: Arc<SectionLock>,
}

struct TableState {
    locks: HashMap<u64, Arc<SectionLock>>,
    /// How many there may be until useless ones are looked for.
    many: usize,
}

impl LockTable {
    pub(super) fn new<M: Memory>(memory: &M) -> Self {
        LockTable {
            locks: Mutex::new(TableState { locks: HashMap::new(), many: MANY }),
            waits: Mutex::default(),
            heap: Arc::new(SectionLock::new(memory, None)),
        }
    }

    /// The lock of transactions: its last release, which its holder reads and sets.
    pub(crate) fn heap(&self) -> &Arc<SectionLock> {
        &self.heap
    }

    /// The lock with this number. Locks that were last released by sections up to `bound` are forgotten when there are
    /// many: nothing follows those sections any more.
    pub(crate) fn lock<M: Memory>(&self, memory: &M, id: u64, bound: u64) -> Arc<SectionLock> {
        if let Some(found) = unpoisoned(&self.locks).locks.get(&id) {
            return found.clone();
        }
        // Registered outside the mutex.
        let new = Arc::new(SectionLock::new(memory, Some(id)));
        let candidates = self.unused();
        let useless: Vec<u64> = candidates
            .into_iter()
            .filter(|(_, lock)| lock.last(memory).section <= bound)
            .map(|(id, _)| id)
            .collect();
        let mut state = unpoisoned(&self.locks);
        for id in useless {
            // Whoever has it from the table has a reference.
            if state.locks.get(&id).is_some_and(|lock| Arc::strong_count(lock) == 1) {
                state.locks.remove(&id);
            }
        }
        if state.locks.len() >= state.many {
            state.many *= 2;
        }
        state.locks.entry(id).or_insert(new).clone()
    }

    /// The locks that nobody uses, if there are many.
    fn unused(&self) -> Vec<(u64, Arc<SectionLock>)> {
        let state = unpoisoned(&self.locks);
        if state.locks.len() < state.many {
            return Vec::new();
        }
        let unused = state.locks.iter().filter(|(_, lock)| Arc::strong_count(lock) == 1);
        unused.map(|(id, lock)| (*id, lock.clone())).collect()
    }

    /// Takes `lock` for `session`, which waits for it as long as necessary.
    ///
    /// # Errors
    /// `Deadlock` if that would be for ever.
    pub(crate) fn take<M: Memory>(
        &self,
        memory: &M,
        session: u64,
        lock: &Arc<SectionLock>,
    ) -> Result<()> {
        if lock.try_take(memory, session) {
            return Ok(());
        }
        let _waiting = self.wait(session, lock);
        let mut turn = 0;
        loop {
            if lock.try_take(memory, session) {
                return Ok(());
            }
            if turn % LOOK_EVERY == 0 && self.is_circle(session, lock) {
                return Err(Error::Deadlock { lock: lock.id, is_own: false });
            }
            memory.pause(turn);
            turn += 1;
        }
    }

    /// Says that `session` waits for `lock`, until the result is dropped.
    pub(crate) fn wait(&self, session: u64, lock: &Arc<SectionLock>) -> Waiting<'_> {
        unpoisoned(&self.waits).insert(session, lock.clone());
        Waiting { table: self, session }
    }

    /// A section of `session` has the lock of transactions.
    pub(crate) fn note_heap(&self, session: u64) {
        self.heap.noted.store(session + 1, Ordering::Release);
    }

    /// It is about to release it.
    pub(crate) fn forget_heap(&self) {
        self.heap.noted.store(0, Ordering::Release);
    }

    /// Whether the holder of `lock` waits, by way of any number of others, for `session`.
    fn is_circle(&self, session: u64, lock: &Arc<SectionLock>) -> bool {
        self.leads_to(lock.holder(), session)
    }

    /// Whether `other` waits, by way of any number of others, for `session`.
    pub(crate) fn waits_for(&self, other: u64, session: u64) -> bool {
        self.leads_to(Some(other), session)
    }

    fn leads_to(&self, mut holder: Option<u64>, session: u64) -> bool {
        let waits = unpoisoned(&self.waits);
        // A chain without `session` may itself be a circle: its own members find it.
        for _ in 0..=waits.len() {
            match holder {
                Some(found) if found == session => return true,
                Some(found) => holder = waits.get(&found).and_then(|lock| lock.holder()),
                None => return false,
            }
        }
        false
    }
}

/// A session that waits.
pub(crate) struct Waiting<'a> {
    table: &'a LockTable,
    session: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        unpoisoned(&self.table.waits).remove(&self.session);
    }
}

/// No operation under these mutexes leaves their data inconsistent.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    #[test]
    fn a_lock_keeps_its_last_release() {
        let ram = Ram::new(64);
        let table = LockTable::new(&ram);
        let lock = table.lock(&ram, 7, 0);
        table.take(&ram, 0, &lock).expect("it is free");
        assert!(!lock.try_take(&ram, 1));
        lock.set_last(&ram, Release { section: 3, clock: 9 });
        lock.release(&ram);
        let again = table.lock(&ram, 7, 0);
        assert!(Arc::ptr_eq(&lock, &again) && again.try_take(&ram, 1));
        assert_eq!(again.last(&ram), Release { section: 3, clock: 9 });
    }

    /// Three sessions hold a lock each, and wait for the next one's: the one that closes the circle is told.
    #[test]
    fn a_circle_is_found() {
        let ram = Ram::new(64);
        let table = LockTable::new(&ram);
        let locks: Vec<_> = (0..3).map(|id| table.lock(&ram, id, 0)).collect();
        for (session, lock) in (0..).zip(&locks) {
            table.take(&ram, session, lock).expect("it is free");
        }
        let waits = [table.wait(0, &locks[1]), table.wait(1, &locks[2])];
        assert!(!table.is_circle(0, &locks[1]), "the last one does not wait");
        assert!(matches!(
            table.take(&ram, 2, &locks[0]),
            Err(Error::Deadlock { lock: Some(0), is_own: false })
        ));
        drop(waits);
        locks[0].release(&ram);
        assert!(table.take(&ram, 2, &locks[0]).is_ok());
    }

    /// The lock of transactions is part of a circle, although nobody waits for it here.
    #[test]
    fn a_circle_by_the_lock_of_transactions_is_found() {
        let ram = Ram::new(64);
        let table = LockTable::new(&ram);
        let lock = table.lock(&ram, 1, 0);
        table.take(&ram, 0, &lock).expect("it is free");
        table.note_heap(1);
        let waits = table.wait(0, table.heap());
        assert!(table.take(&ram, 1, &lock).is_err());
        table.forget_heap();
        drop(waits);
    }

    #[test]
    fn locks_without_followers_are_forgotten() {
        let ram = Ram::new(64);
        let table = LockTable::new(&ram);
        let held = table.lock(&ram, u64::MAX, 0);
        for id in 0..3 * MANY as u64 {
            let lock = table.lock(&ram, id, 5);
            lock.set_last(&ram, Release { section: if id % 8 == 0 { 6 } else { 5 }, clock: 1 });
        }
        let left = unpoisoned(&table.locks).locks.len();
        assert!(left < 2 * MANY, "{left}");
        assert!(Arc::ptr_eq(&held, &table.lock(&ram, u64::MAX, 0)));
        assert_eq!(table.lock(&ram, 8, 5).last(&ram).section, 6);
    }
}
