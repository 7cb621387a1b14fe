//! The data of a picture: panels of grouped bars or of curves, made from figures and comparisons. A report holds it, so
//! that a picture can be drawn again.
//!
//! Lengths of operations differ far more between workloads than between engines, so times and rates are shown relative
//! to the base engine's.

use super::compare::Comparison;
use super::findings::{Figure, MEAN};
use super::kind::Kind;
use super::plan::{Place, Plan};
use super::quantity::Quantity::{self, *};
use super::quantity::Step;
use crate::bench::spread::Spread;
use serde::{Deserialize, Serialize};

/// Suffix of an engine's name in the series with the paper's figures.
pub(crate) const PAPERS: &str = ", the paper's";

/// Panels below each other, with text above and below them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Picture {
    pub(crate) title: Vec<String>,
    pub(crate) panels: Vec<Panel>,
    pub(crate) caption: Vec<String>,
}

/// Values on a picture from a file are less than this.
const LARGEST: f64 = 1e15;

/// Grouped bars on common axes, or curves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// The axis of the values, with its unit.
    pub(crate) y: String,
    /// The axis of the groups.
    pub(crate) x: String,
    pub(crate) groups: Vec<String>,
    pub(crate) series: Vec<String>,
    pub(crate) bars: Vec<Bar>,
    /// Whether the first series is the paper's.
    pub(crate) paper: bool,
    /// For curves, each group's place on its axis, ascending; empty for bars.
    pub(crate) steps: Vec<f64>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bar {
    pub(crate) group: usize,
    pub(crate) series: usize,
    #[serde(flatten)]
    pub(crate) spread: Spread,
    /// The label at its end.
    pub(crate) label: Option<String>,
}

impl Panel {
    /// The middle of a group on its axis: groups are one wide, unless they are steps, whose axis is logarithmic.
    pub(crate) fn middle(&self, group: usize) -> f64 {
        let &[first, .., last] = self.steps.as_slice() else { return group as f64 + 0.5 };
        let share = (self.steps[group] / first).ln() / (last / first).ln();
        0.5 + share * (self.groups.len() - 1) as f64
    }

    /// The end of a bar, or its point on a curve.
    pub(crate) fn point(&self, bar: &Bar) -> (f64, f64) {
        (self.middle(bar.group), bar.spread.median)
    }

    /// Whether it can be drawn: one from a file may refer to groups that it lacks.
    pub(crate) fn is_sound(&self) -> bool {
        let is_sound = |Bar { group, series, spread, .. }: &Bar| {
            let Spread { median, least, most } = *spread;
            let are_small = [median, least, most].iter().all(|value| value.abs() < LARGEST);
            *group < self.groups.len() && *series < self.series.len() && are_small
        };
        let are_steps = self.steps.iter().all(|step| (1.0 / LARGEST..LARGEST).contains(step))
            && self.steps.is_sorted_by(|one, other| one < other);
        let is_axis = self.steps.is_empty() || self.steps.len() == self.groups.len() && are_steps;
        is_axis && self.bars.iter().all(is_sound)
    }

    fn put(&mut self, group: &str, series: &str, spread: Spread, label: Option<String>) {
        let group = place_of(&mut self.groups, group);
        let series = place_of(&mut self.series, series);
        self.bars.push(Bar { group, series, spread, label });
    }
}

fn place_of(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

/// The panels of an experiment: the measurements of each place, then the comparison with the paper.
pub(crate) fn panels(plan: &Plan, figures: &[Figure], comparisons: &[Comparison]) -> Vec<Panel> {
    let mut panels = Vec::new();
    if let Some(axis) = plan.axis.as_ref().filter(|_| plan.settings.len() > 1) {
        for part in &plan.parts {
            panels.extend(curves(plan, (axis, part.place), figures, comparisons));
        }
        let rest = comparisons.iter().filter(|value| !is_on_curve(plan, value));
        panels.extend(comparison_panels(&rest.cloned().collect::<Vec<_>>()));
        panels.retain(|panel| !panel.bars.is_empty());
        return panels;
    }
    let runs = plan.parts.iter();
    for (part, setting) in runs.flat_map(|part| plan.settings.iter().map(move |own| (part, own))) {
        let fits = |figure: &&Figure| {
            figure.cell.place == part.place && figure.cell.setting == setting.name
        };
        let here: Vec<&Figure> = figures.iter().filter(fits).collect();
        let several = part.threads.len() > 1;
        let machine = part.machine.as_ref().map(|machine| machine.name.as_str());
        let place = match (part.place, machine) {
            (Place::Simulated, Some(machine)) => format!("simulated machine {machine}"),
            (Place::Drawn, _) => "operations drawn, no engine".to_owned(),
            (Place::Served, _) => "clients through the server".to_owned(),
            _ => "native".to_owned(),
        };
        let setting = setting.name.as_ref().map_or(String::new(), |name| format!(", {name}"));
        panels.extend(measured(plan, &here, several, &format!("{place}{setting}")));
    }
    panels.extend(comparison_panels(comparisons));
    panels.retain(|panel| !panel.bars.is_empty());
    panels
}

/// A panel by engines for each quantity, or one by categories for several.
fn measured(plan: &Plan, figures: &[&Figure], threads: bool, place: &str) -> Vec<Panel> {
    let base = plan.show_base();
    let relative_to = matches!(plan.kind, Kind::Throughput | Kind::Latency).then_some(plan);
    let rows: Vec<(&str, &str, Vec<Quantity>)> = match plan.kind {
        Kind::Throughput => vec![("Throughput", "operations/s, % of BASE", vec![PerSecond])],
        Kind::Latency => vec![("Latency", "99th percentile, % of BASE", vec![P99])],
        Kind::Breakdown => vec![
            ("What logging adds", "time added to BASE, %", vec![Added]),
            (
                "How much of it is persistence",
                "persistence operations, % of what is added",
                vec![PersistenceShare],
            ),
        ],
        Kind::Flushes => vec![
            ("Write-backs asked for", "lines per transaction", vec![Flushes]),
            ("Lines that reached memory", "lines per transaction", vec![MemoryWrites]),
        ],
        Kind::Dirtiness => vec![
            (
                "Dirtiness of data lines written back",
                "average, % of the line's bytes",
                vec![Dirtiness],
            ),
            (
                "Its distribution, dirty eighths of a line",
                "lines, %",
                (1..=8).map(Eighths).collect(),
            ),
        ],
        Kind::Crash => vec![("Inconsistent lines", "lines, all power cuts", vec![Inconsistent])],
        Kind::Share => vec![("Throughput", "share of the throughput of BASE", vec![Share])],
        Kind::Traffic => vec![
            ("Written to memory", "bytes written by bytes stored", vec![Traffic]),
            ("Lines written to memory", "lines per transaction", vec![LinesWritten]),
        ],
        Kind::Reuse => {
            let uses = vec![Unused, UsedOnce, UsedTwice, UsedMore];
            vec![("Operations on each object", "objects, %", uses)]
        }
        Kind::Checksums => {
            let times = [Step::Flush, Step::Create, Step::Packed, Step::Update].map(ObjectTime);
            vec![("An object", "ns", times.into())]
        }
    };
    let panels = rows.into_iter().map(|(title, y, quantities)| {
        let (title, y) = (format!("{title} ({place})"), y.replace("BASE", &base));
        let panel = Panel { title, y, ..Panel::default() };
        match quantities.as_slice() {
            [quantity] => engines(figures, *quantity, panel, threads, relative_to),
            several => categories(figures, several, panel),
        }
    });
    panels.collect()
}

/// Curves over the settings. For each quantity: of the mean a curve for each engine, with the paper's values; then for
/// each engine a curve for each workload.
fn curves(
    plan: &Plan,
    (axis, place): (&str, Place),
    figures: &[Figure],
    comparisons: &[Comparison],
) -> Vec<Panel> {
    let over = &plan.mean_over;
    let of_mean = match over.as_slice() {
        [workload] => workload.to_uppercase(),
        _ => format!("mean of {} workloads", over.len()),
    };
    let mut panels = Vec::new();
    for (quantity, title, y) in shown_as_curves(plan) {
        let panel = |of: &str| Panel {
            title: format!("{title}, {of} ({place})"),
            y: y.clone(),
            ..empty_curves(plan, axis)
        };
        let mut mean = panel(&of_mean);
        let mut of_engines: Vec<(&str, Panel)> = Vec::new();
        let base = plan.base.as_deref();
        let shown = |figure: &&Figure| (figure.quantity, figure.cell.place) == (quantity, place);
        for figure in figures.iter().filter(shown) {
            let Some(engine) = figure.cell.engine.as_deref().filter(|own| Some(*own) != base)
            else {
                continue;
            };
            if figure.cell.workload == MEAN {
                put_on_curve(plan, &mut mean, figure, engine);
                continue;
            }
            let at = of_engines.iter().position(|(own, _)| *own == engine).unwrap_or_else(|| {
                of_engines.push((engine, panel(engine)));
                of_engines.len() - 1
            });
            put_on_curve(plan, &mut of_engines[at].1, figure, &figure.cell.workload.to_uppercase());
        }
        let of_mean = |value: &&Comparison| {
            is_on_curve(plan, value) && (value.quantity, value.place) == (quantity, place)
        };
        put_paper(plan, &mut mean, comparisons.iter().filter(of_mean));
        panels.push(mean);
        // A mean over one workload is that workload's value.
        if plan.workloads.len() > 1 {
            let of_engines = of_engines.into_iter().map(|(_, panel)| panel);
            panels.extend(of_engines.filter(|panel| !is_level(panel)));
        }
    }
    panels
}

/// Whether nothing depends on the settings: then the mean's curve is enough.
fn is_level(panel: &Panel) -> bool {
    let same = |series: usize| {
        let mut medians = panel.bars.iter().filter(|bar| bar.series == series);
        let first = medians.next().map(|bar| bar.spread.median);
        medians.all(|bar| Some(bar.spread.median) == first)
    };
    (0..panel.series.len()).all(same)
}

/// The quantities shown as curves, with a title and the axis of their values.
fn shown_as_curves(plan: &Plan) -> Vec<(Quantity, &'static str, String)> {
    let mut others: Vec<&str> = plan.bases.values().map(String::as_str).collect();
    others.dedup();
    let axis = format!("share of what {} writes", others.join(" or "));
    match plan.kind {
        Kind::Share => {
            let y = format!("share of the throughput of {}", plan.show_base());
            vec![(Share, "Throughput", y)]
        }
        _ => vec![
            (TrafficRatio, "Written to memory", axis),
            (Traffic, "Written to memory", "bytes written by bytes stored".to_owned()),
        ],
    }
}

fn empty_curves(plan: &Plan, axis: &str) -> Panel {
    let steps: Vec<f64> = plan.settings.iter().filter_map(|setting| setting.at).collect();
    let groups = steps.iter().map(f64::to_string).collect();
    Panel { x: axis.to_owned(), groups, steps, ..Panel::default() }
}

fn put_on_curve(plan: &Plan, panel: &mut Panel, figure: &Figure, series: &str) {
    let cell = &figure.cell;
    let several = plan.parts.iter().any(|part| part.threads.len() > 1);
    let series = if several { format!("{series} x{}", cell.threads) } else { series.to_owned() };
    if let Some(group) = plan.settings.iter().position(|setting| setting.name == cell.setting) {
        let group = panel.groups[group].clone();
        panel.put(&group, &series, figure.spread, None);
    }
}

/// Adds the paper's values of means to the curves, and labels the points with its value and ours.
fn put_paper<'c>(
    plan: &Plan,
    panel: &mut Panel,
    comparisons: impl Iterator<Item = &'c Comparison>,
) {
    for value in comparisons {
        let place = plan.settings.iter().position(|setting| setting.name == value.setting);
        let (Some(group), Some(engine)) = (place, &value.mean_of) else { continue };
        let ours = panel.series.iter().position(|series| series == engine);
        let bars = panel.bars.iter_mut();
        for bar in bars.filter(|bar| bar.group == group && Some(bar.series) == ours) {
            bar.label = Some(value.quantity.show(bar.spread.median));
        }
        let spread = Spread { median: value.paper, least: value.paper, most: value.paper };
        let group = panel.groups[group].clone();
        let label = Some(format!("paper {}", value.quantity.show(value.paper)));
        panel.put(&group, &format!("{engine}{PAPERS}"), spread, label);
    }
}

/// Whether the paper's value is a point of a curve: an engine's mean in one setting.
fn is_on_curve(plan: &Plan, value: &Comparison) -> bool {
    let quantities = shown_as_curves(plan);
    let is_shown = quantities.iter().any(|(quantity, ..)| *quantity == value.quantity);
    is_shown && value.of_setting && value.mean_of.is_some()
}

/// A group for each workload, a series for each engine.
fn engines(
    figures: &[&Figure],
    quantity: Quantity,
    mut panel: Panel,
    threads: bool,
    relative_to: Option<&Plan>,
) -> Panel {
    panel.x = if threads { "workload, threads" } else { "workload" }.to_owned();
    for figure in figures.iter().filter(|figure| figure.quantity == quantity) {
        let scale = match relative_to {
            None => 1.0,
            Some(plan) => match baseline(plan, figures, figure) {
                Some(median) => 100.0 / median,
                None => continue,
            },
        };
        let cell = &figure.cell;
        let suffix = if threads { format!(" x{}", cell.threads) } else { String::new() };
        let group = format!("{}{suffix}", cell.workload.to_uppercase());
        let Spread { median, least, most } = figure.spread;
        let spread = Spread { median: median * scale, least: least * scale, most: most * scale };
        panel.put(&group, cell.engine.as_deref().unwrap_or_default(), spread, None);
    }
    panel
}

fn baseline(plan: &Plan, figures: &[&Figure], of: &Figure) -> Option<f64> {
    let base = plan.base_of(&of.cell.workload);
    let fits = |figure: &&&Figure| {
        figure.quantity == of.quantity
            && figure.cell.engine.as_deref() == base
            && figure.cell.workload == of.cell.workload
            && figure.cell.threads == of.cell.threads
    };
    figures.iter().find(fits).map(|figure| figure.spread.median).filter(|median| *median > 0.0)
}

/// A group for each workload (and engine), a series for each of `quantities`.
fn categories(figures: &[&Figure], quantities: &[Quantity], mut panel: Panel) -> Panel {
    let several = figures.iter().any(|figure| figure.cell.engine != figures[0].cell.engine);
    panel.x = if several { "workload, engine" } else { "workload" }.to_owned();
    for figure in figures.iter().filter(|figure| quantities.contains(&figure.quantity)) {
        let cell = &figure.cell;
        let engine = if several { cell.engine.as_deref().unwrap_or_default() } else { "" };
        let group = format!("{} {engine}", cell.workload.to_uppercase());
        let series = match figure.quantity {
            Unused => "no operation".to_owned(),
            UsedOnce => "one".to_owned(),
            UsedTwice => "two".to_owned(),
            UsedMore => "more".to_owned(),
            ObjectTime(Step::Flush) => "written back".to_owned(),
            ObjectTime(Step::Create) => "checksums created".to_owned(),
            ObjectTime(Step::Packed) => "created, packed".to_owned(),
            ObjectTime(Step::Update) => "updated".to_owned(),
            other => other.to_string(),
        };
        panel.put(group.trim(), &series, figure.spread, None);
    }
    panel
}

/// The paper's values and ours, side by side; those of one setting in panels of their own.
fn comparison_panels(comparisons: &[Comparison]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    let unit = |quantity: Quantity| match quantity.unit() {
        "%" => "percent".to_owned(),
        "/tx" => "per transaction".to_owned(),
        "/object" => "per object".to_owned(),
        other => other.to_owned(),
    };
    let any = |says: &str| {
        comparisons.iter().any(|other| other.says == says && other.ours.is_some() && other.tried)
    };
    for comparison in comparisons.iter().filter(|comparison| any(&comparison.says)) {
        let y = unit(comparison.quantity);
        let setting = comparison.setting.as_ref().filter(|_| comparison.of_setting);
        let setting = setting.map_or(String::new(), |name| format!(", {name}"));
        let title = format!("The paper's values beside ours{setting}");
        let same = |panel: &Panel| panel.y == y && panel.title == title;
        let at = panels.iter().position(same).unwrap_or_else(|| {
            panels.push(Panel {
                title,
                y,
                x: "what the paper says".to_owned(),
                series: vec!["paper".to_owned()],
                paper: true,
                ..Panel::default()
            });
            panels.len() - 1
        });
        let (panel, quantity) = (&mut panels[at], comparison.quantity);
        let exactly = |value: f64| Spread { median: value, least: value, most: value };
        if !panel.groups.contains(&comparison.says) {
            let label = Some(quantity.show(comparison.paper));
            panel.put(&comparison.says, "paper", exactly(comparison.paper), label);
        }
        if let Some(ours) = comparison.ours.filter(|_| comparison.tried) {
            let series = format!("ours, {}", comparison.show_place());
            panel.put(&comparison.says, &series, exactly(ours), Some(quantity.show(ours)));
        }
    }
    panels
}
