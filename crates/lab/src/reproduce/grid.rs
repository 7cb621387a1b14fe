//! Runs a plan, except for runs through servers: each workload, number of threads and engine, repeatedly.
//!
//! Repetitions are the outermost loop and engines the innermost one: drift of the machine affects all engines alike,
//! and figures that compare engines are made from adjacent runs.

use super::calibrate::Calibration;
use super::kind::Kind;
use super::plan::{Place, Plan, Setting};
use super::protocol::Protocol;
use super::runs::{self, Job, Sample};
use crate::bench::stage::Stage;
use crate::failure::{Failure, Outcome};
use crate::interrupt;

/// Fails if some run would be on a simulated machine that cannot have its mechanisms.
pub(crate) fn check(plan: &Plan) -> Outcome {
    jobs(plan, &[])?.iter().try_for_each(Job::check)
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
                let calibrated = |setting: &Setting| {
                    let fits = |own: &&Calibration| {
                        simulated
                            && own.workload == *workload
                            && (own.setting.is_none() || own.setting == setting.name)
                    };
                    calibrations.iter().find(fits).map(|own| (own.figure.as_str(), own.value))
                };
                let mut variants = variants(plan, workload);
                // Natively there is no such hardware.
                variants.retain(|(engine, _)| {
                    simulated || engine.is_none_or(|protocol| !protocol.is_simulated())
                });
                let places = part.threads.iter();
                let places =
                    places.flat_map(|&threads| plan.settings.iter().map(move |own| (threads, own)));
                for (threads, setting) in places {
                    let calibrated = calibrated(setting);
                    let part = plan.part_in(part, setting);
                    jobs.extend(variants.iter().map(|&(engine, unflushed)| Job {
                        part,
                        workload,
                        work: work.clone(),
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
