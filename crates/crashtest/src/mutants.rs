//! Tests the tester: each write-back, stream and fence of the engines and the heap is left out
//! in turn, and must be missed by somebody.
//!
//! The list is what the runs themselves meet. Nothing in the engines knows of it: the machine
//! leaves the call site's requests out.

use crate::runner::Runner;
use crate::{Budget, Case, Failure, Watcher};
use perdura_machine::{CallSite, Kind};
use std::collections::BTreeMap;

/// A call site that was left out.
#[derive(Debug)]
pub struct Mutant {
    /// Which.
    pub site: CallSite,
    /// Images checked until it was caught, or in all.
    pub images: u64,
    /// What was wrong without it, if anything was.
    pub caught: Option<Box<Failure>>,
}

/// A case of a structure on an engine.
pub type Tried<'a> = (&'a dyn Runner, Case);

/// The call sites that the cases meet, each with the cases that meet it.
///
/// # Errors
/// A failure, though nothing is left out.
pub fn sites(
    cases: &[Tried<'_>],
    budget: Budget,
    watcher: &Watcher,
) -> Result<BTreeMap<CallSite, Vec<usize>>, Box<Failure>> {
    let mut met: BTreeMap<CallSite, Vec<usize>> = BTreeMap::new();
    for (index, (runner, case)) in cases.iter().enumerate() {
        for site in runner.explore(case, budget, watcher)?.coverage.into_keys() {
            if site.kind != Kind::Store {
                met.entry(site).or_default().push(index);
            }
        }
    }
    Ok(met)
}

/// Leaves `site` out of those of the cases that meet it, until one fails.
pub fn without(
    site: &CallSite,
    met_by: &[usize],
    cases: &[Tried<'_>],
    budget: Budget,
    watcher: &Watcher,
) -> Mutant {
    let mut images = 0;
    for (runner, case) in met_by.iter().map(|index| &cases[*index]) {
        let case = Case { omit: Some(site.clone()), ..case.clone() };
        match runner.explore(&case, budget, watcher) {
            Ok(report) => images += report.images,
            Err(failure) => return Mutant { site: site.clone(), images, caught: Some(failure) },
        }
    }
    Mutant { site: site.clone(), images, caught: None }
}
