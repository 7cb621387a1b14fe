//! The tester itself: the same case gives the same result twice, and pruned images would not have changed it.

use perdura_crashtest::mutants::{sites, without};
use perdura_crashtest::runner::{ENGINES, find};
use perdura_crashtest::subjects::SUBJECTS;
use perdura_crashtest::{Budget, Case, Points, Report, Runner, Watcher};
use perdura_memory::Domain;

const CHECKED: Budget = Budget {
    images: 24,
    again_every: 40,
    again: (12, 3),
    depth: 1,
    deaths_every: 0,
    check_pruning: true,
};

/// The first of every this many mutants is tried.
fn every_mutant() -> usize {
    perdura_testing::every(2)
}

/// The first of every this many pairs of an engine and a structure. It must have no divisor in common with the number
/// of structures: then engines cycle through them.
fn runners(every: usize) -> impl Iterator<Item = Box<dyn Runner>> {
    let pairs = ENGINES.iter().flat_map(|engine| SUBJECTS.map(|subject| (engine, subject)));
    pairs.step_by(every).map(|(engine, subject)| find(engine, subject).unwrap())
}

fn numbers(report: &Report) -> [u64; 9] {
    let Report { images, again, seen, unread, points, events, exhausted, lives, .. } = report;
    let distinct = report.distinct.len() as u64;
    [*images, *again, *seen, *unread, *points, *events, *exhausted, *lives, distinct]
}

/// `engines.rs` explores all pairs: here a few are enough to see that a case has one outcome.
const EVERY: usize = 6;

#[test]
fn the_same_case_comes_to_the_same() {
    let (mut seen, every) = (0, perdura_testing::every(EVERY));
    for (runner, seed) in runners(every).zip(0..) {
        let cores = [1, 3][seed as usize % 2];
        let case = Case { cores, seed, points: Points::Random(6), ..Case::default() };
        let deaths_every = if cores == 1 { 0 } else { Budget::default().deaths_every };
        let budget = Budget { deaths_every, ..Budget::default() };
        let [first, second] =
            [(), ()].map(|()| runner.explore(&case, budget, &Watcher::default()).unwrap());
        assert_eq!(numbers(&first), numbers(&second), "{cores} cores");
        assert!(first.images > 0);
        seen += first.seen;
    }
    // A single case may well repeat no image.
    assert!(seen > 200 / every as u64, "{seen}");
}

/// Images that differ from others only in unread words, and images that were seen before, are checked too: each must
/// give the same result as its equal.
#[test]
fn pruned_images_give_the_same() {
    let (mut sum, watcher) = (Report::default(), Watcher::default());
    let every = perdura_testing::every(3);
    for (runner, seed) in runners(every).zip(7..) {
        let (cores, domain) =
            [(1, Domain::Transient), (3, Domain::Transient), (1, Domain::Persistent)]
                [seed as usize % 3];
        let case = Case { cores, domain, seed, points: Points::Random(10), ..Case::default() };
        match runner.explore(&case, CHECKED, &watcher) {
            Ok(report) => sum.add(&report),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{} unread, {} seen, {} images", sum.unread, sum.seen, sum.images);
    let least = 400 / every as u64;
    assert!(sum.unread > least && sum.seen > least);
}

/// The same for engines that fail: with or without pruning, they fail in the same way.
#[test]
fn mutants_fail_the_same_without_pruning() {
    let pruned = Budget { check_pruning: false, ..CHECKED };
    let watcher = Watcher::default();
    for engine in ENGINES {
        let runner = find(engine, "hash-map").unwrap();
        let case = Case { points: Points::Random(60), ..Case::default() };
        let cases = [(&*runner, case)];
        let mut failed = 0;
        for met in sites(&cases, pruned, &watcher).unwrap().iter().step_by(every_mutant()) {
            let [with, without] = [pruned, CHECKED].map(|budget| {
                let caught = without(met, &cases, budget, &watcher).caught;
                caught.map(|failure| (failure.to_string(), failure.cut))
            });
            assert_eq!(with, without, "{}", met.site);
            failed += u64::from(with.is_some());
        }
        assert!(failed >= 8 / every_mutant() as u64, "only {failed} mutants of {engine} failed");
    }
}
