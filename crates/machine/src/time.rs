//! Simulated time. A machine's time begins when it is switched on.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};

/// A point in simulated time, or a duration, in picoseconds: 213 days at most.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Ps(pub u64);

impl Ps {
    /// Converts nanoseconds, rounded to whole picoseconds; a negative number gives zero.
    pub fn from_ns(ns: f64) -> Self {
        Ps((ns * 1000.0).round() as u64)
    }

    /// Converts to nanoseconds.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// The duration from `earlier` to this time; zero if `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Ps) -> Ps {
        Ps(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Ps {
    type Output = Ps;

    #[inline(always)]
    fn add(self, other: Ps) -> Ps {
        Ps(self.0 + other.0)
    }
}

impl AddAssign for Ps {
    #[inline(always)]
    fn add_assign(&mut self, other: Ps) {
        self.0 += other.0;
    }
}

impl Sub for Ps {
    type Output = Ps;

    #[inline(always)]
    fn sub(self, other: Ps) -> Ps {
        Ps(self.0 - other.0)
    }
}
