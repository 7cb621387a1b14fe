//! The work that baselines do, and its results.

use crate::Result;
use serde::Serialize;
use std::path::Path;

/// A kind of work. Its twin in `perdura-workloads` says what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Random swaps in an array of words.
    Sps,
    /// 25 % inserts, 25 % removals, 50 % look-ups on a hash map.
    Map,
    /// The same on an ordered map.
    Ordered,
    /// Whole values overwritten at random.
    Overwrite,
}

impl Work {
    /// All of them.
    pub const ALL: [Work; 4] = [Work::Sps, Work::Map, Work::Ordered, Work::Overwrite];

    /// Its name in tables and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Work::Sps => "sps",
            Work::Map => "map",
            Work::Ordered => "ordered",
            Work::Overwrite => "overwrite",
        }
    }
}

/// The size of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Entries, keys or values.
    pub entries: u64,
    /// Swaps in a transaction, or bytes in a value; ignored by maps.
    pub width: u64,
    /// Operations that are measured.
    pub operations: u64,
    /// Operations before those, not measured.
    pub warm_up: u64,
    /// The root of everything random.
    pub seed: u64,
}

/// The result of a run, whose answer was checked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Operations measured.
    pub operations: u64,
    /// Seconds they took.
    pub seconds: f64,
}

impl Figure {
    /// Nanoseconds for each operation.
    pub fn ns_per_operation(&self) -> f64 {
        self.seconds * 1e9 / self.operations.max(1) as f64
    }
}

/// Another system, or one of our engines, doing the work.
pub trait Baseline {
    /// Its name in tables.
    fn name(&self) -> &str;

    /// Loads fresh data into `folder`, runs, checks the answer, and leaves the folder as it was.
    ///
    /// # Errors
    /// `Unavailable` with what to install; `Failed` where the answer was wrong.
    fn run(&mut self, work: Work, size: &Size, folder: &Path) -> Result<Figure>;
}
