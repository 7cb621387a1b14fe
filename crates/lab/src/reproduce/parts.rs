//! The places where an experiment is run, and how much of it, by its file and the command line: natively, on the
//! simulated machine, through the server.

use super::experiment::{Experiment, divided};
use super::kind::Kind;
use super::quantity::Quantity;
use super::tpcc;
use super::work::{self, Work};
use crate::failure::{Failure, Outcome};
use perdura::EngineKind;
use perdura_machine::MachineConfig;
use perdura_memory::Domain;
use serde::Serialize;
use std::collections::BTreeMap;

/// Changes by the command line; an absent option stays as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) quick: bool,
    /// Only native runs, only simulated ones, or both if `None`.
    pub(crate) native: bool,
    pub(crate) simulated: bool,
    pub(crate) operations: Option<u64>,
    pub(crate) records: Option<u64>,
    pub(crate) warehouses: Option<u32>,
    /// Another factor than the experiment's, by which simulated runs are smaller than in full size.
    pub(crate) divided_by: Option<u64>,
    pub(crate) repetitions: Option<u32>,
    pub(crate) seed: Option<u64>,
    pub(crate) threads: Vec<u32>,
    pub(crate) engines: Vec<String>,
    pub(crate) workloads: Vec<String>,
    /// Only these settings, by name.
    pub(crate) settings: Vec<String>,
}

/// Warm-up operations of native runs for each measured one.
const NATIVE_WARM_UP: f64 = 0.1;

/// A place for runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    /// On this machine, on fresh pools in memory with real write-backs.
    #[default]
    Native,
    /// On the simulated machine, by its clock.
    Simulated,
    /// On this machine, by clients through the server.
    Served,
    /// None: operations are only drawn.
    Drawn,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Place::Native => "native",
            Place::Simulated => "simulated",
            Place::Served => "served",
            Place::Drawn => "drawn",
        })
    }
}

impl Place {
    /// Whether this quantity is found here.
    pub(crate) fn finds(self, quantity: Quantity) -> bool {
        match quantity {
            Quantity::BaselineChange | Quantity::AnswerP99 => self == Place::Served,
            _ => true,
        }
    }

    /// Whether this workload is run here.
    pub(crate) fn runs(self, workload: &str) -> bool {
        self != Place::Served || work::letter(workload).is_some()
    }
}

/// The amount of data: YCSB records, TPC-C tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Extent {
    pub(crate) records: u64,
    pub(crate) tpcc: tpcc::Size,
}

/// The runs of one place.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) place: Place,
    pub(crate) machine: Option<MachineConfig>,
    /// The domain of native pools, if it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) domain: Option<Domain>,
    pub(crate) threads: Vec<u32>,
    #[serde(flatten)]
    pub(crate) extent: Extent,
    pub(crate) operations: u64,
    pub(crate) operations_of: BTreeMap<String, u64>,
    pub(crate) repetitions: u32,
    /// Power cuts of each run.
    pub(crate) cuts: u64,
    /// Of simulated runs: the factor by which everything is smaller than the experiment's file says,
    pub(crate) divided_by: u64,
    /// the figures of the machine that are made smaller,
    #[serde(skip)]
    pub(crate) divides: Vec<String>,
    /// figures for one workload,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) figures_of: BTreeMap<String, BTreeMap<String, String>>,
    /// engines in place of the protocols' own for one workload,
    #[serde(skip)]
    pub(crate) engine_of: BTreeMap<String, EngineKind>,
    /// whether data is loaded before the machine is switched on,
    pub(crate) loaded_before: bool,
    /// and warm-up operations for each measured one.
    pub(crate) warm_up: f64,
}

impl Part {
    /// Operations of this workload.
    pub(crate) fn operations_of(&self, workload: &str) -> u64 {
        let full = self.operations_of.get(workload).copied().unwrap_or(self.operations);
        full.div_ceil(self.divided_by)
    }

    /// Warm-up operations: for simulated caches twice as many as are measured, unless the experiment says otherwise,
    /// natively a tenth, as in `perdura bench`.
    pub(crate) fn warm_up_of(&self, workload: &str) -> u64 {
        (self.operations_of(workload) as f64 * self.warm_up) as u64
    }

    /// A figure of the machine in a run of this size, given in full size.
    pub(crate) fn divided(&self, figure: &str, value: &str) -> Result<String, String> {
        match self.divided_by != 1 && self.divides.iter().any(|own| own == figure) {
            true => divided(figure, value, self.divided_by),
            false => Ok(value.to_owned()),
        }
    }
}

pub(super) fn parts(experiment: &Experiment, changes: &Changes) -> Outcome<Vec<Part>> {
    let run = &experiment.run;
    let usual = Part {
        place: if experiment.kind == Kind::Reuse { Place::Drawn } else { Place::Native },
        machine: None,
        domain: run.domain,
        threads: run.threads.clone(),
        extent: Extent { records: run.records, tpcc: run.tpcc },
        operations: run.operations,
        operations_of: run.operations_of.clone(),
        repetitions: run.repetitions,
        cuts: 0,
        divided_by: 1,
        divides: Vec::new(),
        figures_of: BTreeMap::new(),
        engine_of: BTreeMap::new(),
        loaded_before: false,
        warm_up: NATIVE_WARM_UP,
    };
    let mut parts = Vec::new();
    let both = changes.native == changes.simulated;
    if usual.place == Place::Drawn || (run.native && (both || changes.native)) {
        parts.push(usual.clone());
    }
    if let Some(served) = run.served.as_ref().filter(|_| both || changes.native) {
        parts.push(Part {
            place: Place::Served,
            domain: None,
            threads: served.clients.clone(),
            extent: Extent { records: served.records, tpcc: run.tpcc },
            operations: served.operations,
            operations_of: served.operations_of.clone(),
            repetitions: served.repetitions,
            ..usual.clone()
        });
    }
    if let Some(simulated) = run.simulated.as_ref().filter(|_| both || changes.simulated) {
        let quick = experiment.quick.caches_divided_by.filter(|_| changes.quick);
        let divided_by = experiment.quick.divided_by.filter(|_| changes.quick);
        let divided_by = changes.divided_by.or(divided_by).unwrap_or(simulated.divided_by);
        let machine = simulated.machine(divided_by, quick.unwrap_or(simulated.caches_divided_by));
        let figures_of = simulated.figures_of.iter().map(|(workload, figures)| {
            let figures = figures.iter();
            let figures = figures.map(|(figure, value)| (figure.clone(), value.to_string()));
            (workload.clone(), figures.collect())
        });
        let engine_of = simulated.engine_of.iter().map(|(workload, engine)| {
            let engine = engine.parse::<EngineKind>().map_err(|error| error.to_string())?;
            Ok::<_, String>((workload.clone(), engine))
        });
        parts.push(Part {
            place: Place::Simulated,
            machine: Some(machine.map_err(Failure::new)?),
            domain: None,
            threads: simulated.cores.clone(),
            extent: Extent { records: simulated.records, tpcc: simulated.tpcc },
            operations: simulated.operations,
            operations_of: simulated.operations_of.clone(),
            repetitions: simulated.repetitions,
            cuts: simulated.cuts,
            divided_by,
            divides: simulated.divides.clone(),
            figures_of: figures_of.collect(),
            engine_of: engine_of.collect::<Result<_, _>>().map_err(Failure::new)?,
            loaded_before: simulated.loaded_before,
            warm_up: simulated.warm_up,
        });
    }
    if parts.is_empty() {
        let where_ = if changes.native { "natively" } else { "on a simulated machine" };
        return Err(Failure::new(format!(
            "experiment '{}' has nothing to run {where_}",
            experiment.name
        )));
    }
    parts.iter_mut().for_each(|part| change(part, experiment, changes));
    let workloads = if changes.workloads.is_empty() { &run.workloads } else { &changes.workloads };
    let has_records = workloads.iter().any(|name| {
        Work::named(experiment.kind, &run.sizes, name).is_ok_and(|work: Work| work.has_records())
    });
    parts.iter().try_for_each(|part| check(part, experiment, has_records))?;
    Ok(parts)
}

/// Applies `--quick`, then the numbers on the command line.
fn change(part: &mut Part, experiment: &Experiment, changes: &Changes) {
    let quick = if changes.quick { experiment.quick.clone() } else { Default::default() };
    if let Some(records) = changes.records.or(quick.records) {
        part.extent.records = records;
    }
    part.extent.tpcc = quick.tpcc.unwrap_or(part.extent.tpcc);
    if let Some(warehouses) = changes.warehouses {
        part.extent.tpcc = tpcc::Size { warehouses, ..part.extent.tpcc };
    }
    if let Some(operations) = changes.operations.or(quick.operations) {
        part.operations = operations;
        // Long operations are limited to the same number.
        part.operations_of.values_mut().for_each(|own| *own = operations.min(*own));
    }
    if let Some(repetitions) = changes.repetitions.or(quick.repetitions) {
        part.repetitions = repetitions;
    }
    part.cuts = quick.cuts.unwrap_or(part.cuts);
    if !changes.threads.is_empty() {
        part.threads.clone_from(&changes.threads);
    } else if let Some(threads) = quick.threads {
        part.threads = threads;
    }
}

fn check(part: &Part, experiment: &Experiment, has_records: bool) -> Outcome {
    let refuse =
        |what: String| Err(Failure::new(format!("experiment '{}': {what}", experiment.name)));
    part.extent.tpcc.scale().validate()?;
    experiment.kind.cores_fit(&part.threads).or_else(refuse)?;
    let Part { place, cuts, .. } = part;
    let least = part.operations_of.values().fold(part.operations, |all, own| all.min(*own));
    let least = least.div_ceil(part.divided_by);
    if *cuts > least {
        return refuse(format!("{cuts} power cuts need as many operations at least, not {least}"));
    }
    let most = if *place == Place::Simulated { 64 } else { 256 };
    if !part.threads.iter().all(|threads| (1..=most).contains(threads)) {
        return refuse(format!("{place} runs have 1 to {most} threads"));
    }
    let something = (part.extent.records > 0 || !has_records)
        && (part.operations > 0 || experiment.kind == Kind::Checksums)
        && part.repetitions > 0
        && part.operations_of.values().all(|operations| *operations > 0);
    if !something {
        let what = "there is nothing to measure with 0 records, operations or repetitions";
        return refuse(what.to_owned());
    }
    Ok(())
}
