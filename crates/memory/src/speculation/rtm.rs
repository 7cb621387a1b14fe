//! Restricted transactional memory (RTM; Intel's Software Developer's Manual, volume 1, chapter 16).
//!
//! When a transaction is lost, the processor puts all registers and all memory back to what they were at `xbegin`, and
//! goes on behind it with the cause in `eax`. So for the compiler the instruction runs once, and answers either that the
//! transaction has begun or why it has not: nothing of a lost one has ever happened, stack and heap included.
//!
//! The processor tells neither interrupts from page faults nor these from instructions that it cannot undo; all of them
//! are [`HardwareAbort::Unsupported`]. Another try mostly ends as the first, since the page is still missing.

use crate::transactions::HardwareAbort;

/// The answer of `xbegin` when the transaction has begun.
const STARTED: u32 = u32::MAX;

/// Transactions that the probe begins at most.
#[cfg(target_arch = "x86_64")]
const PROBES: u32 = 1_000;

/// Whether transactions commit here: the processor says that it has them and does not say that all are lost, and an
/// empty one has committed. (Virtual machines whose host has switched them off may still say that they are there.)
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn works() -> bool {
    let leaf = crate::mapped::cpuid_7();
    let always_aborts = leaf.edx & 1 << 11 != 0;
    let is_there = leaf.ebx & 1 << 11 != 0 && !always_aborts;
    is_there && (0..PROBES).any(|_| begin().and_then(|()| end()).is_ok())
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(crate) fn works() -> bool {
    false
}

/// Begins a transaction. To be called only where transactions [work](works).
///
/// # Errors
/// Why it is lost, when it is; or that one is running already.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn begin() -> Result<(), HardwareAbort> {
    if is_running() {
        return Err(HardwareAbort::Nested);
    }
    let status: u32;
    // SAFETY: the label is behind the instruction, so that both ways on are the same code; a lost transaction has left
    // no trace in registers or memory, which is what the compiler assumes of an instruction that answers its cause.
    unsafe {
        std::arch::asm!("xbegin 2f", "2:", inlateout("eax") STARTED => status, options(nostack));
    }
    if status == STARTED { Ok(()) } else { Err(cause(status)) }
}

/// Commits the transaction. If it is lost at that moment, [`begin`] returns.
///
/// # Errors
/// When none is running.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn end() -> Result<(), HardwareAbort> {
    if !is_running() {
        return Err(HardwareAbort::Absent);
    }
    // SAFETY: a transaction is running.
    unsafe { std::arch::asm!("xend", options(nostack)) };
    Ok(())
}

/// Gives the transaction up, so that [`begin`] returns with this code. Does nothing when none is running.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub(crate) fn stop(code: u8) {
    // The code is a part of the instruction. So there are 256 of them, of 3 bytes each; without a transaction all
    // from the first one on do nothing.
    // SAFETY: the jump's target is one of the instructions, all of which end a transaction or do nothing.
    unsafe {
        std::arch::asm!(
            "lea {at}, [rip + 2f]",
            "lea {code}, [{code} + 2 * {code}]",
            "add {at}, {code}",
            "jmp {at}",
            "2:",
            ".set perdura_code, 0",
            ".rept 256",
            ".byte 0xc6, 0xf8, perdura_code",
            ".set perdura_code, perdura_code + 1",
            ".endr",
            at = out(reg) _,
            code = inout(reg) u64::from(code) => _,
            options(nostack)
        );
    }
}

/// Whether this thread is in a transaction.
#[cfg(target_arch = "x86_64")]
#[inline]
fn is_running() -> bool {
    let running: u8;
    // SAFETY: the instruction changes flags only, and is there where transactions are.
    unsafe {
        std::arch::asm!("xtest", "setnz {}", out(reg_byte) running, options(nomem, nostack));
    }
    running != 0
}

/// Why a transaction is lost, of the status that the processor gives.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "there is no such status"))]
const fn cause(status: u32) -> HardwareAbort {
    let [explicit, conflict, capacity] = [1 << 0, 1 << 2, 1 << 3];
    if status & explicit != 0 {
        HardwareAbort::Explicit((status >> 24) as u8)
    } else if status & conflict != 0 {
        HardwareAbort::Conflict
    } else if status & capacity != 0 {
        HardwareAbort::Capacity
    } else {
        HardwareAbort::Unsupported
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn begin() -> Result<(), HardwareAbort> {
    Err(HardwareAbort::Absent)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn end() -> Result<(), HardwareAbort> {
    Err(HardwareAbort::Absent)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn stop(_code: u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status bits of the manual's table 16-1.
    #[test]
    fn causes_are_those_of_the_status() {
        assert_eq!(cause(0xFE00_0001), HardwareAbort::Explicit(0xFE));
        assert_eq!(cause(1 << 1 | 1 << 2), HardwareAbort::Conflict);
        assert_eq!(cause(1 << 3), HardwareAbort::Capacity);
        assert_eq!(cause(1 << 2 | 1 << 3), HardwareAbort::Conflict);
        assert_eq!(cause(0), HardwareAbort::Unsupported);
    }

    /// Without a transaction each of the 256 instructions does nothing, on processors that know none of them too: they
    /// are not executed there.
    #[test]
    fn stopping_outside_of_a_transaction_does_nothing() {
        if !works() {
            eprintln!("not measured: this processor has no restricted transactional memory");
            return;
        }
        (0..=u8::MAX).for_each(stop);
        assert_eq!(end(), Err(HardwareAbort::Absent));
    }

    /// Each code arrives, and words that were stored to are as before.
    #[test]
    fn lost_transactions_leave_nothing() {
        if !works() {
            eprintln!("not measured: this processor has no restricted transactional memory");
            return;
        }
        let mut word = 1_u64;
        for code in 0..=u8::MAX {
            let mut tries = 0;
            let why = loop {
                match begin() {
                    Ok(()) => {
                        // SAFETY: an exclusive reference.
                        unsafe { std::ptr::write_volatile(&raw mut word, 2) };
                        stop(code);
                        unreachable!("the transaction has been given up");
                    }
                    Err(why @ HardwareAbort::Explicit(_)) => break why,
                    Err(why) => assert!(tries < 1_000, "only {why:?}"),
                }
                tries += 1;
            };
            // SAFETY: an exclusive reference.
            let left = unsafe { std::ptr::read_volatile(&raw const word) };
            assert_eq!((why, left), (HardwareAbort::Explicit(code), 1));
        }
    }
}
