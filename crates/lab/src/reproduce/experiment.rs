//! An experiment in TOML: one file under experiments/ for each.
//!
//! It holds the paper's values for one table or figure, and the runs that test them. Unknown keys are refused, and so
//! are contradictions. Engines and mechanisms may be named that this program does not have: then the experiment cannot
//! be run, but it can be read.

use super::kind::Kind;
use super::quantity::Quantity;
use super::tpcc;
use crate::bench::knobs::Knobs;
use crate::bench::window::Window;
use crate::failure::{Failure, Outcome};
use perdura_machine::cache::Policy;
use perdura_machine::{MachineConfig, presets};
use perdura_memory::Domain;
use perdura_workloads::list::{self as parameters, Asked};
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
    /// The sizes of a quick run, which only shows that the experiment works.
    #[serde(default)]
    pub(crate) quick: Scale,
}

/// The paper's claims.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    /// Authors, title and year.
    pub(crate) title: String,
    /// The figure or table.
    pub(crate) figure: String,
    /// Its subject.
    pub(crate) what: String,
    /// Engines of the paper that its values are of, and that this program does not have yet.
    #[serde(default)]
    pub(crate) later: Vec<String>,
    /// How our runs differ from the paper's.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// Its values.
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
    /// The engine; if absent, all of the experiment's but the base.
    pub(crate) engine: Option<String>,
    /// The workload,
    pub(crate) workload: Option<String>,
    /// or an aggregate over all of them.
    pub(crate) over: Option<Over>,
    /// The setting; if absent, each.
    pub(crate) setting: Option<String>,
    /// The number of threads or cores; if absent, all of them.
    pub(crate) threads: Option<u32>,
    /// The engine that a speed-up or a slowdown is against; if absent, the base.
    pub(crate) against: Option<String>,
    /// In the quantity's unit.
    pub(crate) value: f64,
    /// Whether it is a bound, and of which kind.
    pub(crate) bound: Option<Bound>,
    /// Whether it is read off a picture, or otherwise not exact.
    #[serde(default)]
    pub(crate) approximate: bool,
    /// Whether a figure of the machine was chosen so that this comes out.
    #[serde(default)]
    pub(crate) calibrated: bool,
}

/// The kind of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bound {
    /// The value is at most this.
    AtMost,
    /// The value is at least this.
    AtLeast,
}

/// How the workloads' values are aggregated.
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

/// The runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// On this machine, with its own write-backs.
    #[serde(default)]
    pub(crate) native: bool,
    /// The domain of native pools; if absent, the folder's file system decides.
    pub(crate) domain: Option<Domain>,
    /// On a simulated machine.
    pub(crate) simulated: Option<Simulated>,
    /// By clients through the server.
    pub(crate) served: Option<Served>,
    pub(crate) workloads: Vec<String>,
    /// Engines, and protocols.
    #[serde(default)]
    pub(crate) engines: Vec<String>,
    /// Pairs of an engine and a mechanism, by their names among the engines. One that has an engine's own name is that
    /// engine. They are simulated only.
    #[serde(default)]
    pub(crate) protocols: BTreeMap<String, ProtocolSpec>,
    /// Microworkloads with parameters other than the defaults, by the experiment's names for them.
    #[serde(default)]
    pub(crate) sizes: BTreeMap<String, SizeSpec>,
    /// The workloads that means are over; all of them, if empty.
    #[serde(default)]
    pub(crate) mean_over: Vec<String>,
    /// What workloads must be like: others are left out of a second mean.
    #[serde(default)]
    pub(crate) accepted: Vec<Accepted>,
    /// Workloads that are left out of it whatever they are like here, and why.
    #[serde(default)]
    pub(crate) left_out: BTreeMap<String, String>,
    /// Figures that are shown beside those of one setting.
    #[serde(default)]
    pub(crate) compared: Vec<Compared>,
    /// The columns of its table, beside those of the paper's values, if its kind has many.
    #[serde(default)]
    pub(crate) quantities: Vec<Quantity>,
    /// The engine that the others are compared with.
    pub(crate) base: Option<String>,
    /// Other base engines, by workload.
    #[serde(default)]
    pub(crate) base_of: BTreeMap<String, String>,
    /// Engines that are compared with another engine than the base.
    #[serde(default)]
    pub(crate) bases: BTreeMap<String, String>,
    /// The number of threads or cores with which the base is compared; if absent, that of the compared run.
    pub(crate) base_threads: Option<u32>,
    #[serde(default = "one")]
    pub(crate) threads: Vec<u32>,
    /// Number of YCSB's records, or of bare objects. If nothing is native, neither these nor repetitions are needed;
    /// microworkloads have their own sizes.
    #[serde(default)]
    pub(crate) records: u64,
    /// The size of TPC-C's tables; no other workload has it.
    #[serde(default)]
    pub(crate) tpcc: tpcc::Size,
    /// Measured operations, all threads together; none on bare objects.
    #[serde(default)]
    pub(crate) operations: u64,
    /// The same for workloads whose operations are long.
    #[serde(default)]
    pub(crate) operations_of: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) repetitions: u32,
    /// Transactions of each thread that may wait for their durability; 1: it waits for each.
    #[serde(default = "closed_loop")]
    pub(crate) window: Window,
    /// Settings of the engines and of the log.
    #[serde(default)]
    pub(crate) tuning: Knobs,
    /// The axis on which settings are steps: plots then have curves over it.
    pub(crate) axis: Option<String>,
    /// If there are any, everything is run in each of these settings, one after the other.
    #[serde(default, rename = "setting")]
    pub(crate) settings: Vec<Setting>,
    pub(crate) seed: u64,
}

/// A setting: an absent key is as in the rest of the experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setting {
    /// A few words, for tables and the picture.
    pub(crate) name: String,
    /// Its place on the axis, if the experiment has one.
    pub(crate) at: Option<f64>,
    pub(crate) window: Option<Window>,
    pub(crate) tuning: Option<Knobs>,
    /// The replacement policy of the simulated caches, at all levels.
    pub(crate) policy: Option<Policy>,
    /// Operations in a transaction of microworkloads.
    pub(crate) ops_per_tx: Option<u32>,
    /// Length of the mechanisms' epochs, microseconds.
    pub(crate) epoch_us: Option<u64>,
    /// Factor by which simulated runs are smaller in this setting, in place of the experiment's; with `--quick` times its
    /// factor.
    pub(crate) divided_by: Option<u64>,
    /// Figures of the simulated machine or of its mechanisms, by their paths in the machine's file.
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

/// A protocol: the engine, and its options, that run under its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProtocolSpec {
    pub(crate) engine: String,
    /// A mechanism of the simulated machine, for persistence.
    #[serde(default = "no_mechanism")]
    pub(crate) mechanism: String,
    /// Its mechanism for transactions, if it has one.
    pub(crate) transactions: Option<String>,
    /// Length of its epochs, if it has some, microseconds.
    #[serde(default = "millisecond")]
    pub(crate) epoch_us: u64,
}

/// A microworkload's parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SizeSpec {
    /// The microworkload, if the experiment has another name for it.
    pub(crate) workload: Option<String>,
    /// By their names, with `_` for `-`.
    #[serde(flatten)]
    parameters: BTreeMap<String, parameters::Value>,
}

impl SizeSpec {
    pub(super) fn asked(&self) -> Asked {
        let parameters = self.parameters.iter();
        parameters.map(|(name, value)| (name.replace('_', "-"), value.clone())).collect()
    }
}

/// A figure of all settings, beside that of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compared {
    pub(crate) quantity: Quantity,
    /// The setting; if absent, that of the largest run, or the first.
    pub(crate) with: Option<String>,
    /// How far the other settings may be from it, percent.
    pub(crate) within_percent: Option<f64>,
}

/// A range in which a figure of each workload must be.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    pub(crate) quantity: Quantity,
    /// The engine whose figures these are: it is run in any case.
    pub(crate) engine: String,
    /// How far they may be from the paper's, in the quantity's unit,
    pub(crate) points: Option<f64>,
    /// or as a percentage of the paper's.
    pub(crate) within_percent: Option<f64>,
    /// The paper's, by workload.
    pub(crate) of: BTreeMap<String, f64>,
}

/// Calibration of a figure of the machine that no paper gives, for each workload: the value with which one engine's
/// share of the base's throughput comes nearest to the paper's.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Calibrate {
    /// Its path in the machine's file.
    pub(crate) figure: String,
    /// Values that are tried, ascending; then values between the nearest two.
    pub(crate) values: Vec<u64>,
    /// The only engine that it is calibrated on.
    pub(crate) engine: String,
    /// Its share in the paper,
    pub(crate) share: Option<f64>,
    /// or for each workload the percentage of the time in which all cores wait for the ends of its epochs.
    #[serde(default)]
    pub(crate) in_checkpoints: BTreeMap<String, f64>,
    /// By how much its runs have fewer operations than the experiment's.
    #[serde(default = "undivided")]
    pub(crate) operations_divided_by: u64,
    /// Whether it is calibrated in each of the experiment's settings, and not once without them.
    #[serde(default)]
    pub(crate) each_setting: bool,
}

/// Baseline servers that an experiment can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServerBaseline {
    /// Redis with its append-only file, synced before every answer.
    RedisAof,
}

impl ServerBaseline {
    /// Its name in the place of an engine's.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ServerBaseline::RedisAof => "redis-aof",
        }
    }
}

/// Parameters of the simulated machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Simulated {
    /// A preset's name.
    pub(crate) machine: String,
    /// Figures of it that differ from the preset's in all runs, by their paths in the machine's file.
    #[serde(default)]
    pub(crate) sets: BTreeMap<String, Scalar>,
    /// Factor by which its caches are smaller than the preset's.
    #[serde(default = "undivided")]
    pub(crate) caches_divided_by: u64,
    /// Factor by which the whole experiment is smaller: caches, the figures that `divides` names, epochs, the workloads'
    /// entries and operations. All are given in full size.
    #[serde(default = "undivided")]
    pub(crate) divided_by: u64,
    /// Figures of the machine that `divided_by` makes smaller, by their paths in the machine's file.
    #[serde(default)]
    pub(crate) divides: Vec<String>,
    /// Figures of the machine for one workload, by the workload's name.
    #[serde(default)]
    pub(crate) figures_of: BTreeMap<String, BTreeMap<String, Scalar>>,
    /// Engines that run a workload in place of each protocol's own: one that rolls back, or that has its threads run at the
    /// same time.
    #[serde(default)]
    pub(crate) engine_of: BTreeMap<String, String>,
    /// Whether data is loaded before the machine is switched on.
    #[serde(default)]
    pub(crate) loaded_before: bool,
    /// Warm-up operations for each measured one.
    #[serde(default = "twice")]
    pub(crate) warm_up: f64,
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
    /// Power cuts of each run, if their losses are measured.
    #[serde(default)]
    pub(crate) cuts: u64,
    pub(crate) calibrate: Option<Calibrate>,
}

/// Parameters of runs in which YCSB's clients go through the server. Each waits for every answer, and engines have the
/// settings of `perdura serve`: there is neither a window nor tuning.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Served {
    /// The baseline server, run if it is installed.
    #[serde(rename = "rival")]
    pub(crate) server_baseline: ServerBaseline,
    #[serde(default = "one")]
    pub(crate) clients: Vec<u32>,
    pub(crate) records: u64,
    pub(crate) operations: u64,
    #[serde(default)]
    pub(crate) operations_of: BTreeMap<String, u64>,
    pub(crate) repetitions: u32,
}

/// A smaller run: an absent key stays as it is.
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
    pub(crate) divided_by: Option<u64>,
}

fn closed_loop() -> Window {
    Window::CLOSED_LOOP
}

fn millisecond() -> u64 {
    1000
}

fn twice() -> f64 {
    2.0
}

fn no_mechanism() -> String {
    "plain".to_owned()
}

fn undivided() -> u64 {
    1
}

fn one() -> Vec<u32> {
    vec![1]
}

impl Simulated {
    /// The machine, smaller by `divided_by`, with caches smaller than the preset's by the other factor too.
    pub(super) fn machine(
        &self,
        divided_by: u64,
        caches_divided_by: u64,
    ) -> Result<MachineConfig, String> {
        let mut machine = presets::load(&self.machine).map_err(|error| error.to_string())?;
        let with = |machine: MachineConfig, figure: &str, value: &str| {
            machine.with(figure, value).map_err(|error| error.to_string())
        };
        for (figure, value) in &self.sets {
            machine = with(machine, figure, &value.to_string())?;
            machine.title += &format!("; {figure} = {value}");
        }
        if divided_by != 1 {
            for figure in &self.divides {
                let full = machine.figure(figure).map_err(|error| error.to_string())?;
                let value = divided(figure, &full, divided_by)?;
                machine = with(machine, figure, &value)?;
            }
            machine.title += &format!("; everything {divided_by} times smaller");
        }
        let caches_divided_by = caches_divided_by.saturating_mul(divided_by);
        if caches_divided_by == 1 {
            return Ok(machine);
        }
        let divides = |bytes: u64| caches_divided_by > 0 && bytes.is_multiple_of(caches_divided_by);
        if !machine.caches.iter().all(|level| divides(level.bytes)) {
            return Err(format!("the caches cannot be divided by {caches_divided_by}"));
        }
        machine.caches.iter_mut().for_each(|level| level.bytes /= caches_divided_by);
        if divided_by == 1 {
            machine.title += &format!("; caches {caches_divided_by} times smaller");
        }
        machine.validate().map_err(|error| error.to_string())?;
        Ok(machine)
    }
}

/// A figure of the machine, smaller by a factor. Bytes must be divisible; other numbers are rounded up, so that one stays
/// one.
pub(super) fn divided(figure: &str, value: &str, by: u64) -> Result<String, String> {
    let whole = value.parse::<u64>().map_err(|_| format!("{figure} is no whole number"))?;
    let rounds = by > 0 && !figure.ends_with("bytes");
    match rounds || by > 0 && whole.is_multiple_of(by) {
        true => Ok(whole.div_ceil(by).to_string()),
        false => Err(format!("{figure} = {whole} cannot be divided by {by}")),
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
