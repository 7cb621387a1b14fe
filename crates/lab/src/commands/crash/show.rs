//! The output of `perdura-lab crash`.

use super::Arguments;
use super::choice::Cases;
use crate::failure::Outcome;
use crate::output;
use crate::quantity::show_count;
use perdura_crashtest::{Effort, Failure, Report, Runner, Size, Watcher, shrink};
use perdura_workloads::Progress;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// The findings of all threads.
pub(super) struct Explored {
    /// One for each runner.
    pub(super) reports: Vec<Report>,
    pub(super) failure: Option<(usize, Box<Failure>)>,
    pub(super) seconds: f64,
    /// The last seed used.
    pub(super) last_seed: u64,
    /// Number of cases begun and ended without a failure.
    pub(super) cases: u64,
    /// Whether the user asked to stop before all was done.
    pub(super) ended_early: bool,
}

/// Shrinks the failure, and reports how on the standard error.
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
        "mechanism": failure.mechanism,
        "mutant": failure.case.mutant,
        "place": failure.place.map(|place| place.to_string()),
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
                let (mechanism, [engine, workload]) = names;
                json!({
                    "mechanism": mechanism,
                    "engine": engine,
                    "workload": workload,
                    "counts": counts(report),
                })
            })
            .collect();
        let coverage: Vec<Value> = all
            .coverage
            .iter()
            .map(|(site, coverage)| json!({ "site": site.to_string(), "coverage": coverage }))
            .collect();
        return output::print_json(&json!({
            "machine": machines(cases),
            "first_seed": arguments.seed,
            "last_seed": explored.last_seed,
            "seconds": explored.seconds,
            "images_per_minute": all.images as f64 / explored.seconds * 60.0,
            "failures": 0,
            "ended_early": explored.ended_early,
            "combinations": cases.round,
            "combinations_tried": explored.cases.min(cases.round as u64),
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
    let on_engines = cases.runners.iter().all(|runner| runner.mechanism().is_none());
    let lines = rows(cases, explored).map(|((mechanism, [engine, workload]), report)| {
        let under = mechanism.map_or_else(String::new, |name| format!("{name} under "));
        line(format!("{under}{engine} {workload}"), report, on_engines)
    });
    let total = std::iter::once(line("all".to_owned(), &all, on_engines));
    let header = if on_engines { ENGINES } else { MECHANISMS };
    output::print(output::table(header, lines.chain(total)))?;
    if all.corrected + all.lost > 0 {
        output::print(format!(
            "of what had been left to the caches: {} images with lost lines restored, {} refused since they could not be",
            show_count(all.corrected),
            show_count(all.lost),
        ))?;
    }
    if let Some(paths) = paths(&all) {
        output::print(paths)?;
    }
    output::print(format!(
        "{} call sites, {} of them cut at; {:.1} s, {} images a minute; machine {}, seeds {} to {}",
        all.coverage.len(),
        all.coverage.values().filter(|coverage| coverage.cuts > 0).count(),
        explored.seconds,
        show_count((all.images as f64 / explored.seconds * 60.0) as u64),
        machines(cases),
        arguments.seed,
        explored.last_seed,
    ))?;
    output::print(verdict(cases, explored, all.images))
}

/// On which path transactions have committed, and why those in hardware were lost, if any were in hardware.
fn paths(report: &Report) -> Option<String> {
    let own = &report.counters;
    let share = own.hardware_commits * 100 / (own.hardware_commits + own.hardware_fallbacks).max(1);
    let numbers = [
        own.hardware_commits,
        own.hardware_fallbacks,
        own.hardware_conflicts,
        own.hardware_capacity,
        own.hardware_interrupts,
        own.hardware_others,
        own.hardware_locked,
        own.hardware_cancelled,
    ];
    let [a, b, c, d, e, f, g, h] = numbers.map(show_count);
    (own.speculations() > 0).then(|| {
        format!(
            "committed by hardware: {a} ({share} %), on the fallback path: {b}; lost in hardware: {c} by conflict, {d} by \
             capacity, {e} by interrupt, {f} by other causes, {g} since the lock was taken, {h} rolled back"
        )
    })
}

/// The summary, and how to go on.
fn verdict(cases: &Cases, explored: &Explored, images: u64) -> String {
    let mut verdict = format!("verdict: no failure in {} images", show_count(images));
    if explored.ended_early {
        let next = explored.last_seed.saturating_add(1);
        verdict += &format!("; ended early: go on with --seed {next}");
    } else if explored.cases < cases.round as u64 {
        let [tried, all] = [explored.cases, cases.round as u64].map(show_count);
        verdict += &format!(
            "; of {all} combinations {tried} were tried: without --images all of them are"
        );
    }
    verdict
}

/// The output for engines, and for mechanisms.
const ENGINES: [&str; 9] = [
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
const MECHANISMS: [&str; 9] = [
    "",
    "images",
    "of these again",
    "at arrivals",
    "recovery cut",
    "cuts",
    "distinct images",
    "moved on",
    "failures",
];

/// The names of the machines.
fn machines(cases: &Cases) -> String {
    let names: BTreeSet<_> =
        cases.cases.iter().map(|(_, case)| case.machine.name.as_str()).collect();
    names.into_iter().collect::<Vec<_>>().join(",")
}

fn rows<'a>(
    cases: &'a Cases,
    explored: &'a Explored,
) -> impl Iterator<Item = ((Option<&'a str>, [&'a str; 2]), &'a Report)> {
    cases
        .runners
        .iter()
        .zip(&explored.reports)
        .map(|(runner, report)| ((runner.mechanism(), [runner.engine(), runner.subject()]), report))
}

fn line(name: String, report: &Report, on_engine: bool) -> [String; 9] {
    let Report { images, again, seen, unread, points, exhausted, .. } = *report;
    let Report { at_arrivals, in_recovery, moved_on, .. } = *report;
    let distinct = report.distinct.len() as u64;
    let numbers = if on_engine {
        [images, again, seen, unread, points, distinct, exhausted, 0]
    } else {
        [images, again, at_arrivals, in_recovery, points, distinct, moved_on, 0]
    };
    let [a, b, c, d, e, f, g, h] = numbers.map(show_count);
    [name, a, b, c, d, e, f, g, h]
}

fn counts(report: &Report) -> Value {
    json!({
        "images": report.images,
        "of_pools_cut_again": report.again,
        "deaths_of_processes": report.deaths,
        "with_lost_lines_restored": report.corrected,
        "refused_for_lost_lines": report.lost,
        "at_arrivals": report.at_arrivals,
        "recovery_cut": report.in_recovery,
        "memory_moved_on": report.moved_on,
        "same_as_one_before": report.seen,
        "differ_only_in_what_is_not_read": report.unread,
        "cuts": report.points,
        "distinct_cuts": report.distinct.len(),
        "cuts_with_every_combination_covered": report.exhausted,
        "combinations_allowed_by_the_model": report.possible,
        "engine_counters": report.counters,
        "runs": report.lives,
        "events": report.events,
    })
}
