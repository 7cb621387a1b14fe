//! Tests the tester: each write-back, stream and fence of the engines and the heap is left out in turn, which must
//! cause a failure in some case.
//!
//! The list comes from the runs themselves. The engines contain nothing for this: the machine drops the call site's
//! requests.

use crate::runner::Runner;
use crate::{Budget, Case, Failure, Watcher};
use perdura_machine::{CallSite, Event, Kind};
use std::collections::BTreeMap;

/// A call site that was left out.
#[derive(Debug)]
pub struct Mutant {
    /// The call site.
    pub site: CallSite,
    /// Images checked until it was found, or in all.
    pub images: u64,
    /// The failure without its requests, if there was one.
    pub caught: Option<Box<Failure>>,
}

/// A case of a structure on an engine.
pub type Tried<'a> = (&'a dyn Runner, Case);

/// A call site that some cases meet.
#[derive(Clone, Debug)]
pub struct Met {
    /// The call site.
    pub site: CallSite,
    /// An event there.
    pub event: Event,
    /// The cases' indices.
    pub by: Vec<usize>,
}

/// The call sites of write-backs, streams and fences that a case meets, and an event at each.
#[derive(Debug)]
pub struct CaseSites(Vec<(CallSite, Event)>);

/// The call sites that a case meets.
///
/// # Errors
/// A failure, though nothing is left out.
pub fn of_case(
    (runner, case): &Tried<'_>,
    budget: Budget,
    watcher: &Watcher,
) -> Result<CaseSites, Box<Failure>> {
    let sites = runner.explore(case, budget, watcher)?.sites.all().into_iter();
    // A commit of the hardware's is no request that could be left out.
    let left_out = sites.filter(|(site, _)| !matches!(site.kind, Kind::Store | Kind::Commit));
    Ok(CaseSites(left_out.map(|(site, (event, _))| (site, event)).collect()))
}

/// The call sites of cases, which are given in their order.
pub fn together(cases: impl IntoIterator<Item = CaseSites>) -> Vec<Met> {
    let mut met: BTreeMap<CallSite, Met> = BTreeMap::new();
    for (index, CaseSites(sites)) in cases.into_iter().enumerate() {
        for (site, event) in sites {
            let new = || Met { site: site.clone(), event, by: Vec::new() };
            met.entry(site.clone()).or_insert_with(new).by.push(index);
        }
    }
    met.into_values().collect()
}

/// The call sites that the cases meet, until the watcher stops.
///
/// # Errors
/// A failure, though nothing is left out.
pub fn sites(
    cases: &[Tried<'_>],
    budget: Budget,
    watcher: &Watcher,
) -> Result<Vec<Met>, Box<Failure>> {
    let cases = cases.iter().take_while(|_| !watcher.is_stopped());
    let sites = cases.map(|case| of_case(case, budget, watcher));
    Ok(together(sites.collect::<Result<Vec<_>, _>>()?))
}

/// Leaves a call site out in those of the cases that meet it, until one fails or the watcher stops.
pub fn without(met: &Met, cases: &[Tried<'_>], budget: Budget, watcher: &Watcher) -> Mutant {
    let (mut images, site) = (0, met.site.clone());
    for (runner, case) in met.by.iter().map(|index| &cases[*index]) {
        if watcher.is_stopped() {
            break;
        }
        let case = Case { omit: Some(met.event), ..case.clone() };
        match runner.explore(&case, budget, watcher) {
            Ok(report) => images += report.images,
            Err(failure) => return Mutant { site, images, caught: Some(failure) },
        }
    }
    Mutant { site, images, caught: None }
}
