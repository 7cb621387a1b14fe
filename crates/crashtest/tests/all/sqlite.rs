//! A database of SQLite under the crash tester: no statement is lost or there in part, and a commit's write-backs and
//! fences are noticed when they are left out.

use perdura_crashtest::mutants::{Tried, sites, without};
use perdura_crashtest::runner::find;
use perdura_crashtest::{Budget, Case, Points, Report, Watcher};
use perdura_machine::{Kind, MachineConfig};
use perdura_testing::seeds;

fn tiny() -> MachineConfig {
    MachineConfig::parse("tiny", include_str!("../../../../machines/tiny.toml")).unwrap()
}

/// The power is cut at every crash point of a run.
#[test]
fn every_crash_point_leaves_a_whole_database() {
    let mut sum = Report::default();
    for (engine, seed) in ["undo", "redo", "archapt-redo"].into_iter().zip(seeds(1, 3)) {
        let runner = find(engine, "sqlite").unwrap();
        let case = Case { points: Points::All, operations: 3, ..Case::new(tiny(), seed) };
        let budget = Budget { images: 2, ..Budget::default() };
        match runner.explore(&case, budget, &Watcher::default()) {
            Ok(report) => sum.add(&report),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{} images at {} crash points", sum.images, sum.points);
    assert!(sum.points > 100 && sum.images > 100, "{sum}");
}

#[test]
fn an_omission_is_noticed() {
    let (runner, watcher) = (find("redo", "sqlite").unwrap(), Watcher::default());
    let case = |seed| Case { points: Points::Random(40), ..Case::new(tiny(), seed) };
    let cases: Vec<Tried<'_>> = seeds(0, 2).map(|seed| (&*runner, case(seed))).collect();
    let met =
        sites(&cases, Budget::default(), &watcher).unwrap_or_else(|failure| panic!("{failure}"));
    // The commit's own: of its record, and of what has its place already.
    let commit = |site: &str| site.contains("engine/src/consistency");
    let (mut caught, mut fences) = (0, 0);
    for met in met.iter().filter(|met| commit(&met.site.to_string())) {
        let mutant = without(met, &cases, Budget::default(), &watcher);
        if let Some(failure) = &mutant.caught {
            println!("without {}: {} images, {}", met.site, mutant.images, failure.what);
            caught += 1;
            fences += u32::from(met.site.kind == Kind::Fence);
        }
    }
    assert!(caught >= 2 && fences >= 1, "{caught} omissions were noticed, {fences} of a fence");
}
