//! The engine `htm`: bodies in hardware, commits as under software transactional memory. Histories of both paths mixed,
//! and power cuts.

use crate::serial::SimulatedRun;
use perdura::{Counters, EngineKind};
use perdura_crashtest::runner::find;
use perdura_crashtest::{Budget, Case, Points, Report, Watcher};
use perdura_engine::planted::{self, Bug};
use perdura_machine::cache::Policy;
use perdura_machine::mechanism::{Htm, HtmConfig};
use perdura_machine::presets;
use perdura_memory::Domain;
use perdura_testing::{seeds, times};

/// Histories on a machine with hardware transactions, interrupts of a core this many nanoseconds apart on average, and
/// this many transactions in 100 in software at once. Returns what the engine has counted.
fn history(seed: u64, interrupt_ns: f64, fallback: Option<u64>) -> Result<Counters, String> {
    let mut config = presets::load("tiny-htm").expect("a preset");
    config.domain =
        if (seed / 2).is_multiple_of(2) { Domain::Persistent } else { Domain::Transient };
    let htm = HtmConfig { interrupt_ns, ..HtmConfig::default() };
    let transactions = Box::new(Htm::new(htm, None).expect("figures that make sense"));
    let run = SimulatedRun { config, transactions, fallback };
    run.run(EngineKind::Htm, 2 + seed as usize % 3, 1 + seed % 7, seed)
}

/// Interrupts never, now and then, and so often that about a fifth of the speculations are lost by them.
#[test]
fn histories_on_both_paths_are_serializable() {
    for interrupt_ns in [0.0, 25_000.0, 1_200.0] {
        let mut all = Counters::default();
        for seed in seeds(0, 40) {
            let fallback = [None, Some(20), Some(50)][seed as usize % 3];
            let counted = history(seed, interrupt_ns, fallback);
            all += counted.unwrap_or_else(|what| panic!("{what}"));
        }
        let Counters { hardware_commits, hardware_fallbacks, hardware_interrupts, .. } = all;
        println!("{interrupt_ns}: {all:?}");
        assert_eq!(interrupt_ns > 0.0, hardware_interrupts > 0, "{all:?}");
        let least = (hardware_commits + hardware_fallbacks) / 5;
        assert!(hardware_commits.min(hardware_fallbacks) >= least, "{all:?}");
    }
}

/// A record that is not read, a stamp before the locks, reads that are not checked in software beside them.
#[test]
fn steps_left_out_are_found_by_histories() {
    for bug in [Bug::RecordUnread, Bug::StampBeforeLocks, Bug::FirstLineLocked] {
        let found = (0..400 * times(1))
            .find(|seed| planted::with(bug, || history(*seed, 0.0, Some(20))).is_err());
        println!("{bug:?} found by seed {found:?}");
        assert!(found.is_some(), "{bug:?} was not found");
    }
}

fn case(domain: Domain, cores: usize, seed: u64) -> Case {
    let machine = presets::load("tiny-htm").expect("a preset");
    Case {
        domain,
        cores,
        policy: Policy::NAMED[seed as usize % Policy::NAMED.len()].policy,
        points: Points::Random(30),
        transactions: Some("htm".to_owned()),
        ..Case::new(machine, seed)
    }
}

/// No image is wrong, on one core and on four, where caches are transient, too: nothing is stored in place by a
/// speculation.
#[test]
fn nothing_is_lost() {
    for domain in [Domain::Transient, Domain::Persistent] {
        let lives = if domain == Domain::Persistent { 4 } else { 2 };
        for cores in [1, 4] {
            let mut all = Report::default();
            for seed in seeds(0, lives) {
                for subject in ["sps", "hash-map", "churn", "wide"] {
                    let runner = find("htm", subject).expect("a runner");
                    let case = case(domain, cores, seed);
                    let explored = runner.explore(&case, Budget::default(), &Watcher::default());
                    all.add(&explored.unwrap_or_else(|failure| panic!("{failure}")));
                }
            }
            let Counters { hardware_commits, hardware_fallbacks, .. } = all.counters;
            println!("{domain} {cores} cores: {all} {:?}", all.counters);
            let least = (hardware_commits + hardware_fallbacks) / 10;
            assert!(hardware_commits.min(hardware_fallbacks) >= least, "{:?}", all.counters);
        }
    }
}

/// A commit that is unlocked before its record is durable is found, by what others have seen of it.
#[test]
fn locks_released_too_early_are_found() {
    let runner = find("htm", "sps").expect("a runner");
    let found = (0..60 * times(1)).find_map(|seed| {
        let case = case(Domain::Transient, 4, seed);
        planted::with(Bug::UnlockedBeforeDurable, || {
            runner.explore(&case, Budget::default(), &Watcher::default()).err()
        })
    });
    println!("{}", found.expect("an image that is wrong"));
}
