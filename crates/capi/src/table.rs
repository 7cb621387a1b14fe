//! Numbers for C's handles: which of them are open, and which are in a call now.
//!
//! A number is a place in the table and how often that place was taken, so that a number of
//! something closed is never mistaken for the one in its place now. Only [`Table::wait`] waits for
//! another call. Only calls on the thing in a place lock the place: calls on different things never
//! meet.

use crate::codes::*;
use crate::fail::{Fail, Result};
use crate::ffi::fork;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Bits of a number that say where in the table.
const PLACE: u32 = 16;
/// From this bit on, a number has its kind.
const KIND: u32 = 56;

/// A place in the table, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Slot<T> {
    /// Forks before it was taken: outside of the lock, which may be held for ever in a child.
    forks: AtomicU32,
    /// Twice how often the place was taken, and one more while it is. Outside of the lock, so that
    /// a search for a free place locks no place that is in use.
    state: AtomicU64,
    value: Mutex<Option<T>>,
}

impl<T> Slot<T> {
    pub(crate) const fn new() -> Self {
        Slot { forks: AtomicU32::new(0), state: AtomicU64::new(0), value: Mutex::new(None) }
    }

    /// Takes the place if it is free: how often it was taken, this time included.
    fn claim(&self) -> Option<u64> {
        let state = self.state.load(Ordering::Relaxed);
        let taken = state / 2 + 1;
        let free = state.is_multiple_of(2);
        let claim = |old, new| {
            self.state.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).ok()
        };
        free.then(|| claim(state, taken * 2 + 1)).flatten().map(|_| taken)
    }

    /// Makes the place free.
    fn free(&self) {
        self.state.fetch_sub(1, Ordering::Release);
    }
}

/// A table of things of one kind.
pub(crate) struct Table<T: 'static> {
    pub(crate) kind: u64,
    /// The name of the kind, for messages.
    pub(crate) what: &'static str,
    pub(crate) slots: &'static [Slot<T>],
}

/// A thing, for the time of a call.
pub(crate) struct Held<'a, T> {
    slot: &'a Slot<T>,
    value: MutexGuard<'a, Option<T>>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("what is held is open")
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("what is held is open")
    }
}

impl<T> Held<'_, T> {
    /// Takes it out of the table: its number is void.
    pub(crate) fn take(self) -> T {
        let Held { slot, mut value } = self;
        let taken = value.take().expect("what is held is open");
        // Unlocked first: a free place has a free lock.
        drop(value);
        slot.free();
        taken
    }
}

impl<T> Table<T> {
    /// A number for `value`.
    pub(crate) fn insert(&self, value: T) -> Result<u64> {
        for (place, slot) in self.slots.iter().enumerate() {
            let Some(taken) = slot.claim() else { continue };
            // The lock is held only by a closing thread, or by a call with a stale number.
            let Ok(mut empty) = slot.value.try_lock() else {
                slot.free();
                continue;
            };
            *empty = Some(value);
            slot.forks.store(fork::count(), Ordering::Relaxed);
            return Ok(self.kind << KIND | taken << PLACE | (place as u64 + 1));
        }
        let (what, most) = (self.what, self.slots.len());
        Err(Fail::new(PERDURA_ERR_TOO_MANY, format!("{most} {what}s are open: close one first")))
    }

    /// The thing with this number, unless another call is using it.
    pub(crate) fn get(&self, id: u64) -> Result<Held<'_, T>> {
        let slot = self.slot(id)?;
        match slot.value.try_lock() {
            Ok(value) => self.check(id, slot, value),
            Err(TryLockError::WouldBlock) => Err(self.fail(
                PERDURA_ERR_THREAD,
                "is in a call of another thread: use one for each thread",
            )),
            Err(TryLockError::Poisoned(_)) => Err(self.broken()),
        }
    }

    /// The thing with this number, once no other call is using it.
    pub(crate) fn wait(&self, id: u64) -> Result<Held<'_, T>> {
        let slot = self.slot(id)?;
        match slot.value.lock() {
            Ok(value) => self.check(id, slot, value),
            Err(_) => Err(self.broken()),
        }
    }

    /// As [`get`](Self::get), even if a call on it has panicked.
    pub(crate) fn get_broken(&self, id: u64) -> Result<Held<'_, T>> {
        let slot = self.slot(id)?;
        if let Err(TryLockError::Poisoned(value)) = slot.value.try_lock() {
            slot.value.clear_poison();
            return self.check(id, slot, value.into_inner());
        }
        self.get(id)
    }

    fn slot(&self, id: u64) -> Result<&Slot<T>> {
        let place = (id & ((1 << PLACE) - 1)) as usize;
        let slot = place.checked_sub(1).and_then(|place| self.slots.get(place));
        match slot {
            _ if id == 0 => Err(self.fail(PERDURA_ERR_HANDLE, "is none: open one first")),
            Some(slot) if id >> KIND == self.kind => {
                if slot.forks.load(Ordering::Relaxed) != fork::count() {
                    return Err(self.fail(
                        PERDURA_ERR_FORKED,
                        "was opened before a fork, and is the parent's: open the pool in the \
                         child, after the parent has closed it",
                    ));
                }
                self.check_open(id, slot)?;
                Ok(slot)
            }
            _ => Err(self.fail(PERDURA_ERR_HANDLE, "was never open: pass what opening it gave")),
        }
    }

    fn check<'a>(
        &self,
        id: u64,
        slot: &'a Slot<T>,
        value: MutexGuard<'a, Option<T>>,
    ) -> Result<Held<'a, T>> {
        // It may have been closed before this call had the lock, or not be there yet.
        self.check_open(id, slot)?;
        if value.is_none() {
            return Err(self.closed());
        }
        Ok(Held { slot, value })
    }

    fn check_open(&self, id: u64, slot: &Slot<T>) -> Result<()> {
        let taken = id << (64 - KIND) >> (64 - KIND + PLACE);
        if slot.state.load(Ordering::Acquire) == taken * 2 + 1 {
            return Ok(());
        }
        Err(self.closed())
    }

    fn closed(&self) -> Fail {
        self.fail(PERDURA_ERR_HANDLE, "is closed: open it again")
    }

    fn broken(&self) -> Fail {
        self.fail(PERDURA_ERR_PANIC, "has failed inside: close it, and open another")
    }

    fn fail(&self, code: i32, why: &str) -> Fail {
        Fail::new(code, format!("the {} {why}", self.what))
    }
}
