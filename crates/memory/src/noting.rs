//! A memory that records which pages are stored to: those that a rehearsed recovery would write.

use crate::forward::forward;
use crate::transactions::{HardwareAbort, HardwareTicket};
use crate::{Domain, Memory, PAGE, PageSet, Survives};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The memory `M`, and the pages that were stored to through this wrapper.
pub struct Noting<M> {
    inner: M,
    pages: Mutex<PageSet>,
}

impl<M: Memory> Noting<M> {
    /// Wraps `inner`, with no page stored to yet.
    pub fn new(inner: M) -> Self {
        Noting { inner, pages: Mutex::default() }
    }

    /// Whether this page, by number, was stored to.
    pub fn was_stored_to(&self, page: u64) -> bool {
        self.pages().contains(page)
    }

    fn pages(&self) -> MutexGuard<'_, PageSet> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, at: u64, len: u64) {
        let mut pages = self.pages();
        (at / PAGE..(at + len).div_ceil(PAGE)).for_each(|page| pages.insert(page));
    }
}

// SAFETY: every access is the inner memory's, under the same conditions.
unsafe impl<M: Memory> Memory for Noting<M> {
    forward!(inner);

    fn domain(&self) -> Domain {
        self.inner.domain()
    }

    fn survives(&self) -> Survives {
        self.inner.survives()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        // SAFETY: the caller upholds the contract.
        unsafe { self.inner.load_unchecked(at) }
    }

    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        self.note(at, 8);
        // SAFETY: the caller upholds the contract.
        unsafe { self.inner.store_unchecked(at, value) }
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.inner.copy_out_unchecked(at, to) }
    }

    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        self.note(at, from.len() as u64);
        // SAFETY: the caller upholds the contract.
        unsafe { self.inner.copy_in_unchecked(at, from) }
    }

    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        self.note(at, from.len() as u64 * 8);
        // SAFETY: the caller upholds the contract.
        unsafe { self.inner.stream_unchecked(at, from) }
    }

    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.note(at, 8);
        self.inner.compare_exchange(at, old, new)
    }

    fn write_back(&self, at: u64, len: u64) {
        self.inner.write_back(at, len);
    }

    fn fence(&self) {
        self.inner.fence();
    }

    #[track_caller]
    fn end_speculation(&self) -> Result<HardwareTicket, HardwareAbort> {
        self.inner.end_speculation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ram;

    #[test]
    fn pages_are_noted_by_every_store_and_by_no_load() {
        let memory = Noting::new(Ram::new(8 * PAGE));
        memory.store(8, 0);
        memory.copy_in(2 * PAGE - 1, &[1, 2]);
        memory.stream(4 * PAGE, &[3; 8]);
        memory.compare_exchange(6 * PAGE, 1, 2).expect_err("it is 0");
        assert_eq!(memory.load(3 * PAGE), 0);
        memory.copy_out(5 * PAGE, &mut [0; 100]);
        memory.write_back(7 * PAGE, 64);
        memory.fence();
        let noted: Vec<u64> = (0..8).filter(|&page| memory.was_stored_to(page)).collect();
        assert_eq!(noted, [0, 1, 2, 4, 6]);
        assert_eq!(memory.load(4 * PAGE), 3);
    }
}
