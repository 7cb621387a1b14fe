//! The clock of commits.
//!
//! A commit that has its locks takes the number after the clock's, and leaves the clock. What makes that safe: a
//! transaction whose moment is `n` meets a commit with a number up to `n` only whole. For that commit had all of its
//! locks before it read the clock, which was below `n` then, and so before the clock came to `n`, and so before the
//! transaction began.

use perdura_memory::lock::Apart;
use perdura_memory::{Memory, Object, Traced, WORD};
use std::sync::atomic::{AtomicU64, Ordering};

/// When something is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    /// The clock's number.
    pub(crate) number: u64,
    /// How many commits had read the clock, where that is counted: in a simulator, for which it is free. Commits have
    /// an order by that in which all of them could have run one after the other.
    pub(crate) serial: u64,
}

/// The clock.
pub(crate) struct Clock {
    number: Apart<AtomicU64>,
    serial: Apart<AtomicU64>,
    own: Object,
}

impl Clock {
    pub(crate) fn new<M: Memory>(memory: &M, number: u64) -> Self {
        let number = Apart(AtomicU64::new(number));
        Clock { number, serial: Apart::default(), own: memory.object(WORD) }
    }

    #[inline(always)]
    fn serial<M: Memory>(&self, memory: &M, more: u64) -> u64 {
        // No access to the memory, and so no other core's turn, is between this and the number.
        if memory.traces_own() {
            self.serial.0.fetch_add(more, Ordering::Relaxed) + more
        } else {
            0
        }
    }

    /// What it is.
    #[inline(always)]
    pub(crate) fn now<M: Memory>(&self, memory: &M) -> Moment {
        Traced::new(memory, self.own).read(0, WORD);
        let number = self.number.0.load(Ordering::SeqCst);
        Moment { number, serial: self.serial(memory, 0) }
    }

    /// What it is, for a commit that has its locks.
    #[inline(always)]
    pub(crate) fn to_commit<M: Memory>(&self, memory: &M) -> Moment {
        Traced::new(memory, self.own).read(0, WORD);
        let number = self.number.0.load(Ordering::SeqCst);
        Moment { number, serial: self.serial(memory, 1) }
    }

    /// Moves it to `number`, if it is before that.
    #[cold]
    pub(crate) fn raise<M: Memory>(&self, memory: &M, number: u64) {
        Traced::new(memory, self.own).exchange(0, WORD);
        self.number.0.fetch_max(number, Ordering::SeqCst);
    }

    /// Moves it on by one: commits that read it from here on have later numbers than what is returned, and all that
    /// read it before have not.
    #[cold]
    pub(crate) fn tick<M: Memory>(&self, memory: &M) -> Moment {
        Traced::new(memory, self.own).exchange(0, WORD);
        let number = self.number.0.fetch_add(1, Ordering::SeqCst) + 1;
        Moment { number, serial: self.serial(memory, 0) }
    }
}
