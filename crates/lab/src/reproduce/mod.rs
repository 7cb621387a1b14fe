//! The papers' tables and figures, run again: `perdura-lab reproduce`.
//!
//! An experiment is a file of experiments/: the paper's values, and the runs. The runs are those of `perdura-lab bench`
//! and `perdura-lab sim`. Figures are computed from them according to the experiment's kind, and compared with the
//! paper's, as tables, as JSON and as a picture.
//!
//! Reading order: [`experiment`] and [`validate`] (the file), [`kind`] and [`quantity`] (the measured figures),
//! [`protocol`] and [`work`] (the compared engines, and their workloads), [`parts`] and [`plan`] (which parts are run),
//! [`calibrate`] (figures found beforehand), [`runs`], [`grid`] and [`served`] (the runs), [`findings`] (figures),
//! [`epochs`] and [`accepted`] (runs and workloads that are marked), [`compare`] (ours and the paper's), [`beside`]
//! (settings beside each other), [`chart`] (the picture's data), [`plot`] (the picture), [`show`] (the text).

mod accepted;
mod beside;
mod calibrate;
pub(crate) mod catalogue;
mod chart;
mod compare;
mod epochs;
pub(crate) mod experiment;
mod findings;
mod grid;
mod kind;
mod parts;
pub(crate) mod plan;
mod plot;
mod protocol;
mod quantity;
mod runs;
mod served;
pub(crate) mod show;
mod tpcc;
mod validate;
mod work;

use crate::bench::stage::Stage;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::machine::Machine;
use accepted::LeftOut;
use beside::Beside;
use calibrate::Calibration;
use chart::{Panel, Picture};
use compare::{Comparison, MeansOver};
use experiment::{Experiment, ServerBaseline};
use findings::{ComparedEngines, Figure, MEAN, MEAN_OF_ACCEPTED};
use plan::{Place, Plan};
use runs::{Cell, Sample};
use serde::{Deserialize, Serialize};
use served::BaselineOutcome;
use std::path::{Path, PathBuf};

/// The results of an experiment.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) experiment: Experiment,
    pub(crate) machine: Machine,
    /// The folder of native pools.
    pub(crate) site: String,
    pub(crate) plan: Plan,
    /// The calibrated figures of the simulated machine.
    pub(crate) calibrations: Vec<Calibration>,
    pub(crate) figures: Vec<Figure>,
    /// Means over workloads, of shares and of traffic.
    pub(crate) means: Vec<Figure>,
    /// The workloads that are not accepted as the paper's, if the experiment says what they must be like,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<Vec<LeftOut>>,
    /// and the means without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) accepted_means: Vec<Figure>,
    pub(crate) comparisons: Vec<Comparison>,
    /// Settings beside each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) beside: Vec<Beside>,
    /// The baseline server.
    #[serde(rename = "rival")]
    pub(crate) server_baseline: Option<BaselineOutcome>,
    /// Every run.
    pub(crate) samples: Vec<Sample>,
    pub(crate) picture: Picture,
}

/// Runs `plan`.
pub(crate) fn run(experiment: Experiment, plan: Plan, stage: &Stage) -> Outcome<Report> {
    grid::check(&plan)?;
    let calibrations = calibrate::find(&plan, stage)?;
    let mut samples = grid::run(&plan, &calibrations, stage)?;
    let server_baseline = served::run(&plan, stage, &mut samples);
    // Ctrl-C ends our children too: after it, their failure is no error.
    interrupt::check(&stage.progress)?;
    let server_baseline = server_baseline?;
    let figures = findings::figures(plan.kind, |cell| compared_engines(&plan, cell), &samples);
    let means = match plan.kind.has_means() {
        true => findings::means(&figures, &plan.mean_over, MEAN),
        false => Vec::new(),
    };
    let left_out = accepted::left_out(&experiment, &plan, &figures);
    let accepted = left_out.as_deref().map(|left_out| accepted::remaining(&plan, left_out));
    let accepted_means = match &accepted {
        Some(accepted) => findings::means(&figures, accepted, MEAN_OF_ACCEPTED),
        None => Vec::new(),
    };
    let means_over = MeansOver { all: &plan.mean_over, accepted: accepted.as_deref() };
    let comparisons = compare::compare(&experiment, &plan, means_over, &calibrations, &figures);
    let beside = beside::all(&experiment.run.compared, &plan, &figures);
    let machine = Machine::here();
    let site = stage.site.describe();
    let mut report = Report {
        experiment,
        machine,
        site,
        plan,
        calibrations,
        figures,
        means,
        left_out,
        accepted_means,
        comparisons,
        beside,
        server_baseline,
        samples,
        picture: Picture::default(),
    };
    report.picture = picture(&report);
    Ok(report)
}

fn picture(report: &Report) -> Picture {
    let paper = &report.experiment.paper;
    let figures: Vec<Figure> = report.figures.iter().chain(&report.means).cloned().collect();
    Picture {
        title: vec![format!("{}, {}", paper.title, paper.figure), paper.what.clone()],
        panels: chart::panels(&report.plan, &figures, &report.comparisons),
        caption: show::circumstances(report),
    }
}

/// The engines that a cell's engine is compared with.
fn compared_engines<'p>(plan: &'p Plan, cell: &Cell) -> ComparedEngines<'p> {
    let engine = cell.engine.as_deref();
    ComparedEngines {
        base: engine.and_then(|engine| plan.compared_with(&cell.workload, engine)),
        workload_base: plan.base_of(&cell.workload),
        base_threads: plan.base_threads.filter(|_| cell.place != Place::Served),
        server_baseline: plan.server_baseline.map(ServerBaseline::name),
    }
}

/// Writes the report as JSON and as a picture into `folder`, which is created if needed.
pub(crate) fn write(report: &Report, folder: &Path) -> Outcome<[PathBuf; 2]> {
    let json = serde_json::to_string_pretty(report);
    let json = json.map_err(|error| Failure::new(error.to_string()))?;
    let picture = plot::svg(&report.picture)?;
    let path = |ending| folder.join(format!("{}.{ending}", report.experiment.name));
    Ok([write_file(path("json"), json)?, write_file(path("svg"), picture)?])
}

/// Draws the picture of a report that [`write()`] wrote as JSON into `folder`, under the report's name.
pub(crate) fn draw(report: &Path, folder: &Path) -> Outcome<PathBuf> {
    #[derive(Deserialize)]
    struct Stored {
        picture: Picture,
    }
    let text = std::fs::read(report).map_err(|error| Failure::at(report, error))?;
    let stored = serde_json::from_slice::<Stored>(&text);
    let Stored { picture } = stored.map_err(|error| Failure::at(report, error))?;
    if picture.panels.len() > 1_000 || !picture.panels.iter().all(Panel::is_sound) {
        return Err(Failure::at(
            report,
            "its picture has values without a place; repeat the experiment",
        ));
    }
    let name = report.with_extension("svg");
    write_file(folder.join(name.file_name().unwrap_or_default()), plot::svg(&picture)?)
}

fn write_file(path: PathBuf, text: String) -> Outcome<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| Failure::at(folder, error))?;
    std::fs::write(&path, text + "\n").map_err(|error| Failure::at(&path, error))?;
    Ok(path)
}
