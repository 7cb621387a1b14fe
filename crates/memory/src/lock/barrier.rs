//! A pair of fences of which one side is free: what [`light`] and [`heavy`] order among one another is what two
//! sequentially consistent fences do.
//!
//! The heavy side makes every other thread of the process that runs execute a fence (Linux's `membarrier`,
//! private and expedited), wherever that thread is; so the light side need only keep the compiler from
//! reordering. Where the system has no such call, nothing may be built on it: see [`is_there`]. Under loom
//! both are fences; so a model cannot see a heavy side missing that another fence of its thread follows.

use crate::atomics::{Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::compiler_fence;

/// The pair as an object has it: where the system has no heavy side, both are fences.
#[derive(Clone, Copy, Debug)]
pub struct Fences {
    told: bool,
}

impl Fences {
    /// What the system has.
    pub fn new() -> Self {
        Fences { told: is_there() }
    }

    /// The side that is passed often.
    #[inline(always)]
    pub fn light(self) {
        if self.told { light() } else { fence(Ordering::SeqCst) }
    }

    /// The side that is passed seldom: microseconds.
    #[inline]
    pub fn heavy(self) {
        if self.told { heavy() } else { fence(Ordering::SeqCst) }
    }
}

impl Default for Fences {
    fn default() -> Self {
        Fences::new()
    }
}

/// Whether the process has the heavy side. What does not ask uses fences on both sides.
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

/// The side that is passed often.
#[inline(always)]
pub(super) fn light() {
    #[cfg(not(loom))]
    compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// The side that is passed seldom: microseconds.
///
/// # Panics
/// If the system refuses what it has granted when [`is_there`] asked.
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
