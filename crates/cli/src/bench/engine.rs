//! One run of a workload on a fresh pool with one engine.

use super::knobs::Knobs;
use super::site::Site;
use super::watch;
use crate::failure::{Failure, Outcome};
use perdura::{AnyHeap, Domain, Engine, EngineKind, Format, Heap, OnEngine, Options, Visitor};
use perdura_memory::{MapOptions, Mapped, PAGE};
use perdura_workloads::{Measured, Plan, Progress, Workload};
use std::path::Path;
use std::sync::Arc;
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
    /// What an acknowledged transaction outlives on this memory.
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
    let phases = Phases { label, workload, plan, progress, emptied: pool.emptied };
    if pool.unflushed {
        phases.unflushed(engine, &path, pool)
    } else {
        phases.on_pool(engine, &path, pool)
    }
}

/// The measurement. Where [`Workload::STATIC`] says so, a release build compiles the measured transactions for each
/// engine. A debug build's figures mean nothing: there, one copy serves all engines.
struct Phases<'a, W> {
    label: &'a str,
    workload: &'a W,
    plan: &'a Plan,
    progress: &'a Progress,
    emptied: bool,
}

impl<W: Workload> Phases<'_, W> {
    fn on_pool(self, engine: EngineKind, path: &Path, plan: PoolPlan) -> Outcome<Run> {
        let PoolPlan { limit, domain, knobs, .. } = plan;
        let mut options = Options::new().engine(engine).domain(domain).size(limit);
        options = options.tuning(knobs.tuning()).checksums(knobs.checksums);
        if let Some(log) = knobs.log {
            options = options.log(log);
        }
        let pool = options.create(path).map_err(|error| Failure::at(path, error))?;
        let memory = pool.memory().describe();
        let (measured, load_seconds) = pool.visit(self)?;
        pool.close()?;
        Ok(Run { measured, load_seconds, memory })
    }

    fn unflushed(self, engine: EngineKind, path: &Path, plan: PoolPlan) -> Outcome<Run> {
        let map = MapOptions { domain: plan.domain, limit: plan.limit };
        let mapped = Mapped::create(path, PAGE, map).map_err(|error| Failure::at(path, error))?;
        let memory = format!("{}; nothing written back or fenced", mapped.describe());
        let mapped = Arc::new(mapped.unflushed());
        let (measured, load_seconds) = engine.run(Unflushed { phases: self, mapped, plan })?;
        Ok(Run { measured, load_seconds, memory })
    }

    fn on_heap<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> Outcome<(Measured, f64)> {
        let Phases { workload, plan, progress, .. } = self;
        let erased: &dyn AnyHeap = heap;
        if cfg!(debug_assertions) || !W::STATIC {
            self.through(erased, &mut || {
                perdura_workloads::measure(workload, erased, plan, progress)
            })
        } else {
            self.through(erased, &mut || perdura_workloads::measure(workload, heap, plan, progress))
        }
    }

    /// Runs the measured transactions by `measure`, and the others, compiled once for all engines, on `heap`.
    fn through(
        self,
        heap: &dyn AnyHeap,
        measure: &mut dyn FnMut() -> perdura_workloads::Outcome<Measured>,
    ) -> Outcome<(Measured, f64)> {
        let Phases { label, workload, plan, progress, emptied } = self;
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
        let mut measured = watch::with_bar(&running, operations, progress, measure)?;
        if emptied {
            measured.counters += heap.empty_log()?;
        }
        workload.check(&mut heap.session()?)?;
        Ok((measured, load_seconds))
    }
}

impl<W: Workload> Visitor for Phases<'_, W> {
    type Output = Outcome<(Measured, f64)>;

    fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> Self::Output {
        self.on_heap(heap)
    }
}

/// The phases on a memory without write-backs and fences, which no pool would be opened on.
struct Unflushed<'a, W> {
    phases: Phases<'a, W>,
    mapped: Arc<Mapped>,
    plan: PoolPlan,
}

impl<W: Workload> OnEngine<Mapped> for Unflushed<'_, W> {
    type Output = Outcome<(Measured, f64)>;

    fn run<E: Engine<Mapped>>(self) -> Self::Output {
        let PoolPlan { limit, knobs, .. } = self.plan;
        let (log, checksums) = (knobs.log, knobs.checksums);
        let format = Format { limit, log, id: 1, requires: None, checksums };
        let heap = Heap::<_, E>::create(self.mapped, format);
        let heap = heap.map_err(|error| Failure::new(error.to_string()))?;
        heap.tune(&knobs.tuning());
        self.phases.on_heap(&heap)
    }
}
