//! Calibrates a figure of the simulated machine that no paper gives: for each workload on one engine, before all other
//! runs, which then use it. The target is the engine's share of the base's throughput, or the share of its time in which
//! all cores wait for the ends of its epochs.
//!
//! The experiment's values are tried one after the other, since the engine's share need not be monotonic in them; then
//! the interval between the two neighbours that enclose the paper's share is halved repeatedly.

use super::experiment::Calibrate;
use super::plan::{Calibrating, Part, Place, Plan, Setting};
use super::runs::{self, Job};
use crate::bench::stage::Stage;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use serde::Serialize;

/// The result for a workload.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Calibration {
    pub(crate) workload: String,
    /// If it is for one setting alone.
    pub(crate) setting: Option<String>,
    pub(crate) figure: String,
    pub(crate) engine: String,
    pub(crate) value: u64,
    /// Whether shares are of the engine's time, and not of the base's throughput.
    pub(crate) in_checkpoints: bool,
    /// The engine's share with that value.
    pub(crate) share: f64,
    /// The paper's share.
    pub(crate) wanted: f64,
    /// Values and shares, in the order in which they were tried.
    pub(crate) tried: Vec<(u64, f64)>,
}

/// A share that differs from the wanted one by more than this part of it is not reached.
const REACHED: f64 = 0.02;

impl Calibration {
    /// Whether the engine's share is the paper's.
    pub(super) fn is_reached(&self) -> bool {
        (self.share - self.wanted).abs() <= self.wanted * REACHED
    }
}

impl Calibrating {
    fn find(
        &self,
        part: &Part,
        (workload, setting): (&str, &Setting),
        plan: &Plan,
        stage: &Stage,
    ) -> Outcome<Calibration> {
        let Calibrate { figure, values, .. } = &self.of;
        let wanted = self.wanted(workload)?;
        let mut tried = Vec::new();
        let run = |protocol, value| {
            interrupt::check(&stage.progress)?;
            let job = Job {
                part,
                workload,
                work: plan.work(workload).map_err(Failure::new)?,
                setting,
                threads: part.threads.first().copied().unwrap_or(1),
                repetition: 0,
                engine: Some(protocol),
                unflushed: false,
                calibrated: Some((figure, value)),
            };
            let label = format!("{figure} = {value}: {}", job.describe());
            let sample = runs::run(&job, &label, plan, stage)?;
            interrupt::check(&stage.progress)?;
            Ok::<_, Failure>(sample)
        };
        nearest(values, wanted, &mut tried, |value| match &self.base {
            Some(base) => {
                let [base, own] = [run(base, value)?, run(&self.engine, value)?];
                Ok(own.per_second / base.per_second)
            }
            None => Ok(run(&self.engine, value)?.checkpoint_share.unwrap_or_default()),
        })?;
        let far = |(_, share): &&(u64, f64)| (*share - wanted).abs();
        let found = tried.iter().min_by(|a, b| far(a).total_cmp(&far(b)));
        let &(value, share) = found.ok_or_else(|| Failure::new("there is no value to try"))?;
        Ok(Calibration {
            workload: workload.to_owned(),
            setting: setting.name.clone(),
            figure: figure.clone(),
            engine: self.engine.name.clone(),
            value,
            in_checkpoints: self.base.is_none(),
            share,
            wanted,
            tried,
        })
    }

    /// The paper's share for this workload.
    fn wanted(&self, workload: &str) -> Outcome<f64> {
        let Calibrate { share, in_checkpoints, .. } = &self.of;
        let own = in_checkpoints.get(workload).map(|percent| percent / 100.0);
        share.or(own).ok_or_else(|| {
            Failure::new(format!("nothing is known that {workload} could be calibrated on"))
        })
    }
}

/// Neighbours that differ by a smaller part of themselves than 1 / this number are not distinguished further,
const FINE: u64 = 16;
/// nor is a share improved that differs by no more than this part of the wanted one.
const NEAR: f64 = 0.01;

/// Tries each of `values`, which ascend, then bisects the interval between the first two neighbours whose shares
/// enclose the wanted one.
fn nearest(
    values: &[u64],
    wanted: f64,
    tried: &mut Vec<(u64, f64)>,
    mut share_with: impl FnMut(u64) -> Outcome<f64>,
) -> Outcome {
    for &value in values {
        let share = share_with(value)?;
        let last = tried.last().copied();
        tried.push((value, share));
        let Some(mut low) = last.filter(|low| (low.1 <= wanted) != (share <= wanted)) else {
            continue;
        };
        let mut high = (value, share);
        let near = |(_, share): (u64, f64)| (share - wanted).abs() <= wanted * NEAR;
        let fine = |low: (u64, f64), high: (u64, f64)| {
            high.0 - low.0 <= 1 || (high.0 - low.0) * FINE <= high.0 || near(low) || near(high)
        };
        while !fine(low, high) {
            let middle = low.0 + (high.0 - low.0) / 2;
            let between = (middle, share_with(middle)?);
            tried.push(between);
            if (between.1 <= wanted) == (low.1 <= wanted) {
                low = between;
            } else {
                high = between;
            }
        }
        return Ok(());
    }
    Ok(())
}

/// Finds the figure for each workload, and in each setting if it is wanted, if the experiment has a calibration and is simulated.
pub(super) fn find(plan: &Plan, stage: &Stage) -> Outcome<Vec<Calibration>> {
    let simulated = plan.parts.iter().find(|part| part.place == Place::Simulated);
    let (Some(part), Some(calibrating)) = (simulated, &plan.calibrating) else {
        return Ok(Vec::new());
    };
    let settings = match calibrating.of.each_setting {
        true => &plan.settings[..],
        false => std::slice::from_ref(&calibrating.setting),
    };
    let by = calibrating.of.operations_divided_by.max(1);
    let shorter = |setting| {
        let mut part = plan.part_in(part, setting).clone();
        part.operations = part.operations.div_ceil(by);
        part.operations_of.values_mut().for_each(|own| *own = own.div_ceil(by));
        part
    };
    let workloads = plan.workloads.iter();
    let all = workloads.flat_map(|workload| settings.iter().map(move |own| (workload, own)));
    all.map(|(workload, own)| calibrating.find(&shorter(own), (workload, own), plan, stage))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(values: &[u64], wanted: f64, share: impl Fn(u64) -> f64) -> Vec<u64> {
        let mut tried = Vec::new();
        nearest(values, wanted, &mut tried, |value| Ok(share(value))).expect("shares");
        tried.into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn halves_the_enclosing_range() {
        let rising = |value| value as f64 / 100.0;
        assert_eq!(tried(&[1, 10, 40, 90], 0.316, rising), [1, 10, 40, 25, 32, 28, 30]);
        let falling = |value| 1.0 - value as f64 / 100.0;
        assert_eq!(tried(&[1, 10, 60], 0.5, falling), [1, 10, 60, 35, 47, 53, 50]);
        // A flat curve is near the target at once.
        let flat = |value| 0.3 + value as f64 / 10_000.0;
        assert_eq!(tried(&[1, 64, 256, 1024], 0.316, flat), [1, 64, 256, 160]);
        assert_eq!(tried(&[1, 2, 4], 0.9, rising), [1, 2, 4], "it is never reached");
        assert_eq!(tried(&[7], 0.9, rising), [7]);
    }
}
