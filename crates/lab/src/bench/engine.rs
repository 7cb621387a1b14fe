//! One run of a workload on a fresh pool with one engine.

use super::knobs::Knobs;
use super::site::Site;
use super::watch;
use crate::failure::{Failure, Outcome};
use perdura::{Domain, Engine, EngineKind, Heap, Mapped, Options, Pool, Visitor};
use perdura_memory::speculation;
use perdura_workloads::{Measured, Plan, Progress, Workload};
use std::time::Instant;

/// How to create a pool for a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolPlan {
    /// Limit to which it may grow, in bytes.
    pub(crate) limit: u64,
    /// The domain asked for.
    pub(crate) domain: Option<Domain>,
    /// Settings of the engine and of the log.
    pub(crate) knobs: Knobs,
    /// Whether the log is emptied before and after the measured transactions, with the time for the latter included:
    /// so that no log is left over for later transactions to pay for.
    pub(crate) emptied: bool,
    /// Whether write-backs, streams and fences are left out, to measure their cost: the pool is unusable afterwards.
    pub(crate) unflushed: bool,
}

/// One run, checked.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) measured: Measured,
    pub(crate) load_seconds: f64,
    /// The failures that an acknowledged transaction outlives on this memory.
    pub(crate) memory: String,
}

/// Runs `workload` on a fresh pool at `site`: loads, warms up, measures, checks, closes. A
/// progress bar says `label`.
pub(crate) fn run<W: Workload>(
    label: &str,
    engine: EngineKind,
    site: &Site,
    pool: PoolPlan,
    workload: &W,
    plan: &Plan,
    progress: &Progress,
) -> Outcome<Run> {
    let path = site.fresh_pool()?;
    let PoolPlan { limit, domain, knobs, emptied, unflushed } = pool;
    let options = Options::new().engine(engine).domain(domain).size(limit).unflushed(unflushed);
    // For its speed: the run says so.
    let options = options.accept_unsafe(true);
    let mut options = options.tuning(knobs.tuning()).checksums(knobs.checksums);
    if let Some(log) = knobs.log {
        options = options.log(log);
    }
    let pool = options.create(&path).map_err(|error| Failure::at(&path, error))?;
    let mut memory = pool.memory().describe();
    if engine.name().starts_with("htm") && speculation::works() {
        memory += "; transactions in the processor's hardware (RTM)";
    }
    if unflushed {
        memory += "; nothing written back or fenced";
    }
    let phases = Phases { label, workload, plan, progress, emptied };
    let (measured, load_seconds) = phases.run(&pool)?;
    pool.close()?;
    Ok(Run { measured, load_seconds, memory })
}

/// The phases of a run. Where [`Workload::STATIC`] says so, a release build compiles the measured transactions for each
/// engine, and where [`Workload::BY_HANDLE`] does, for a pool's handle. A debug build's figures mean nothing: there, one copy serves all engines.
struct Phases<'a, W> {
    label: &'a str,
    workload: &'a W,
    plan: &'a Plan,
    progress: &'a Progress,
    emptied: bool,
}

impl<W: Workload> Phases<'_, W> {
    fn run(self, pool: &Pool) -> Outcome<(Measured, f64)> {
        let Phases { label, workload, plan, progress, emptied } = self;
        let heap = pool.heap();
        let start = Instant::now();
        watch::with_bar(&format!("{label}: loading"), workload.load_size(), progress, || {
            perdura_workloads::load(workload, heap, progress)
        })?;
        let load_seconds = start.elapsed().as_secs_f64();
        let operations = plan.operations + plan.warm_up;
        if emptied {
            heap.empty_log()?;
        }
        let running = format!("{label}: running");
        let measure = || {
            if cfg!(debug_assertions) || !W::STATIC && !W::BY_HANDLE {
                perdura_workloads::measure(workload, heap, plan, progress)
            } else if W::BY_HANDLE {
                perdura_workloads::measure(workload, pool, plan, progress)
            } else {
                pool.visit(Measure { workload, plan, progress })
            }
        };
        let mut measured = watch::with_bar(&running, operations, progress, measure)?;
        if emptied {
            measured.counters += heap.empty_log()?;
        }
        workload.check(&mut heap.session()?)?;
        Ok((measured, load_seconds))
    }
}

/// The measured transactions, compiled for each engine.
struct Measure<'a, W> {
    workload: &'a W,
    plan: &'a Plan,
    progress: &'a Progress,
}

impl<W: Workload> Visitor for Measure<'_, W> {
    type Output = perdura_workloads::Outcome<Measured>;

    fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> Self::Output {
        perdura_workloads::measure(self.workload, heap, self.plan, self.progress)
    }
}
