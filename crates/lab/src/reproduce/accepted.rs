//! Workloads whose figures are far from those of the paper's workloads: they are marked, and left out of a second mean.

use super::experiment::{Accepted, Experiment};
use super::findings::Figure;
use super::plan::{Place, Plan};
use super::quantity::Quantity;
use serde::Serialize;

/// A workload that is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) workload: String,
    pub(crate) why: String,
}

/// The workloads that are left out of means over accepted ones, of those that means are over; `None` if the experiment
/// accepts all.
pub(super) fn left_out(
    experiment: &Experiment,
    plan: &Plan,
    figures: &[Figure],
) -> Option<Vec<LeftOut>> {
    let run = &experiment.run;
    if run.accepted.is_empty() && run.left_out.is_empty() {
        return None;
    }
    let simulated = plan.parts.iter().find(|part| part.place == Place::Simulated);
    let divided_by = simulated.map_or(1, |part| part.divided_by);
    let of = |workload: &String| {
        let known = run.left_out.get(workload).cloned().into_iter();
        let found =
            run.accepted.iter().filter_map(|own| own.refuses(workload, divided_by, figures));
        let reasons: Vec<String> = known.chain(found).collect();
        let why = reasons.join(", ");
        (!why.is_empty()).then(|| LeftOut { workload: workload.clone(), why })
    };
    Some(plan.mean_over.iter().filter_map(of).collect())
}

/// The workloads of means that are not left out.
pub(super) fn remaining(plan: &Plan, left_out: &[LeftOut]) -> Vec<String> {
    let is_left_out = |name: &&String| left_out.iter().any(|own| own.workload == **name);
    plan.mean_over.iter().filter(|name| !is_left_out(name)).cloned().collect()
}

impl Accepted {
    /// Why a workload is not accepted, if it is not.
    fn refuses(&self, workload: &str, divided_by: u64, figures: &[Figure]) -> Option<String> {
        let Accepted { quantity, engine, .. } = self;
        let &full = self.of.get(workload)?;
        // Data is as much smaller as the rest.
        let wanted = if *quantity == Quantity::Footprint { full / divided_by as f64 } else { full };
        let of = |figure: &&Figure| {
            figure.quantity == *quantity
                && figure.cell.place == Place::Simulated
                && figure.cell.workload == workload
                && figure.cell.engine.as_ref() == Some(engine)
        };
        let ours: Vec<f64> = figures.iter().filter(of).map(|own| own.spread.median).collect();
        let far = |ours: &&f64| (**ours - wanted).abs() > self.tolerance(wanted);
        let farthest = ours.iter().filter(far).max_by(|a, b| {
            let [a, b] = [a, b].map(|ours| (**ours - wanted).abs());
            a.total_cmp(&b)
        });
        match farthest {
            _ if ours.is_empty() => Some(format!("{quantity} of {engine} was not measured")),
            None => None,
            Some(ours) => {
                Some(format!("{quantity} {}, not {}", quantity.show(*ours), quantity.show(wanted)))
            }
        }
    }

    /// How far a workload's figure may be from the paper's.
    fn tolerance(&self, wanted: f64) -> f64 {
        self.points.unwrap_or(wanted.abs() * self.within_percent.unwrap_or(0.0) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::spread::Spread;
    use crate::reproduce::runs::Cell;

    #[test]
    fn within_points_or_a_share() {
        let accepted = |quantity, points, within_percent| Accepted {
            quantity,
            engine: "baseline".to_owned(),
            points,
            within_percent,
            of: [("tatp".to_owned(), 50.0)].into(),
        };
        let refused = |accepted: &Accepted, divided_by, ours: &[f64]| {
            let figure = |ours: &f64| Figure {
                cell: Cell {
                    place: Place::Simulated,
                    workload: "tatp".to_owned(),
                    engine: Some("baseline".to_owned()),
                    ..Cell::default()
                },
                quantity: accepted.quantity,
                spread: Spread::of([*ours]),
                few_epochs: false,
            };
            let figures: Vec<Figure> = ours.iter().map(figure).collect();
            accepted.refuses("tatp", divided_by, &figures)
        };
        let misses = accepted(Quantity::DramMisses, Some(3.0), None);
        assert_eq!(refused(&misses, 1, &[47.0]), None);
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(refused(&misses, 1, &[46.9]), said("dram-misses 46.9 %, not 50.0 %"));
        assert_eq!(
            refused(&misses, 1, &[50.0, 53.5, 46.9]),
            said("dram-misses 53.5 %, not 50.0 %")
        );
        assert_eq!(refused(&misses, 1, &[]), said("dram-misses of baseline was not measured"));
        assert_eq!(misses.refuses("echo", 1, &[]), None, "nothing is asked of it");
        let ratio = accepted(Quantity::ReadsByWrites, None, Some(20.0));
        assert_eq!(refused(&ratio, 8, &[60.0, 40.0]), None, "no amount of data");
        assert!(refused(&ratio, 8, &[60.1]).is_some());
        let footprint = accepted(Quantity::Footprint, None, Some(20.0));
        assert_eq!(refused(&footprint, 10, &[5.9]), None);
        assert!(refused(&footprint, 10, &[6.1]).is_some());
    }
}
