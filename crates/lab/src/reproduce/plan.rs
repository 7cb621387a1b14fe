//! The runs of an experiment: its file, made smaller or changed by the command line.

use super::experiment::{Calibrate, Experiment, Run, ServerBaseline, SizeSpec};
use super::kind::Kind;
use super::parts;
pub(crate) use super::parts::{Changes, Part, Place};
use super::protocol::Protocol;
use super::quantity::Quantity;
use super::work::{Work, base_fits, rolls_back};
use crate::bench::knobs::Knobs;
use crate::bench::window::Window;
use crate::failure::{Failure, Outcome};
use crate::quantity::plural;
use perdura_machine::cache::Policy;
use perdura_matrices::cost::When;
use serde::Serialize;
use std::collections::BTreeMap;

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Setting {
    /// `None` if there is only one.
    pub(crate) name: Option<String>,
    /// Its place on the experiment's axis.
    pub(crate) at: Option<f64>,
    pub(crate) window: Window,
    pub(crate) tuning: Knobs,
    /// The replacement policy of simulated caches, if not the machine's.
    pub(crate) policy: Option<Policy>,
    /// Operations in a transaction of microworkloads, if not the experiment's.
    pub(crate) ops_per_tx: Option<u32>,
    /// Length of the mechanisms' epochs in full size, if not their own, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epoch_us: Option<u64>,
    /// Factor by which simulated runs are smaller, if not the part's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) divided_by: Option<u64>,
    /// Figures of the simulated machine.
    pub(crate) sets: BTreeMap<String, String>,
    /// For bare objects: when they are processed.
    #[serde(skip)]
    pub(crate) when: Option<When>,
}

impl Setting {
    /// The setting of an experiment without settings.
    pub(super) fn unnamed(window: Window, tuning: Knobs) -> Self {
        let (policy, ops_per_tx, epoch_us, sets) = (None, None, None, BTreeMap::new());
        let (name, at, when, divided_by) = (None, None, None, None);
        Setting { name, at, window, tuning, policy, ops_per_tx, epoch_us, divided_by, sets, when }
    }
}

/// Everything that is run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    /// Whether it only shows that the experiment works.
    pub(crate) quick: bool,
    pub(crate) parts: Vec<Part>,
    pub(crate) workloads: Vec<String>,
    /// The workloads that means are over.
    pub(crate) mean_over: Vec<String>,
    pub(crate) sizes: BTreeMap<String, SizeSpec>,
    /// The columns of the table.
    #[serde(skip)]
    pub(crate) columns: Vec<Quantity>,
    #[serde(serialize_with = "names")]
    pub(crate) engines: Vec<Protocol>,
    pub(crate) base: Option<String>,
    /// The number of threads of the base's runs that others are compared with.
    pub(crate) base_threads: Option<u32>,
    pub(crate) base_of: BTreeMap<String, String>,
    pub(crate) bases: BTreeMap<String, String>,
    /// The engines that `base_of` names.
    #[serde(skip)]
    own_bases: BTreeMap<String, Protocol>,
    /// The axis on which settings are steps.
    pub(crate) axis: Option<String>,
    pub(crate) settings: Vec<Setting>,
    pub(crate) seed: u64,
    #[serde(rename = "rival")]
    pub(crate) server_baseline: Option<ServerBaseline>,
    #[serde(skip)]
    pub(crate) calibrating: Option<Calibrating>,
    /// The simulated part in the size of a setting that has one of its own, by the setting's name.
    #[serde(skip)]
    resized: BTreeMap<String, Part>,
}

/// A figure of the simulated machine to be calibrated first.
#[derive(Clone, Debug)]
pub(crate) struct Calibrating {
    pub(super) of: Calibrate,
    pub(super) engine: Protocol,
    /// `None` if not the engine's share of the base is sought.
    pub(super) base: Option<Protocol>,
    /// The experiment without its settings.
    pub(super) setting: Setting,
}

impl Calibrating {
    /// The experiment's calibration, if there is one.
    fn of(experiment: &Experiment) -> Outcome<Option<Self>> {
        let run = &experiment.run;
        let of = run.simulated.as_ref().and_then(|simulated| simulated.calibrate.clone());
        let (Some(of), Some(base)) = (of, &run.base) else { return Ok(None) };
        let engine = Protocol::of(experiment, &of.engine)?;
        let base = of.share.is_some().then(|| Protocol::of(experiment, base)).transpose()?;
        let setting = Setting::unnamed(run.window, run.tuning);
        Ok(Some(Calibrating { of, engine, base, setting }))
    }
}

fn names<S: serde::Serializer>(engines: &[Protocol], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(engines.iter().map(|engine| &engine.name))
}

impl Plan {
    /// `experiment` with `changes` applied.
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
        // An engine that others are compared with must run with them; the base of one workload runs with that alone.
        let base_used =
            base.as_ref().filter(|_| !workloads.iter().all(|own| base_of.contains_key(own)));
        let needed = names.iter().filter_map(|name| bases.get(name)).chain(base_used);
        let needed = needed.chain(run.accepted.iter().map(|accepted| &accepted.engine)).cloned();
        for needed in needed.collect::<Vec<_>>() {
            if !names.contains(&needed) {
                names.insert(0, needed);
            }
        }
        for workload in &workloads {
            let fits = Work::named(experiment.kind, &run.sizes, workload)
                .and_then(|_| base_fits(run, workload));
            fits.map_err(|error| {
                Failure::new(format!("experiment '{}': {error}", experiment.name))
            })?;
        }
        let engines = names.iter().map(|name| Protocol::of(experiment, name));
        let engines = engines.collect::<Outcome<Vec<_>>>()?;
        let own_bases = base_of
            .iter()
            .map(|(workload, name)| Ok((workload.clone(), Protocol::of(experiment, name)?)));
        let own_bases = own_bases.collect::<Outcome<_>>()?;
        let parts = parts::parts(experiment, changes)?;
        let settings = settings(experiment, changes)?;
        let resized = resized(experiment, changes, &settings)?;
        let seed = changes.seed.unwrap_or(run.seed);
        let (kind, server_baseline) =
            (experiment.kind, run.served.as_ref().map(|served| served.server_baseline));
        let quick = changes.quick;
        let mut mean_over = workloads.clone();
        mean_over.retain(|name| run.mean_over.is_empty() || run.mean_over.contains(name));
        let calibrating = Calibrating::of(experiment)?;
        Ok(Plan {
            kind,
            quick,
            parts,
            workloads,
            mean_over,
            sizes: run.sizes.clone(),
            columns: columns(experiment),
            engines,
            base,
            base_threads: run.base_threads,
            base_of,
            bases,
            own_bases,
            axis: run.axis.clone(),
            settings,
            seed,
            server_baseline,
            calibrating,
            resized,
        })
    }

    /// The engines that this engine is compared with in this workload; none for the baseline server.
    pub(crate) fn compared_with(&self, workload: &str, engine: &str) -> Option<&str> {
        if self.server_baseline.is_some_and(|server_baseline| server_baseline.name() == engine) {
            return None;
        }
        self.bases.get(engine).map(String::as_str).or(self.base_of(workload))
    }

    /// The base of this workload's engines.
    pub(crate) fn base_of(&self, workload: &str) -> Option<&str> {
        self.base_of.get(workload).or(self.base.as_ref()).map(String::as_str)
    }

    /// The engines of this workload: its base, and those that can run it.
    pub(crate) fn engines_of(&self, workload: &str) -> Vec<&Protocol> {
        let base = self.own_bases.get(workload).filter(|base| !self.engines.contains(base));
        let replaced = self.parts.iter().any(|part| part.engine_of.contains_key(workload));
        let able = |own: &&Protocol| {
            replaced || own.engine.rolls_back() || !rolls_back(&self.sizes, workload)
        };
        base.into_iter().chain(self.engines.iter().filter(able)).collect()
    }

    /// The part in the setting's size.
    pub(crate) fn part_in<'p>(&'p self, part: &'p Part, setting: &Setting) -> &'p Part {
        let own = setting.name.as_ref().and_then(|name| self.resized.get(name));
        own.filter(|_| part.place == Place::Simulated).unwrap_or(part)
    }

    /// The workload behind a name.
    pub(crate) fn work(&self, workload: &str) -> Result<Work, String> {
        Work::named(self.kind, &self.sizes, workload)
    }

    /// The base, and the workloads' different ones, for display.
    pub(crate) fn show_base(&self) -> String {
        let mut base = self.base.clone().unwrap_or_default();
        if let Some(threads) = self.base_threads {
            base += &format!(" on {}", plural(threads.into(), "thread"));
        }
        let here = |(workload, _): &(&String, &String)| self.workloads.contains(workload);
        let others: Vec<String> = (self.base_of.iter().filter(here))
            .map(|(workload, base)| format!("{workload}: of {base}"))
            .collect();
        if others.is_empty() { base } else { format!("{base} ({})", others.join(", ")) }
    }
}

/// The simulated part in the sizes of settings that have one of their own.
fn resized(
    experiment: &Experiment,
    changes: &Changes,
    settings: &[Setting],
) -> Outcome<BTreeMap<String, Part>> {
    let own = settings.iter().filter_map(|own| Some((own.name.clone()?, own.divided_by?)));
    let part = |(name, divided_by)| {
        let changes = Changes { divided_by: Some(divided_by), ..changes.clone() };
        let mut parts = parts::parts(experiment, &changes)?.into_iter();
        Ok(parts.find(|part| part.place == Place::Simulated).map(|part| (name, part)))
    };
    own.map(part).filter_map(Outcome::transpose).collect()
}

/// The columns of the experiment's table: those of its kind; of the many quantities of shares only those that the paper's
/// values or the experiment name.
fn columns(experiment: &Experiment) -> Vec<Quantity> {
    let values = experiment.paper.values.iter().map(|value| value.quantity);
    let named: Vec<Quantity> = experiment.run.quantities.iter().copied().chain(values).collect();
    let is_column = |own: &Quantity| {
        experiment.kind != Kind::Share
            || matches!(own, Quantity::Share | Quantity::Gain)
            || named.contains(own)
    };
    Quantity::of(experiment.kind).filter(is_column).collect()
}

/// The settings that were asked for, or just one without a name.
fn settings(experiment: &Experiment, changes: &Changes) -> Outcome<Vec<Setting>> {
    let Run { window, tuning, ref settings, .. } = experiment.run;
    let plain = Setting::unnamed(window, tuning);
    let quick = experiment.quick.divided_by.filter(|_| changes.quick).unwrap_or(1);
    let named = settings.iter().map(|own| Setting {
        name: Some(own.name.clone()),
        at: own.at,
        window: own.window.unwrap_or(window),
        tuning: own.tuning.unwrap_or(tuning),
        policy: own.policy,
        ops_per_tx: own.ops_per_tx,
        epoch_us: own.epoch_us,
        divided_by: own.divided_by.map(|factor| factor.saturating_mul(quick)),
        sets: own.sets.iter().map(|(figure, value)| (figure.clone(), value.to_string())).collect(),
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
    } else if let Some(simulated) = &experiment.run.simulated {
        // Settings of larger runs than the experiment's, or than asked for, take long: by name alone.
        let least = changes.divided_by.unwrap_or(simulated.divided_by).saturating_mul(quick);
        all.retain(|own| own.divided_by.is_none_or(|factor| factor >= least));
    }
    if all.is_empty() {
        let name = &experiment.name;
        return Err(Failure::new(format!("experiment '{name}': all its settings are larger")));
    }
    Ok(all)
}
