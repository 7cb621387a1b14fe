//! One run of a workload on a fresh pool with one engine.

use super::knobs::Knobs;
use super::site::Site;
use super::watch;
use crate::failure::{Failure, Outcome};
use perdura::{
    AnyHeap, Domain, Engine, EngineKind, Format, Heap, Memory, OnEngine, Options, Pool, Visitor,
};
use perdura_memory::{AnyMemory, MapOptions, Mapped, PAGE, Unflushed};
use perdura_workloads::{Measured, Plan, Progress, Store, Submit, Workload};
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
    let (path, emptied) = (site.fresh_pool()?, pool.emptied);
    let mut options = Options::new().engine(engine).domain(pool.domain).size(pool.limit);
    options = options.tuning(pool.knobs.tuning()).checksums(pool.knobs.checksums);
    if let Some(log) = pool.knobs.log {
        options = options.log(log);
    }
    let pool = options.create(&path).map_err(|error| Failure::at(&path, error))?;
    let memory = pool.memory().describe();
    let phases = Phases { label, workload, plan, progress, emptied };
    let (measured, load_seconds) = phases.on_pool(&pool)?;
    pool.close()?;
    Ok(Run { measured, load_seconds, memory })
}

/// The same without write-backs, streams and fences, to measure their cost: the pool is unusable afterwards.
pub(crate) fn run_unflushed<W: Workload>(
    label: &str,
    engine: EngineKind,
    site: &Site,
    pool: PoolPlan,
    workload: &W,
    plan: &Plan,
    progress: &Progress,
) -> Outcome<Run> {
    let (path, emptied) = (site.fresh_pool()?, pool.emptied);
    let map = MapOptions { domain: pool.domain, limit: pool.limit };
    let mapped = Mapped::create(&path, PAGE, map).map_err(|error| Failure::at(&path, error))?;
    let memory = format!("{}; nothing written back or fenced", mapped.describe());
    let mapped = Arc::new(mapped);
    let phases = Phases { label, workload, plan, progress, emptied };
    let (measured, load_seconds) = if cfg!(debug_assertions) {
        let memory = Arc::new(Unflushed::new(Arc::new(AnyMemory::new(mapped))));
        let heap = engine.run(Fresh { memory, pool })?;
        phases.through(&*heap, &*heap)?
    } else {
        let memory = Arc::new(Unflushed::new(mapped));
        engine.run(Unfenced { phases, fresh: Fresh { memory, pool } })?
    };
    Ok(Run { measured, load_seconds, memory })
}

/// The measurement. A release build compiles it for each engine: a benchmark must not include the cost of dynamic
/// dispatch. A debug build's figures mean nothing, and each workload takes minutes to compile for each engine: there,
/// one copy serves all engines.
struct Phases<'a, W> {
    label: &'a str,
    workload: &'a W,
    plan: &'a Plan,
    progress: &'a Progress,
    emptied: bool,
}

impl<W: Workload> Phases<'_, W> {
    fn on_pool(self, pool: &Pool) -> Outcome<(Measured, f64)> {
        if cfg!(debug_assertions) {
            pool.visit(Erased(Box::new(|heap| self.through(heap, heap))))
        } else {
            pool.visit(self)
        }
    }

    /// Runs the transactions through `store`, which is `heap` itself or a view of it.
    fn through<S: ?Sized + Store<Session: Submit>>(
        self,
        store: &S,
        heap: &dyn AnyHeap,
    ) -> Outcome<(Measured, f64)> {
        let Phases { label, workload, plan, progress, emptied } = self;
        let start = Instant::now();
        watch::with_bar(&format!("{label}: loading"), workload.load_size(), progress, || {
            perdura_workloads::load(workload, store, progress)
        })?;
        let load_seconds = start.elapsed().as_secs_f64();
        let operations = plan.operations + plan.warm_up;
        if emptied {
            heap.empty_log()?;
        }
        let mut measured =
            watch::with_bar(&format!("{label}: running"), operations, progress, || {
                perdura_workloads::measure(workload, store, plan, progress)
            })?;
        if emptied {
            measured.counters += heap.empty_log()?;
        }
        // Not timed: compiled once for all engines.
        workload.check(&mut heap.session()?)?;
        Ok((measured, load_seconds))
    }
}

impl<W: Workload> Visitor for Phases<'_, W> {
    type Output = Outcome<(Measured, f64)>;

    fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> Self::Output {
        self.through(heap, heap)
    }
}

/// Code that runs on a heap of any engine.
type OnHeap<'a> = dyn FnOnce(&dyn AnyHeap) -> Outcome<(Measured, f64)> + 'a;

/// A pool's heap, with its engine erased.
struct Erased<'a>(Box<OnHeap<'a>>);

impl Visitor for Erased<'_> {
    type Output = Outcome<(Measured, f64)>;

    fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> Self::Output {
        (self.0)(heap)
    }
}

/// Creates a heap on a memory without requirements.
struct Fresh<M> {
    memory: Arc<M>,
    pool: PoolPlan,
}

impl<M: Memory + 'static> Fresh<M> {
    fn heap<E: Engine<M>>(self) -> Outcome<Heap<M, E>> {
        let PoolPlan { limit, knobs, .. } = self.pool;
        let (log, checksums) = (knobs.log, knobs.checksums);
        let format = Format { limit, log, id: 1, requires: None, checksums };
        let heap = Heap::<_, E>::create(self.memory, format);
        let heap = heap.map_err(|error| Failure::new(error.to_string()))?;
        heap.tune(&knobs.tuning());
        Ok(heap)
    }
}

impl<M: Memory + 'static> OnEngine<M> for Fresh<M> {
    type Output = Outcome<Box<dyn AnyHeap>>;

    fn run<E: Engine<M>>(self) -> Self::Output {
        Ok(Box::new(self.heap::<E>()?))
    }
}

/// The phases on it.
struct Unfenced<'a, W, M> {
    phases: Phases<'a, W>,
    fresh: Fresh<M>,
}

impl<W: Workload, M: Memory + 'static> OnEngine<M> for Unfenced<'_, W, M> {
    type Output = Outcome<(Measured, f64)>;

    fn run<E: Engine<M>>(self) -> Self::Output {
        let heap = self.fresh.heap::<E>()?;
        self.phases.through(&heap, &heap)
    }
}
