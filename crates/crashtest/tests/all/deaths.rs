//! Processes that die before the power is cut: their stores are visible but not durable, on a file as in the caches
//! of a processor; including syncs that fail.

use perdura_crashtest::mutants::{Met, Tried, sites, without};
use perdura_crashtest::runner::{ENGINES, find};
use perdura_crashtest::{Budget, Case, Points, Report, Start, Watcher};
use perdura_memory::Domain;
use perdura_testing::seeds;

const STARTS: [Start; 3] = [Start::Closed, Start::New, Start::Switched];

#[test]
fn leftovers_are_durable_before_they_are_believed() {
    let budget = Budget { deaths_every: 3, again_every: 0, ..Budget::default() };
    let mut failed = Vec::new();
    for engine in ENGINES {
        let runner = find(engine, "hash-map").expect("an engine and a structure");
        let mut all = Report::default();
        for domain in [Domain::Media, Domain::Transient] {
            for seed in seeds(1, 2) {
                let start = STARTS[seed as usize % 3];
                let (points, cores) = (Points::Random(30), 1 + seed as usize % 2 * 2);
                let case = Case { domain, start, points, cores, seed, ..Case::default() };
                match runner.explore(&case, budget, &Watcher::default()) {
                    Ok(report) => all.add(&report),
                    Err(failure) => failed.push(failure.to_string()),
                }
            }
        }
        println!("{}: {all}", runner.engine());
        assert!(all.deaths > 5 * seeds(1, 2).count() as u64 || !failed.is_empty(), "{all}");
    }
    assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed.join("\n\n"));
}

/// Each write-back and fence that makes a dead process's stores durable is needed, on a file and on persistent memory:
/// without it, some image shows that.
#[test]
fn nothing_of_that_can_be_left_out() {
    let budget = Budget { deaths_every: 2, again_every: 0, ..Budget::default() };
    let engines = ["undo", "undo-each", "redo", "s-wal", "archapt-redo"];
    let runners = engines.map(|engine| find(engine, "churn").expect("an engine and a structure"));
    let mut cases: Vec<Tried<'_>> = Vec::new();
    for seed in seeds(1, 1) {
        for (domain, start) in
            [Domain::Media, Domain::Transient].into_iter().flat_map(|d| STARTS.map(|s| (d, s)))
        {
            let points = Points::Random(15);
            let case = Case { domain, start, points, seed, ..Case::default() };
            cases.extend(runners.iter().map(|runner| (&**runner, case.clone())));
        }
    }
    let watcher = Watcher::default();
    let met = sites(&cases, budget, &watcher).unwrap_or_else(|failure| panic!("{failure}"));
    let of_the_dead = |met: &&Met| {
        let site = met.site.to_string();
        site.contains("engine/src/log/left.rs") || site.contains("heap/src/superblock.rs")
    };
    let met: Vec<&Met> = met.iter().filter(of_the_dead).collect();
    assert_eq!(met.len(), 5, "{met:?}");
    let mut missed = Vec::new();
    for met in met {
        let mutant = without(met, &cases, budget, &watcher);
        match &mutant.caught {
            Some(failure) => {
                println!("without {}: {} images, {}", met.site, mutant.images, failure.what);
            }
            None => missed.push(format!("{} ({} images)", met.site, mutant.images)),
        }
    }
    assert!(missed.is_empty(), "left out and not caught: {missed:#?}");
}
