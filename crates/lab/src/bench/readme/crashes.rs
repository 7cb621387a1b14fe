//! Tables of crash tests and of native stress.

use super::native::row;
use super::render::{self, cells, count, distinct, figure, only};
use super::results::{Figure, Row, Run, TableResults};
use super::spec::{Scale, Step};
use crate::failure::Outcome;
use serde_json::Value;

/// A crash test.
struct Crash {
    /// Its name in README.
    name: &'static str,
    options: &'static str,
    /// How many times the images that were asked for: enough to have each engine and structure.
    times: u64,
    /// On two cores, at least.
    images_a_second: u64,
}

const CRASHES: [Crash; 4] = [
    Crash {
        name: "files with private copies of pages too; readers that writers move; processes die, syncs fail",
        options: "",
        times: 8,
        images_a_second: 4_500,
    },
    Crash { name: "files alone", options: " --domain media", times: 2, images_a_second: 3_000 },
    Crash {
        name: "`eager`, with windows of transactions; files too; processes die, syncs fail",
        options: " --engine eager",
        times: 1,
        images_a_second: 4_500,
    },
    Crash {
        name: "`ccstm`, with one to three cores; processes die, syncs fail",
        options: " --engine ccstm --cores 1,2,3",
        times: 1,
        images_a_second: 2_000,
    },
];

pub(super) fn crash_steps(scale: &Scale) -> Vec<Step> {
    let steps = CRASHES.iter().map(|crash| {
        let Crash { name, options, times, images_a_second } = *crash;
        let images = scale.of(scale.images.saturating_mul(times), 200);
        Step {
            name,
            arguments: format!("crash{options} --images {images} --seed {}", scale.seed),
            seconds: 5 + images / images_a_second,
            rows: crash_rows,
        }
    });
    steps.collect()
}

/// The kept counts of each combination.
const COUNTS: [&str; 4] = ["images", "of_pools_cut_again", "cuts", "distinct_cuts"];

fn crash_rows(answer: &Value) -> Option<Vec<Row>> {
    let none = |name: &str| answer.get(name).and_then(Value::as_u64) == Some(0);
    if !none("failures") {
        return None;
    }
    let counts = |workload: &str, engine: &str, counts: &Value| {
        let figures = COUNTS.map(|name| Some((name, counts.get(name)?)));
        let figures: Option<Vec<_>> = figures.into_iter().collect();
        row(workload.to_owned(), engine, &figures?)
    };
    let rows = answer.get("runs")?.as_array()?.iter().map(|run| {
        let name = |name: &str| run.get(name)?.as_str();
        counts(name("workload")?, name("engine")?, run.get("counts")?)
    });
    // Few images are not enough for all combinations.
    let found = |row: &Row| row.figures.get("images") != Some(&Figure::Number(0.0));
    let rows = rows.filter(|row| row.as_ref().is_none_or(found));
    // Not the sum of the others: two combinations may have a cut in common.
    let all = answer.get("total").and_then(|total| counts(ALL, ALL, total));
    rows.chain([all]).collect()
}

/// The subject of the row of all combinations.
const ALL: &str = "all";

pub(super) fn crash(results: &TableResults) -> Outcome<String> {
    let header = cells([
        "",
        "engines",
        "structures",
        "images checked",
        "of pools cut again",
        "distinct cuts",
        "lost or torn",
    ]);
    let mut rows = Vec::new();
    for run in &results.runs {
        let tried: Vec<Row> = run.rows.iter().filter(|row| row.what != ALL).cloned().collect();
        let engines = distinct(&tried, |row| &row.who).len().to_string();
        let structures = distinct(&tried, |row| &row.what).len().to_string();
        let mut cells = cells([&run.name, &engines, &structures]);
        for name in ["images", "of_pools_cut_again", "distinct_cuts"] {
            cells.push(count(figure(run, ALL, ALL, name)?));
        }
        // A run that finds something fails, and has no rows.
        cells.push("0".to_owned());
        rows.push(cells);
    }
    Ok(render::table(&header, &rows))
}

/// The sum over all rows.
fn total(run: &Run, name: &str) -> Outcome<f64> {
    run.rows.iter().map(|row| Ok(row.figure(name)?.value())).sum()
}

// Recorded servers on a block device.

pub(super) fn crash_disk_steps(scale: &Scale) -> Vec<Step> {
    let memory = if scale.quick { " --accept-memory --lives 3" } else { "" };
    let images = scale.of(5_000, 20);
    vec![Step {
        name: "disk",
        arguments: format!("crash-disk --dir DISK --images {images} --seed {}{memory}", scale.seed),
        seconds: scale.of(80, 20),
        rows: crash_disk_rows,
    }]
}

fn crash_disk_rows(answer: &Value) -> Option<Vec<Row>> {
    if answer.get("failures")?.as_u64()? != 0 {
        return None;
    }
    let rows = answer.get("engines")?.as_array()?.iter().map(|one| {
        let names = ["images", "images_in_recovery", "runs", "acknowledged", "bad_images"];
        let figures: Option<Vec<_>> =
            names.into_iter().map(|name| Some((name, one.get(name)?))).collect();
        row("server".to_owned(), one.get("engine")?.as_str()?, &figures?)
    });
    rows.collect()
}

pub(super) fn crash_disk(results: &TableResults) -> Outcome<String> {
    let run = only(results)?;
    let names = distinct(&run.rows, |row| &row.who);
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let [images, recovering, bad] =
        [total(run, "images")?, total(run, "images_in_recovery")?, total(run, "bad_images")?];
    Ok(format!(
        "{} images of what the disk may hold, {} of them of a recovery that was cut short; lost or torn: {}. Engines: {}.",
        count(images),
        count(recovering),
        count(bad),
        names.join(", ")
    ))
}

// Native stress.

pub(super) fn stress_steps(scale: &Scale) -> Vec<Step> {
    let step = |name, place: &str| Step {
        name,
        arguments: format!(
            "stress{place} --seconds {} --seed {}",
            scale.of(scale.stress_seconds, 1),
            scale.seed
        ),
        seconds: scale.of(scale.stress_seconds + 5, 15),
        rows: stress_rows,
    };
    vec![step("in memory", ""), step("on a disk", " --dir DISK --domain media")]
}

fn stress_rows(answer: &Value) -> Option<Vec<Row>> {
    if answer.get("bad")?.as_u64()? != 0 {
        return None;
    }
    let rows = answer.get("engines")?.as_array()?.iter().map(|one| {
        let names = ["rounds", "killed", "operations", "acknowledged", "reads"];
        let figures: Option<Vec<_>> =
            names.into_iter().map(|name| Some((name, one.get(name)?))).collect();
        let mut row = row("stress".to_owned(), one.get("engine")?.as_str()?, &figures?)?;
        row.figures.insert("seconds".to_owned(), Figure::Number(answer.get("seconds")?.as_f64()?));
        Some(row)
    });
    rows.collect()
}

pub(super) fn stress(results: &TableResults) -> Outcome<String> {
    let header = cells(["pools", "time", "processes", "killed", "commits", "reads", "bad"]);
    let mut rows = Vec::new();
    for run in &results.runs {
        let Some(first) = run.rows.first() else { continue };
        let seconds = first.figure("seconds")?.value();
        let time = if seconds < 120.0 {
            format!("{seconds:.0} s")
        } else {
            format!("{:.0} minutes", seconds / 60.0)
        };
        let mut cells = cells([&run.name, &time]);
        for name in ["rounds", "killed", "operations", "reads"] {
            cells.push(count(total(run, name)?));
        }
        // A run that finds something fails, and has no rows.
        cells.push("0".to_owned());
        rows.push(cells);
    }
    Ok(render::table(&header, &rows))
}
