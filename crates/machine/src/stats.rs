//! What a machine counted: plain integers, serialised once.

use crate::Ps;
use crate::processor::CoreStats;
use serde::Serialize;

/// Lines written to the controller, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WriteBacks {
    /// A cache needed the room.
    pub evictions: u64,
    /// A program asked.
    pub asked: u64,
    /// A program stored past the caches.
    pub streamed: u64,
    /// A hardware mechanism wrote.
    pub mechanism: u64,
    /// A cache needed the room of a line of programs' own memory.
    pub own: u64,
}

/// What the ends of epochs took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckpointStats {
    /// Epochs that have ended.
    pub epochs: u64,
    /// Time in which all cores waited for that, ps.
    pub wait_ps: Ps,
    /// Lines of programs that went home meanwhile, those that the mechanism has redirected included.
    pub lines: u64,
    /// Lines that the mechanism wrote itself meanwhile: records, copies, entries of tables, numbers of epochs.
    pub mechanism_lines: u64,
}

/// All statistics of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// The machine's name.
    pub machine: String,
    /// A hash of its configuration.
    pub config_hash: String,
    /// The seed of everything random in it.
    pub seed: u64,
    /// The mechanism's name; both names if there are two.
    pub mechanism: String,
    /// The mechanism's own figures.
    pub mechanism_figures: Vec<(&'static str, u64)>,
    /// Simulated time until the last core was done, ns.
    pub time_ns: f64,
    /// Line accesses (loads and stores) by all cores.
    pub accesses: u64,
    /// Each core.
    pub cores: Vec<CoreStats>,
    /// The caches.
    pub caches: crate::cache::CacheStats,
    /// Lines written to the controller.
    pub write_backs: WriteBacks,
    /// The ends of a mechanism's epochs.
    pub checkpoints: CheckpointStats,
    /// Controller and devices.
    pub memory: crate::controller::ControllerStats,
}

impl Statistics {
    /// The share of the cores' time in which they waited in fences.
    pub fn fence_share(&self) -> f64 {
        let all: u64 = self.cores.iter().map(|core| core.time_ps.0).sum();
        let fences: u64 = self.cores.iter().map(|core| core.fence_stall_ps.0).sum();
        fences as f64 / all.max(1) as f64
    }

    /// The share of the time in which all cores waited for the ends of epochs.
    pub fn checkpoint_share(&self) -> f64 {
        self.checkpoints.wait_ps.as_ns() / self.time_ns.max(1e-3)
    }
}
