//! Racing-safe copies between a pool and private memory.
//!
//! Another thread may store to the words that a copy reads (a software transaction validates
//! afterwards), so these are relaxed atomic accesses rather than `memcpy`: words where they are
//! aligned, bytes at the edges, and `rep movsb` for longer runs on x86-64, which the compiler
//! does not see into.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// From this many bytes on, the processor's own string copy wins over a loop of words.
#[cfg(target_arch = "x86_64")]
const STRING_COPY: usize = 256;

/// Copies `to.len()` bytes from `from`.
///
/// # Safety
/// `from` is valid for reads of `to.len()` bytes, and no thread accesses these non-atomically.
#[inline]
pub unsafe fn copy_out(from: *const u8, to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if to.len() >= STRING_COPY {
        // SAFETY: `from` by the caller's contract; `to` is exclusively ours.
        unsafe { string_copy(from, to.as_mut_ptr(), to.len()) };
        return;
    }
    let mut done = 0;
    while done < to.len() && !(from as usize + done).is_multiple_of(8) {
        // SAFETY: in bounds by the caller's contract.
        to[done] = unsafe { (*from.add(done).cast::<AtomicU8>()).load(Relaxed) };
        done += 1;
    }
    while to.len() - done >= 8 {
        // SAFETY: in bounds, and aligned by the loop above.
        #[allow(clippy::cast_ptr_alignment)]
        let word = unsafe { (*from.add(done).cast::<AtomicU64>()).load(Relaxed) };
        to[done..done + 8].copy_from_slice(&word.to_ne_bytes());
        done += 8;
    }
    for (index, byte) in to.iter_mut().enumerate().skip(done) {
        // SAFETY: in bounds by the caller's contract.
        *byte = unsafe { (*from.add(index).cast::<AtomicU8>()).load(Relaxed) };
    }
}

/// Copies `from` to `to`, in no order that the caller may rely on.
///
/// # Safety
/// `to` is valid for writes of `from.len()` bytes, and no thread accesses these non-atomically.
#[inline]
pub unsafe fn copy_in(to: *mut u8, from: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if from.len() >= STRING_COPY {
        // SAFETY: `to` by the caller's contract.
        unsafe { string_copy(from.as_ptr(), to, from.len()) };
        return;
    }
    let mut done = 0;
    while done < from.len() && !(to as usize + done).is_multiple_of(8) {
        // SAFETY: in bounds by the caller's contract.
        unsafe { (*to.add(done).cast::<AtomicU8>()).store(from[done], Relaxed) };
        done += 1;
    }
    while from.len() - done >= 8 {
        let word = u64::from_ne_bytes(from[done..done + 8].try_into().expect("eight bytes"));
        // SAFETY: in bounds, and aligned by the loop above.
        #[allow(clippy::cast_ptr_alignment)]
        unsafe {
            (*to.add(done).cast::<AtomicU64>()).store(word, Relaxed);
        }
        done += 8;
    }
    for (index, byte) in from.iter().enumerate().skip(done) {
        // SAFETY: in bounds by the caller's contract.
        unsafe { (*to.add(index).cast::<AtomicU8>()).store(*byte, Relaxed) };
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn string_copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: both ranges by the caller's contract; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}
