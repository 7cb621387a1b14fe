//! Ours beside the paper's, value by value.

use super::experiment::{Experiment, Over, Value};
use super::findings::Figure;
use super::plan::{Place, Plan};
use super::quantity::Quantity;
use serde::Serialize;

/// Further from the paper's value than this share of it is said not to match.
const NEAR: f64 = 0.2;
/// But two points of percent are never far.
const NEAR_POINTS: f64 = 2.0;

/// One value of the paper, and ours in one place.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) says: String,
    pub(crate) quantity: Quantity,
    pub(crate) place: Place,
    /// None where there is only one.
    pub(crate) setting: Option<String>,
    /// Whether the paper's value is of this setting alone.
    #[serde(skip)]
    pub(crate) of_setting: bool,
    pub(crate) paper: f64,
    pub(crate) approximate: bool,
    /// None where nothing was run that it is about.
    pub(crate) ours: Option<f64>,
}

/// Compares every value of the paper in every place and setting that was run in, and that it is of.
pub(crate) fn compare(experiment: &Experiment, plan: &Plan, figures: &[Figure]) -> Vec<Comparison> {
    let places = plan.parts.iter().map(|part| part.place);
    let places = places.flat_map(|place| plan.settings.iter().map(move |own| (place, &own.name)));
    let each = places.flat_map(|(place, setting)| {
        let own = move |value: &&Value| {
            place.finds(value.quantity) && (value.setting.is_none() || value.setting == *setting)
        };
        experiment.paper.values.iter().filter(own).map(move |value| Comparison {
            says: value.says.clone(),
            quantity: value.quantity,
            place,
            setting: setting.clone(),
            of_setting: value.setting.is_some(),
            paper: value.value,
            approximate: value.approximate,
            ours: ours(value, place, setting.as_deref(), figures),
        })
    });
    each.collect()
}

fn ours(value: &Value, place: Place, setting: Option<&str>, figures: &[Figure]) -> Option<f64> {
    let fits = |figure: &&Figure| {
        figure.quantity == value.quantity
            && figure.cell.place == place
            && figure.cell.setting.as_deref() == setting
            && value.engine.as_deref().is_none_or(|engine| figure.cell.engine == Some(engine))
            && value.workload.as_deref().is_none_or(|name| figure.cell.workload == name)
    };
    let medians: Vec<f64> =
        figures.iter().filter(fits).map(|figure| figure.spread.median).collect();
    if medians.is_empty() {
        return None;
    }
    Some(match value.over {
        Some(Over::Least) => medians.iter().copied().fold(f64::INFINITY, f64::min),
        Some(Over::Most) => medians.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        // A workload's value is the mean over numbers of threads.
        Some(Over::Mean) | None => medians.iter().sum::<f64>() / medians.len() as f64,
    })
}

impl Comparison {
    /// Whether ours is near the paper's; `None` if there is none of ours.
    pub(crate) fn matches(&self) -> Option<bool> {
        let distance = (self.ours? - self.paper).abs();
        let points = if self.quantity.unit() == "%" { NEAR_POINTS } else { 0.0 };
        Some(distance <= (self.paper.abs() * NEAR).max(points))
    }

    /// The paper's value, for people.
    pub(crate) fn show_paper(&self) -> String {
        let about = if self.approximate { "about " } else { "" };
        format!("{about}{}", self.quantity.show(self.paper))
    }

    /// What does not match, in a sentence.
    pub(crate) fn complaint(&self) -> Option<String> {
        if self.matches()? {
            return None;
        }
        let ours = self.quantity.show(self.ours?);
        Some(format!(
            "{} ({}): paper {}, ours {ours}",
            self.says,
            self.show_place(),
            self.show_paper()
        ))
    }

    /// Where ours is from, and in which setting.
    pub(crate) fn show_place(&self) -> String {
        let setting = self.setting.as_ref().map_or(String::new(), |name| format!(", {name}"));
        format!("{}{setting}", self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(paper: f64, ours: Option<f64>) -> Comparison {
        Comparison {
            says: "mean gain".to_owned(),
            quantity: Quantity::ThroughputChange,
            place: Place::Native,
            setting: None,
            of_setting: false,
            paper,
            approximate: false,
            ours,
        }
    }

    #[test]
    fn what_does_not_match_is_said() {
        assert_eq!(comparison(22.0, Some(20.0)).complaint(), None);
        assert_eq!(comparison(1.0, Some(2.5)).complaint(), None);
        assert_eq!(comparison(22.0, None).complaint(), None);
        let said = comparison(22.0, Some(-3.0)).complaint();
        assert_eq!(said.as_deref(), Some("mean gain (native): paper +22.0 %, ours -3.0 %"));
        let late = Comparison { setting: Some("late".to_owned()), ..comparison(22.0, Some(-3.0)) };
        assert!(late.complaint().is_some_and(|said| said.contains("(native, late)")));
    }
}
