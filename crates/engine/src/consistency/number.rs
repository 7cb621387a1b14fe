//! A number that all sessions share, on cache lines of its own.

use perdura_memory::lock::Apart;
use perdura_memory::{Memory, Object, Traced, WORD};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number. Accesses are reported to the memory, for simulators.
pub(crate) struct SharedNumber {
    value: Apart<AtomicU64>,
    own: Object,
}

impl SharedNumber {
    pub(crate) fn new<M: Memory>(memory: &M, value: u64) -> Self {
        SharedNumber { value: Apart(AtomicU64::new(value)), own: memory.object(2 * WORD) }
    }

    /// Its value.
    #[inline(always)]
    pub(crate) fn get<M: Memory>(&self, memory: &M) -> u64 {
        Traced::new(memory, self.own).read(0, WORD);
        self.value.0.load(Ordering::Acquire)
    }

    /// Its value, for the writer, which is the only one to change it, or for callers that do not need the latest.
    #[inline(always)]
    pub(crate) fn get_alone<M: Memory>(&self, memory: &M) -> u64 {
        Traced::new(memory, self.own).read(0, WORD);
        self.value.0.load(Ordering::Relaxed)
    }

    /// Sets it.
    #[inline(always)]
    pub(crate) fn set<M: Memory>(&self, memory: &M, value: u64) {
        self.value.0.store(value, Ordering::Release);
        Traced::new(memory, self.own).wrote(0, WORD);
    }

    /// Raises it to `value`, if it is less.
    #[inline(always)]
    pub(crate) fn raise<M: Memory>(&self, memory: &M, value: u64) {
        self.value.0.fetch_max(value, Ordering::AcqRel);
        Traced::new(memory, self.own).exchange(0, WORD);
    }
}
