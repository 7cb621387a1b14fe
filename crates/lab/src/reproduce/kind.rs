//! The kinds of experiments.

use perdura::EngineKind;
use serde::{Deserialize, Serialize};

/// The measurement, and how figures follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Operations in a second.
    Throughput,
    /// The 99th percentile of latencies.
    Latency,
    /// The share of persistence operations in the time that an engine adds to a transaction.
    Breakdown,
    /// Write-backs, by the kind of data written back.
    Flushes,
    /// Dirty bytes in the lines that are written back.
    Dirtiness,
    /// How often objects are used.
    Reuse,
    /// The time to write objects back, or to create checksums of them instead.
    Checksums,
    /// The losses of power cuts under engines that skip write-backs.
    Crash,
    /// Throughput as a share of the base's.
    Share,
    /// Bytes written to memory per byte stored by the program.
    Traffic,
}

impl Kind {
    /// Whether means over workloads are shown, and settings next to each other.
    pub(super) fn has_means(self) -> bool {
        matches!(self, Kind::Share | Kind::Traffic)
    }
    /// Whether experiments of this kind can run the engine.
    pub(super) fn engine_fits(self, engine: EngineKind) -> Result<(), String> {
        if self != Kind::Crash || engine.skips() {
            return Ok(());
        }
        Err(format!(
            "{engine} skips no write-backs, and so loses nothing: kind crash is for {}",
            EngineKind::names_of(EngineKind::skips)
        ))
    }

    /// Whether experiments of this kind can run on so many cores.
    pub(super) fn cores_fit(self, cores: &[u32]) -> Result<(), String> {
        if self != Kind::Crash || cores == [1] {
            return Ok(());
        }
        Err("the power is cut between transactions of a single core: it takes 1 core".to_owned())
    }
}
