//! Shrinking, replaying, and naming the guilty store, on mutants whose bug is known: the requests
//! of one call site are left out.

use perdura_crashtest::mutants::{Met, sites, without};
use perdura_crashtest::replay::Choice;
use perdura_crashtest::shrink::{Effort, Shrunk, shrink};
use perdura_crashtest::subjects::find;
use perdura_crashtest::{Budget, Case, Points, Runner, Watcher};
use perdura_machine::Kind;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time does not end it: the result must not depend on the machine.
const EFFORT: Effort = Effort { runs: 300, time: Duration::from_secs(600) };

const SOURCES: [(&str, &str); 6] = [
    ("engine/src/redo.rs", include_str!("../../engine/src/redo.rs")),
    ("engine/src/undo.rs", include_str!("../../engine/src/undo.rs")),
    ("engine/src/area.rs", include_str!("../../engine/src/area.rs")),
    ("engine/src/session.rs", include_str!("../../engine/src/session.rs")),
    ("engine/src/logged.rs", include_str!("../../engine/src/logged.rs")),
    ("heap/src/superblock.rs", include_str!("../../heap/src/superblock.rs")),
];

fn line<'a>(file: &str, line: u32) -> &'a str {
    let source = SOURCES.iter().find(|(name, _)| *name == file).map_or("", |(_, text)| text);
    source.lines().nth(line as usize - 1).unwrap_or_default().trim()
}

/// Three cores, so that there is something to leave out.
fn case(seed: u64) -> Case {
    Case { cores: 3, operations: 6, points: Points::Random(150), seed, ..Case::default() }
}

fn shrunk(runner: &dyn Runner, met: &Met, cases: &[(&dyn Runner, Case)]) -> Option<Shrunk> {
    let (budget, watcher) = (Budget::default(), Watcher::default());
    let failure = without(met, cases, budget, &watcher).caught?;
    Some(shrink(runner, &failure, budget, EFFORT, &watcher, &mut |_, _| {}))
}

fn mutants(engine: &str) {
    let runner = find(engine, "hash-map").unwrap();
    let cases: Vec<(&dyn Runner, Case)> = (0..3).map(|seed| (&*runner, case(seed))).collect();
    let all = sites(&cases, Budget::default(), &Watcher::default()).unwrap();
    for met in all {
        let Some(shrunk) = shrunk(&*runner, &met, &cases) else {
            println!("without {}: not caught", met.site);
            continue;
        };
        println!("without {} `{}`:", met.site, line(met.site.file, met.site.line));
        println!("{} -> {}, {} runs", shrunk.from, shrunk.to, shrunk.runs);
        println!("{}\n", shrunk.failure);
    }
}

#[test]
fn undo() {
    mutants("undo");
}

#[test]
fn redo() {
    mutants("redo");
}
