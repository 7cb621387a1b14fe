//! Engines that skip write-backs: lost lines are restored, or the pool reports that it lost some.

use perdura_crashtest::runner::find;
use perdura_crashtest::{Budget, Case, Points, Report, Watcher};
use perdura_machine::MachineConfig;
use perdura_testing::seeds;

/// On structures whose pools are small enough that many lines of a region are lost at once.
#[test]
fn deferred_lines_are_restored_or_reported() {
    let tiny =
        MachineConfig::parse("tiny", include_str!("../../../../../machines/tiny.toml")).unwrap();
    for engine in ["archapt-undo-sum", "archapt-redo-sum"] {
        let mut all = Report::default();
        for (seed, subject) in
            seeds(0, 4).flat_map(|seed| ["hash-map", "churn"].map(|subject| (seed, subject)))
        {
            let case = Case {
                cores: 1 + seed as usize % 2,
                operations: 60,
                points: Points::Random(12),
                ..Case::new(tiny.clone(), seed)
            };
            let runner = find(engine, subject).unwrap();
            match runner.explore(&case, Budget::default(), &Watcher::default()) {
                Ok(report) => all.add(&report),
                Err(failure) => panic!("{failure}"),
            }
        }
        println!("{engine}: {all}");
        assert!(all.corrected > 20, "{engine}: {all}");
    }
}
