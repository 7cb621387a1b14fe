//! The segments of a log that is in use.

use super::area::Geometry;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The segments of an area in use: which are free, and which are full and wait for a checkpoint.
pub(crate) struct Segments {
    state: Mutex<State>,
    /// How many are full, readable without a locked instruction, which would wait for write-backs.
    full: AtomicUsize,
}

struct State {
    free: Vec<u32>,
    /// Full segments, each with the highest ticket in it, in the order in which they filled.
    full: VecDeque<(u32, u64)>,
}

impl Segments {
    /// All of an area's segments, free.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let free = (0..geometry.segments).rev().collect();
        Segments {
            state: Mutex::new(State { free, full: VecDeque::new() }),
            full: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free segment, if there is one.
    pub(crate) fn take(&self) -> Option<u32> {
        self.state().free.pop()
    }

    /// Returns a segment whose records are dead or void.
    pub(crate) fn put_back(&self, segment: u32) {
        self.state().free.push(segment);
    }

    /// Hands over a full segment, with records up to `highest`.
    pub(crate) fn filled(&self, segment: u32, highest: u64) {
        let mut state = self.state();
        state.full.push_back((segment, highest));
        self.full.store(state.full.len(), Ordering::Release);
    }

    /// Frees the full segments whose records are dead.
    pub(crate) fn release(&self, checkpoint: u64) {
        if self.full() == 0 {
            return;
        }
        let mut state = self.state();
        let State { free, full } = &mut *state;
        full.retain(|&(segment, highest)| {
            if highest <= checkpoint {
                free.push(segment);
            }
            highest > checkpoint
        });
        self.full.store(full.len(), Ordering::Release);
    }

    /// How many segments are free.
    pub(crate) fn free(&self) -> usize {
        self.state().free.len()
    }

    /// How many segments are full and waiting for a checkpoint.
    pub(crate) fn full(&self) -> usize {
        self.full.load(Ordering::Acquire)
    }
}
