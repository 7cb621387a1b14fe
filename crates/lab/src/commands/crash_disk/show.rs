//! The output of `perdura-lab crash-disk`.

use super::{Arguments, EngineReport};
use crate::failure::Outcome;
use crate::output;
use crate::quantity::show_count;
use perdura_disktest::{FailedImage, Report};
use serde_json::{Value, json};
use std::path::Path;

/// The command that repeats a failure.
fn again(folder: &Path, found: &FailedImage) -> String {
    let folder = folder.display();
    format!(
        "perdura-lab crash-disk --replay {folder} --cut {} --image {}",
        found.cut, found.image.0
    )
}

pub(super) fn reports(arguments: &Arguments, reports: &[EngineReport], seconds: f64) -> Outcome {
    if arguments.json {
        let engines: Vec<Value> = reports.iter().map(as_json).collect();
        return output::print_json(&json!({
            "first_seed": arguments.seed,
            "lives_of_a_run": arguments.lives,
            "seconds": seconds,
            "failures": reports.iter().map(|one| one.report.bad + one.lost.len() as u64).sum::<u64>(),
            "engines": engines,
        }));
    }
    for report in reports {
        for what in &report.lost {
            output::print(format!("{}: without a power cut, {what}", report.engine))?;
        }
        let Some(kept) = &report.kept else { continue };
        for found in &report.report.found {
            output::print(format!("{found}\n  again: {}", again(kept, found)))?;
        }
        output::print(format!("the run is kept in {}", kept.display()))?;
    }
    let rows = reports.iter().map(|one| {
        let EngineReport { report, runs, records, acknowledged, lost, .. } = one;
        let numbers = [
            report.images,
            report.recovering,
            *runs,
            *runs * u64::from(arguments.lives),
            *records,
            *acknowledged,
            report.bad + lost.len() as u64,
        ];
        let [images, recovering, runs, lives, records, acknowledged, bad] = numbers.map(show_count);
        [one.engine.to_string(), images, recovering, runs, lives, records, acknowledged, bad]
    });
    let header = [
        "",
        "images",
        "of these in recovery",
        "runs",
        "lives",
        "writes and syncs",
        "acknowledged",
        "failures",
    ];
    output::print(output::table(header, rows))?;
    output::print(format!("{seconds:.1} s; first seed {}", arguments.seed))
}

fn as_json(one: &EngineReport) -> Value {
    let EngineReport { engine, report, runs, records, acknowledged, lost, kept } = one;
    json!({
        "engine": engine.name(),
        "images": report.images,
        "images_in_recovery": report.recovering,
        "runs": runs,
        "records": records,
        "acknowledged": acknowledged,
        "bad_images": report.bad,
        "lost_without_a_power_cut": lost,
        "found": report.found.iter().map(|found| found_as_json(kept.as_deref(), found)).collect::<Vec<_>>(),
    })
}

fn found_as_json(folder: Option<&Path>, found: &FailedImage) -> Value {
    json!({
        "failed": found.what,
        "seed": found.seed,
        "cut": found.cut,
        "of_records": found.records,
        "life": found.life,
        "recovering": found.recovering,
        "image": found.image.0,
        "choice": found.choice,
        "again": folder.map(|folder| again(folder, found)),
    })
}

pub(super) fn replayed(arguments: &Arguments, folder: &Path, report: &Report) -> Outcome {
    let found = report.found.first();
    if arguments.json {
        return output::print_json(&json!({
            "failures": report.bad,
            "found": found.map(|found| found_as_json(Some(folder), found)),
        }));
    }
    match found {
        Some(found) => output::print(found),
        None => output::print("nothing is wrong with this image"),
    }
}
