//! An experiment, as TOML says it: one file under experiments/ for each.
//!
//! It holds what the paper says of one table or figure, and what to run to see whether it is so.
//! Unknown keys are refused, and so is an experiment that makes no sense. Engines and mechanisms
//! may be named that this program does not have: then it cannot be run, but it can be read.

use super::quantity::Quantity;
use crate::bench::knobs::Knobs;
use crate::bench::window::Window;
use crate::failure::{Failure, Outcome};
use crate::micro::MicroSize;
use crate::tpcc;
use perdura_machine::cache::Policy;
use perdura_machine::{MachineConfig, presets};
use perdura_memory::Domain;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// Its name: the file's, without the ending.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// About how long it takes, in minutes.
    pub(crate) minutes: u32,
    pub(crate) paper: Paper,
    pub(crate) run: Run,
    /// What is smaller in a run that only shows that it works.
    #[serde(default)]
    pub(crate) quick: Scale,
}

/// What is measured, and how figures follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Operations in a second.
    Throughput,
    /// The 99th percentile of latencies.
    Latency,
    /// How much of what an engine adds to a transaction are persistence operations.
    Breakdown,
    /// Write-backs by what was written back.
    Flushes,
    /// Dirty bytes in the lines that are written back.
    Dirtiness,
    /// How often objects are used.
    Reuse,
    /// What writing objects back takes, and making checksums of them instead.
    Checksums,
    /// What power cuts take from engines that skip write-backs.
    Crash,
    /// Throughput as a share of the base's.
    Share,
    /// Bytes written to memory by bytes that the program stored.
    Traffic,
}

impl Kind {
    /// Whether means over workloads are shown, and settings beside each other.
    pub(super) fn has_means(self) -> bool {
        matches!(self, Kind::Share | Kind::Traffic)
    }
}

/// What the paper says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    /// Authors, title and year.
    pub(crate) title: String,
    /// Which figure or table of it.
    pub(crate) figure: String,
    /// What that shows.
    pub(crate) what: String,
    /// Where our run differs from the paper's.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// What it says in numbers.
    #[serde(default, rename = "value")]
    pub(crate) values: Vec<Value>,
}

/// A number in the paper's text or tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Value {
    /// A few words, for the table and the plot.
    pub(crate) says: String,
    pub(crate) quantity: Quantity,
    /// Of this engine; of all of the experiment's but the base, if absent.
    pub(crate) engine: Option<String>,
    /// Of this workload;
    pub(crate) workload: Option<String>,
    /// or over all of them.
    pub(crate) over: Option<Over>,
    /// In this setting; in each, if absent.
    pub(crate) setting: Option<String>,
    /// In the quantity's unit.
    pub(crate) value: f64,
    /// It is no value but a bound of it.
    pub(crate) bound: Option<Bound>,
    /// Read off a picture, or otherwise not exact.
    #[serde(default)]
    pub(crate) approximate: bool,
}

/// What a bound says of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bound {
    /// It is not more.
    AtMost,
    /// It is not less.
    AtLeast,
}

/// Which of the workloads' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Over {
    /// Their mean.
    Mean,
    /// The least.
    Least,
    /// The greatest.
    Most,
}

/// What to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// On this machine, with its own write-backs.
    #[serde(default)]
    pub(crate) native: bool,
    /// The domain of native pools: the folder's file system says, if this does not.
    pub(crate) domain: Option<Domain>,
    /// On a simulated machine.
    pub(crate) simulated: Option<Simulated>,
    /// By clients through the server.
    pub(crate) served: Option<Served>,
    pub(crate) workloads: Vec<String>,
    /// Engines, and protocols.
    #[serde(default)]
    pub(crate) engines: Vec<String>,
    /// Pairs of an engine and a mechanism, by the names that they have among the engines.
    #[serde(default)]
    pub(crate) protocols: BTreeMap<String, ProtocolSpec>,
    /// Sizes of microworkloads that differ from the usual, and other names for them.
    #[serde(default)]
    pub(crate) sizes: BTreeMap<String, SizeSpec>,
    /// The workloads that means are over; all of them, if there is none here.
    #[serde(default)]
    pub(crate) mean_over: Vec<String>,
    /// The engine that the others are compared with.
    pub(crate) base: Option<String>,
    /// By workload, another one that its engines are compared with.
    #[serde(default)]
    pub(crate) base_of: BTreeMap<String, String>,
    /// Engines that are compared with another one than that.
    #[serde(default)]
    pub(crate) bases: BTreeMap<String, String>,
    #[serde(default = "one")]
    pub(crate) threads: Vec<u32>,
    /// YCSB's, or bare objects; neither these nor repetitions are needed where nothing is native, and
    /// microworkloads have their own sizes.
    #[serde(default)]
    pub(crate) records: u64,
    /// How large TPC-C's tables are; nothing else has records of another kind.
    #[serde(default)]
    pub(crate) tpcc: tpcc::Size,
    /// Measured operations, all threads together; there are none on bare objects.
    #[serde(default)]
    pub(crate) operations: u64,
    /// The same for workloads whose operations are long.
    #[serde(default)]
    pub(crate) operations_of: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) repetitions: u32,
    /// Transactions that each thread keeps unanswered; 1: it waits for each.
    #[serde(default = "closed_loop")]
    pub(crate) window: Window,
    /// What is set of engines and of the log.
    #[serde(default)]
    pub(crate) tuning: Knobs,
    /// What settings are steps of, where they are: pictures have curves over it.
    pub(crate) axis: Option<String>,
    /// Everything is run in each of these, one after the other, where there are any.
    #[serde(default, rename = "setting")]
    pub(crate) settings: Vec<Setting>,
    pub(crate) seed: u64,
}

/// What is set otherwise; what is absent is as in the rest of the experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setting {
    /// A few words, for tables and the picture.
    pub(crate) name: String,
    /// Where it lies on the axis, if the experiment has one.
    pub(crate) at: Option<f64>,
    pub(crate) window: Option<Window>,
    pub(crate) tuning: Option<Knobs>,
    /// How the simulated caches replace lines, at all levels.
    pub(crate) policy: Option<Policy>,
    /// Operations in a transaction of microworkloads.
    pub(crate) ops_per_tx: Option<u32>,
    /// Figures of the simulated machine or of its mechanisms, by their path in the machine's file.
    #[serde(default)]
    pub(crate) sets: BTreeMap<String, Scalar>,
}

/// A figure's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Whole(i64),
    Real(f64),
    Truth(bool),
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Whole(number) => number.fmt(f),
            Scalar::Real(number) => number.fmt(f),
            Scalar::Truth(truth) => truth.fmt(f),
            Scalar::Text(text) => text.fmt(f),
        }
    }
}

/// What runs under a protocol's name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProtocolSpec {
    pub(crate) engine: String,
    /// The simulated machine's.
    pub(crate) mechanism: String,
    /// Length of its epochs, if it has some, microseconds.
    #[serde(default = "millisecond")]
    pub(crate) epoch_us: u64,
}

/// A microworkload's size.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SizeSpec {
    /// Which it is, if the experiment has another name for it.
    pub(crate) workload: Option<String>,
    pub(crate) entries: Option<u64>,
    pub(crate) ops_per_tx: Option<u32>,
}

impl SizeSpec {
    pub(super) fn size(&self) -> MicroSize {
        MicroSize { entries: self.entries, ops_per_tx: self.ops_per_tx, input: None }
    }
}

/// A figure of the machine that no paper gives, found by each workload: the value with which one engine's share of
/// the base's throughput comes nearest to what the paper says of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Calibrate {
    /// Its path in the machine's file.
    pub(crate) figure: String,
    /// Values that are tried, ascending; then between the two that are nearest.
    pub(crate) values: Vec<u64>,
    /// The only engine that it is found on.
    pub(crate) engine: String,
    /// Its share in the paper.
    pub(crate) share: f64,
}

/// Rivals that an experiment can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RivalName {
    /// Redis with its append-only file, synced before every answer.
    RedisAof,
}

impl RivalName {
    /// Its name where engines have theirs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RivalName::RedisAof => "redis-aof",
        }
    }
}

/// What differs on the simulated machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Simulated {
    /// A preset's name.
    pub(crate) machine: String,
    /// So many times smaller than the preset's are its caches.
    #[serde(default = "undivided")]
    pub(crate) caches_divided_by: u64,
    #[serde(default = "one")]
    pub(crate) cores: Vec<u32>,
    /// Not needed by microworkloads.
    #[serde(default)]
    pub(crate) records: u64,
    #[serde(default)]
    pub(crate) tpcc: tpcc::Size,
    pub(crate) operations: u64,
    #[serde(default)]
    pub(crate) operations_of: BTreeMap<String, u64>,
    pub(crate) repetitions: u32,
    /// Power cuts of each run, where they are what is measured.
    #[serde(default)]
    pub(crate) cuts: u64,
    pub(crate) calibrate: Option<Calibrate>,
}

/// What differs where YCSB's clients go through the server. Each waits for every answer, and engines
/// are as `perdura serve` has them: there is neither a window nor tuning.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Served {
    /// Who is run beside, if it is installed.
    pub(crate) rival: RivalName,
    #[serde(default = "one")]
    pub(crate) clients: Vec<u32>,
    pub(crate) records: u64,
    pub(crate) operations: u64,
    #[serde(default)]
    pub(crate) operations_of: BTreeMap<String, u64>,
    pub(crate) repetitions: u32,
}

/// A smaller run: what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scale {
    pub(crate) records: Option<u64>,
    pub(crate) tpcc: Option<tpcc::Size>,
    pub(crate) operations: Option<u64>,
    pub(crate) repetitions: Option<u32>,
    pub(crate) threads: Option<Vec<u32>>,
    pub(crate) cuts: Option<u64>,
    pub(crate) caches_divided_by: Option<u64>,
}

fn closed_loop() -> Window {
    Window::CLOSED_LOOP
}

fn millisecond() -> u64 {
    1000
}

fn undivided() -> u64 {
    1
}

fn one() -> Vec<u32> {
    vec![1]
}

impl Simulated {
    /// The machine, with caches so many times smaller than the preset's.
    pub(super) fn machine(&self, caches_divided_by: u64) -> Result<MachineConfig, String> {
        let mut machine = presets::load(&self.machine).map_err(|error| error.to_string())?;
        if caches_divided_by == 1 {
            return Ok(machine);
        }
        let divides = |bytes: u64| caches_divided_by > 0 && bytes.is_multiple_of(caches_divided_by);
        if !machine.caches.iter().all(|level| divides(level.bytes)) {
            return Err(format!("the caches cannot be divided by {caches_divided_by}"));
        }
        machine.caches.iter_mut().for_each(|level| level.bytes /= caches_divided_by);
        machine.title += &format!("; caches {caches_divided_by} times smaller");
        machine.validate().map_err(|error| error.to_string())?;
        Ok(machine)
    }
}

impl Experiment {
    /// Reads an experiment; `name` is for messages.
    pub(crate) fn parse(name: &str, text: &str) -> Outcome<Self> {
        let experiment: Self = toml::from_str(text)
            .map_err(|error| Failure::new(format!("experiment '{name}': {error}")))?;
        let valid = experiment.validate();
        valid.map_err(|what| Failure::new(format!("experiment '{name}': {what}")))?;
        Ok(experiment)
    }
}

#[cfg(test)]
mod tests;
