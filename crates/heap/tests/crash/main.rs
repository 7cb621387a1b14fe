//! Power cuts at the events of small runs, on the executable persistency model.
//!
//! A run is a few random transactions: words, fresh blocks, frees, aborts, one that needs several
//! log segments. It is cut after many of its events in turn; the pool is then recovered (and cut
//! again inside recovery), and must hold the state after some number of transactions, not fewer
//! than were acknowledged, with no block leaked or lost. `PERDURA_CRASH_RUNS` and
//! `PERDURA_CRASH_CUTS` turn the numbers up; a failure prints the seed and the cut.

mod omit;
mod run;

use perdura::{Domain, Engine, Memory, RedoEngine, UndoEngine};
use perdura_memory::Reference;
use run::{Outcome, Run, explore};

const DOMAINS: [Domain; 3] = [Domain::Transient, Domain::Persistent, Domain::Media];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn cuts() -> u64 {
    number("PERDURA_CRASH_CUTS", 60)
}

fn explore_all<E: Engine<Reference>>() {
    for domain in DOMAINS {
        let mut images = 0;
        for seed in 0..number("PERDURA_CRASH_RUNS", 2) {
            let run = Run { seed, domain, cuts: cuts() };
            match explore::<Reference, E>(run, |image| image) {
                Outcome::Whole(checked) => images += checked,
                Outcome::Broken(why) => panic!("{} {run:?}: {why}", E::NAME),
            }
        }
        println!("{} on {domain}: {images} images", E::NAME);
    }
}

#[test]
fn redo_survives_every_cut() {
    explore_all::<RedoEngine<Reference>>();
}

#[test]
fn undo_survives_every_cut() {
    explore_all::<UndoEngine<Reference>>();
}

/// Leaves out each write-back and each fence of an engine in turn; every omission must be
/// caught, but for those named with a reason.
fn omissions<E: Engine<omit::Omitting>>(spared: &[(&str, &str)]) {
    let mut sites = std::collections::BTreeSet::new();
    for seed in 0..2 {
        let run = Run { seed, domain: Domain::Transient, cuts: cuts() };
        let outcome =
            explore::<omit::Omitting, E>(run, |image| omit::Omitting::new(image, None, &mut sites));
        assert!(matches!(outcome, Outcome::Whole(_)), "{outcome:?}");
    }
    let sites = omit::sites();
    assert!(sites.len() >= 5, "only {sites:?}");
    let mut missed = Vec::new();
    for site in sites.into_iter().filter(|site| site.contains("engine")) {
        let caught = (0..8).any(|seed| {
            let run = Run { seed, domain: Domain::Transient, cuts: cuts() };
            let outcome = explore::<omit::Omitting, E>(run, |image| {
                omit::Omitting::new(image, Some(&site), &mut Default::default())
            });
            matches!(outcome, Outcome::Broken(_))
        });
        println!("{}: {site}: {}", E::NAME, if caught { "caught" } else { "not caught" });
        if !caught && !spared.iter().any(|(name, _)| site.contains(name)) {
            missed.push(site);
        }
    }
    assert!(missed.is_empty(), "left out and not caught: {missed:#?}");
}

#[test]
fn every_omission_in_redo_is_caught() {
    omissions::<RedoEngine<omit::Omitting>>(&[]);
}

#[test]
fn every_omission_in_undo_is_caught() {
    omissions::<UndoEngine<omit::Omitting>>(&[]);
}

/// A memory whose events can be counted and cut.
pub trait Cuttable: Memory + Sized + 'static {
    fn inner(&self) -> &Reference;
}

impl Cuttable for Reference {
    fn inner(&self) -> &Reference {
        self
    }
}
