//! The atomics of code that loom models check: the standard library's, or loom's own when it runs the models (built
//! with `--cfg loom`).
//!
//! Both have the same operations, so that the checked code is the code that runs. Two things loom must be told
//! explicitly, in this file only: that a thread waits, and what a sequentially consistent access orders beyond acquire
//! and release.

use crate::Memory;
use std::sync::Arc;

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// The standard library's cell with loom's interface.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell with a value.
    pub fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Reads the value.
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

/// Orders sequentially consistent accesses under loom, which treats them as acquire and release only, but models
/// fences; otherwise nothing.
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

/// Iteration `turn` of a loop that waits for another thread.
#[inline(always)]
pub fn pause<M: Memory + ?Sized>(memory: &M, turn: u32) {
    #[cfg(loom)]
    {
        let _ = memory;
        // Two waiting threads could take turns for ever while a third is never scheduled: once a thread has waited this
        // long, the run is finished as it is, and no other run with the same beginning is tried.
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
    // loom treats a sequentially consistent access as acquire and release only, but models fences.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// A table of words, as many as a power of two: numbers wrap around at its end.
#[derive(Debug)]
pub struct WordTable {
    words: Arc<[AtomicU64]>,
    /// The number of the last one.
    last: usize,
}

impl WordTable {
    /// At least `count` words, at least one, all 0.
    pub fn new(count: usize) -> Self {
        let count = count.max(1).next_power_of_two();
        WordTable { words: (0..count).map(|_| AtomicU64::new(0)).collect(), last: count - 1 }
    }

    /// The words, for a memory that puts them back ([`Memory::words_object`]).
    pub fn shared(&self) -> &Arc<[AtomicU64]> {
        &self.words
    }

    /// How many words there are.
    pub fn count(&self) -> usize {
        self.words.len()
    }

    /// The word with this number.
    #[inline(always)]
    pub fn at(&self, number: u32) -> &AtomicU64 {
        self.view().at(number)
    }

    /// The table, to look at several words: its parts stay in registers.
    #[inline(always)]
    pub fn view(&self) -> WordTableView<'_> {
        WordTableView { words: &self.words, last: self.last }
    }
}

/// A [`WordTable`].
#[derive(Clone, Copy, Debug)]
pub struct WordTableView<'a> {
    words: &'a [AtomicU64],
    last: usize,
}

impl<'a> WordTableView<'a> {
    /// The number of the word that has this number, among those that there are.
    #[inline(always)]
    pub fn wrapped(self, number: u32) -> u64 {
        (number as usize & self.last) as u64
    }

    /// The word with this number.
    #[inline(always)]
    pub fn at(self, number: u32) -> &'a AtomicU64 {
        let number = number as usize & self.last;
        // SAFETY: `last` is one less than a power of two, the number of words, so that what it masks is no more.
        unsafe { self.words.get_unchecked(number) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around() {
        for (count, there) in [(0, 1), (1, 1), (5, 8), (8, 8)] {
            let table = WordTable::new(count);
            assert_eq!(table.count(), there);
            table.at(3).store(7, Ordering::Relaxed);
            assert_eq!(table.at(3 + there as u32).load(Ordering::Relaxed), 7);
            assert_eq!(table.at(u32::MAX).load(Ordering::Relaxed), u64::from(there <= 4) * 7);
        }
    }
}
