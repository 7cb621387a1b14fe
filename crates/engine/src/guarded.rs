//! A value that an engine's lock guards, for readers and the writer or for the writer only.
//!
//! The engine's lock is taken and given back by different calls, those that begin and end a
//! transaction, so that no guard can stand for it. Whoever reaches in says instead why the lock
//! is held: this file, and the few places that call it, are all there is to check.

use crate::sync::UnsafeCell;

/// A value that is only reached with the engine's lock held.
pub(crate) struct Guarded<T>(UnsafeCell<T>);

// SAFETY: the methods' contracts make it a lock around `T`, of one writer or many readers.
unsafe impl<T: Send + Sync> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Guarded(UnsafeCell::new(value))
    }

    /// The value, to look at.
    ///
    /// # Safety
    /// For as long as the caller uses the reference nobody calls [`get_mut`](Self::get_mut): because it is
    /// in a transaction, and only a writer that is alone does; or because it is the writer itself.
    #[inline(always)]
    pub(crate) unsafe fn get(&self) -> &T {
        // SAFETY: nobody has it mutably, as the contract says.
        self.0.with(|value| unsafe { &*value })
    }

    /// The value, to change.
    ///
    /// # Safety
    /// For as long as the caller uses the reference it is the writer, has no other one, and is alone
    /// if anybody else calls [`get`](Self::get).
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn get_mut(&self) -> &mut T {
        // SAFETY: nobody else has a reference, as the contract says.
        self.0.with_mut(|value| unsafe { &mut *value })
    }
}
