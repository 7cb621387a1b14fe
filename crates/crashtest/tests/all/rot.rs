//! A few damaged pools: with checksums no wrong value is served unnoticed.

use perdura_crashtest::rot::{Fate, Plan, RotReport, run};
use perdura_memory::Domain;
use perdura_testing::{seeds, times};
use perdura_workloads::Progress;

fn found(checksums: bool) -> RotReport {
    let (pools, seed) = (times(400), seeds(1, 1).start);
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan { pools, seed, checksums, domain: Some(Domain::Process) };
    let found = run(&plan, folder.path(), &Progress::default()).expect("pools");
    let fates = Fate::ALL.map(|fate| found.count(fate));
    println!("seed {seed}, checksums {checksums}: {:?} {fates:?}", Fate::ALL);
    found.fates.iter().for_each(|(kind, fates)| println!("{kind}: {fates:?}"));
    assert_eq!(fates.iter().sum::<u64>(), pools);
    found
}

#[test]
fn with_checksums_nothing_wrong_is_served_unnoticed() {
    let found = found(true);
    assert!(found.unnoticed.is_empty(), "{:#?}", found.unnoticed);
    assert!([Fate::Refused, Fate::ReadFails].iter().all(|fate| found.count(*fate) > 0));
}

/// The same damages without checksums: otherwise the other test shows nothing.
#[test]
fn without_some_are_served() {
    assert!(found(false).count(Fate::Wrong) > 0);
}
