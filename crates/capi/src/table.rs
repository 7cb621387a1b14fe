//! Numbers for what C holds: which of them are open, and who is using them now.
//!
//! A number is a place in the table and how often that place was taken: what is closed is never
//! mistaken for what took its place. Nothing here waits for another call, but for [`Table::wait`].

use crate::codes::*;
use crate::fail::{Fail, Result};
use crate::ffi::fork;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Bits of a number that say where in the table.
const PLACE: u32 = 16;
/// From this bit on, a number says of what kind it is.
const KIND: u32 = 56;

/// A place in the table, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Slot<T> {
    /// Forks before it was taken: outside of the lock, which may be held for ever in a child.
    forks: AtomicU32,
    entry: Mutex<Entry<T>>,
}

struct Entry<T> {
    /// How often the place was taken.
    taken: u64,
    value: Option<T>,
}

impl<T> Slot<T> {
    pub(crate) const fn new() -> Self {
        let entry = Mutex::new(Entry { taken: 0, value: None });
        Slot { forks: AtomicU32::new(0), entry }
    }
}

/// A table of things of one kind.
pub(crate) struct Table<T: 'static> {
    pub(crate) kind: u64,
    /// What the things are, for messages.
    pub(crate) what: &'static str,
    pub(crate) slots: &'static [Slot<T>],
}

/// One of them, for the time of a call.
pub(crate) struct Held<'a, T>(MutexGuard<'a, Entry<T>>);

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.value.as_ref().expect("what is held is open")
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.value.as_mut().expect("what is held is open")
    }
}

impl<T> Held<'_, T> {
    /// Takes it out of the table: its number is void.
    pub(crate) fn take(mut self) -> T {
        self.0.value.take().expect("what is held is open")
    }
}

impl<T> Table<T> {
    /// A number for `value`.
    pub(crate) fn insert(&self, value: T) -> Result<u64> {
        for (place, slot) in self.slots.iter().enumerate() {
            let Ok(mut entry) = slot.entry.try_lock() else { continue };
            if entry.value.is_some() {
                continue;
            }
            entry.taken += 1;
            entry.value = Some(value);
            slot.forks.store(fork::count(), Ordering::Relaxed);
            return Ok(self.kind << KIND | entry.taken << PLACE | (place as u64 + 1));
        }
        let (what, most) = (self.what, self.slots.len());
        Err(Fail::new(PERDURA_ERR_TOO_MANY, format!("{most} {what}s are open: close one first")))
    }

    /// What has this number, unless another call has it.
    pub(crate) fn get(&self, id: u64) -> Result<Held<'_, T>> {
        match self.slot(id)?.entry.try_lock() {
            Ok(entry) => self.check(id, entry),
            Err(TryLockError::WouldBlock) => Err(self.fail(
                PERDURA_ERR_THREAD,
                "is in a call of another thread: use one for each thread",
            )),
            Err(TryLockError::Poisoned(_)) => Err(self.broken()),
        }
    }

    /// What has this number, once other calls are done with it.
    pub(crate) fn wait(&self, id: u64) -> Result<Held<'_, T>> {
        match self.slot(id)?.entry.lock() {
            Ok(entry) => self.check(id, entry),
            Err(_) => Err(self.broken()),
        }
    }

    /// As [`get`](Self::get), even if a call on it has panicked.
    pub(crate) fn get_broken(&self, id: u64) -> Result<Held<'_, T>> {
        let slot = self.slot(id)?;
        if let Err(TryLockError::Poisoned(entry)) = slot.entry.try_lock() {
            slot.entry.clear_poison();
            return self.check(id, entry.into_inner());
        }
        self.get(id)
    }

    fn slot(&self, id: u64) -> Result<&Slot<T>> {
        let place = (id & ((1 << PLACE) - 1)) as usize;
        let slot = place.checked_sub(1).and_then(|place| self.slots.get(place));
        match slot {
            _ if id == 0 => Err(self.fail(PERDURA_ERR_HANDLE, "is none: open one first")),
            Some(slot) if id >> KIND == self.kind => {
                if slot.forks.load(Ordering::Relaxed) == fork::count() {
                    return Ok(slot);
                }
                Err(self.fail(
                    PERDURA_ERR_FORKED,
                    "was opened before a fork, and is the parent's: open the pool in the child, \
                     after the parent has closed it",
                ))
            }
            _ => Err(self.fail(PERDURA_ERR_HANDLE, "was never open: pass what opening it gave")),
        }
    }

    fn check<'a>(&self, id: u64, entry: MutexGuard<'a, Entry<T>>) -> Result<Held<'a, T>> {
        let taken = id << (64 - KIND) >> (64 - KIND + PLACE);
        if entry.value.is_some() && entry.taken == taken {
            return Ok(Held(entry));
        }
        Err(self.fail(PERDURA_ERR_HANDLE, "is closed: open it again"))
    }

    fn broken(&self) -> Fail {
        self.fail(PERDURA_ERR_PANIC, "has failed inside: close it, and open another")
    }

    fn fail(&self, code: i32, why: &str) -> Fail {
        Fail::new(code, format!("the {} {why}", self.what))
    }
}
