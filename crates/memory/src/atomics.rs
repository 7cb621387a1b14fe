//! The atomics of what loom models check: the standard library's, or loom's own, when it runs the models
//! (built with `--cfg loom`).
//!
//! Both have the same operations, so that the code that is checked is the code that runs. Only two
//! things must be told to loom, and this file is where: that a thread waits, and what a sequentially
//! consistent access orders beyond acquire and release.

use crate::Memory;

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// The standard library's, with loom's way to reach in.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell with a value.
    pub fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Looks at the value.
    #[inline(always)]
    pub fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    /// Changes the value.
    #[inline(always)]
    pub fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}

/// Orders sequentially consistent accesses for loom, which takes them for ones that acquire and release, but knows fences;
/// nothing otherwise.
#[inline(always)]
pub fn sequential() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Asks for the line of a word to be fetched into the caches; waits for nothing.
#[inline(always)]
pub fn prefetch(word: &AtomicU64) {
    #[cfg(not(loom))]
    crate::mapped::flush::prefetch(std::ptr::from_ref(word).cast());
    #[cfg(loom)]
    let _ = word;
}

/// Turn `turn` of waiting for another thread.
#[inline(always)]
pub fn pause<M: Memory + ?Sized>(memory: &M, turn: u32) {
    #[cfg(loom)]
    {
        let _ = memory;
        // Two threads that wait could take turns for ever while the third is not let on: a run in which
        // a thread has waited this long is only finished, and no others are tried that begin like it.
        if turn > 1 {
            loom::skip_branch();
        }
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    memory.pause(turn);
}

/// Raises a flag and orders that before every sequentially consistent load that follows.
#[inline(always)]
pub(crate) fn raise(flag: &AtomicBool) {
    flag.swap(true, Ordering::SeqCst);
    // loom takes a sequentially consistent access for one that acquires and releases, but knows fences.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
