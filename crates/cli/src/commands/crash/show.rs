//! What `perdura crash` prints.

use super::Arguments;
use super::choice::Cases;
use super::explore::Explored;
use crate::failure::Outcome;
use crate::output;
use crate::quantity::show_count;
use perdura_crashtest::{Effort, Failure, Report, Runner, Size, Watcher, shrink};
use perdura_workloads::Progress;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// The failure made smaller, with a word on how on the standard error.
pub(super) fn shrunk(runner: &dyn Runner, failure: &Failure, progress: &Progress) -> Box<Failure> {
    let watcher = Watcher::default();
    let mut step = |runs: u64, size: Size| {
        if progress.is_stopped() {
            watcher.stop.store(true, Ordering::Relaxed);
        }
        eprintln!("shrinking: {size}, after {runs} runs");
    };
    let shrunk = shrink(runner, failure, failure.budget, Effort::default(), &watcher, &mut step);
    shrunk.failure
}

pub(super) fn failure(arguments: &Arguments, failure: &Failure) -> Outcome {
    if !arguments.json {
        return output::print(failure);
    }
    output::print_json(&json!({
        "failed": failure.what,
        "engine": failure.engine,
        "workload": failure.subject,
        "seed": failure.case.seed,
        "cut": failure.cut.as_ref().map(|(event, events, name)| {
            json!({ "after_event": event, "of_events": events, "event": name })
        }),
        "not_durable": failure.missing,
        "durable_too_early": failure.early,
        "operations": failure.operations,
        "again": failure.replay(),
    }))
}

pub(super) fn report(arguments: &Arguments, cases: &Cases, explored: &Explored) -> Outcome {
    let mut all = Report::default();
    explored.reports.iter().for_each(|report| all.add(report));
    if arguments.json {
        let rows: Vec<Value> = rows(cases, explored)
            .map(|(names, report)| {
                let [engine, workload] = names;
                json!({ "engine": engine, "workload": workload, "counts": counts(report) })
            })
            .collect();
        let coverage: Vec<Value> = all
            .coverage
            .iter()
            .map(|(site, coverage)| json!({ "site": site.to_string(), "coverage": coverage }))
            .collect();
        return output::print_json(&json!({
            "machine": arguments.machine,
            "first_seed": arguments.seed,
            "last_seed": explored.last_seed,
            "seconds": explored.seconds,
            "images_per_minute": all.images as f64 / explored.seconds * 60.0,
            "failures": 0,
            "ended_early": explored.ended_early,
            "total": counts(&all),
            "runs": rows,
            "call_sites": coverage,
        }));
    }
    if arguments.coverage {
        let rows = all.coverage.iter().map(|(site, coverage)| {
            let numbers = [coverage.met, coverage.cuts, coverage.images].map(show_count);
            let [met, cuts, images] = numbers;
            [site.to_string(), met, cuts, images]
        });
        output::print(output::table(["call site", "met", "cuts there", "images"], rows))?;
    }
    let lines = rows(cases, explored)
        .map(|([engine, workload], report)| line(format!("{engine} {workload}"), report));
    let total = std::iter::once(line("all".to_owned(), &all));
    let header = [
        "",
        "images",
        "of these again",
        "same",
        "unread",
        "cuts",
        "distinct cuts",
        "exhausted",
        "failures",
    ];
    output::print(output::table(header, lines.chain(total)))?;
    if all.corrected + all.lost > 0 {
        output::print(format!(
            "of what had been left to the caches: {} images with lost lines restored, {} refused since they could not be",
            show_count(all.corrected),
            show_count(all.lost),
        ))?;
    }
    if explored.ended_early {
        output::print("ended early; no failure up to here")?;
    }
    output::print(format!(
        "{} call sites, {} of them cut at; {:.1} s, {} images a minute; machine {}, seeds {} to {}",
        all.coverage.len(),
        all.coverage.values().filter(|coverage| coverage.cuts > 0).count(),
        explored.seconds,
        show_count((all.images as f64 / explored.seconds * 60.0) as u64),
        arguments.machine,
        arguments.seed,
        explored.last_seed,
    ))
}

fn rows<'a>(
    cases: &'a Cases,
    explored: &'a Explored,
) -> impl Iterator<Item = ([&'a str; 2], &'a Report)> {
    cases
        .runners
        .iter()
        .zip(&explored.reports)
        .map(|(runner, report)| ([runner.engine(), runner.subject()], report))
}

fn line(name: String, report: &Report) -> [String; 9] {
    let Report { images, again, seen, unread, points, exhausted, .. } = report;
    let distinct = report.distinct.len() as u64;
    let numbers =
        [*images, *again, *seen, *unread, *points, distinct, *exhausted, 0].map(show_count);
    let [images, again, seen, unread, points, distinct, exhausted, failures] = numbers;
    [name, images, again, seen, unread, points, distinct, exhausted, failures]
}

fn counts(report: &Report) -> Value {
    json!({
        "images": report.images,
        "of_pools_cut_again": report.again,
        "deaths_of_processes": report.deaths,
        "with_lost_lines_restored": report.corrected,
        "refused_for_lost_lines": report.lost,
        "same_as_one_before": report.seen,
        "differ_only_in_what_is_not_read": report.unread,
        "cuts": report.points,
        "distinct_cuts": report.distinct.len(),
        "cuts_with_every_combination_covered": report.exhausted,
        "combinations_allowed_by_the_model": report.possible,
        "runs": report.lives,
        "events": report.events,
    })
}
