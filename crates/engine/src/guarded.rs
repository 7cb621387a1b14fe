//! A value that an engine's lock guards.
//!
//! The engine's lock is taken and given back by different calls, those that begin and end a
//! transaction, so that no guard can stand for it. Whoever reaches in says instead why the lock
//! is held: this file, and the few places that call it, are all there is to check.

use std::cell::UnsafeCell;

/// A value that is only reached with the engine's lock held.
pub struct Guarded<T>(UnsafeCell<T>);

// SAFETY: the methods' contracts make it a lock around `T`, of one writer or many readers.
unsafe impl<T: Send + Sync> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Guarded(UnsafeCell::new(value))
    }

    /// The value, to look at.
    ///
    /// # Safety
    /// The caller holds the engine's lock, as a reader or as the writer, for as long as it uses
    /// the reference, and has no reference from [`get_mut`](Self::get_mut) meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn get(&self) -> &T {
        // SAFETY: with the lock held nobody has it mutably, as the contract says.
        unsafe { &*self.0.get() }
    }

    /// The value, to change.
    ///
    /// # Safety
    /// The caller holds the engine's lock as the writer for as long as it uses the reference, and
    /// has no other reference meanwhile.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn get_mut(&self) -> &mut T {
        // SAFETY: the writer is alone, as the contract says.
        unsafe { &mut *self.0.get() }
    }
}
