//! What can be set while an engine runs.

use std::fmt;
use std::str::FromStr;

/// What can be set while an engine runs; `None` leaves the engine's own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Lines that may wait for their write-back: as many as the last-level cache has, unless
    /// given.
    pub queue_lines: Option<u64>,
    /// Bytes of log that a group may fill before it is made durable though nobody waits; four times
    /// as many while there are readers.
    pub group_bytes: Option<u64>,
    /// Nanoseconds after which a group is made durable though nobody waits.
    pub answer_within_ns: Option<u64>,
    /// Transactions at most that persist together though none of them is waited for, of engines that have a window of
    /// them; 1: each by itself.
    pub window: Option<u64>,
    /// When write-backs are skipped, of engines that can.
    pub skip: Option<Skip>,
    /// Whether transactions that are waited for at the same time share a record and its fences: where that is
    /// faster, unless given. If it is given that they do, those that are not waited for share one too, until one is.
    pub share: Option<bool>,
    /// Words that a transaction reads before it goes on with a snapshot, and lets those that write store: 512, unless
    /// given.
    pub snapshot_after: Option<u64>,
}

/// When write-backs are skipped, of engines that can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Skip {
    /// Never.
    Never,
    /// Where checksums take less than half as many lines as leave together, and not where nearly
    /// all that was covered of a page was stored to again.
    #[default]
    WhereFewer,
    /// Always.
    Always,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skip::Never => "never",
            Skip::WhereFewer => "where-fewer",
            Skip::Always => "always",
        })
    }
}

impl FromStr for Skip {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Skip::Never, Skip::WhereFewer, Skip::Always];
        let found = all.into_iter().find(|skip| skip.to_string() == name);
        found.ok_or_else(|| format!("'{name}' is none of never, where-fewer, always"))
    }
}
