//! The parts of a table.

use super::results::{Row, TableResults};
use crate::failure::Outcome;
use serde_json::Value;

/// One of README's tables.
pub(crate) struct Spec {
    /// In the marks, and for `--only`.
    pub(crate) name: &'static str,
    /// For `--list`.
    pub(crate) shows: &'static str,
    /// The commands that measure it.
    pub(crate) steps: fn(&Scale) -> Vec<Step>,
    /// The Markdown that README has.
    pub(crate) render: fn(&TableResults) -> Outcome<String>,
}

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// Everything small.
    pub(crate) quick: bool,
    pub(crate) seed: u64,
    /// Images of each crash test.
    pub(crate) images: u64,
    /// Seconds of each native stress.
    pub(crate) stress_seconds: u64,
}

impl Scale {
    /// One of two numbers: the first, or the second if everything is small.
    pub(crate) fn of(&self, usual: u64, quick: u64) -> u64 {
        if self.quick { quick } else { usual }
    }
}

/// A command of this program, and the kept part of its answer.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// In which DISK and OUT stand for folders; the child gets `--json` too.
    pub(crate) arguments: String,
    /// Seconds that it is expected to take, of a release build on two cores.
    pub(crate) seconds: u64,
    /// The figures of its JSON; `None` if they are not there, or not right.
    pub(crate) rows: fn(&Value) -> Option<Vec<Row>>,
}

impl Spec {
    /// Seconds that it is expected to take.
    pub(crate) fn seconds(&self, scale: &Scale) -> u64 {
        (self.steps)(scale).iter().map(|step| step.seconds).sum()
    }
}
