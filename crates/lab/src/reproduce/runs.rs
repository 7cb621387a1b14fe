//! One run: of a database on an engine, natively or simulated; of operations that are only drawn; of
//! bare objects.

use super::epochs::CountedEpochs;
use super::kind::Kind;
use super::plan::{Part, Place, Plan, Setting};
use super::protocol::Protocol;
use super::work::{self, Work};
use crate::bench::engine::PoolPlan;
use crate::bench::options::plenty;
use crate::bench::series::SEED_STEP;
use crate::bench::stage::Stage;
use crate::bench::watch;
use crate::failure::{Failure, Outcome};
use crate::simulate;
use crate::workload::Made;
use perdura::{AnyHeap, Counters, EngineKind, Format};
use perdura_crashtest::Losses;
use perdura_machine::controller::{DeviceStats, DramCacheStats};
use perdura_machine::{ConfigError, MachineConfig, Statistics};
use perdura_matrices::cost::{self, Costs, Demand, When};
use perdura_memory::{AnyMemory, Domain, MapOptions, Mapped, Ram};
use perdura_workloads::records::Plain;
use perdura_workloads::reuse::Reuse;
use perdura_workloads::tpcc::Tpcc;
use perdura_workloads::ycsb::{Options, Ycsb};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One operation in this many is timed; all of them if latencies are measured.
const SAMPLE_EVERY: u32 = 64;
/// Objects whose checksums are created together.
const BATCH: usize = 64;

/// The coordinates of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    pub(crate) place: Place,
    pub(crate) workload: String,
    pub(crate) threads: u32,
    /// Or a protocol; `None` if operations are only drawn, or on bare objects.
    pub(crate) engine: Option<String>,
    /// `None` if there is only one setting.
    pub(crate) setting: Option<String>,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sample {
    #[serde(flatten)]
    pub(crate) cell: Cell,
    pub(crate) repetition: u32,
    pub(crate) seed: u64,
    /// Whether nothing was written back or fenced.
    pub(crate) unflushed: bool,
    pub(crate) operations: u64,
    pub(crate) per_second: f64,
    /// The latency of an operation in its thread.
    pub(crate) ns_per_operation: f64,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) timed: u64,
    pub(crate) counters: Counters,
    pub(crate) reuse: Option<Reuse>,
    pub(crate) checksums: Option<Costs>,
    /// The losses of power cuts.
    pub(crate) losses: Option<Losses>,
    /// Lines that reached the simulated machine's memory.
    pub(crate) memory_writes: Option<u64>,
    /// Lines of those that its cells were written with: without those that coalesced in its queue.
    pub(crate) device_writes: Option<u64>,
    /// Its DRAM cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dram: Option<DramSample>,
    /// Bytes of the pages that held data when it was switched on.
    pub(crate) loaded_bytes: Option<u64>,
    /// Bytes of those, and bytes stored by the program.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) stored_bytes: Option<u64>,
    /// Writes of the most frequently written line.
    pub(crate) most_worn: Option<u64>,
    /// The share of the simulated cores' time in which they waited in fences.
    pub(crate) fence_share: Option<f64>,
    /// Of a simulated mechanism with epochs: the share of the time in which all cores waited for their ends, and how many
    /// have ended.
    pub(crate) checkpoint_share: Option<f64>,
    pub(crate) checkpoints: Option<u64>,
    /// Those of them that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counted_epochs: Option<CountedEpochs>,
    /// The simulated mechanism's counters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) mechanism: BTreeMap<&'static str, u64>,
    pub(crate) memory: String,
}

/// Counts of a DRAM cache of the simulated machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DramSample {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Lines that the last cache has read, and that it has written.
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Lines of a block.
    pub(crate) lines: u64,
    /// Of the blocks that went home with dirty lines, how many had one, two, and so on.
    pub(crate) dirty_lines: Vec<u64>,
}

fn dram(statistics: &Statistics) -> Option<DramSample> {
    let memory = &statistics.memory;
    let DramCacheStats { hits, misses, .. } = memory.dram_cache?;
    let writes = memory.writes;
    Some(DramSample {
        hits,
        misses,
        reads: memory.reads,
        writes: writes.evictions + writes.write_backs + writes.streams,
        lines: memory.dirty_lines.len() as u64,
        dirty_lines: memory.dirty_lines.clone(),
    })
}

fn device_writes(home: &DeviceStats) -> u64 {
    home.writes - home.coalesced
}

/// A run to be made.
pub(super) struct Job<'a> {
    pub(super) part: &'a Part,
    pub(super) workload: &'a str,
    pub(super) work: Work,
    pub(super) setting: &'a Setting,
    pub(super) threads: u32,
    pub(super) repetition: u32,
    pub(super) engine: Option<&'a Protocol>,
    pub(super) unflushed: bool,
    /// A calibrated figure of the simulated machine.
    pub(super) calibrated: Option<(&'a str, u64)>,
}

/// Makes the run.
pub(super) fn run(job: &Job<'_>, label: &str, plan: &Plan, stage: &Stage) -> Outcome<Sample> {
    match (&job.work, job.engine) {
        (Work::Objects(size), _) => return objects(job, *size, label, plan, stage),
        (Work::Database(choice), None) => return drawn(job, choice.row.name, label, plan, stage),
        (Work::Micro(_), None) => return executed(job, label, plan, stage),
        _ => {}
    }
    let choice = job.part.sized(&job.work, job.setting.ops_per_tx)?;
    let (Some(choice), Some(engine)) = (choice, job.engine) else {
        return Err(Failure::new("a workload of the list is run on an engine"));
    };
    let total = job.operations().saturating_add(job.warm_up());
    let made = choice.make(job.threads as usize, job.seed(plan), total)?;
    let on = On { job, label, engine, plan, stage };
    match job.part.place {
        Place::Simulated => on.simulated(&made),
        _ => on.natively(&made),
    }
}

impl Job<'_> {
    pub(super) fn describe(&self) -> String {
        let engine = self.engine.map_or(String::new(), |engine| format!(" {}", engine.name));
        let unflushed = if self.unflushed { " unflushed" } else { "" };
        let setting = self.setting.name.as_ref().map_or(String::new(), |name| format!(", {name}"));
        let Job { part, workload, threads, .. } = self;
        format!("{} {workload} x{threads}{engine}{unflushed}{setting}", part.place)
    }

    fn operations(&self) -> u64 {
        self.part.operations_of(self.workload)
    }

    fn warm_up(&self) -> u64 {
        self.part.warm_up_of(self.workload)
    }

    fn seed(&self, plan: &Plan) -> u64 {
        plan.seed.wrapping_add(u64::from(self.repetition) * SEED_STEP)
    }

    pub(super) fn cell(&self) -> Cell {
        Cell {
            place: self.part.place,
            workload: self.workload.to_owned(),
            threads: self.threads,
            engine: self.engine.map(|engine| engine.name.clone()),
            setting: self.setting.name.clone(),
        }
    }

    /// The sample without its figures.
    fn sample(&self, plan: &Plan) -> Sample {
        Sample {
            cell: self.cell(),
            repetition: self.repetition,
            seed: self.seed(plan),
            unflushed: self.unflushed,
            operations: self.operations(),
            ..Sample::default()
        }
    }

    /// Fails if it is simulated on a machine that cannot have its mechanisms.
    pub(super) fn check(&self) -> Outcome {
        let (Place::Simulated, Some(engine)) = (self.part.place, self.engine) else {
            return Ok(());
        };
        let (machine, cores) = (self.machine()?, self.threads as usize);
        engine.mechanism.design(&machine, cores)?;
        engine.transactions.map(|own| own.design(&machine, cores)).transpose()?;
        Ok(())
    }

    /// Whether it is an earlier job's simulated run, which would come out the same: their settings differ in figures of
    /// mechanisms alone, which it does not use.
    pub(super) fn repeats(&self, earlier: &Job<'_>) -> bool {
        let run = |job: &Job<'_>| {
            let Setting { window, tuning, ops_per_tx, epoch_us, .. } = *job.setting;
            (job.threads, job.repetition, job.unflushed, window, tuning, ops_per_tx, epoch_us)
        };
        let alike = self.part.place == Place::Simulated
            && std::ptr::eq(self.part, earlier.part)
            && self.workload == earlier.workload
            && self.engine == earlier.engine
            && run(self) == run(earlier);
        // What hardware transactions use is not looked into.
        let Some(engine) = self.engine.filter(|own| alike && own.transactions.is_none()) else {
            return false;
        };
        let used = |job: &Job<'_>| {
            let mut machine = job.machine().ok()?;
            machine.mechanism.retain(|name, _| name == engine.mechanism.name());
            Some(machine)
        };
        used(self).is_some_and(|machine| Some(machine) == used(earlier))
    }

    /// The machine that the job is simulated on.
    fn machine(&self) -> Outcome<MachineConfig> {
        let machine = self.part.machine.clone();
        let mut machine = machine.ok_or_else(|| Failure::new("no machine to simulate"))?;
        let wrong = |error: ConfigError| Failure::new(error.to_string());
        for (figure, value) in self.part.figures_of.get(self.workload).into_iter().flatten() {
            machine = machine.with(figure, value).map_err(wrong)?;
        }
        if let Some((figure, value)) = self.calibrated {
            machine = machine.with(figure, &value.to_string()).map_err(wrong)?;
        }
        for (figure, value) in &self.setting.sets {
            let value = self.part.divided(figure, value).map_err(Failure::new)?;
            machine = machine.with(figure, &value).map_err(wrong)?;
        }
        machine.cores.count = self.threads as usize;
        simulate::set_policy(&mut machine, self.setting.policy);
        Ok(machine)
    }
}

/// A job on an engine.
struct On<'a> {
    job: &'a Job<'a>,
    label: &'a str,
    engine: &'a Protocol,
    plan: &'a Plan,
    stage: &'a Stage,
}

impl On<'_> {
    fn natively(&self, made: &Made) -> Outcome<Sample> {
        let On { job, plan, stage, .. } = *self;
        let work = perdura_workloads::Plan {
            threads: job.threads as usize,
            operations: job.operations(),
            warm_up: job.warm_up(),
            seed: job.seed(plan),
            sample_every: if plan.kind == Kind::Latency { 1 } else { SAMPLE_EVERY },
            per_second: None,
            pinned: false,
            window: job.setting.window.transactions(),
        };
        let knobs = job.setting.tuning;
        let emptied = plan.kind == Kind::Flushes;
        let (limit, domain) = (plenty(made.bytes, &knobs), job.part.domain);
        let pool = PoolPlan { limit, domain, knobs, emptied, unflushed: job.unflushed };
        let engine = self.engine.engine;
        let run = made.natively(self.label, engine, &stage.site, pool, &work, &stage.progress)?;
        let measured = run.measured;
        let overall = measured.overall.as_ref();
        Ok(Sample {
            operations: measured.operations,
            per_second: measured.per_second(),
            ns_per_operation: measured.ns_per_operation() * f64::from(job.threads),
            p50_ns: overall.map(|all| all.p50_ns),
            p99_ns: overall.map(|all| all.p99_ns),
            timed: overall.map_or(0, |all| all.samples),
            counters: measured.counters,
            memory: run.memory,
            ..job.sample(plan)
        })
    }

    /// The protocol's engine, or the one that runs this workload.
    fn engine_kind(&self) -> EngineKind {
        let other = self.job.part.engine_of.get(self.job.workload);
        other.copied().unwrap_or(self.engine.engine)
    }

    /// Length of the mechanism's epochs in a run of this size, microseconds.
    fn epoch_us(&self) -> u64 {
        let full = self.job.setting.epoch_us.unwrap_or(self.engine.epoch_us);
        full.div_ceil(self.job.part.divided_by)
    }

    fn simulated(&self, made: &Made) -> Outcome<Sample> {
        let On { job, plan, stage, .. } = *self;
        let machine = job.machine()?;
        let memory = format!("simulated: {}", machine.title);
        let work = simulate::Plan {
            machine,
            engine: self.engine_kind(),
            cores: job.threads as usize,
            operations: job.operations(),
            warm_up: job.warm_up() / 2,
            settle: job.warm_up() / 2,
            loaded_before: job.part.loaded_before,
            seed: job.seed(plan),
            mechanism: self.engine.mechanism,
            transactions: self.engine.transactions,
            epoch_us: self.epoch_us(),
            window: job.setting.window.transactions(),
            knobs: job.setting.tuning,
            cuts: job.part.cuts,
            unflushed: job.unflushed,
            emptied: plan.kind == Kind::Flushes,
        };
        let total = work.operations + work.warm_up;
        let run = watch::with_bar(self.label, total, &stage.progress, || {
            made.simulated(&work, made.bytes.saturating_mul(2), &stage.progress)
        })?;
        let seconds = run.statistics.time_ns / 1e9;
        // A program that ends does as many as its input takes.
        let operations = run.operations as f64;
        let epochs = run.statistics.checkpoints.epochs;
        let stored = run.statistics.cores.iter().map(|core| core.stored_bytes).sum();
        let mechanism = run.statistics.mechanism_figures.iter().copied().collect();
        let has_epochs = self.engine.mechanism.has_epochs();
        let counted_epochs = has_epochs.then(|| CountedEpochs::of(epochs, &mechanism));
        Ok(Sample {
            operations: run.operations,
            per_second: operations / seconds,
            ns_per_operation: run.statistics.time_ns * f64::from(job.threads) / operations,
            counters: run.counters,
            losses: (run.losses.cuts > 0).then_some(run.losses),
            memory_writes: Some(run.statistics.memory.home.writes),
            memory_bytes: Some(run.statistics.memory.home.written_bytes),
            device_writes: Some(device_writes(&run.statistics.memory.home)),
            dram: dram(&run.statistics),
            loaded_bytes: run.loaded_bytes,
            stored_bytes: Some(stored),
            most_worn: run.statistics.memory.home.wear.map(|wear| wear.most),
            fence_share: Some(run.statistics.fence_share()),
            checkpoint_share: (epochs > 0).then(|| run.statistics.checkpoint_share()),
            checkpoints: (epochs > 0).then_some(epochs),
            counted_epochs,
            mechanism,
            memory,
            ..job.sample(plan)
        })
    }
}

fn drawn(
    job: &Job<'_>,
    database: &str,
    label: &str,
    plan: &Plan,
    stage: &Stage,
) -> Outcome<Sample> {
    let reuse = watch::with_bar(label, job.operations(), &stage.progress, || {
        match work::letter(database) {
            Some(letter) => {
                let options = Options::new(letter, job.part.extent.records, job.operations());
                Ok(Ycsb::new(options)?.reuse(job.seed(plan), &stage.progress)?)
            }
            None => tpcc_reuse(job, plan, stage),
        }
    })?;
    Ok(Sample { reuse: Some(reuse), ..job.sample(plan) })
}

/// A workload that tells how its objects are used when it is executed.
fn executed(job: &Job<'_>, label: &str, plan: &Plan, stage: &Stage) -> Outcome<Sample> {
    let unable =
        || Failure::new(format!("{} does not tell how its objects are used", job.workload));
    let choice = job.part.sized(&job.work, None)?.ok_or_else(unable)?;
    let made = choice.make(1, job.seed(plan), job.operations())?;
    let heap = without_promises(made.bytes)?;
    let reuse = watch::with_bar(label, job.operations(), &stage.progress, || {
        let session = &mut heap.session()?;
        let reuse = made.reuse(session, job.operations(), job.seed(plan), &stage.progress);
        Ok::<_, Failure>(reuse.ok_or_else(unable)??)
    })?;
    Ok(Sample { reuse: Some(reuse), ..job.sample(plan) })
}

/// A heap in ordinary memory for about `bytes` of data, on an engine without promises.
fn without_promises(bytes: u64) -> Outcome<Box<dyn AnyHeap>> {
    let limit = bytes.saturating_mul(4).saturating_add(64 << 20);
    let memory = Arc::new(AnyMemory::new(Arc::new(Ram::new(limit))));
    let format = Format { limit, log: None, id: 1, requires: None, checksums: false };
    let heap = <dyn AnyHeap>::create(EngineKind::Volatile, memory, format);
    heap.map_err(|error| Failure::new(error.to_string()))
}

/// The objects of a TPC-C transaction depend on earlier transactions, so these are executed.
fn tpcc_reuse(job: &Job<'_>, plan: &Plan, stage: &Stage) -> Outcome<Reuse> {
    let scale = job.part.extent.tpcc.scale();
    let heap = without_promises(scale.bytes_after(job.operations()))?;
    let (seed, session) = (job.seed(plan), &mut heap.session()?);
    let workload = Tpcc::<Plain>::new(scale, seed)?;
    Ok(workload.reuse(session, job.operations(), seed, &stage.progress)?)
}

fn objects(job: &Job<'_>, size: u64, label: &str, plan: &Plan, stage: &Stage) -> Outcome<Sample> {
    let objects = job.part.extent.records;
    let demand = Demand { size, objects, batch: BATCH, seed: job.seed(plan) };
    demand.validate().map_err(|error| Failure::new(error.to_string()))?;
    let path = stage.site.folder().join("objects");
    // A domain with something to write back, whatever medium the file lies on.
    let options = MapOptions { domain: Some(Domain::Transient), limit: demand.bytes() };
    let memory = Mapped::create(&path, demand.bytes(), options);
    let memory = memory.map_err(|error| Failure::at(&path, error))?;
    std::fs::remove_file(&path)?;
    let when = job.setting.when.unwrap_or(When::JustStored);
    let begun = |objects: usize| {
        stage.progress.advance(objects as u64);
        !stage.progress.is_stopped()
    };
    stage.progress.restart();
    let costs = watch::with_bar(label, objects * when.rounds(), &stage.progress, || {
        cost::measure(&memory, demand, when, &begun)
    });
    let costs = costs.map_err(|failure| match failure {
        cost::Failure::Stopped => Failure::Interrupted,
        other => Failure::new(other.to_string()),
    })?;
    Ok(Sample { checksums: Some(costs), memory: memory.describe(), ..job.sample(plan) })
}
