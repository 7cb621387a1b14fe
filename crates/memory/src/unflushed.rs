//! A memory whose persistence operations do nothing, to measure what they cost.
//!
//! Engines do the same on it as on the inner memory, since its domain is the same; but write-backs and fences do
//! nothing, and streams are stored through the caches. So nothing on it is durable: it is for measuring only. A mapped
//! file can be [`unflushed`](crate::mapped::Mapped::unflushed) itself, so that no engine is compiled a second time.

use crate::atomics::AtomicU64;
use crate::own::{Object, Touch};
use crate::transactions::{HardwareAbort, HardwareTicket, Speculation};
use crate::{Domain, Memory, Survives};
use std::io;
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

    fn limit(&self) -> u64 {
        self.0.limit()
    }

    fn last_level_cache(&self) -> u64 {
        self.0.last_level_cache()
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.0.grow(len)
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

    fn check_fence(&self) -> io::Result<()> {
        self.0.check_fence()
    }

    #[inline(always)]
    fn is_usable(&self) -> bool {
        self.0.is_usable()
    }

    #[inline(always)]
    fn is_forked(&self) -> bool {
        self.0.is_forked()
    }

    fn look(&self) -> io::Result<()> {
        self.0.look()
    }

    #[track_caller]
    fn pause(&self, turn: u32) {
        self.0.pause(turn);
    }

    #[track_caller]
    fn work(&self, cycles: u32) {
        self.0.work(cycles);
    }

    #[inline(always)]
    fn tx_begin(&self) -> Result<(), HardwareAbort> {
        self.0.tx_begin()
    }

    #[inline(always)]
    fn tx_commit(&self) -> Result<HardwareTicket, HardwareAbort> {
        self.0.tx_commit()
    }

    #[inline(always)]
    fn tx_abort(&self) -> bool {
        self.0.tx_abort()
    }

    #[inline(always)]
    fn tx_flush(&self) {
        self.0.tx_flush();
    }

    #[inline(always)]
    fn tx_durable(&self) -> HardwareTicket {
        self.0.tx_durable()
    }

    #[inline(always)]
    fn speculation(&self) -> Speculation {
        self.0.speculation()
    }

    #[inline(always)]
    fn speculate(&self) -> Result<(), HardwareAbort> {
        self.0.speculate()
    }

    #[inline(always)]
    #[track_caller]
    fn end_speculation(&self) -> Result<HardwareTicket, HardwareAbort> {
        self.0.end_speculation()
    }

    #[inline(always)]
    fn stop_speculating(&self, code: u8) {
        self.0.stop_speculating(code);
    }

    #[inline(always)]
    fn lost(&self) -> Option<HardwareAbort> {
        self.0.lost()
    }

    #[inline(always)]
    fn words_object(&self, words: &Arc<[AtomicU64]>) -> Object {
        self.0.words_object(words)
    }

    #[inline(always)]
    fn touching(
        &self,
        object: Object,
        at: u64,
        len: u64,
        access: Touch,
        step: &mut dyn FnMut(),
    ) -> bool {
        self.0.touching(object, at, len, access, step)
    }

    #[inline(always)]
    fn object(&self, bytes: u64) -> Object {
        self.0.object(bytes)
    }

    #[inline(always)]
    fn traces_own(&self) -> bool {
        self.0.traces_own()
    }

    #[inline(always)]
    fn touch(&self, object: Object, at: u64, len: u64, access: Touch) {
        self.0.touch(object, at, len, access);
    }

    fn now(&self) -> u64 {
        self.0.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reference;

    #[test]
    fn what_is_stored_is_seen_and_nothing_is_asked_for() {
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
