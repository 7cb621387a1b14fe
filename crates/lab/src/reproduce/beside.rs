//! Settings beside one of them: whether the same comes out at another size, or by how much a figure of the machine
//! changes it.

use super::experiment::Compared;
use super::findings::Figure;
use super::plan::{Place, Plan, Setting};
use super::quantity::Quantity;
use super::runs::Cell;
use crate::output::table_of;
use serde::Serialize;

/// A figure in all settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Beside {
    pub(crate) workload: String,
    pub(crate) threads: u32,
    pub(crate) engine: String,
    pub(crate) quantity: Quantity,
    /// The setting that the others are compared with.
    pub(crate) with: String,
    /// How far the others may be from it, if that is said, percent.
    pub(crate) within_percent: Option<f64>,
    pub(crate) steps: Vec<Step>,
}

/// It in one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Step {
    pub(crate) setting: String,
    pub(crate) value: f64,
    /// From its value in the setting that it is compared with.
    pub(crate) change_percent: f64,
    /// Whether that is as near as it should be.
    pub(crate) agrees: Option<bool>,
    pub(crate) few_epochs: bool,
}

impl Beside {
    /// Whether all settings agree; `None` if it is not said how near they should be, or there is no other.
    pub(crate) fn agrees(&self) -> Option<bool> {
        let others = self.steps.iter().filter(|step| step.setting != self.with);
        others.map(|step| step.agrees).reduce(|all, own| Some(all? && own?)).flatten()
    }
}

/// The setting that others are compared with: the largest run of those of different sizes, or else the first.
fn reference(settings: &[Setting]) -> Option<&str> {
    let first = settings.iter().min_by_key(|setting| setting.divided_by.unwrap_or(1));
    first?.name.as_deref()
}

/// Every figure that the experiment compares, of every engine that has it.
pub(super) fn all(compared: &[Compared], plan: &Plan, figures: &[Figure]) -> Vec<Beside> {
    let Some(usual) = reference(&plan.settings) else { return Vec::new() };
    let each = compared.iter().flat_map(|own| {
        let with = own.with.as_deref().unwrap_or(usual);
        let is_of = |figure: &&Figure| {
            figure.quantity == own.quantity.measured()
                && figure.cell.place == Place::Simulated
                && figure.cell.setting.as_deref() == Some(with)
        };
        figures
            .iter()
            .filter(is_of)
            .filter_map(move |figure| beside(own, with, plan, figure, figures))
    });
    each.collect()
}

/// A figure, and the same in the other settings.
fn beside(
    compared: &Compared,
    with: &str,
    plan: &Plan,
    reference: &Figure,
    figures: &[Figure],
) -> Option<Beside> {
    let Compared { quantity, within_percent, .. } = *compared;
    let base = quantity.of_measured(reference.spread.median);
    let step = |setting: &Setting| {
        let cell = Cell { setting: setting.name.clone(), ..reference.cell.clone() };
        let same = |own: &&Figure| own.quantity == reference.quantity && own.cell == cell;
        let figure = figures.iter().find(same)?;
        let value = quantity.of_measured(figure.spread.median);
        let change_percent = (value / base - 1.0) * 100.0;
        Some(Step {
            setting: setting.name.clone()?,
            value,
            change_percent,
            agrees: within_percent.map(|most| change_percent.abs() <= most),
            few_epochs: figure.few_epochs,
        })
    };
    Some(Beside {
        workload: reference.cell.workload.clone(),
        threads: reference.cell.threads,
        engine: reference.cell.engine.clone()?,
        quantity,
        with: with.to_owned(),
        within_percent,
        steps: plan.settings.iter().filter_map(step).collect(),
    })
}

/// A row for each figure, a column for each setting, and a sentence on those that should agree.
pub(super) fn text(all: &[Beside], plan: &Plan) -> String {
    let Some(Beside { with, .. }) = all.first() else { return String::new() };
    let names: Vec<String> = plan.settings.iter().filter_map(|own| own.name.clone()).collect();
    let fixed = ["workload", "threads", "engine", "quantity"].map(str::to_owned);
    let verdicts = all.iter().any(|own| own.within_percent.is_some());
    let verdict = verdicts.then(|| "verdict".to_owned());
    let header = fixed.into_iter().chain(names.clone()).chain(verdict).collect();
    let rows = all.iter().map(|own| {
        let cell = |name: &String| {
            let step = own.steps.iter().find(|step| step.setting == *name);
            let Some(Step { value, change_percent, few_epochs, .. }) = step else {
                return String::new();
            };
            let few = if *few_epochs { " [few epochs]" } else { "" };
            match *name == own.with {
                true => own.quantity.show(*value) + few,
                false => format!("{} ({change_percent:+.1} %){few}", own.quantity.show(*value)),
            }
        };
        let said = match (own.agrees(), own.within_percent) {
            (Some(true), Some(most)) => format!("within {most} %"),
            (Some(false), Some(most)) => format!("not within {most} %"),
            _ => String::new(),
        };
        let quantity = own.quantity.to_string();
        let fixed = [own.workload.clone(), own.threads.to_string(), own.engine.clone(), quantity];
        let verdict = verdicts.then_some(said);
        fixed.into_iter().chain(names.iter().map(cell)).chain(verdict).collect()
    });
    let judged: Vec<bool> = all.iter().filter_map(Beside::agrees).collect();
    let agreeing = judged.iter().filter(|agrees| **agrees).count();
    let verdict = match judged.len() {
        0 => String::new(),
        count => format!("\n\n{agreeing} of {count} agree with {with} in all settings"),
    };
    format!("beside {with}:\n{}{verdict}", table_of(header, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_settings_must_agree() {
        let step = |setting: &str, agrees| Step {
            setting: setting.to_owned(),
            value: 1.0,
            change_percent: 0.0,
            agrees,
            few_epochs: false,
        };
        let agrees = |steps: &[Step]| {
            let beside = Beside {
                workload: "tatp".to_owned(),
                threads: 4,
                engine: "logging".to_owned(),
                quantity: Quantity::Slowdown,
                with: "1/2".to_owned(),
                within_percent: Some(5.0),
                steps: steps.to_vec(),
            };
            beside.agrees()
        };
        let own = step("1/2", Some(true));
        let [near, far, unsaid] = [Some(true), Some(false), None].map(|own| step("1/4", own));
        assert_eq!(agrees(std::slice::from_ref(&own)), None, "with nothing but itself");
        assert_eq!(agrees(&[near.clone(), own.clone()]), Some(true));
        assert_eq!(agrees(&[near, far, own.clone()]), Some(false));
        assert_eq!(agrees(&[unsaid, own]), None);
    }
}
