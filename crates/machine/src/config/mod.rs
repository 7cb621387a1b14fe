//! A machine's configuration in TOML: one file under machines/ for each machine.
//!
//! Every table of a file names the source of its figures (`source`); unknown keys are
//! refused, and so is a machine that cannot be built.

mod memory;

pub use memory::{
    ControllerConfig, Device, DramCache, DurableAt, Energy, InsideConfig, MemoryConfig, Page,
};

use self::memory::{LARGEST_QUEUE, LARGEST_TABLE, LONGEST_NS};
use crate::cache::Policy;
use perdura_memory::Domain;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// Why a machine was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no such preset.
    #[error(
        "there is no machine '{name}': the machines are {known}; a path to a TOML file works too"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The file of a machine cannot be read.
    #[error("machine '{path}': {error}")]
    Unreadable {
        /// Its path.
        path: String,
        /// Why not.
        error: std::io::Error,
    },
    /// The text is not TOML, or has keys that are not known, or lacks some.
    #[error("machine '{name}': {error}")]
    Parse {
        /// The machine.
        name: String,
        /// What is wrong and where.
        error: Box<toml::de::Error>,
    },
    /// A figure makes no sense.
    #[error("machine '{name}': {what}")]
    Invalid {
        /// The machine.
        name: String,
        /// What is wrong with it.
        what: String,
    },
}

/// Cores that there can be.
const MOST_CORES: usize = 64;
/// Levels of cache that there can be.
const MOST_CACHES: usize = 8;

/// Figures that came later, as they are written where a machine does not have them: its hash is as before.
const ADDED: &[&str] = &[", victim_blocks: None", ", volatile: None"];

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineConfig {
    /// Its name: the file's, without the ending.
    pub name: String,
    /// A description in one line.
    pub title: String,
    /// Where durability begins: `transient` (the controller) or `persistent` (the caches).
    pub domain: Domain,
    /// The cores.
    pub cores: Cores,
    /// The caches, nearest first.
    pub caches: Vec<Level>,
    /// Controller and devices.
    pub memory: MemoryConfig,
    /// Figures of mechanisms in hardware, by their [names](crate::mechanism::list); one without a table has figures of
    /// its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mechanism: BTreeMap<String, toml::Table>,
}

/// The cores, apart from their look-ups in caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cores {
    /// Where the figures are from.
    pub source: String,
    /// The number of cores, unless another number is given.
    pub count: usize,
    /// Clock, GHz.
    pub ghz: f64,
    /// Cycles of computation charged for each access besides its own time.
    pub cycles_per_access: u32,
    /// Cycles that a program computes before each access of its transactions to its data. The programs' driver charges
    /// them ([`Memory::work`](perdura_memory::Memory::work)): an engine's own accesses cost none.
    #[serde(default)]
    pub program_cycles: u32,
    /// Cycles of a step of a program's private computation, one turn of an inner loop: workloads count the steps, and the
    /// programs' driver charges them. Nothing else does: of the accesses of a transaction `program_cycles` are charged.
    #[serde(default)]
    pub step_cycles: u32,
    /// Stores that a core can have on their way while it goes on; 0: it waits for each.
    pub store_buffer: usize,
    /// Lines that a core can have on their way to its first cache (line fill buffers, miss status holding
    /// registers), at least 1: loads of one call, stores and prefetches overlap up to that number. A core with one
    /// executes in order, and waits for each load; others go on where only a branch depends on it.
    pub fill_buffers: usize,
    /// Lines that a core can have on their way to the controller: non-temporal ones (in
    /// write-combining buffers) and those written back. It waits for one to be accepted before
    /// it sends more.
    pub line_buffers: usize,
    /// Cycles until a core goes on after asking for a write-back.
    pub write_back_cycles: u32,
    /// Whether a write-back is waited for at once, as clflush is by the core that orders it; otherwise
    /// the next fence waits (clwb, clflushopt).
    #[serde(default)]
    pub write_back_waits: bool,
    /// Whether a write-back keeps the line in the caches (clwb as it was meant) or drops it
    /// (clflushopt; clwb on some processors).
    pub write_back_keeps: bool,
    /// Cycles that a fence takes when there is nothing to wait for.
    pub fence_cycles: u32,
    /// Cycles that a turn of a spin loop takes.
    pub pause_cycles: u32,
    /// Cycles to fetch a line that another core has, or to take the right to change one from those that have it,
    /// besides the look-ups.
    pub transfer_cycles: u32,
    /// Whether a line that other cores have clean, and no shared level has, comes from one of them, and not from
    /// memory.
    #[serde(default = "forwards")]
    pub forwards_clean: bool,
}

fn forwards() -> bool {
    true
}

/// A level of cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Where the figures are from.
    pub source: String,
    /// Its name, as in `L1`.
    pub name: String,
    /// Bytes; of each core's own, if it is not shared.
    pub bytes: u64,
    /// Lines in a set.
    pub ways: u32,
    /// Cycles of an access that ends here, the levels above included.
    pub latency_cycles: u32,
    /// Which line of a full set is replaced.
    pub policy: Policy,
    /// One for all cores, not one for each. Every level after a shared one is shared.
    pub shared: bool,
    /// Which lines of the levels above it holds.
    pub holds: Holds,
}

/// Which lines of the levels above it a level of cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// All of them: a line that leaves it leaves them too.
    Inclusive,
    /// Those fetched through it, until it replaces them (neither inclusive nor exclusive).
    NonInclusive,
    /// Lines that they replaced; a line fetched from it leaves it.
    Victims,
}

impl MachineConfig {
    /// Fails if its cores, caches or memory cannot be built.
    pub(crate) fn validate_parts(&self) -> Result<(), ConfigError> {
        let invalid = |what: String| ConfigError::Invalid { name: self.name.clone(), what };
        let Cores { count, ghz, .. } = self.cores;
        if !(1..=MOST_CORES).contains(&count) || !(0.01..=100.0).contains(&ghz) {
            return Err(invalid("1 to 64 cores of 0.01 to 100 GHz are possible".to_owned()));
        }
        if !matches!(self.domain, Domain::Transient | Domain::Persistent) {
            return Err(invalid("its domain is transient or persistent".to_owned()));
        }
        self.cores.validate().map_err(invalid)?;
        let (mut shared, mut lines) = (false, 0u64);
        for level in &self.caches {
            let Level { name, bytes, ways, .. } = level;
            let sets = bytes / 64 / u64::from((*ways).max(1));
            if !(1..=64).contains(ways) || sets == 0 || sets * u64::from(*ways) * 64 != *bytes {
                let what = "bytes must be ways (1 to 64) times 64 times a number of sets";
                return Err(invalid(format!("cache {name}: {what}")));
            }
            let copies = if level.shared { 1 } else { MOST_CORES };
            lines = lines.saturating_add((bytes / 64).saturating_mul(copies as u64));
            if self.cores.time(level.latency_cycles) > LONGEST_NS {
                return Err(invalid(format!("cache {name}: its latency is more than a second")));
            }
            if shared && !level.shared {
                return Err(invalid(format!("cache {name}: beyond a shared level all are shared")));
            }
            shared = level.shared;
        }
        if self.caches.len() > MOST_CACHES || lines > LARGEST_TABLE {
            let most = LARGEST_TABLE / (16 << 10);
            return Err(invalid(format!(
                "{MOST_CACHES} levels of cache are possible, of {most} MiB together, where one that is \
                 not shared counts {MOST_CORES} times"
            )));
        }
        if self.caches.is_empty() || self.caches[0].holds == Holds::Victims {
            return Err(invalid("it needs a first cache, which does not hold victims".to_owned()));
        }
        self.memory.validate().map_err(invalid)
    }

    /// The same machine with this many cores.
    pub fn with_cores(&self, cores: usize) -> MachineConfig {
        MachineConfig { cores: Cores { count: cores, ..self.cores.clone() }, ..self.clone() }
    }

    /// A hash of all figures; of those in `ADDED` only where a machine has them.
    pub fn hash(&self) -> u64 {
        let text = format!("{self:?}");
        let text = ADDED.iter().fold(text, |text, absent| text.replace(absent, ""));
        xxh3_64(text.as_bytes())
    }
}

impl Cores {
    /// How long a number of cycles takes, in nanoseconds.
    fn time(&self, cycles: u32) -> f64 {
        f64::from(cycles) / self.ghz
    }

    fn validate(&self) -> Result<(), String> {
        let cycles = [
            ("cycles_per_access", self.cycles_per_access),
            ("program_cycles", self.program_cycles),
            ("step_cycles", self.step_cycles),
            ("write_back_cycles", self.write_back_cycles),
            ("fence_cycles", self.fence_cycles),
            ("pause_cycles", self.pause_cycles),
            ("transfer_cycles", self.transfer_cycles),
        ];
        if let Some((name, _)) = cycles.iter().find(|(_, cycles)| self.time(*cycles) > LONGEST_NS) {
            return Err(format!("{name} must be at most a second"));
        }
        if self.fill_buffers == 0 {
            return Err("fill_buffers must be at least 1".to_owned());
        }
        let buffers = [
            ("store_buffer", self.store_buffer),
            ("fill_buffers", self.fill_buffers),
            ("line_buffers", self.line_buffers),
        ];
        match buffers.iter().find(|(_, entries)| *entries > LARGEST_QUEUE) {
            Some((name, _)) => Err(format!("{name} must be at most {LARGEST_QUEUE}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::presets;

    /// Refuses `tiny` with one figure changed, in words that name it.
    fn refused(old: &str, new: &str, what: &str) {
        let text = presets::text("tiny").expect("a preset");
        let changed = text.replacen(old, new, 1);
        assert_ne!(changed, text, "{old}");
        let error = super::MachineConfig::parse("tiny", &changed).expect_err(new).to_string();
        assert!(error.contains(what), "{new}: {error}");
    }

    /// Such hashes are in stored results.
    #[test]
    fn hashes_are_as_before_some_figures_came() {
        let on_one_core = |name| {
            let mut config = presets::load(name).expect("a preset");
            config.cores.count = 1;
            config.hash()
        };
        assert_eq!(on_one_core("optane"), 0x6434_9649_2a87_92ba);
        let mut config = presets::load("tiny-dram").expect("a preset");
        let text = format!("{config:?}");
        assert_eq!(super::ADDED.iter().filter(|absent| text.contains(**absent)).count(), 2);
        config.mechanism.clear();
        let before = config.hash();
        config.memory.dram_cache.as_mut().expect("a cache").victim_blocks = Some(0);
        let bounded = config.hash();
        config.memory.volatile = Some(config.memory.home.clone());
        assert!(before != bounded && bounded != config.hash());
    }

    #[test]
    fn figures_that_no_machine_can_have_are_refused() {
        // 2^32 sets, whose number would not fit; then more than there is memory for.
        let caches = "1024 MiB together";
        refused("bytes = 4096\nways = 4", "bytes = 1152921504606846976\nways = 4", caches);
        refused("bytes = 512\nways = 2", "bytes = 549755813888\nways = 2", caches);
        refused("bytes = 512\nways = 2", "bytes = 33554432\nways = 2", caches);
        refused("fence_cycles = 10", "fence_cycles = 4294967295", "fence_cycles");
        refused("latency_cycles = 40", "latency_cycles = 4294967295", "LLC");
        refused("store_buffer = 4", "store_buffer = 1000000", "store_buffer");
        refused("fill_buffers = 4", "fill_buffers = 0", "fill_buffers");
        let level = presets::text("tiny").expect("a preset");
        let start = level.find("[[caches]]").expect("a cache");
        let end = start + level[start + 1..].find("[[caches]]").expect("another");
        refused(&level[start..=end], &level[start..=end].repeat(9), "8 levels");
    }
}
