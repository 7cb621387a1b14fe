//! An experiment, as TOML says it: one file under experiments/ for each.
//!
//! It holds what the paper says of one table or figure, and what to run to see whether it is so.
//! Keys that nobody knows are refused, and so is an experiment that makes no sense. Engines may
//! be named that this program does not have: then it cannot be run, but it can be read.

use super::quantity::Quantity;
use crate::bench::options::LARGEST_WINDOW;
use crate::failure::{Failure, Outcome};
use perdura_machine::presets;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// What is measured, and how figures follow from it. Two more have their place here: `checksums`
/// (the microbenchmark of Archapt's Fig. 6) and `crash` (its Table IV).
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
    /// In the quantity's unit.
    pub(crate) value: f64,
    /// Read off a picture, or otherwise not exact.
    #[serde(default)]
    pub(crate) approximate: bool,
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
    /// On a simulated machine.
    pub(crate) simulated: Option<Simulated>,
    pub(crate) workloads: Vec<String>,
    #[serde(default)]
    pub(crate) engines: Vec<String>,
    /// The engine that the others are compared with.
    pub(crate) base: Option<String>,
    /// Engines that are compared with another one than that.
    #[serde(default)]
    pub(crate) bases: BTreeMap<String, String>,
    #[serde(default = "one")]
    pub(crate) threads: Vec<u32>,
    pub(crate) records: u64,
    /// Measured operations, all threads together.
    pub(crate) operations: u64,
    /// The same for workloads whose operations are long.
    #[serde(default)]
    pub(crate) operations_of: BTreeMap<String, u64>,
    pub(crate) repetitions: u32,
    /// Transactions that each thread keeps unanswered; 1: it waits for each.
    #[serde(default = "closed_loop")]
    pub(crate) window: u32,
    pub(crate) seed: u64,
    /// A rival that is run beside, if it is installed.
    pub(crate) rival: Option<RivalName>,
}

/// Rivals that an experiment can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RivalName {
    /// Redis with its append-only file.
    RedisAof,
}

/// What differs on the simulated machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Simulated {
    /// A preset's name.
    pub(crate) machine: String,
    #[serde(default = "one")]
    pub(crate) cores: Vec<u32>,
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
    pub(crate) operations: Option<u64>,
    pub(crate) repetitions: Option<u32>,
    pub(crate) threads: Option<Vec<u32>>,
}

fn closed_loop() -> u32 {
    1
}

fn one() -> Vec<u32> {
    vec![1]
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

    fn validate(&self) -> Result<(), String> {
        let Run { native, simulated, workloads, engines, base, threads, .. } = &self.run;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return Err("its name must be of letters, digits, '-', '_' and '.'".to_owned());
        }
        if workloads.is_empty() {
            return Err("it needs a workload".to_owned());
        }
        if self.kind == Kind::Reuse {
            if *native || simulated.is_some() || !engines.is_empty() {
                return Err("reuse runs no engine, neither native nor simulated".to_owned());
            }
        } else if (!native && simulated.is_none()) || engines.is_empty() {
            return Err("it needs engines, and native or simulated runs".to_owned());
        }
        if self.kind == Kind::Latency && simulated.is_some() {
            return Err("latencies are measured in native runs only".to_owned());
        }
        let needs_base = !matches!(self.kind, Kind::Reuse | Kind::Dirtiness);
        match base {
            Some(base) if !engines.contains(base) => {
                return Err(format!("its base '{base}' is none of its engines"));
            }
            None if needs_base => return Err("it needs a base engine".to_owned()),
            _ => {}
        }
        let named = |engine: &&String| !engines.contains(engine);
        let bases = self.run.bases.iter().flat_map(|(engine, base)| [engine, base]);
        if let Some(engine) = bases.into_iter().find(named) {
            return Err(format!("'{engine}' in bases is none of its engines"));
        }
        if self.run.records == 0 || self.run.operations == 0 || self.run.repetitions == 0 {
            return Err("records, operations and repetitions must be 1 or more".to_owned());
        }
        if !(1..=LARGEST_WINDOW).contains(&i64::from(self.run.window)) {
            return Err(format!("window must be 1 to {LARGEST_WINDOW}"));
        }
        threads_valid(threads)?;
        threads_valid(self.quick.threads.as_deref().unwrap_or(&[1]))?;
        simulated.as_ref().map_or(Ok(()), Simulated::validate)?;
        self.paper.values.iter().try_for_each(|value| self.validate_value(value))
    }

    fn validate_value(&self, value: &Value) -> Result<(), String> {
        let Value { says, quantity, engine, workload, over, .. } = value;
        if quantity.kind() != self.kind {
            return Err(format!("'{says}': this kind of experiment does not find {quantity}"));
        }
        if workload.is_some() == over.is_some() {
            return Err(format!("'{says}' needs a workload, or over: mean, least or most"));
        }
        match engine {
            Some(engine) if !self.run.engines.contains(engine) => {
                Err(format!("'{says}': '{engine}' is none of its engines"))
            }
            _ => Ok(()),
        }
    }
}

impl Simulated {
    fn validate(&self) -> Result<(), String> {
        presets::load(&self.machine).map_err(|error| error.to_string())?;
        if self.records == 0 || self.operations == 0 || self.repetitions == 0 {
            return Err("records, operations and repetitions must be 1 or more".to_owned());
        }
        match self.cores.iter().all(|cores| (1..=64).contains(cores)) && !self.cores.is_empty() {
            true => Ok(()),
            false => Err("a simulated machine has 1 to 64 cores".to_owned()),
        }
    }
}

fn threads_valid(threads: &[u32]) -> Result<(), String> {
    let fit = !threads.is_empty() && threads.iter().all(|threads| (1..=256).contains(threads));
    if fit { Ok(()) } else { Err("threads must be from 1 to 256".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        name = "x"
        kind = "throughput"
        minutes = 1
        [paper]
        title = "T"
        figure = "F"
        what = "W"
        [[paper.value]]
        says = "mean"
        quantity = "throughput-change"
        engine = "redo"
        over = "mean"
        value = 1.0
        [run]
        native = true
        workloads = ["ycsb-a"]
        engines = ["undo", "redo"]
        base = "undo"
        records = 10
        operations = 10
        repetitions = 1
        seed = 1
    "#;

    fn complaint(old: &str, new: &str) -> String {
        assert!(GOOD.contains(old), "{old}");
        match Experiment::parse("x", &GOOD.replace(old, new)) {
            Err(Failure::Message(text)) => text,
            other => panic!("{old} -> {new}: {other:?}"),
        }
    }

    #[test]
    fn a_good_one_is_read() {
        let experiment = Experiment::parse("x", GOOD).expect("an experiment");
        assert_eq!(experiment.run.threads, [1]);
        assert_eq!(experiment.paper.values[0].over, Some(Over::Mean));
    }

    #[test]
    fn bad_ones_say_what_is_wrong() {
        for (old, new, hint) in [
            ("minutes = 1", "minutes = 1\ncolour = 2", "colour"),
            ("[run]", "[run]\nspeed = 2", "speed"),
            ("says = \"mean\"", "says = \"mean\"\nsaid = 1", "said"),
            ("kind = \"throughput\"", "kind = \"thruput\"", "throughput"),
            ("quantity = \"throughput-change\"", "quantity = \"gain\"", "unknown quantity"),
            ("quantity = \"throughput-change\"", "quantity = \"p99\"", "does not find p99"),
            ("over = \"mean\"", "", "needs a workload, or over"),
            ("over = \"mean\"", "over = \"sum\"", "mean"),
            ("base = \"undo\"", "base = \"s-wal\"", "none of its engines"),
            ("base = \"undo\"", "", "base engine"),
            ("engine = \"redo\"", "engine = \"swal\"", "none of its engines"),
            ("name = \"x\"", "name = \"../x\"", "letters, digits"),
            ("seed = 1", "seed = 1\nbases = { redo = \"none\" }", "none of its engines"),
            ("native = true", "", "native or simulated"),
            ("records = 10", "records = 0", "1 or more"),
            ("seed = 1", "seed = 1\nthreads = []", "1 to 256"),
            ("workloads = [\"ycsb-a\"]", "workloads = []", "a workload"),
            ("seed = 1", "seed = 1\nrival = \"sqlite\"", "redis-aof"),
            (
                "seed = 1",
                "seed = 1\n[run.simulated]\nmachine = \"moon\"\nrecords = 1\noperations = 1\nrepetitions = 1",
                "no machine 'moon'",
            ),
        ] {
            let complaint = complaint(old, new);
            assert!(complaint.contains(hint) && complaint.contains("'x'"), "{complaint}");
        }
    }
}
