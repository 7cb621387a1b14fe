//! Plain memory: the visible image only. For tests, and as the volatile upper bound of speed.

use crate::memory::back_off;
use crate::{Domain, LINE, Memory, Survives, copy};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[repr(C, align(64))]
struct Line([AtomicU64; 8]);

/// A memory of ordinary allocated bytes. Nothing survives; write-backs and fences do nothing.
pub struct Ram {
    lines: Box<[Line]>,
    start: Instant,
}

impl Ram {
    /// A zeroed memory of at least `len` bytes (rounded up to whole lines).
    pub fn new(len: u64) -> Self {
        let lines = (0..len.div_ceil(LINE)).map(|_| Line(Default::default())).collect();
        Ram { lines, start: Instant::now() }
    }

    #[inline(always)]
    fn base(&self) -> *mut u8 {
        // Every word is an atomic, so that storing through a shared reference is sound.
        self.lines.as_ptr().cast_mut().cast()
    }
}

// SAFETY: bytes are atomics in one allocation of `len` bytes that never moves or shrinks; there is no durable image to
// keep promises about.
unsafe impl Memory for Ram {
    fn domain(&self) -> Domain {
        Domain::Process
    }

    fn survives(&self) -> Survives {
        Survives::Nothing
    }

    fn len(&self) -> u64 {
        self.lines.len() as u64 * LINE
    }

    #[inline(always)]
    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        // SAFETY: in bounds and aligned by the caller's contract.
        unsafe { (*self.base().add(at as usize).cast::<AtomicU64>()).load(Ordering::Acquire) }
    }

    #[inline(always)]
    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        // SAFETY: in bounds and aligned by the caller's contract.
        unsafe {
            (*self.base().add(at as usize).cast::<AtomicU64>()).store(value, Ordering::Release);
        }
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        // SAFETY: in bounds by the caller's contract; all accesses are atomic.
        unsafe { copy::copy_out(self.base().add(at as usize), to) }
    }

    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        // SAFETY: in bounds by the caller's contract; all accesses are atomic.
        unsafe { copy::copy_in(self.base().add(at as usize), from) }
    }

    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        for (index, word) in from.iter().enumerate() {
            // SAFETY: in bounds and aligned by the caller's contract.
            unsafe { self.store_unchecked(at + index as u64 * 8, *word) };
        }
    }

    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.load(at);
        // SAFETY: `load` has checked bounds and alignment.
        let word = unsafe { &*self.base().add(at as usize).cast::<AtomicU64>() };
        word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
    }

    fn write_back(&self, _at: u64, _len: u64) {}

    fn fence(&self) {}

    fn pause(&self, turn: u32) {
        back_off(turn);
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}
