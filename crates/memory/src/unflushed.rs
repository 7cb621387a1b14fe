//! A memory whose persistence operations do nothing, to measure what they cost.
//!
//! Engines do the same on it as on the inner memory, since its domain is the same; but write-backs and fences do
//! nothing, and streams are stored through the caches. So nothing on it is durable: it is for measuring only. A mapped
//! file can be [`unflushed`](crate::mapped::Mapped::unflushed) itself, so that no engine is compiled a second time.

use crate::forward::forward;
use crate::transactions::{HardwareAbort, HardwareTicket};
use crate::{Domain, Memory, Survives};
use std::sync::Arc;

/// The inner memory without its write-backs, streams and fences.
pub struct Unflushed<M>(Arc<M>);

impl<M: Memory> Unflushed<M> {
    /// `memory`, unflushed.
    pub fn new(memory: Arc<M>) -> Self {
        Unflushed(memory)
    }
}

// SAFETY: every access is the inner memory's, under the same conditions; there is no durable
// image to keep promises about, and `survives` says so.
unsafe impl<M: Memory> Memory for Unflushed<M> {
    forward!(0);

    fn domain(&self) -> Domain {
        self.0.domain()
    }

    fn survives(&self) -> Survives {
        Survives::Nothing
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        self.0.len()
    }

    #[inline(always)]
    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        // SAFETY: the caller upholds the contract.
        unsafe { self.0.load_unchecked(at) }
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.0.store_unchecked(at, value) }
    }

    #[inline]
    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.0.copy_out_unchecked(at, to) }
    }

    #[inline]
    #[track_caller]
    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.0.copy_in_unchecked(at, from) }
    }

    #[inline]
    #[track_caller]
    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        // SAFETY: words are bytes, eight each.
        let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr().cast(), from.len() * 8) };
        // SAFETY: in bounds by the caller's contract.
        unsafe { self.0.copy_in_unchecked(at, bytes) }
    }

    #[inline]
    #[track_caller]
    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.0.compare_exchange(at, old, new)
    }

    #[inline(always)]
    fn write_back(&self, _at: u64, _len: u64) {}

    #[inline(always)]
    fn fence(&self) {}

    #[inline(always)]
    #[track_caller]
    fn end_speculation(&self) -> Result<HardwareTicket, HardwareAbort> {
        self.0.end_speculation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reference;

    #[test]
    fn visible_without_requests() {
        let inner = Arc::new(Reference::new(4096, Domain::Transient));
        let memory = Unflushed::new(inner.clone());
        memory.stream(64, &[7; 8]);
        memory.store(0, 9);
        memory.write_back(0, 128);
        memory.fence();
        assert_eq!((memory.load(0), memory.load(72), inner.load(72)), (9, 7, 7));
        assert_eq!((memory.domain(), memory.survives()), (Domain::Transient, Survives::Nothing));
        assert!(memory.try_load(4096).is_none());
    }
}
