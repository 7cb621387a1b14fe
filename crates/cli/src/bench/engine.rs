//! The engines by name, and one run of a workload on one of them.

use super::site::Site;
use super::watch;
use crate::failure::{Failure, Outcome};
use perdura::{Domain, Engine, Format, Heap, RedoEngine, UndoEngine, Volatile};
use perdura_memory::{MapOptions, Mapped, PAGE};
use perdura_workloads::{Measured, Plan, Progress, Workload};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

/// An engine that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EngineName {
    Volatile,
    Undo,
    Redo,
}

impl EngineName {
    pub(crate) const ALL: [EngineName; 3] =
        [EngineName::Volatile, EngineName::Undo, EngineName::Redo];
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EngineName::Volatile => "volatile",
            EngineName::Undo => "undo",
            EngineName::Redo => "redo",
        })
    }
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = EngineName::ALL.into_iter().find(|engine| engine.to_string() == name);
        found.ok_or_else(|| format!("unknown engine '{name}': it is one of volatile, undo, redo"))
    }
}

/// How to make a pool for a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolPlan {
    /// Bytes up to which it may grow.
    pub(crate) limit: u64,
    /// The domain asked for.
    pub(crate) domain: Option<Domain>,
}

/// One run, checked.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) measured: Measured,
    pub(crate) load_seconds: f64,
    /// What an acknowledged transaction outlives on this memory.
    pub(crate) memory: String,
}

/// Runs `workload` on a fresh pool at `site`: loads, warms up, measures, checks, closes.
pub(crate) fn run<W: Workload>(
    engine: EngineName,
    site: &Site,
    pool: PoolPlan,
    workload: &W,
    plan: &Plan,
    progress: &Progress,
) -> Outcome<Run> {
    let memory = Arc::new(map(site, pool)?);
    match engine {
        EngineName::Volatile => {
            run_on::<Volatile<Mapped>, W>(engine, memory, pool, workload, plan, progress)
        }
        EngineName::Undo => {
            run_on::<UndoEngine<Mapped>, W>(engine, memory, pool, workload, plan, progress)
        }
        EngineName::Redo => {
            run_on::<RedoEngine<Mapped>, W>(engine, memory, pool, workload, plan, progress)
        }
    }
}

fn map(site: &Site, pool: PoolPlan) -> Outcome<Mapped> {
    let path = site.fresh_pool()?;
    let options = MapOptions { domain: pool.domain, limit: pool.limit };
    Mapped::create(&path, PAGE, options).map_err(|error| Failure::at(&path, error))
}

fn run_on<E: Engine<Mapped>, W: Workload>(
    engine: EngineName,
    memory: Arc<Mapped>,
    pool: PoolPlan,
    workload: &W,
    plan: &Plan,
    progress: &Progress,
) -> Outcome<Run> {
    let format = Format { limit: pool.limit, log: None, id: plan.seed, requires: None };
    let described = memory.describe();
    let heap = Heap::<Mapped, E>::create(memory, format)
        .map_err(|error| Failure::new(error.to_string()))?;
    let start = Instant::now();
    watch::with_bar(&format!("{engine}: loading"), workload.load_size(), progress, || {
        perdura_workloads::load(workload, &heap, progress)
    })?;
    let load_seconds = start.elapsed().as_secs_f64();
    let operations = plan.operations + plan.warm_up;
    let measured = watch::with_bar(&format!("{engine}: running"), operations, progress, || {
        perdura_workloads::measure(workload, &heap, plan, progress)
    })?;
    workload.check(&mut heap.session()?)?;
    heap.close()?;
    Ok(Run { measured, load_seconds, memory: described })
}
