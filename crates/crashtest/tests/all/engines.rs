//! The engines under the tester: a small part of the cases of `perdura-lab crash`.

use perdura_crashtest::mutants::{Tried, sites, without};
use perdura_crashtest::runner::{ENGINES, find};
use perdura_crashtest::subjects::SUBJECTS;
use perdura_crashtest::{Budget, Case, Points, Report, Runner, Start, Watcher};
use perdura_machine::MachineConfig;
use perdura_machine::cache::Policy;
use perdura_memory::Domain;
use perdura_testing::seeds;

const DOMAINS: [Domain; 2] = [Domain::Transient, Domain::Persistent];

fn tiny() -> MachineConfig {
    MachineConfig::parse("tiny", include_str!("../../../../machines/tiny.toml")).unwrap()
}

fn runners() -> Vec<Box<dyn Runner>> {
    let pairs = ENGINES.iter().flat_map(|engine| SUBJECTS.map(|subject| (*engine, subject)));
    pairs.map(|(engine, subject)| find(engine, subject).unwrap()).collect()
}

/// Every engine with every structure, under one of the policies (cycling through them), with one core and three, in
/// every domain: one of these in turn, and all of them with a budget of four.
#[test]
fn nothing_is_lost() {
    let (mut all, points) = (Report::default(), Points::Random(6));
    for (runner, index) in runners().into_iter().zip(0..) {
        let mut sum = Report::default();
        // Another seed for each of them.
        for seed in seeds(1 + index, 1) {
            let turn = seed.saturating_sub(1) as usize;
            let (domain, cores) = (DOMAINS[turn % 2], [1, 3][turn / 2 % 2]);
            let policy = Policy::NAMED[turn % Policy::NAMED.len()].policy;
            let case = Case { policy, domain, cores, points, ..Case::new(tiny(), seed) };
            match runner.explore(&case, Budget::default(), &Watcher::default()) {
                Ok(report) => sum.add(&report),
                Err(failure) => panic!("{failure}"),
            }
        }
        println!(
            "{} {}: {} images, {} again, {} seen, {} unread, {} points of {} events",
            runner.engine(),
            runner.subject(),
            sum.images,
            sum.again,
            sum.seen,
            sum.unread,
            sum.points,
            sum.events
        );
        all.add(&sum);
    }
    println!("{} images", all.images);
    assert!(all.images > 1_500, "only {} images", all.images);
}

/// The cases that each omission is tried on.
fn cases<'a>(runners: &'a [Box<dyn Runner>]) -> Vec<Tried<'a>> {
    let mut cases = Vec::new();
    // Seeing the effect of some fences of the engines that skip write-backs takes hundreds of thousands of images:
    // `perdura-lab crash --mutants` covers those.
    let chosen = |runner: &dyn Runner| {
        matches!(runner.subject(), "churn" | "hash-map") && !runner.engine().ends_with("-sum")
    };
    for runner in runners.iter().filter(|runner| chosen(&***runner)) {
        for start in [Start::Closed, Start::New, Start::Switched] {
            for seed in seeds(0, 1) {
                let case = Case { start, points: Points::Random(60), ..Case::new(tiny(), seed) };
                cases.push((&**runner, case));
            }
        }
    }
    cases
}

#[test]
fn every_omission_is_caught() {
    let (runners, watcher) = (runners(), Watcher::default());
    let cases = cases(&runners);
    let met =
        sites(&cases, Budget::default(), &watcher).unwrap_or_else(|failure| panic!("{failure}"));
    let mut missed: Vec<String> = Vec::new();
    // Requests that are needed only if a process has died: left out by `deaths.rs`.
    let of_the_dead = |site: &str| {
        site.contains("engine/src/log/left.rs") || site.contains("heap/src/superblock.rs")
    };
    for met in met.iter().filter(|met| !of_the_dead(&met.site.to_string())) {
        let mutant = without(met, &cases, Budget::default(), &watcher);
        match &mutant.caught {
            Some(failure) => {
                println!("without {}: {} images, {}", met.site, mutant.images, failure.what)
            }
            None => missed.push(met.site.to_string()),
        }
    }
    println!("{} of {} caught", met.len() - missed.len(), met.len());
    assert!(missed.is_empty(), "left out and not caught: {missed:#?}");
}
