//! What is run of an experiment: its file, made smaller or changed by the command line.

use super::experiment::{Experiment, Kind, RivalName, Run};
use super::quantity::Quantity;
use super::validate;
use crate::bench::knobs::Knobs;
use crate::bench::window::Window;
use crate::failure::{Failure, Outcome};
use crate::named::{self, Database, Extent};
use crate::{quantity, tpcc};
use perdura::EngineKind;
use perdura_machine::MachineConfig;
use perdura_machine::cache::Policy;
use perdura_matrices::cost::{Demand, When};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the command line changes; what is absent stays as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) quick: bool,
    /// Only native runs, only simulated ones, or both if neither.
    pub(crate) native: bool,
    pub(crate) simulated: bool,
    pub(crate) operations: Option<u64>,
    pub(crate) records: Option<u64>,
    pub(crate) warehouses: Option<u32>,
    pub(crate) repetitions: Option<u32>,
    pub(crate) seed: Option<u64>,
    pub(crate) threads: Vec<u32>,
    pub(crate) engines: Vec<String>,
    pub(crate) workloads: Vec<String>,
    /// Only these, by name.
    pub(crate) settings: Vec<String>,
}

/// Where something is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    /// On this machine, on fresh pools in memory with real write-backs.
    Native,
    /// On the simulated machine, by its clock.
    Simulated,
    /// On this machine, by clients through the server.
    Served,
    /// Nowhere: operations are only drawn.
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
    /// Whether this is found here.
    pub(crate) fn finds(self, quantity: Quantity) -> bool {
        match quantity {
            Quantity::RivalChange | Quantity::AnswerP99 => self == Place::Served,
            _ => true,
        }
    }

    /// Whether this workload is run here.
    pub(crate) fn runs(self, workload: &str) -> bool {
        self != Place::Served || named::letter(workload).is_some()
    }
}

/// What is run in one place.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) place: Place,
    pub(crate) machine: Option<MachineConfig>,
    pub(crate) threads: Vec<u32>,
    #[serde(flatten)]
    pub(crate) extent: Extent,
    pub(crate) operations: u64,
    pub(crate) operations_of: BTreeMap<String, u64>,
    pub(crate) repetitions: u32,
    /// Power cuts of each run.
    pub(crate) cuts: u64,
}

/// What is set for a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Setting {
    /// None where there is only one.
    pub(crate) name: Option<String>,
    pub(crate) window: Window,
    pub(crate) tuning: Knobs,
    /// How simulated caches replace lines, if not as the machine's.
    pub(crate) policy: Option<Policy>,
    /// When bare objects are worked on.
    #[serde(skip)]
    pub(crate) when: Option<When>,
}

/// What a workload's name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Database(Database),
    /// Objects of so many bytes.
    Objects(u64),
}

/// All that is run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    /// Only to show that it works.
    pub(crate) quick: bool,
    pub(crate) parts: Vec<Part>,
    pub(crate) workloads: Vec<String>,
    #[serde(serialize_with = "names")]
    pub(crate) engines: Vec<EngineKind>,
    pub(crate) base: Option<String>,
    pub(crate) base_of: BTreeMap<String, String>,
    pub(crate) bases: BTreeMap<String, String>,
    pub(crate) settings: Vec<Setting>,
    pub(crate) seed: u64,
    pub(crate) rival: Option<RivalName>,
}

fn names<S: serde::Serializer>(engines: &[EngineKind], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(engines.iter().map(|engine| engine.name()))
}

impl Part {
    /// Operations of this workload.
    pub(crate) fn operations_of(&self, workload: &str) -> u64 {
        self.operations_of.get(workload).copied().unwrap_or(self.operations)
    }

    /// Operations before the measured ones: the simulated caches are filled by twice as many as
    /// are measured, native ones by a tenth as in `perdura bench`.
    pub(crate) fn warm_up_of(&self, workload: &str) -> u64 {
        let operations = self.operations_of(workload);
        if self.place == Place::Simulated { 2 * operations } else { operations / 10 }
    }
}

impl Plan {
    /// What `changes` leave of `experiment`.
    pub(crate) fn of(experiment: &Experiment, changes: &Changes) -> Outcome<Self> {
        let run = &experiment.run;
        let asked = |asked: &[String], usual: &[String]| {
            if asked.is_empty() { usual.to_vec() } else { asked.to_vec() }
        };
        let Run { base, base_of, bases, .. } = run.clone();
        let mut names = asked(&changes.engines, &run.engines);
        if matches!(experiment.kind, Kind::Reuse | Kind::Checksums) {
            names.clear();
        }
        let workloads = asked(&changes.workloads, &run.workloads);
        // What is compared with something needs it beside; what a workload alone needs is run with that alone.
        let base_used =
            base.as_ref().filter(|_| !workloads.iter().all(|own| base_of.contains_key(own)));
        let needed = names.iter().filter_map(|name| bases.get(name)).chain(base_used).cloned();
        for needed in needed.collect::<Vec<_>>() {
            if !names.contains(&needed) {
                names.insert(0, needed);
            }
        }
        for workload in &workloads {
            let fits =
                Work::named(experiment.kind, workload).and_then(|_| base_fits(run, workload));
            fits.map_err(|error| {
                Failure::new(format!("experiment '{}': {error}", experiment.name))
            })?;
        }
        let engines = names.iter().map(|name| engine(experiment, name)).collect::<Outcome<_>>()?;
        base_of.values().try_for_each(|name| engine(experiment, name).map(|_| ()))?;
        let parts = parts(experiment, changes)?;
        let settings = settings(experiment, changes)?;
        let seed = changes.seed.unwrap_or(run.seed);
        let (kind, rival) = (experiment.kind, run.served.as_ref().map(|served| served.rival));
        let quick = changes.quick;
        Ok(Plan {
            kind,
            quick,
            parts,
            workloads,
            engines,
            base,
            base_of,
            bases,
            settings,
            seed,
            rival,
        })
    }
}

impl Plan {
    /// What this engine is compared with in this workload; nothing, if it is the rival.
    pub(crate) fn compared_with(&self, workload: &str, engine: &str) -> Option<&str> {
        if self.rival.is_some_and(|rival| rival.name() == engine) {
            return None;
        }
        self.bases.get(engine).map(String::as_str).or(self.base_of(workload))
    }

    /// The base of this workload's engines.
    pub(crate) fn base_of(&self, workload: &str) -> Option<&str> {
        self.base_of.get(workload).or(self.base.as_ref()).map(String::as_str)
    }

    /// Engines to run this workload with: its base, and those that can.
    pub(crate) fn engines_of(&self, workload: &str) -> Vec<EngineKind> {
        let base = self.base_of.get(workload).and_then(|name| name.parse().ok());
        let base = base.filter(|base| !self.engines.contains(base));
        let able = |engine: &EngineKind| engine.rolls_back() || !rolls_back(workload);
        base.into_iter().chain(self.engines.iter().copied().filter(able)).collect()
    }

    /// The base, and each workload's that has another one, for people.
    pub(crate) fn show_base(&self) -> String {
        let base = self.base.clone().unwrap_or_default();
        let here = |(workload, _): &(&String, &String)| self.workloads.contains(workload);
        let others: Vec<String> = (self.base_of.iter().filter(here))
            .map(|(workload, base)| format!("{workload}: of {base}"))
            .collect();
        if others.is_empty() { base } else { format!("{base} ({})", others.join(", ")) }
    }
}

/// Whether the workload's base can run it.
pub(super) fn base_fits(run: &Run, workload: &str) -> Result<(), String> {
    let base = run.base_of.get(workload).or(run.base.as_ref());
    let unable = |name: &&String| name.parse().is_ok_and(|base: EngineKind| !base.rolls_back());
    match base.filter(unable) {
        Some(base) if rolls_back(workload) => Err(format!(
            "the base '{base}' cannot roll back, as {workload} does: \
             give it another one, as base_of = {{ {workload} = \"volatile\" }}"
        )),
        _ => Ok(()),
    }
}

/// Whether transactions of this workload are rolled back that have stored.
fn rolls_back(workload: &str) -> bool {
    Database::named(workload) == Some(Database::Tpcc)
}

/// The experiment's engines that this program does not have.
pub(crate) fn missing_engines(experiment: &Experiment) -> Vec<&str> {
    let Run { engines, base_of, .. } = &experiment.run;
    let engines = engines.iter().chain(base_of.values()).map(String::as_str);
    engines.filter(|name| name.parse::<EngineKind>().is_err()).collect()
}

fn engine(experiment: &Experiment, name: &str) -> Outcome<EngineKind> {
    let refuse = |what| Failure::new(format!("experiment '{}': {what}", experiment.name));
    let kind: EngineKind = name.parse().map_err(|error| {
        let known = experiment.run.engines.iter().filter(|name| name.parse::<EngineKind>().is_ok());
        let known = known.map(String::as_str).collect::<Vec<_>>().join(",");
        refuse(format!("{error}; to run it with those that are there: --engine {known}"))
    })?;
    validate::engine_fits(experiment.kind, kind).map_err(refuse)?;
    Ok(kind)
}

impl Work {
    /// What `name` stands for in this experiment.
    pub(crate) fn named(kind: Kind, name: &str) -> Result<Self, String> {
        if kind == Kind::Checksums {
            let size = quantity::bytes(name)?;
            let demand = Demand { size, objects: 1, batch: 1, seed: 0 };
            return match demand.validate() {
                Ok(()) => Ok(Work::Objects(size)),
                Err(error) => Err(format!("'{name}': {error}")),
            };
        }
        Database::named(name)
            .map(Work::Database)
            .ok_or_else(|| format!("unknown workload '{name}': it is {}", named::DATABASES))
    }
}

/// What everything is run in: the settings that were asked for, or just one without a name.
fn settings(experiment: &Experiment, changes: &Changes) -> Outcome<Vec<Setting>> {
    let Run { window, tuning, ref settings, .. } = experiment.run;
    let plain = Setting { name: None, window, tuning, policy: None, when: None };
    let named = settings.iter().map(|own| Setting {
        name: Some(own.name.clone()),
        window: own.window.unwrap_or(window),
        tuning: own.tuning.unwrap_or(tuning),
        policy: own.policy,
        when: None,
    });
    let moments = When::ALL.map(|when| Setting {
        name: Some(when.name().to_owned()),
        when: Some(when),
        ..plain.clone()
    });
    let mut all: Vec<Setting> = match experiment.kind {
        Kind::Checksums => moments.into(),
        _ if settings.is_empty() => vec![plain],
        _ => named.collect(),
    };
    let names: Vec<String> = all.iter().filter_map(|setting| setting.name.clone()).collect();
    if let Some(asked) = changes.settings.iter().find(|asked| !names.contains(asked)) {
        let known = match names.len() {
            0 => "it has none: leave out --setting".to_owned(),
            _ => format!("it has {}", names.join(", ")),
        };
        let name = &experiment.name;
        return Err(Failure::new(format!("experiment '{name}': no setting '{asked}': {known}")));
    }
    if !changes.settings.is_empty() {
        all.retain(|own| own.name.as_ref().is_some_and(|name| changes.settings.contains(name)));
    }
    Ok(all)
}

fn parts(experiment: &Experiment, changes: &Changes) -> Outcome<Vec<Part>> {
    let run = &experiment.run;
    let usual = Part {
        place: if experiment.kind == Kind::Reuse { Place::Drawn } else { Place::Native },
        machine: None,
        threads: run.threads.clone(),
        extent: Extent { records: run.records, tpcc: run.tpcc },
        operations: run.operations,
        operations_of: run.operations_of.clone(),
        repetitions: run.repetitions,
        cuts: 0,
    };
    let mut parts = Vec::new();
    let both = changes.native == changes.simulated;
    if usual.place == Place::Drawn || (run.native && (both || changes.native)) {
        parts.push(usual.clone());
    }
    if let Some(served) = run.served.as_ref().filter(|_| both || changes.native) {
        parts.push(Part {
            place: Place::Served,
            threads: served.clients.clone(),
            extent: Extent { records: served.records, tpcc: run.tpcc },
            operations: served.operations,
            operations_of: served.operations_of.clone(),
            repetitions: served.repetitions,
            ..usual
        });
    }
    if let Some(simulated) = run.simulated.as_ref().filter(|_| both || changes.simulated) {
        let quick = experiment.quick.caches_divided_by.filter(|_| changes.quick);
        let machine = simulated.machine(quick.unwrap_or(simulated.caches_divided_by));
        parts.push(Part {
            place: Place::Simulated,
            machine: Some(machine.map_err(Failure::new)?),
            threads: simulated.cores.clone(),
            extent: Extent { records: simulated.records, tpcc: simulated.tpcc },
            operations: simulated.operations,
            operations_of: simulated.operations_of.clone(),
            repetitions: simulated.repetitions,
            cuts: simulated.cuts,
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
    parts.iter().try_for_each(|part| check(part, experiment))?;
    Ok(parts)
}

/// Applies `--quick`, then what was asked for in numbers.
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
        // What is long stays no longer than the rest.
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

fn check_cuts(part: &Part, experiment: &Experiment) -> Outcome {
    let operations = part.operations_of.values().fold(part.operations, |all, own| all.min(*own));
    let fit = validate::cores_fit(experiment.kind, &part.threads).and_then(|()| {
        let cuts = part.cuts;
        if cuts <= operations {
            return Ok(());
        }
        Err(format!("{cuts} power cuts need as many operations at least, not {operations}"))
    });
    fit.map_err(|what| Failure::new(format!("experiment '{}': {what}", experiment.name)))
}

fn check(part: &Part, experiment: &Experiment) -> Outcome {
    let most = if part.place == Place::Simulated { 64 } else { 256 };
    let fits = part.threads.iter().all(|threads| (1..=most).contains(threads));
    part.extent.tpcc.validate()?;
    check_cuts(part, experiment)?;
    let something = part.extent.records > 0
        && (part.operations > 0 || experiment.kind == Kind::Checksums)
        && part.repetitions > 0
        && part.operations_of.values().all(|operations| *operations > 0);
    match (fits, something) {
        (true, true) => Ok(()),
        (false, _) => Err(Failure::new(format!(
            "experiment '{}': {} runs have 1 to {most} threads",
            experiment.name, part.place
        ))),
        (_, false) => Err(Failure::new(format!(
            "experiment '{}': there is nothing to measure with 0 records, operations or repetitions",
            experiment.name
        ))),
    }
}
