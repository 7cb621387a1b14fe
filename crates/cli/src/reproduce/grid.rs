//! Runs a plan, except for what goes through servers: each workload, number of threads and engine, repeatedly.
//!
//! Repetitions are the outermost loop and engines the innermost one: drift of the machine affects all engines alike,
//! and figures that compare engines are made from adjacent runs.

use super::calibrate::Calibration;
use super::experiment::Kind;
use super::plan::{Part, Place, Plan, Setting, Work};
use super::protocol::Protocol;
use super::runs;
use crate::bench::series::SEED_STEP;
use crate::bench::stage::Stage;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use perdura::Counters;
use perdura_crashtest::Losses;
use perdura_matrices::cost::Costs;
use perdura_workloads::reuse::Reuse;
use serde::Serialize;

/// The coordinates of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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
    /// Bytes of those, and bytes stored by the program.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) stored_bytes: Option<u64>,
    pub(crate) memory: String,
}

impl Sample {
    /// A run without its figures.
    pub(super) fn of(cell: Cell, repetition: u32, seed: u64, operations: u64) -> Self {
        Sample {
            cell,
            repetition,
            seed,
            unflushed: false,
            operations,
            per_second: 0.0,
            ns_per_operation: 0.0,
            p50_ns: None,
            p99_ns: None,
            timed: 0,
            counters: Counters::default(),
            reuse: None,
            checksums: None,
            losses: None,
            memory_writes: None,
            memory_bytes: None,
            stored_bytes: None,
            memory: String::new(),
        }
    }
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

/// Makes all runs.
pub(crate) fn run(
    plan: &Plan,
    calibrations: &[Calibration],
    stage: &Stage,
) -> Outcome<Vec<Sample>> {
    let jobs = jobs(plan, calibrations)?;
    let mut samples = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        interrupt::check(&stage.progress)?;
        let label = format!("{}/{} {}", index + 1, jobs.len(), job.describe());
        samples.push(runs::run(job, &label, plan, stage)?);
        interrupt::check(&stage.progress)?;
    }
    Ok(samples)
}

fn jobs<'a>(plan: &'a Plan, calibrations: &'a [Calibration]) -> Outcome<Vec<Job<'a>>> {
    let mut jobs = Vec::new();
    for part in plan.parts.iter().filter(|part| part.place != Place::Served) {
        for repetition in 0..part.repetitions {
            for workload in &plan.workloads {
                let work = plan.work(workload).map_err(Failure::new)?;
                let simulated = part.place == Place::Simulated;
                let found = calibrations.iter().find(|own| simulated && own.workload == *workload);
                let calibrated = found.map(|own| (own.figure.as_str(), own.value));
                let variants = variants(plan, workload);
                let places = part.threads.iter();
                let places =
                    places.flat_map(|&threads| plan.settings.iter().map(move |own| (threads, own)));
                for (threads, setting) in places {
                    jobs.extend(variants.iter().map(|&(engine, unflushed)| Job {
                        part,
                        workload,
                        work,
                        setting,
                        threads,
                        repetition,
                        engine,
                        unflushed,
                        calibrated,
                    }));
                }
            }
        }
    }
    Ok(jobs)
}

/// The engines run next to each other; for a breakdown each but the base also unflushed.
fn variants<'a>(plan: &'a Plan, workload: &str) -> Vec<(Option<&'a Protocol>, bool)> {
    if matches!(plan.kind, Kind::Reuse | Kind::Checksums) {
        return vec![(None, false)];
    }
    let twice = |engine: &Protocol| {
        plan.kind == Kind::Breakdown && plan.base_of(workload) != Some(&engine.name)
    };
    let each = plan.engines_of(workload).into_iter().flat_map(|engine| {
        let unflushed = twice(engine).then_some((Some(engine), true));
        [Some((Some(engine), false)), unflushed].into_iter().flatten()
    });
    each.collect()
}

impl Job<'_> {
    fn describe(&self) -> String {
        let engine = self.engine.map_or(String::new(), |engine| format!(" {}", engine.name));
        let unflushed = if self.unflushed { " unflushed" } else { "" };
        let setting = self.setting.name.as_ref().map_or(String::new(), |name| format!(", {name}"));
        let Job { part, workload, threads, .. } = self;
        format!("{} {workload} x{threads}{engine}{unflushed}{setting}", part.place)
    }

    pub(super) fn operations(&self) -> u64 {
        self.part.operations_of(self.workload)
    }

    pub(super) fn warm_up(&self) -> u64 {
        self.part.warm_up_of(self.workload)
    }

    pub(super) fn seed(&self, plan: &Plan) -> u64 {
        plan.seed.wrapping_add(u64::from(self.repetition) * SEED_STEP)
    }

    /// The sample without its figures.
    pub(super) fn sample(&self, plan: &Plan) -> Sample {
        let cell = Cell {
            place: self.part.place,
            workload: self.workload.to_owned(),
            threads: self.threads,
            engine: self.engine.map(|engine| engine.name.clone()),
            setting: self.setting.name.clone(),
        };
        let sample = Sample::of(cell, self.repetition, self.seed(plan), self.operations());
        Sample { unflushed: self.unflushed, ..sample }
    }
}
