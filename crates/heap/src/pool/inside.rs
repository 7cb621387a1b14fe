//! Which threads are inside of transactions of a pool: a call that waits for all transactions would
//! wait for the calling thread's own for ever, and is refused instead.
//!
//! A handle notes the thread that has a transaction open on it. It may be given to another thread
//! meanwhile: then the thread that used it last counts.

use perdura_engine::{Error, Result};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A handle's note: the thread that is inside of a transaction on it, or 0.
#[derive(Default)]
pub(super) struct Note(AtomicUsize);

/// The calling thread is inside until this is dropped.
pub(super) struct Inside<'a>(&'a Note);

impl Note {
    /// The calling thread is inside from here on.
    pub(super) fn enter(&self) {
        self.0.store(this_thread(), Ordering::Relaxed);
    }

    /// No thread is.
    pub(super) fn leave(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// [Enters](Self::enter), and leaves however the caller ends.
    pub(super) fn inside(&self) -> Inside<'_> {
        self.enter();
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The notes of all handles of a pool.
#[derive(Default)]
pub(super) struct Notes(Mutex<Vec<Weak<Note>>>);

impl Notes {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<Note>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of a new handle.
    pub(super) fn add(&self) -> Arc<Note> {
        let note = Arc::new(Note::default());
        let mut all = self.all();
        all.retain(|note| note.strong_count() > 0);
        all.push(Arc::downgrade(&note));
        note
    }

    /// Nothing, unless the calling thread is inside of a transaction.
    ///
    /// # Errors
    /// `Invalid` if it is.
    pub(super) fn check_outside(&self) -> Result<()> {
        // What this thread has noted it sees without any ordering.
        let mine = |note: &Weak<Note>| {
            note.upgrade().is_some_and(|note| note.0.load(Ordering::Relaxed) == this_thread())
        };
        if self.all().iter().any(mine) { Err(INSIDE) } else { Ok(()) }
    }
}

const INSIDE: Error = Error::Invalid(
    "this thread is inside of a transaction on the pool, which the call would wait for; end it first",
);

/// A number that no other living thread has: where something of the thread's own is.
fn this_thread() -> usize {
    thread_local!(static OWN: u8 = const { 0 });
    OWN.with(|own| ptr::from_ref(own).addr())
}
