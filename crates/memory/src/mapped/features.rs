//! What the processor offers to a pool, detected when it is opened.

use super::flush::{self, Flush};
use crate::speculation;
use std::fmt;

/// The processor's features that matter to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Features {
    /// How lines are written back.
    pub flush: Flush,
    /// Whether transactions of the processor commit (Intel's RTM): it has them, they are not switched off, and one that
    /// was tried has committed.
    pub rtm: bool,
    /// The widest vector instructions.
    pub simd: &'static str,
    /// Bytes of the last-level cache, if the operating system tells.
    pub last_level_cache: Option<u64>,
}

impl Features {
    /// Asks the processor.
    pub fn detect() -> Self {
        let last_level_cache = last_level_cache();
        Features {
            flush: flush::detect(),
            rtm: speculation::works(),
            simd: simd(),
            last_level_cache,
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rtm = if self.rtm { "yes (RTM)" } else { "no" };
        write!(f, "flush: {}; hardware transactions: {rtm}; SIMD: {}", self.flush, self.simd)?;
        match self.last_level_cache {
            Some(bytes) => write!(f, "; last-level cache: {} KiB", bytes >> 10),
            None => Ok(()),
        }
    }
}

/// The largest cache of the first processor, as Linux tells it.
fn last_level_cache() -> Option<u64> {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |cache: std::fs::DirEntry| {
        let text = std::fs::read_to_string(cache.path().join("size")).ok()?;
        let (number, unit) = text.trim().split_at_checked(text.trim().len().checked_sub(1)?)?;
        let unit = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(unit)
    };
    caches.flatten().filter_map(size).max()
}

#[cfg(target_arch = "x86_64")]
fn simd() -> &'static str {
    // The library's macro, since it also asks whether the operating system saves the registers.
    if std::arch::is_x86_feature_detected!("avx512f") {
        "avx512f"
    } else if std::arch::is_x86_feature_detected!("avx2") {
        "avx2"
    } else if std::arch::is_x86_feature_detected!("avx") {
        "avx"
    } else {
        "sse2"
    }
}

#[cfg(target_arch = "aarch64")]
fn simd() -> &'static str {
    if std::arch::is_aarch64_feature_detected!("sve") { "sve" } else { "neon" }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn simd() -> &'static str {
    "none"
}
