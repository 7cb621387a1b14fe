//! Processes that die before the power is cut: what they leave is visible and not durable, on a
//! file as in the caches of a processor; syncs that fail among them.

use perdura_crashtest::subjects::{ENGINES, find};
use perdura_crashtest::{Budget, Case, Points, Report, Start, Watcher};
use perdura_memory::Domain;

/// Cases of each engine and domain, to be turned up.
fn cases() -> u64 {
    std::env::var("PERDURA_DEATHS").map_or(3, |cases| cases.parse().expect("a number"))
}

#[test]
fn what_a_dead_process_left_is_made_durable_before_it_is_believed() {
    let budget = Budget { deaths_every: 3, again_every: 0, ..Budget::default() };
    let starts = [Start::Closed, Start::New, Start::Switched];
    let mut failed = Vec::new();
    for engine in ENGINES {
        let runner = find(engine, "hash-map").expect("an engine and a structure");
        let mut all = Report::default();
        for domain in [Domain::Media, Domain::Transient] {
            for seed in 1..=cases() {
                let start = starts[seed as usize % 3];
                let (points, cores) = (Points::Random(60), 1 + seed as usize % 2 * 2);
                let case = Case { domain, start, points, cores, seed, ..Case::default() };
                match runner.explore(&case, budget, &Watcher::default()) {
                    Ok(report) => all.add(&report),
                    Err(failure) => failed.push(failure.to_string()),
                }
            }
        }
        println!("{}: {all}", runner.engine());
        assert!(all.deaths > 5 * cases() || !failed.is_empty(), "{all}");
    }
    assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed.join("\n\n"));
}
