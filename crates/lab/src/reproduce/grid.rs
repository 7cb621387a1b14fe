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
        let earlier = jobs[..index].iter().position(|earlier| job.repeats(earlier));
        let sample = match earlier {
            Some(earlier) => Sample { cell: job.cell(), ..Sample::clone(&samples[earlier]) },
            None => {
                let label = format!("{}/{} {}", index + 1, jobs.len(), job.describe());
                runs::run(job, &label, plan, stage)?
            }
        };
        samples.push(sample);
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
                // Natively there is no such hardware, or on few processors.
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

#[cfg(test)]
mod tests {
    use super::super::experiment::Experiment;
    use super::super::plan::Changes;
    use super::*;

    const SETTINGS: &str = r#"
        name = "x"
        kind = "share"
        minutes = 1
        [paper]
        title = "T"
        figure = "F"
        what = "W"
        [run]
        workloads = ["sps", "hash"]
        engines = ["baseline", "pages"]
        base = "baseline"
        seed = 1
        [run.protocols]
        baseline = { engine = "plain", mechanism = "plain" }
        pages = { engine = "plain", mechanism = "dual-page" }
        [[run.setting]]
        name = "usual"
        [[run.setting]]
        name = "two copies"
        sets = { "mechanism.dual-page.cached_entries" = 2 }
        [[run.setting]]
        name = "slower"
        sets = { "memory.home.write_ns" = 1000 }
        [[run.setting]]
        name = "later"
        window = "all"
        [run.simulated]
        machine = "tiny-dram"
        operations = 10
        repetitions = 2
        [quick]
    "#;

    /// A figure of one mechanism changes nothing under another.
    #[test]
    fn settings_of_an_unused_mechanism_repeat_runs() {
        let experiment = Experiment::parse("x", SETTINGS).expect("an experiment");
        let plan = Plan::of(&experiment, &Changes::default()).expect("a plan");
        let jobs = jobs(&plan, &[]).expect("runs");
        assert_eq!(jobs.len(), 2 * 2 * 4 * 2);
        let name = |job: &Job<'_>| job.cell().setting.expect("a name");
        for (index, job) in jobs.iter().enumerate() {
            let earlier: Vec<_> = jobs[..index].iter().filter(|own| job.repeats(own)).collect();
            let repeats =
                job.cell().engine.as_deref() == Some("baseline") && name(job) == "two copies";
            assert_eq!(earlier.len(), usize::from(repeats), "{:?}", job.cell());
            for earlier in earlier {
                assert_eq!((name(earlier), earlier.workload), ("usual".to_owned(), job.workload));
            }
        }
    }
}
