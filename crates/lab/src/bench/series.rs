//! Runs engines in turn, repeatedly, and summarises the figures.

use super::engine::{PoolPlan, Run};
use super::knobs::Knobs;
use super::options::{Common, Setting, Threads, require, usual_warm_up};
use super::report::{Count, EngineReport, Report, RunRecord};
use super::site::Site;
use super::spread::Spread;
use super::stage::Stage;
use super::window::Window;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::machine::Machine;
use crate::workload::Made;
use perdura::{Domain, EngineKind};
use perdura_memory::{MapOptions, Mapped};
use perdura_workloads::{Plan, limit};
use serde_json::Value;
use std::time::Duration;

/// Bytes over which the baseline's lines are spread: a log's order of magnitude.
pub(crate) const BASELINE_BYTES: u64 = 16 << 20;
/// Repetitions have seeds this far apart: threads count up from each.
pub(crate) const SEED_STEP: u64 = 1_000;

/// The parameters of a series.
pub(crate) struct Case<'a> {
    /// A description for the heading.
    pub(crate) title: String,
    /// All parameters, for the JSON.
    pub(crate) parameters: Value,
    /// Measured operations.
    pub(crate) operations: u64,
    /// Makes the workload anew for each run; the argument is the number of operations, warm-up included.
    pub(crate) make: &'a dyn Fn(u64) -> perdura_workloads::Outcome<Made>,
}

/// Measures `case` with the user's options, and shows the report.
pub(crate) fn run_and_show(case: &Case<'_>, setting: &Setting) -> Outcome {
    let Setting { threads, knobs, place, common } = setting;
    let stage = Stage::at(place)?;
    let report = run_some(case, common, threads, knobs, &stage)?;
    report.show(common)?;
    interrupt::check(&stage.progress)
}

/// Measures `case` on every engine asked for.
pub(crate) fn run(
    case: &Case<'_>,
    common: &Common,
    threads: &Threads,
    knobs: &Knobs,
    stage: &Stage,
) -> Outcome<Report> {
    let report = run_some(case, common, threads, knobs, stage)?;
    interrupt::check(&stage.progress)?;
    Ok(report)
}

/// As [`run`], but returns after Ctrl-C the measurements so far, if each engine has some.
fn run_some(
    case: &Case<'_>,
    common: &Common,
    threads: &Threads,
    knobs: &Knobs,
    stage: &Stage,
) -> Outcome<Report> {
    let Stage { site, progress } = stage;
    require(threads.rate != Some(0), "--rate needs at least one operation a second")?;
    require(
        threads.window == Window::CLOSED_LOOP || threads.rate.is_none(),
        "--rate begins operations when they are due, whatever is unanswered: leave out --window",
    )?;
    require(
        case.operations > 0,
        "there is nothing to measure in 0 operations; give --operations more",
    )?;
    // Only to know its kind: each run has its own.
    let like = (case.make)(case.operations)?;
    let limit = common.pool_bytes(like.bytes, knobs);
    let (domain, knobs) = (common.domain.0, *knobs);
    let pool = PoolPlan { limit, domain, knobs, emptied: false, unflushed: false };
    let seed = common.seed();
    let warm_up =
        if like.ends() { 0 } else { threads.warm_up.unwrap_or(usual_warm_up(case.operations)) };
    let mut baseline = Vec::new();
    let mut runs: Vec<(EngineKind, Vec<RunRecord>)> = common
        .engines_for(like.rolls_back())?
        .into_iter()
        .map(|engine| (engine, Vec::new()))
        .collect();
    let mut memory = String::new();
    'repetitions: for repetition in 0..u64::from(common.repeat) {
        let line = line_and_fence(site, pool.domain)?;
        baseline.push(line);
        let plan = Plan {
            threads: threads.threads as usize,
            operations: case.operations,
            warm_up,
            seed: seed.wrapping_add(repetition * SEED_STEP),
            sample_every: threads.sample,
            per_second: threads.rate.map(|rate| rate as f64),
            pinned: threads.pin,
            window: threads.window.transactions(),
        };
        for (engine, records) in &mut runs {
            let workload = (case.make)(plan.operations + plan.warm_up)?;
            let run = workload.natively(engine.name(), *engine, site, pool, &plan, progress);
            if progress.is_stopped() {
                // The first repetition has all of these.
                match repetition {
                    0 => return Err(Failure::Interrupted),
                    _ => break 'repetitions,
                }
            }
            let run = run?;
            memory.clone_from(&run.memory);
            records.push(record(run, &plan, line));
        }
    }
    Ok(Report {
        title: case.title.clone(),
        parameters: case.parameters.clone(),
        machine: Machine::here(),
        memory,
        site: site.describe(),
        seed,
        repeat: common.repeat,
        threads: threads.threads,
        sample_every: threads.sample,
        arrivals_per_second: threads.rate,
        pinned: threads.pin,
        window: threads.window,
        tuning: knobs,
        warm_up,
        line_and_fence_ns: Spread::of(baseline),
        ended_early: progress.is_stopped(),
        engines: runs.into_iter().map(|(engine, runs)| EngineReport::new(engine, runs)).collect(),
    })
}

fn record(run: Run, plan: &Plan, line_and_fence_ns: f64) -> RunRecord {
    let Run { measured, load_seconds, .. } = run;
    // The latency of an operation in its thread.
    let ns = measured.ns_per_operation() * plan.threads as f64;
    RunRecord {
        seed: plan.seed,
        load_seconds,
        thread_ns_per_operation: ns,
        wall_ns_per_operation: measured.ns_per_operation(),
        per_second: measured.per_second(),
        line_and_fence_ns,
        multiple: ns / line_and_fence_ns,
        operations: measured.operations,
        latencies: measured.latencies,
        counters: measured.counters,
        sizes: measured.sizes.into_iter().collect(),
        counts: counts(&measured.counts, measured.elapsed),
    }
}

/// The workload's counts, with rates.
fn counts(counts: &[(&'static str, u64)], elapsed: Duration) -> Vec<Count> {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let counts = counts.iter();
    counts.map(|&(name, count)| Count { name, count, per_second: count as f64 / seconds }).collect()
}

/// The cost of one flushed line and a fence on the pools' medium.
pub(crate) fn line_and_fence(site: &Site, domain: Option<Domain>) -> Outcome<f64> {
    with_area(site, domain, BASELINE_BYTES, |memory| {
        limit::line_and_fence(memory, 0..BASELINE_BYTES)
    })
}

/// Runs `measure` on a mapped area of `bytes` bytes on the pools' medium.
pub(crate) fn with_area<R>(
    site: &Site,
    domain: Option<Domain>,
    bytes: u64,
    measure: impl FnOnce(&Mapped) -> R,
) -> Outcome<R> {
    let path = site.folder().join("lines");
    let options = MapOptions { domain, limit: bytes };
    let memory =
        Mapped::create(&path, bytes, options).map_err(|error| Failure::at(&path, error))?;
    let result = measure(&memory);
    drop(memory);
    std::fs::remove_file(&path)?;
    Ok(result)
}
