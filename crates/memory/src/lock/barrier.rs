//! An asymmetric pair of fences: [`light`] and [`heavy`] order accesses among one another as two sequentially
//! consistent fences do, but the light one costs nothing.
//!
//! The heavy side makes every other running thread of the process execute a fence (Linux's `membarrier`, private and
//! expedited), wherever that thread is; so the light side need only keep the compiler from reordering. Where the system
//! has no such call, this must not be used: see [`is_there`]. Under loom both are fences; so a model cannot detect a
//! missing heavy side if another fence of its thread follows.

use crate::atomics::{Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::compiler_fence;

/// The pair as a value: where the system has no heavy side, both are plain fences.
#[derive(Clone, Copy, Debug)]
pub struct Fences {
    asymmetric: bool,
}

impl Fences {
    /// The asymmetric pair if the system supports it.
    pub fn new() -> Self {
        Fences { asymmetric: is_there() }
    }

    /// As on a system without the heavy side: for models.
    #[cfg(loom)]
    pub(super) fn symmetric() -> Self {
        Fences { asymmetric: false }
    }

    /// Whether the light side costs nothing.
    #[inline(always)]
    pub(super) fn are_asymmetric(self) -> bool {
        self.asymmetric
    }

    /// The frequent side.
    #[inline(always)]
    pub fn light(self) {
        if self.asymmetric { light() } else { fence(Ordering::SeqCst) }
    }

    /// The rare side: takes microseconds.
    #[inline]
    pub fn heavy(self) {
        if self.asymmetric { heavy() } else { fence(Ordering::SeqCst) }
    }
}

impl Default for Fences {
    fn default() -> Self {
        Fences::new()
    }
}

/// Whether the process has the heavy side. Callers that do not ask must use fences on both sides.
pub(super) fn is_there() -> bool {
    #[cfg(all(target_os = "linux", not(loom), not(miri)))]
    {
        use rustix::thread::{MembarrierCommand, membarrier};
        static REGISTERED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *REGISTERED.get_or_init(|| {
            membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
                && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
        })
    }
    #[cfg(not(all(target_os = "linux", not(loom), not(miri))))]
    {
        cfg!(loom)
    }
}

/// The frequent side.
#[inline(always)]
pub(super) fn light() {
    #[cfg(not(loom))]
    compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// The rare side: takes microseconds.
///
/// # Panics
/// If the system refuses what it granted when [`is_there`] asked.
#[cold]
pub(super) fn heavy() {
    #[cfg(all(target_os = "linux", not(loom), not(miri)))]
    {
        use rustix::thread::{MembarrierCommand, membarrier};
        membarrier(MembarrierCommand::PrivateExpedited).expect("the process is registered for it");
    }
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
