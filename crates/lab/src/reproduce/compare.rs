//! Compares our values with the paper's, one by one.

use super::calibrate::Calibration;
use super::experiment::{Bound, Experiment, Over, Value};
use super::findings::Figure;
use super::kind::Kind;
use super::plan::{Place, Plan};
use super::quantity::Quantity;
use super::runs::Cell;
use serde::Serialize;

/// A value that differs from the paper's by more than this share of it does not match.
const NEAR: f64 = 0.1;

/// One value of the paper, and ours in one place.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) says: String,
    pub(crate) quantity: Quantity,
    pub(crate) place: Place,
    /// `None` if there is only one setting.
    pub(crate) setting: Option<String>,
    /// The engine, if it is an engine's mean over the workloads.
    #[serde(skip)]
    pub(crate) mean_of: Option<String>,
    /// Whether the paper's value is for this setting alone.
    #[serde(skip)]
    pub(crate) of_setting: bool,
    pub(crate) paper: f64,
    pub(crate) approximate: bool,
    /// Whether it is a bound, which ours should keep.
    pub(crate) bound: Option<Bound>,
    /// `None` if nothing was run for it, or the runs did not test it.
    pub(crate) ours: Option<f64>,
    /// Of a mean, a least or a greatest value: ours over the accepted workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ours_of_accepted: Option<f64>,
    /// Whether the runs tested it: if nothing could be lost, losing nothing shows nothing.
    pub(crate) tried: bool,
    /// Whether a figure of the machine was chosen so that it comes out,
    pub(crate) calibrated: bool,
    /// and whether it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reached: Option<bool>,
    /// Whether ours is of runs with too few epochs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) few_epochs: bool,
}

/// The workloads of means.
#[derive(Clone, Copy)]
pub(crate) struct MeansOver<'p> {
    pub(crate) all: &'p [String],
    /// The accepted workloads, if the experiment says what they must be like.
    pub(crate) accepted: Option<&'p [String]>,
}

/// Compares every value of the paper in every place and setting that was run and that it applies to.
pub(crate) fn compare(
    experiment: &Experiment,
    plan: &Plan,
    over: MeansOver<'_>,
    calibrations: &[Calibration],
    figures: &[Figure],
) -> Vec<Comparison> {
    let places = plan.parts.iter().map(|part| part.place);
    let places = places.flat_map(|place| plan.settings.iter().map(move |own| (place, &own.name)));
    let each = places.flat_map(|(place, setting)| {
        let own = move |value: &&Value| {
            place.finds(value.quantity) && (value.setting.is_none() || value.setting == *setting)
        };
        experiment.paper.values.iter().filter(own).map(move |value| {
            let name = setting.as_deref();
            let ours = |over| ours(value, place, name, over, figures);
            let accepted = over.accepted.filter(|own| value.over.is_some() && !own.is_empty());
            let found = found(value, place, name, over.all, figures);
            let is_calibrated = is_calibrated(experiment, value);
            let own = Comparison {
                says: value.says.clone(),
                quantity: value.quantity,
                place,
                setting: setting.clone(),
                mean_of: value.engine.clone().filter(|_| value.over == Some(Over::Mean)),
                of_setting: value.setting.is_some(),
                paper: value.value,
                approximate: value.approximate,
                bound: value.bound,
                ours: ours(over.all),
                ours_of_accepted: accepted.and_then(ours),
                tried: tried(value, place, name, figures),
                calibrated: is_calibrated,
                reached: None,
                few_epochs: found.iter().any(|figure| {
                    figure.few_epochs || has_few_epochs(against(value, figure, figures))
                }),
            };
            let reached = || is_reached(value, name, over.all, calibrations);
            Comparison {
                reached: is_calibrated.then(|| reached().unwrap_or(own.is_near().unwrap_or(false))),
                ..own
            }
        })
    });
    each.collect()
}

/// Whether the experiment chooses a figure of the machine so that this value comes out.
fn is_calibrated(experiment: &Experiment, value: &Value) -> bool {
    let calibrate = experiment.run.simulated.iter().find_map(|own| own.calibrate.as_ref());
    value.calibrated
        || calibrate.is_some_and(|own| {
            let quantity = match own.share {
                Some(_) => Quantity::Share,
                None => Quantity::InCheckpoints,
            };
            value.quantity == quantity && value.engine.as_ref() == Some(&own.engine)
        })
}

/// Whether the calibrations of a value's workloads have all reached the paper's share; `None` if there are none, as where
/// another figure of the machine was chosen by hand.
fn is_reached(
    value: &Value,
    setting: Option<&str>,
    mean_over: &[String],
    calibrations: &[Calibration],
) -> Option<bool> {
    let of = |own: &&Calibration| {
        value.engine.as_ref() == Some(&own.engine)
            && (own.setting.is_none() || own.setting.as_deref() == setting)
            && match &value.workload {
                Some(workload) => own.workload == *workload,
                None => mean_over.contains(&own.workload),
            }
    };
    let mut all = calibrations.iter().filter(of).peekable();
    all.peek()?;
    Some(all.all(Calibration::is_reached))
}

/// Whether the value applies to a figure's cell.
fn is_of(figure: &Figure, value: &Value, place: Place, setting: Option<&str>) -> bool {
    figure.cell.place == place
        && figure.cell.setting.as_deref() == setting
        && (value.engine.is_none() || value.engine == figure.cell.engine)
        && value.threads.is_none_or(|threads| threads == figure.cell.threads)
        && value.workload.as_deref().is_none_or(|name| figure.cell.workload == name)
}

/// For power cuts: whether anything was left to the caches, in every cell that the value applies to. Other quantities
/// are tested by any run.
fn tried(value: &Value, place: Place, setting: Option<&str>, figures: &[Figure]) -> bool {
    let left = |figure: &&Figure| figure.quantity == Quantity::LeftToCaches;
    let of = |figure: &&Figure| is_of(figure, value, place, setting);
    value.quantity.kind() != Kind::Crash
        || value.quantity == Quantity::LeftToCaches
        || figures.iter().filter(left).filter(of).all(|figure| figure.spread.median > 0.0)
}

/// The figures that a value is compared with. `mean_over` names the workloads of a mean, a least or a greatest value.
fn found<'f>(
    value: &Value,
    place: Place,
    setting: Option<&str>,
    mean_over: &[String],
    figures: &'f [Figure],
) -> Vec<&'f Figure> {
    let fits = |figure: &&Figure| {
        figure.quantity == value.quantity.measured()
            && is_of(figure, value, place, setting)
            && (value.over.is_none() || mean_over.contains(&figure.cell.workload))
    };
    figures.iter().filter(fits).collect()
}

/// The figure that a speed-up or a slowdown is against, if that is not the base's.
fn against<'f>(value: &Value, figure: &Figure, figures: &'f [Figure]) -> Option<&'f Figure> {
    let cell = Cell { engine: Some(value.against.clone()?), ..figure.cell.clone() };
    figures.iter().find(|own| own.quantity == value.quantity.measured() && own.cell == cell)
}

fn has_few_epochs(figure: Option<&Figure>) -> bool {
    figure.is_some_and(|figure| figure.few_epochs)
}

fn ours(
    value: &Value,
    place: Place,
    setting: Option<&str>,
    mean_over: &[String],
    figures: &[Figure],
) -> Option<f64> {
    let found = found(value, place, setting, mean_over, figures);
    let against = |figure: &Figure| match &value.against {
        None => Some(1.0),
        Some(_) => against(value, figure, figures).map(|other| other.spread.median),
    };
    let of = |figure: &&Figure| match value.quantity {
        Quantity::SpeedUp => Some(figure.spread.median / against(figure)?),
        Quantity::Slowdown => Some(against(figure)? / figure.spread.median),
        _ => Some(figure.spread.median),
    };
    let medians: Vec<f64> = found.iter().filter_map(of).collect();
    if medians.is_empty() {
        return None;
    }
    // If the mean has a row of its own, it is over all of its workloads or none.
    let has = |name: &String| found.iter().any(|figure| figure.cell.workload == *name);
    if value.quantity.has_means() && value.over.is_some() && !mean_over.iter().all(has) {
        return None;
    }
    Some(match value.over {
        Some(Over::Least) => medians.iter().copied().fold(f64::INFINITY, f64::min),
        Some(Over::Most) => medians.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        // A workload's value is the mean over the numbers of threads.
        Some(Over::Mean) | None => medians.iter().sum::<f64>() / medians.len() as f64,
    })
}

impl Comparison {
    /// Whether ours is within a tenth of the paper's, or keeps its bound; `None` if we have none, or it shows nothing. A
    /// calibrated value shows nothing if it is reached, and does not match if it is not.
    pub(crate) fn matches(&self) -> Option<bool> {
        let ours = self.ours.filter(|_| self.tried)?;
        match (self.reached, self.bound) {
            (Some(true), _) => return None,
            (Some(false), _) => return Some(false),
            (None, Some(Bound::AtMost)) => return Some(ours <= self.paper),
            (None, Some(Bound::AtLeast)) => return Some(ours >= self.paper),
            (None, None) => {}
        }
        self.is_near()
    }

    /// Whether ours is within a tenth of the paper's.
    fn is_near(&self) -> Option<bool> {
        Some((self.ours? - self.paper).abs() <= self.paper.abs() * NEAR)
    }

    /// Whether a figure of the machine was to be chosen so that it comes out, and it does not.
    pub(crate) fn is_missed(&self) -> bool {
        self.ours.is_some() && self.tried && self.reached == Some(false)
    }

    /// The paper's value, for display.
    pub(crate) fn show_paper(&self) -> String {
        let bound = match self.bound {
            Some(Bound::AtMost) => "at most ",
            Some(Bound::AtLeast) => "at least ",
            None => "",
        };
        let about = if self.approximate { "about " } else { "" };
        format!("{bound}{about}{}", self.quantity.show(self.paper))
    }

    /// The values that do not match, in a sentence.
    pub(crate) fn complaint(&self) -> Option<String> {
        if self.matches()? {
            return None;
        }
        let ours = self.quantity.show(self.ours?);
        let calibrated = if self.is_missed() { ", calibrated and not reached" } else { "" };
        Some(format!(
            "{} ({}): paper {}, ours {ours}{calibrated}",
            self.says,
            self.show_place(),
            self.show_paper()
        ))
    }

    /// The place and setting of our value.
    pub(crate) fn show_place(&self) -> String {
        let setting = self.setting.as_ref().map_or(String::new(), |name| format!(", {name}"));
        format!("{}{setting}", self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::spread::Spread;

    fn comparison(paper: f64, ours: Option<f64>) -> Comparison {
        Comparison {
            says: "mean gain".to_owned(),
            quantity: Quantity::ThroughputChange,
            place: Place::Native,
            setting: None,
            mean_of: None,
            of_setting: false,
            paper,
            approximate: false,
            bound: None,
            ours,
            ours_of_accepted: None,
            tried: true,
            calibrated: false,
            reached: None,
            few_epochs: false,
        }
    }

    #[test]
    fn a_bound_is_kept_or_not() {
        let bound = |bound, ours| Comparison { bound: Some(bound), ..comparison(10.0, Some(ours)) };
        // Far below: not near, but the bound is kept.
        assert_eq!(bound(Bound::AtMost, 0.0).matches(), Some(true));
        assert_eq!(bound(Bound::AtMost, 10.0).matches(), Some(true));
        assert_eq!(bound(Bound::AtMost, 10.1).matches(), Some(false));
        assert_eq!(bound(Bound::AtLeast, 100.0).matches(), Some(true));
        assert_eq!(bound(Bound::AtLeast, 9.9).matches(), Some(false));
        let said = bound(Bound::AtMost, 11.0).complaint();
        assert_eq!(
            said.as_deref(),
            Some("mean gain (native): paper at most +10.0 %, ours +11.0 %")
        );
    }

    #[test]
    fn untried_matches_nothing() {
        let cell = |engine: &str| Cell {
            place: Place::Simulated,
            workload: "ycsb-b".to_owned(),
            threads: 1,
            engine: Some(engine.to_owned()),
            setting: None,
        };
        let figure = |engine: &str, quantity, value| Figure {
            cell: cell(engine),
            quantity,
            spread: Spread::of(vec![value]),
            few_epochs: false,
        };
        let value = Value {
            says: "B".to_owned(),
            quantity: Quantity::Inconsistent,
            engine: None,
            workload: Some("ycsb-b".to_owned()),
            over: None,
            setting: None,
            threads: None,
            against: None,
            value: 0.0,
            bound: None,
            approximate: false,
            calibrated: false,
        };
        let of = |left: [f64; 2]| {
            let engines = ["archapt-undo-sum", "archapt-redo-sum"];
            let found = engines.iter().zip(left).flat_map(|(engine, left)| {
                let none = figure(engine, Quantity::Inconsistent, 0.0);
                [figure(engine, Quantity::LeftToCaches, left), none]
            });
            tried(&value, Place::Simulated, None, &found.collect::<Vec<_>>())
        };
        assert!(of([5.0, 1.0]));
        assert!(!of([0.0, 0.0]) && !of([5.0, 0.0]));
        let untried = Comparison { tried: false, ..comparison(0.0, Some(0.0)) };
        assert_eq!((untried.matches(), untried.complaint()), (None, None));
    }

    /// A mean of shares is over all of its workloads: without one of them it would be another mean.
    #[test]
    fn a_mean_of_fewer_workloads_is_none() {
        let figure = |workload: &str, value| Figure {
            cell: Cell {
                place: Place::Simulated,
                workload: workload.to_owned(),
                threads: 1,
                engine: Some("s-wal".to_owned()),
                setting: None,
            },
            quantity: Quantity::Share,
            spread: Spread::of(vec![value]),
            few_epochs: false,
        };
        let value = Value {
            says: "mean".to_owned(),
            quantity: Quantity::Share,
            engine: Some("s-wal".to_owned()),
            workload: None,
            over: Some(Over::Mean),
            setting: None,
            threads: None,
            against: None,
            value: 0.316,
            bound: None,
            approximate: false,
            calibrated: false,
        };
        let figures = [figure("hash", 0.2), figure("sdg", 0.6), figure("sps", 0.9)];
        let over = |names: [&str; 2]| {
            let names = names.map(str::to_owned);
            ours(&value, Place::Simulated, None, &names, &figures)
        };
        assert_eq!(over(["hash", "sdg"]), Some(0.4));
        assert_eq!(over(["hash", "bptree"]), None);
    }

    /// A share that the machine was calibrated on is that share for nothing.
    #[test]
    fn calibrated_values_match_nothing() {
        let calibrated = |reached, ours| Comparison {
            calibrated: true,
            reached: Some(reached),
            ..comparison(33.1, Some(ours))
        };
        let reached = calibrated(true, 33.1);
        assert_eq!((reached.matches(), reached.complaint()), (None, None));
        assert!(!reached.is_missed());
        // Near enough to match, if that were what counts: the calibration was to reach it.
        let missed = calibrated(false, 32.0);
        assert_eq!(missed.matches(), Some(false));
        assert!(missed.is_missed());
        let said = missed.complaint();
        assert!(
            said.is_some_and(|said| said.ends_with("ours +32.0 %, calibrated and not reached"))
        );
        let not_run = Comparison { ours: None, ..calibrated(false, 0.0) };
        assert_eq!((not_run.matches(), not_run.is_missed()), (None, false));
    }

    #[test]
    fn reports_mismatches() {
        assert_eq!(comparison(22.0, Some(20.0)).complaint(), None);
        assert!(comparison(22.0, Some(19.5)).complaint().is_some());
        assert_eq!(comparison(22.0, None).complaint(), None);
        let said = comparison(22.0, Some(-3.0)).complaint();
        assert_eq!(said.as_deref(), Some("mean gain (native): paper +22.0 %, ours -3.0 %"));
        let late = Comparison { setting: Some("late".to_owned()), ..comparison(22.0, Some(-3.0)) };
        assert!(late.complaint().is_some_and(|said| said.contains("(native, late)")));
    }
}
