//! Words of own memory that threads share, and that a speculation may read and store to: a lock's word, a clock.
//!
//! An access and its touch are one step, so that in a simulator nothing comes between the two: a core that reads the
//! word after another core's exchange finds what that has stored. When a speculation is lost, the simulator puts back
//! what it has stored here, as it does with the pool's words. Natively these are plain atomics.

use super::{Object, Touch};
use crate::atomics::{AtomicU64, Ordering};
use crate::{Memory, WORD};
use std::sync::Arc;

/// Shared words of a program's own memory.
#[derive(Clone, Debug)]
pub struct OwnWords {
    words: Arc<[AtomicU64]>,
    object: Object,
}

impl OwnWords {
    /// This many words, all 0, on lines that no other object has.
    pub fn new<M: Memory + ?Sized>(memory: &M, count: usize) -> Self {
        let words: Arc<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let object = memory.words_object(&words);
        OwnWords { words, object }
    }

    /// Loads a word, sequentially consistent.
    ///
    /// # Panics
    /// If there is no such word.
    #[inline(always)]
    pub fn load<M: Memory + ?Sized>(&self, memory: &M, word: usize) -> u64 {
        let load = |word: &AtomicU64| word.load(Ordering::SeqCst);
        self.step(memory, word, Touch::Read, load, load)
    }

    /// Stores a word, sequentially consistent. Nothing is stored if the core's speculation is lost.
    ///
    /// # Panics
    /// If there is no such word.
    #[inline(always)]
    pub fn store<M: Memory + ?Sized>(&self, memory: &M, word: usize, value: u64) {
        let store = |word: &AtomicU64| word.store(value, Ordering::SeqCst);
        self.step(memory, word, Touch::Write, store, |_| ());
    }

    /// Atomically replaces a word by `new` if it is `old`, sequentially consistent. Returns the word before.
    ///
    /// # Errors
    /// The word that is there, if it is not `old`, or if the core's speculation is lost.
    ///
    /// # Panics
    /// If there is no such word.
    #[inline(always)]
    pub fn compare_exchange<M: Memory + ?Sized>(
        &self,
        memory: &M,
        word: usize,
        old: u64,
        new: u64,
    ) -> Result<u64, u64> {
        let (succeeds, fails) = (Ordering::SeqCst, Ordering::SeqCst);
        let exchange = |word: &AtomicU64| word.compare_exchange(old, new, succeeds, fails);
        let lost = |word: &AtomicU64| Err(word.load(Ordering::Relaxed));
        self.step(memory, word, Touch::Exchange, exchange, lost)
    }

    /// One access with its touch, or `lost`.
    #[inline(always)]
    fn step<M: Memory + ?Sized, R>(
        &self,
        memory: &M,
        word: usize,
        access: Touch,
        act: impl FnOnce(&AtomicU64) -> R,
        lost: impl FnOnce(&AtomicU64) -> R,
    ) -> R {
        let place = &self.words[word];
        if !memory.traces_own() {
            return act(place);
        }
        let (mut act, mut result) = (Some(act), None);
        let mut step = || result = act.take().map(|act| act(place));
        memory.touching(self.object, word as u64 * WORD, WORD, access, &mut step);
        result.unwrap_or_else(|| lost(place))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Ram;

    #[test]
    fn natively_they_are_atomics() {
        let ram = Ram::new(64);
        let words = OwnWords::new(&ram, 2);
        let same = words.clone();
        words.store(&ram, 1, 5);
        assert_eq!((same.load(&ram, 0), same.load(&ram, 1)), (0, 5));
        assert_eq!(words.compare_exchange(&ram, 1, 5, 6), Ok(5));
        assert_eq!(words.compare_exchange(&ram, 1, 5, 7), Err(6));
        assert_eq!((ram.speculate(), ram.lost()), (Err(crate::HardwareAbort::Absent), None));
    }
}
