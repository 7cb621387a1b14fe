//! The instructions that move lines towards the persistence domain, named in this file only. A memory chooses among
//! them when it is opened.

use std::fmt;

/// How a line is written back from the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flush {
    /// x86-64 `clwb`: writes back and may keep the line.
    Clwb,
    /// x86-64 `clflushopt`: writes back and evicts; ordered by fences only.
    Clflushopt,
    /// x86-64 `clflush`: writes back and evicts; ordered with other flushes, so slow.
    Clflush,
    /// aarch64 `dc cvap`: cleans to the point of persistence.
    DcCvap,
    /// aarch64 `dc cvac`: cleans to the point of coherency.
    DcCvac,
    /// No known instruction on this architecture.
    None,
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flush::Clwb => "clwb",
            Flush::Clflushopt => "clflushopt",
            Flush::Clflush => "clflush",
            Flush::DcCvap => "dc cvap",
            Flush::DcCvac => "dc cvac",
            Flush::None => "none",
        })
    }
}

/// Structured extended features (leaf 7), zeros where there is no such leaf.
#[cfg(target_arch = "x86_64")]
pub(crate) fn cpuid_7() -> std::arch::x86_64::CpuidResult {
    use std::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};
    if __cpuid(0).eax < 7 {
        return CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };
    }
    __cpuid_count(7, 0)
}

pub(super) use arch::{detect, fence, stream, write_back};

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{Flush, cpuid_7};
    use crate::LINE;
    use std::arch::asm;

    pub(crate) fn detect() -> Flush {
        let bits = cpuid_7().ebx;
        match () {
            () if bits & 1 << 24 != 0 => Flush::Clwb,
            () if bits & 1 << 23 != 0 => Flush::Clflushopt,
            () => Flush::Clflush,
        }
    }

    /// Writes back `lines` lines from `line` on.
    ///
    /// # Safety
    /// The lines are mapped, and `detect` returned `flush` on this machine.
    #[inline]
    pub(crate) unsafe fn write_back(flush: Flush, line: *const u8, lines: u64) {
        macro_rules! each {
            ($instruction:literal) => {
                for index in 0..lines {
                    // SAFETY: mapped by the caller's contract. No `nomem`: the compiler must not move stores past it.
                    unsafe {
                        let at = line.add((index * LINE) as usize);
                        asm!($instruction, in(reg) at, options(nostack, preserves_flags));
                    }
                }
            };
        }
        match flush {
            Flush::Clwb => each!("clwb [{}]"),
            Flush::Clflushopt => each!("clflushopt [{}]"),
            _ => each!("clflush [{}]"),
        }
    }

    /// Waits for this thread's write-backs and non-temporal stores.
    #[inline(always)]
    pub(crate) fn fence() {
        // SAFETY: orders, and touches nothing.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) };
    }

    /// Stores whole lines past the caches, each by one instruction where there is one: these stores are among those that
    /// drain behind the next fence. Otherwise back to back, so that a line's write-combining buffer leaves as one burst.
    ///
    /// # Safety
    /// `to` is mapped for `from.len()` words and aligned to a line; `from` is whole lines.
    #[inline(always)]
    pub(crate) unsafe fn stream(_flush: Flush, to: *mut u8, from: &[u64]) {
        let lines = from.chunks_exact((LINE / 8) as usize).enumerate();
        if std::arch::is_x86_feature_detected!("avx512f") {
            for (index, line) in lines {
                // SAFETY: in bounds and aligned by the caller's contract; the processor and the system have it. The register
                // is none whose upper half would slow other instructions down.
                unsafe {
                    asm!(
                        "vmovdqu64 zmm16, [{from}]",
                        "vmovntdq [{to}], zmm16",
                        from = in(reg) line.as_ptr(),
                        to = in(reg) to.add(index * LINE as usize),
                        out("xmm16") _,
                        options(nostack, preserves_flags)
                    );
                }
            }
            return;
        }
        for (index, line) in lines {
            // SAFETY: in bounds and aligned by the caller's contract; SSE2 is in the baseline.
            unsafe {
                asm!(
                    "movdqu {a}, [{from}]",
                    "movdqu {b}, [{from} + 16]",
                    "movdqu {c}, [{from} + 32]",
                    "movdqu {d}, [{from} + 48]",
                    "movntdq [{to}], {a}",
                    "movntdq [{to} + 16], {b}",
                    "movntdq [{to} + 32], {c}",
                    "movntdq [{to} + 48], {d}",
                    from = in(reg) line.as_ptr(),
                    to = in(reg) to.add(index * LINE as usize),
                    a = out(xmm_reg) _,
                    b = out(xmm_reg) _,
                    c = out(xmm_reg) _,
                    d = out(xmm_reg) _,
                    options(nostack, preserves_flags)
                );
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::Flush;
    use crate::LINE;
    use std::arch::asm;
    use std::sync::atomic::{AtomicU64, Ordering};

    pub(crate) fn detect() -> Flush {
        if std::arch::is_aarch64_feature_detected!("dpb") { Flush::DcCvap } else { Flush::DcCvac }
    }

    /// Writes back `lines` lines from `line` on. Hardware lines are at least [`LINE`] long on every server core; longer
    /// ones are merely cleaned more than once.
    ///
    /// # Safety
    /// The lines are mapped, and `detect` returned `flush` on this machine.
    #[inline]
    pub(crate) unsafe fn write_back(flush: Flush, line: *const u8, lines: u64) {
        for index in 0..lines {
            // SAFETY: mapped by the caller's contract.
            unsafe {
                let at = line.add((index * LINE) as usize);
                match flush {
                    // By its encoding, since the assembler accepts the name `dc cvap` only for ARMv8.2.
                    Flush::DcCvap => {
                        asm!("sys #3, c7, c12, #1, {}", in(reg) at, options(nostack, preserves_flags));
                    }
                    _ => asm!("dc cvac, {}", in(reg) at, options(nostack, preserves_flags)),
                }
            }
        }
    }

    /// Waits for this thread's write-backs.
    #[inline(always)]
    pub(crate) fn fence() {
        // SAFETY: orders, and touches nothing.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    }

    /// Stores whole lines and writes them back: there is no store past the caches here.
    ///
    /// # Safety
    /// `to` is mapped for `from.len()` words and aligned to a line; `from` is whole lines.
    #[inline]
    pub(crate) unsafe fn stream(flush: Flush, to: *mut u8, from: &[u64]) {
        // SAFETY: in bounds and aligned by the caller's contract.
        unsafe {
            for (index, word) in from.iter().enumerate() {
                (*to.cast::<AtomicU64>().add(index)).store(*word, Ordering::Release);
            }
            write_back(flush, to, from.len() as u64 * 8 / LINE);
        }
    }
}

// Other architectures have no write-back, so that only `Media` and `Process` are ever chosen.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    use super::Flush;
    use std::sync::atomic::{AtomicU64, Ordering};

    pub(crate) fn detect() -> Flush {
        Flush::None
    }

    pub(crate) unsafe fn write_back(_flush: Flush, _line: *const u8, _lines: u64) {
        unreachable!("domains that write lines back are refused at open on this architecture");
    }

    pub(crate) fn fence() {
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// # Safety
    /// `to` is mapped for `from.len()` words and aligned.
    pub(crate) unsafe fn stream(_flush: Flush, to: *mut u8, from: &[u64]) {
        for (index, word) in from.iter().enumerate() {
            // SAFETY: in bounds and aligned by the caller's contract.
            unsafe { (*to.cast::<AtomicU64>().add(index)).store(*word, Ordering::Release) };
        }
    }
}

/// Prefetches a line. Any address will do: an unmapped one is ignored.
#[inline(always)]
pub(crate) fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: part of every x86-64 processor; it reads nothing that the program sees, and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint that never faults.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{line}]", line = in(reg) line, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}
