//! What a check found.

use serde::Serialize;
use std::fmt::Display;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Not as it should be, and no loss.
    Warning,
    /// Damage.
    Fault,
}

impl Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Level::Good => "good",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Fault => "FAULT",
        })
    }
}

/// One thing that was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// Which part of the pool.
    pub(crate) part: String,
    pub(crate) what: String,
}

/// All of them, in the order of the walk.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    fn push(&mut self, level: Level, part: &str, what: impl Display) {
        self.0.push(Finding { level, part: part.to_owned(), what: what.to_string() });
    }

    pub(super) fn good(&mut self, part: &str, what: impl Display) {
        self.push(Level::Good, part, what);
    }

    pub(super) fn note(&mut self, part: &str, what: impl Display) {
        self.push(Level::Note, part, what);
    }

    pub(super) fn warn(&mut self, part: &str, what: impl Display) {
        self.push(Level::Warning, part, what);
    }

    pub(super) fn fault(&mut self, part: &str, what: impl Display) {
        self.push(Level::Fault, part, what);
    }

    pub(super) fn append(&mut self, mut others: Findings) {
        self.0.append(&mut others.0);
    }

    /// How many are faults.
    pub(crate) fn faults(&self) -> usize {
        self.0.iter().filter(|finding| finding.level == Level::Fault).count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }
}
