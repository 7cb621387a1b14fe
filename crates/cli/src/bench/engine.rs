//! One run of a workload on a fresh pool with one engine.

use super::site::Site;
use super::watch;
use crate::failure::{Failure, Outcome};
use perdura::{Domain, Engine, EngineKind, Heap, Options, Visitor};
use perdura_memory::Mapped;
use perdura_workloads::{Measured, Plan, Progress, Workload};
use std::time::Instant;

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
    engine: EngineKind,
    site: &Site,
    pool: PoolPlan,
    workload: &W,
    plan: &Plan,
    progress: &Progress,
) -> Outcome<Run> {
    let path = site.fresh_pool()?;
    let options = Options::new().engine(engine).domain(pool.domain).size(pool.limit);
    let pool = options.create(&path).map_err(|error| Failure::at(&path, error))?;
    let memory = pool.memory().describe();
    let (measured, load_seconds) = pool.visit(Phases { engine, workload, plan, progress })?;
    pool.close()?;
    Ok(Run { measured, load_seconds, memory })
}

/// What is compiled for each engine: a benchmark must not pay for dynamic dispatch.
struct Phases<'a, W> {
    engine: EngineKind,
    workload: &'a W,
    plan: &'a Plan,
    progress: &'a Progress,
}

impl<W: Workload> Visitor for Phases<'_, W> {
    type Output = Outcome<(Measured, f64)>;

    fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> Self::Output {
        let Phases { engine, workload, plan, progress } = self;
        let start = Instant::now();
        let label = format!("{engine}: loading");
        watch::with_bar(&label, workload.load_size(), progress, || {
            perdura_workloads::load(workload, heap, progress)
        })?;
        let load_seconds = start.elapsed().as_secs_f64();
        let label = format!("{engine}: running");
        let operations = plan.operations + plan.warm_up;
        let measured = watch::with_bar(&label, operations, progress, || {
            perdura_workloads::measure(workload, heap, plan, progress)
        })?;
        workload.check(&mut heap.session()?)?;
        Ok((measured, load_seconds))
    }
}
