//! Runs everything of a plan: each workload, number of threads and engine, again and again.
//!
//! Repetitions are the outermost loop and engines the innermost one: what drifts on the machine
//! meanwhile meets all engines alike, and figures that compare engines are made from runs that
//! stand side by side.

use super::experiment::Kind;
use super::plan::{Part, Place, Plan};
use crate::bench::engine::{self, PoolPlan};
use crate::bench::series::SEED_STEP;
use crate::bench::stage::Stage;
use crate::bench::watch;
use crate::failure::{Failure, Outcome};
use crate::simulate::{self, MechanismChoice};
use crate::{interrupt, named};
use perdura::{Counters, EngineKind};
use perdura_workloads::reuse::Reuse;
use perdura_workloads::ycsb::{Letter, Shape};
use serde::Serialize;

/// One operation in this many is timed; all of them where latencies are what is asked for.
const SAMPLE_EVERY: u32 = 64;

/// What one run is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    pub(crate) place: Place,
    pub(crate) workload: String,
    pub(crate) threads: u32,
    /// None where operations are only drawn.
    pub(crate) engine: Option<&'static str>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    #[serde(flatten)]
    pub(crate) cell: Cell,
    pub(crate) repetition: u32,
    pub(crate) seed: u64,
    /// Nothing was written back or fenced.
    pub(crate) unflushed: bool,
    pub(crate) operations: u64,
    pub(crate) per_second: f64,
    /// What an operation takes the thread that does it.
    pub(crate) ns_per_operation: f64,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) timed: u64,
    pub(crate) counters: Counters,
    pub(crate) reuse: Option<Reuse>,
    pub(crate) memory: String,
}

/// A run to be made.
struct Job<'a> {
    part: &'a Part,
    workload: &'a str,
    letter: Letter,
    threads: u32,
    repetition: u32,
    engine: Option<EngineKind>,
    unflushed: bool,
}

/// Makes all runs.
pub(crate) fn run(plan: &Plan, stage: &Stage) -> Outcome<Vec<Sample>> {
    let jobs = jobs(plan)?;
    let mut samples = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        interrupt::check(&stage.progress)?;
        let label = format!("{}/{} {}", index + 1, jobs.len(), job.describe());
        samples.push(job.run(&label, plan, stage)?);
        interrupt::check(&stage.progress)?;
    }
    Ok(samples)
}

fn jobs(plan: &Plan) -> Outcome<Vec<Job<'_>>> {
    let variants = variants(plan);
    let mut jobs = Vec::new();
    for part in &plan.parts {
        for repetition in 0..part.repetitions {
            for workload in &plan.workloads {
                let letter = named::letter(workload)
                    .ok_or_else(|| Failure::new(format!("unknown workload '{workload}'")))?;
                for &threads in &part.threads {
                    jobs.extend(variants.iter().map(|&(engine, unflushed)| Job {
                        part,
                        workload,
                        letter,
                        threads,
                        repetition,
                        engine,
                        unflushed,
                    }));
                }
            }
        }
    }
    Ok(jobs)
}

/// What runs beside each other: engines, and for a breakdown each but the base also unflushed.
fn variants(plan: &Plan) -> Vec<(Option<EngineKind>, bool)> {
    if plan.kind == Kind::Reuse {
        return vec![(None, false)];
    }
    let twice = |engine: &EngineKind| {
        plan.kind == Kind::Breakdown && plan.base.as_deref() != Some(engine.name())
    };
    let each = plan.engines.iter().flat_map(|engine| {
        let unflushed = twice(engine).then_some((Some(*engine), true));
        [Some((Some(*engine), false)), unflushed].into_iter().flatten()
    });
    each.collect()
}

impl Job<'_> {
    fn describe(&self) -> String {
        let engine = self.engine.map_or(String::new(), |engine| format!(" {engine}"));
        let unflushed = if self.unflushed { " unflushed" } else { "" };
        format!("{} {} x{}{engine}{unflushed}", self.part.place, self.workload, self.threads)
    }

    fn run(&self, label: &str, plan: &Plan, stage: &Stage) -> Outcome<Sample> {
        match (self.part.place, self.engine) {
            (Place::Native, Some(engine)) => self.natively(label, engine, plan, stage),
            (Place::Simulated, Some(engine)) => self.simulated(label, engine, plan, stage),
            _ => self.drawn(label, plan, stage),
        }
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

    fn bytes(&self) -> u64 {
        let total = self.operations() + self.warm_up();
        named::ycsb_bytes(self.letter, self.part.records, total, Shape::default())
    }

    fn sample(&self, plan: &Plan) -> Sample {
        Sample {
            cell: Cell {
                place: self.part.place,
                workload: self.workload.to_owned(),
                threads: self.threads,
                engine: self.engine.map(EngineKind::name),
            },
            repetition: self.repetition,
            seed: self.seed(plan),
            unflushed: self.unflushed,
            operations: self.operations(),
            per_second: 0.0,
            ns_per_operation: 0.0,
            p50_ns: None,
            p99_ns: None,
            timed: 0,
            counters: Counters::default(),
            reuse: None,
            memory: String::new(),
        }
    }

    fn natively(
        &self,
        label: &str,
        engine: EngineKind,
        plan: &Plan,
        stage: &Stage,
    ) -> Outcome<Sample> {
        let work = perdura_workloads::Plan {
            threads: self.threads as usize,
            operations: self.operations(),
            warm_up: self.warm_up(),
            seed: self.seed(plan),
            sample_every: if plan.kind == Kind::Latency { 1 } else { SAMPLE_EVERY },
            per_second: None,
            pinned: false,
            window: self.part.window as usize,
        };
        let limit = self.bytes().saturating_mul(4).saturating_add(256 << 20);
        let pool = PoolPlan { limit: limit.next_multiple_of(1 << 20), domain: None };
        let total = work.operations + work.warm_up;
        let workload = named::served_ycsb(self.letter, self.part.records, total)?;
        let run = if self.unflushed { engine::run_unflushed } else { engine::run };
        let run = run(label, engine, &stage.site, pool, &workload, &work, &stage.progress)?;
        let measured = run.measured;
        let overall = measured.overall.as_ref();
        Ok(Sample {
            operations: measured.operations,
            per_second: measured.per_second(),
            ns_per_operation: measured.ns_per_operation() * f64::from(self.threads),
            p50_ns: overall.map(|all| all.p50_ns),
            p99_ns: overall.map(|all| all.p99_ns),
            timed: overall.map_or(0, |all| all.samples),
            counters: measured.counters,
            memory: run.memory,
            ..self.sample(plan)
        })
    }

    fn simulated(
        &self,
        label: &str,
        engine: EngineKind,
        plan: &Plan,
        stage: &Stage,
    ) -> Outcome<Sample> {
        let machine = self.part.machine.clone();
        let mut machine = machine.ok_or_else(|| Failure::new("no machine to simulate"))?;
        machine.cores.count = self.threads as usize;
        let memory = format!("simulated: {}", machine.title);
        let work = simulate::Plan {
            machine,
            engine,
            cores: self.threads as usize,
            operations: self.operations(),
            warm_up: self.warm_up() / 2,
            settle: self.warm_up() / 2,
            seed: self.seed(plan),
            mechanism: MechanismChoice::Plain,
            epoch_us: 1,
            window: self.part.window as usize,
            unflushed: self.unflushed,
        };
        let total = work.operations + work.warm_up;
        let workload = named::served_ycsb(self.letter, self.part.records, total)?;
        let run = watch::with_bar(label, total, &stage.progress, || {
            simulate::run(&work, &workload, self.bytes().saturating_mul(2), &stage.progress)
        })?;
        let seconds = run.statistics.time_ns / 1e9;
        let operations = run.operations as f64;
        Ok(Sample {
            per_second: operations / seconds,
            ns_per_operation: run.statistics.time_ns * f64::from(self.threads) / operations,
            counters: run.counters,
            memory,
            ..self.sample(plan)
        })
    }

    fn drawn(&self, label: &str, plan: &Plan, stage: &Stage) -> Outcome<Sample> {
        let operations = self.operations();
        let workload = named::ycsb(self.letter, self.part.records, operations, 1)?;
        let reuse = watch::with_bar(label, operations, &stage.progress, || {
            workload.reuse(self.seed(plan), &stage.progress)
        })?;
        Ok(Sample { reuse: Some(reuse), ..self.sample(plan) })
    }
}
