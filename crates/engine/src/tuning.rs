//! Settings that can be changed while an engine runs.

use perdura_memory::elision::{Attempts, Delay};
use std::fmt;
use std::str::FromStr;

/// Settings that can be changed while an engine runs; `None` leaves the choice to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Lines that may wait for their write-back; by default as many as the last-level cache has.
    pub queue_lines: Option<u64>,
    /// Bytes of log that a group may fill before it is made durable although no thread waits; four times as many while
    /// there are readers.
    pub group_bytes: Option<u64>,
    /// Nanoseconds after which a group is made durable although no thread waits.
    pub answer_within_ns: Option<u64>,
    /// The most transactions that persist together although none is waited for, of engines that have a window; with 1,
    /// each persists by itself.
    pub window: Option<u64>,
    /// When write-backs are skipped, by engines that can.
    pub skip: Option<Skip>,
    /// Whether transactions that are waited for at the same time share a record and its fences; by default if measured
    /// to be faster. If set to true, transactions that are not waited for share one too, until one of them is.
    pub share: Option<bool>,
    /// Lines that a transaction on software transactional memory reads before it continues on a snapshot, and cannot fail
    /// any more; 512 by default.
    pub snapshot_after: Option<u64>,
    /// Commits of one session, with none of others in between, after which it need not lock where others would; 1,024
    /// by default. For tests, whose lives are short.
    pub bias_after: Option<u64>,
    /// The most sessions that keep a log segment between their transactions, under engines that log; a quarter of the
    /// segments by default, which is also the most. For tests, whose sessions are few.
    pub kept_segments: Option<u64>,
    /// Whether sessions gather what they free, and take free pages and slots, by the batch: by default from 16 MiB on.
    /// For tests, whose pools are small.
    pub batches: Option<bool>,
    /// Nanoseconds that a writer waits for transactions that read before it moves them to snapshots and stores, under
    /// engines with a log and a lock; 20,000 by default. With 0, it does not wait.
    pub wait_for_readers_ns: Option<u64>,
    /// How many transactions in 100, at random, take the fallback path at once, under engines on hardware transactions;
    /// none by default. For tests, which are to take both paths.
    pub fallback_percent: Option<u64>,
    /// How many losses of each cause a transaction may have and still be tried in hardware, under engines on hardware
    /// transactions; 8/8/0 by default.
    pub attempts: Option<Attempts>,
    /// How long a transaction waits after a conflict before it is tried in hardware again, under engines on hardware
    /// transactions; 256/8192 by default.
    pub conflict_delay: Option<Delay>,
}

/// When write-backs are skipped, by engines that can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Skip {
    /// Never.
    Never,
    /// If checksums take less than half as many lines as leave together, and not in pages where nearly all deferred
    /// lines were stored to again.
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
