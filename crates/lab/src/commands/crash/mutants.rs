//! `perdura-lab crash --mutants`: tests the tester.

use super::Arguments;
use super::choice::Cases;
use super::explore::{quietly, stopping};
use crate::failure::{Failure, Outcome};
use crate::quantity::show_count;
use crate::{interrupt, output};
use perdura_crashtest::mutants::{CaseSites, Met, Mutant, Tried, of_case, together, without};
use perdura_crashtest::{Budget, Failure as CaseFailure, Watcher};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The call sites of a case, or its failure though nothing is left out.
type Explored = Result<CaseSites, Box<CaseFailure>>;

/// Longest description of a failure in the table.
pub(super) const LONGEST: usize = 110;

pub(super) fn run(arguments: &Arguments, cases: &Cases, threads: usize) -> Outcome {
    let progress = interrupt::progress()?;
    let count = cases.cases.len() as u64 * arguments.seeds;
    // There may be hundreds of thousands.
    let wanted = (0..count).take_while(|_| !progress.is_stopped());
    let numbered = wanted.map(|index| cases.number(index));
    let tried: Vec<Tried<'_>> =
        numbered.map(|(runner, case)| (&*cases.runners[runner], case)).collect();
    interrupt::check(&progress)?;
    if arguments.points.0.is_replay() {
        return Err(Failure::new("--mutants needs --points all or random"));
    }
    let watcher = Watcher::default();
    let run = || quietly(|| sites(&tried, arguments.budget(), threads, &watcher));
    let mut met = stopping(&watcher, &progress, || (), run)
        .map_err(|failure| Failure::new(format!("with nothing left out: {failure}")))?;
    interrupt::check(&progress)?;
    if let Some(site) = &arguments.omit {
        let known: Vec<_> = met.iter().map(|met| met.site.to_string()).collect();
        met.retain(|met| met.site.to_string() == *site);
        if met.is_empty() {
            let known = known.join(", ");
            return Err(Failure::new(format!("no call site '{site}' is met; these are: {known}")));
        }
    }
    let bar = crate::bench::watch::steps("call sites", met.len());
    let next = AtomicUsize::new(0);
    let mutants: Mutex<Vec<Mutant>> = Mutex::default();
    let work = || {
        while let Some(met) = met.get(next.fetch_add(1, Ordering::Relaxed)) {
            if progress.is_stopped() {
                return;
            }
            let mutant = without(met, &tried, arguments.budget(), &watcher);
            if mutant.caught.is_none() && watcher.is_stopped() {
                // It has not been tried on all cases.
                return;
            }
            mutants.lock().unwrap_or_else(PoisonError::into_inner).push(mutant);
            bar.inc(1);
        }
    };
    let run = || {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
    };
    stopping(&watcher, &progress, || (), || quietly(run));
    bar.finish_and_clear();
    let mut mutants = mutants.into_inner().unwrap_or_else(PoisonError::into_inner);
    mutants.sort_by(|left, right| left.site.cmp(&right.site));
    show(arguments, &met, &mutants)?;
    // The mutants tried so far are shown.
    interrupt::check(&progress)?;
    let missed = mutants.iter().filter(|mutant| mutant.caught.is_none()).count();
    if missed > 0 {
        return Err(Failure::new(format!(
            "{missed} of {} call sites can be left out unnoticed: try more cases (--start all, more --seed), or the call is not needed",
            mutants.len()
        )));
    }
    Ok(())
}

/// The call sites that the cases meet, until the watcher stops. Each case is explored whole, with nothing left out.
fn sites(
    cases: &[Tried<'_>],
    budget: Budget,
    threads: usize,
    watcher: &Watcher,
) -> Result<Vec<Met>, Box<CaseFailure>> {
    let bar = crate::bench::watch::steps("cases", cases.len());
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let explored: Mutex<Vec<(usize, Explored)>> = Mutex::default();
    let work = || {
        // Those before a failure have all begun: the first failure is the same with any number of threads.
        while !watcher.is_stopped() && !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else { return };
            let sites = of_case(case, budget, watcher);
            failed.fetch_or(sites.is_err(), Ordering::Relaxed);
            explored.lock().unwrap_or_else(PoisonError::into_inner).push((index, sites));
            bar.inc(1);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    bar.finish_and_clear();
    let mut explored = explored.into_inner().unwrap_or_else(PoisonError::into_inner);
    explored.sort_by_key(|(index, _)| *index);
    Ok(together(explored.into_iter().map(|(_, sites)| sites).collect::<Result<Vec<_>, _>>()?))
}

fn show(arguments: &Arguments, met: &[Met], mutants: &[Mutant]) -> Outcome {
    let caught = mutants.iter().filter(|mutant| mutant.caught.is_some()).count();
    if arguments.json {
        let rows: Vec<_> = mutants
            .iter()
            .map(|mutant| {
                let failure = mutant.caught.as_ref();
                json!({
                    "site": mutant.site.to_string(),
                    "images": mutant.images,
                    "caught": failure.map(|failure| &failure.what),
                    "again": failure.map(|failure| failure.replay()),
                })
            })
            .collect();
        return output::print_json(
            &json!({ "seed": arguments.seed, "caught": caught, "mutants": rows }),
        );
    }
    let rows = mutants.iter().map(|mutant| {
        let what = mutant.caught.as_ref().map_or("NOT CAUGHT", |failure| &failure.what);
        let images = show_count(mutant.images);
        let text: String = what.chars().take(LONGEST).collect();
        // One line in the table, whatever line breaks the text contains.
        [mutant.site.to_string(), images, text.replace(['\n', '|'], " ")]
    });
    output::print(output::table(["left out", "images before", "caught by"], rows))?;
    output::print(format!(
        "verdict: {caught} of {} call sites caught, seed {}",
        met.len(),
        arguments.seed
    ))
}
