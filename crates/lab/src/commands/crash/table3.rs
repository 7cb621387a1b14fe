//! `perdura-lab crash --table3`: a paper's table of what is crash-sync-safe where, each cell tested.

use super::Arguments;
use super::explore::{quietly, stopping};
use crate::failure::{Failure, Outcome};
use crate::quantity::show_count;
use crate::{interrupt, output};
use perdura_crashtest::Watcher;
use perdura_crashtest::table3::{Cell, Column, Finding, ROWS, Row, Word, path_of};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Images of a cell, unless `--images` says how many.
const IMAGES: u64 = 2_000;

/// A cell, and what came out of it.
type Tested = (usize, Column, Cell);

pub(super) fn run(arguments: &Arguments, threads: usize) -> Outcome {
    let progress = interrupt::progress()?;
    let images = arguments.images.unwrap_or(IMAGES).max(1);
    let cells = || (0..ROWS.len()).flat_map(|row| Column::ALL.map(|column| (row, column)));
    let cells: Vec<_> = cells().collect();
    let (next, tested) = (AtomicUsize::new(0), Mutex::<Vec<Tested>>::default());
    let watcher = Watcher::default();
    let bar = crate::bench::watch::steps("cells", cells.len());
    let work = || {
        while let Some((row, column)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            if watcher.is_stopped() {
                return;
            }
            let cell = ROWS[*row].test(*column, images, arguments.seed, &watcher);
            let mut tested = tested.lock().unwrap_or_else(PoisonError::into_inner);
            tested.push((*row, *column, cell));
            bar.inc(1);
        }
    };
    let run = || thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    stopping(&watcher, &progress, || (), || quietly(run));
    bar.finish_and_clear();
    interrupt::check(&progress)?;
    let mut tested = tested.into_inner().unwrap_or_else(PoisonError::into_inner);
    tested.sort_by_key(|(row, column, _)| (*row, Column::ALL.iter().position(|own| own == column)));
    show(arguments, &tested)?;
    match tested.iter().find(|(row, column, cell)| ROWS[*row].agrees(*column, cell) == Some(false))
    {
        None => Ok(()),
        Some((row, column, _)) => Err(Failure::new(format!(
            "{}, {}: not as the paper has it, nor as is known to differ",
            ROWS[*row].name,
            column.name()
        ))),
    }
}

/// Our word for a cell.
fn word(cell: &Cell) -> String {
    match &cell.finding {
        Finding::Safe => "safe".to_owned(),
        Finding::Caught(failure) => match path_of(failure) {
            Some(path) => format!("caught, {path}"),
            None => "caught".to_owned(),
        },
        Finding::NotRun(_) => "not run".to_owned(),
    }
}

fn show(arguments: &Arguments, tested: &[Tested]) -> Outcome {
    if arguments.json {
        let cells: Vec<Value> = tested.iter().map(as_json).collect();
        return output::print_json(&json!({ "seed": arguments.seed, "cells": cells }));
    }
    let rows = tested.iter().map(|(row, column, cell)| {
        let Row { name, engine, .. } = ROWS[*row];
        let counters = &cell.counters;
        [
            name.to_owned(),
            engine.to_owned(),
            column.name().to_owned(),
            ROWS[*row].paper(*column).text().to_owned(),
            word(cell),
            show_count(cell.images),
            show_count(cell.lives),
            show_count(counters.hardware_commits),
            show_count(counters.hardware_fallbacks),
        ]
    });
    let header = [
        "row",
        "engine",
        "column",
        "paper",
        "ours",
        "images",
        "runs",
        "commits by hardware",
        "by fallback",
    ];
    output::print(output::table(header, rows))?;
    for (row, column, cell) in tested {
        let place = format!("{}, {}", ROWS[*row].name, column.name());
        match &cell.finding {
            Finding::Caught(failure) => output::print(format!("{place}: {failure}"))?,
            Finding::NotRun(why) => output::print(format!("{place}: not run: {why}"))?,
            Finding::Safe => {}
        }
        if let Some(why) = ROWS[*row].difference(*column) {
            output::print(format!("{place}: differs from the paper: {why}"))?;
        }
    }
    let agrees = |own: &&Tested| ROWS[own.0].agrees(own.1, &own.2);
    let count = |wanted: &dyn Fn(&&Tested) -> bool| tested.iter().filter(wanted).count();
    let agreeing = count(&|own| agrees(own) == Some(true));
    let differing = |own: &&Tested| ROWS[own.0].difference(own.1).is_some();
    let differing = count(&|own| agrees(own) == Some(true) && differing(own));
    let is_run = |own: &&Tested| !matches!(own.2.finding, Finding::NotRun(_));
    let none = |own: &&Tested| ROWS[own.0].paper(own.1) == Word::NotApplicable;
    let (none_run, none_left) =
        (count(&|own| none(own) && is_run(own)), count(&|own| none(own) && !is_run(own)));
    let not_run = count(&|own| !none(own) && !is_run(own));
    output::print(format!(
        "verdict: of {} cells {} are as in the paper, {differing} differ as expected, {} do not apply there ({none_run} of \
         them run all the same), {not_run} were not run; seed {}",
        tested.len(),
        agreeing - differing,
        none_run + none_left,
        arguments.seed,
    ))
}

fn as_json((row, column, cell): &Tested) -> Value {
    let Row { name, engine, transactions, .. } = ROWS[*row];
    let (failure, why) = match &cell.finding {
        Finding::Caught(failure) => (Some(failure), None),
        Finding::NotRun(why) => (None, Some(why)),
        Finding::Safe => (None, None),
    };
    json!({
        "row": name,
        "engine": engine,
        "transactions": transactions,
        "column": column.name(),
        "paper": ROWS[*row].paper(*column).text(),
        "ours": word(cell),
        "agrees": ROWS[*row].agrees(*column, cell),
        "difference": ROWS[*row].difference(*column),
        "not_run": why,
        "images": cell.images,
        "runs": cell.lives,
        "engine_counters": cell.counters,
        "failed": failure.map(|failure| &failure.what),
        "not_durable": failure.map(|failure| &failure.missing),
        "durable_too_early": failure.map(|failure| &failure.early),
        "again": failure.map(|failure| failure.replay()),
    })
}
