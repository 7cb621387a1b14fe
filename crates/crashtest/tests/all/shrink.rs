//! Shrinking, replaying, and naming the root cause, on mutants whose bug is known: the requests of one call site are
//! left out.

use perdura_crashtest::mutants::{Met, sites, without};
use perdura_crashtest::replay::Choice;
use perdura_crashtest::runner::find;
use perdura_crashtest::shrink::{Effort, Shrunk, shrink};
use perdura_crashtest::{Budget, Case, Failure, Points, Runner, Watcher};
use perdura_machine::{CallSite, Kind};
use std::time::Duration;

/// Not limited by time: the result must not depend on the speed of the machine.
const EFFORT: Effort = Effort { runs: 300, time: Duration::from_secs(600) };

/// The sources of the engines' stores and requests.
const SOURCES: [(&str, &str); 11] = [
    ("engine/src/consistency/alone.rs", include_str!("../../../engine/src/consistency/alone.rs")),
    ("engine/src/consistency/core.rs", include_str!("../../../engine/src/consistency/core.rs")),
    ("engine/src/consistency/redo.rs", include_str!("../../../engine/src/consistency/redo.rs")),
    ("engine/src/consistency/swal.rs", include_str!("../../../engine/src/consistency/swal.rs")),
    ("engine/src/consistency/undo.rs", include_str!("../../../engine/src/consistency/undo.rs")),
    ("engine/src/consistency/writer.rs", include_str!("../../../engine/src/consistency/writer.rs")),
    ("engine/src/log/area.rs", include_str!("../../../engine/src/log/area.rs")),
    ("engine/src/log/recovery.rs", include_str!("../../../engine/src/log/recovery.rs")),
    ("engine/src/logged/engine.rs", include_str!("../../../engine/src/logged/engine.rs")),
    ("engine/src/logged/access.rs", include_str!("../../../engine/src/logged/access.rs")),
    ("heap/src/heap.rs", include_str!("../../../heap/src/heap.rs")),
];

/// A line of one of these sources.
fn source(file: &str, line: u32) -> Option<&'static str> {
    let (_, text) = SOURCES.iter().find(|(name, _)| *name == file)?;
    text.lines().nth(line as usize - 1).map(str::trim)
}

/// Three cores with six operations each, so that there is something to leave out.
fn case(seed: u64) -> Case {
    Case { cores: 3, operations: 6, points: Points::Random(150), seed, ..Case::default() }
}

type Cases<'a> = Vec<(&'a dyn Runner, Case)>;

fn cases(runner: &dyn Runner) -> Cases<'_> {
    (0..3).map(|seed| (runner, case(seed))).collect()
}

/// The failure as it was found, and shrunk.
fn shrunk(runner: &dyn Runner, met: &Met, cases: &Cases<'_>) -> Option<(Box<Failure>, Shrunk)> {
    let (budget, watcher) = (Budget::default(), Watcher::default());
    let failure = without(met, cases, budget, &watcher).caught?;
    let shrunk = shrink(runner, &failure, budget, EFFORT, &watcher, &mut |_, _| {});
    Some((failure, shrunk))
}

/// The stores that a text names.
fn named(text: &str) -> Vec<(&str, u32, bool)> {
    let stores = text.split("stored at ").skip(1).filter_map(|rest| {
        let (file, rest) = rest.split_once(':')?;
        let (line, rest) = rest.split_once(", ")?;
        Some((file, line.parse().ok()?, rest.starts_with("asked for")))
    });
    stores.collect()
}

/// Whether the request at this call site is for this store, which is as durable as it is without that request.
fn is_root_cause(site: &CallSite, (file, line, asked): (&str, u32, bool)) -> bool {
    let calls = ["store(", "store_lines(", "copy_in("];
    let stores =
        source(file, line).is_some_and(|text| calls.iter().any(|call| text.contains(call)));
    match site.kind {
        Kind::Fence => asked,
        // Streams are themselves stores.
        Kind::Stream => !asked && (file, line) == (site.file, site.line),
        // The header's store is reported at its caller.
        _ if site.file == "heap/src/heap.rs" => !asked && (file, line) == (site.file, site.line),
        // A header left by a dead process is written back again before recovery relies on it.
        _ if site.file == "heap/src/superblock.rs" => !asked && file == "heap/src/heap.rs",
        // Recovery stores words and writes their lines back; a dead process may have stored the same words.
        _ if site.file == "engine/src/log/recovery.rs" => {
            let storing = [site.file, "engine/src/consistency/writer.rs"];
            !asked && storing.contains(&file) && stores
        }
        // Records and slots left by a dead process are written back again before recovery relies on them.
        _ if site.file == "engine/src/log/left.rs" => {
            let written = ["consistency/append.rs", "consistency/alone.rs", "log/area.rs"];
            !asked && written.iter().any(|name| file == format!("engine/src/{name}"))
        }
        // A checkpoint's slot.
        _ if ["engine/src/consistency/core.rs", "engine/src/logged/engine.rs"]
            .contains(&site.file) =>
        {
            !asked && file == "engine/src/log/area.rs" && stores
        }
        // Words that a transaction stored in place.
        _ => {
            let storing = ["engine/src/logged/access.rs", "engine/src/consistency/writer.rs"];
            !asked && storing.contains(&file) && stores
        }
    }
}

/// One in this many mutants is shrunk.
fn every() -> usize {
    perdura_testing::every(3)
}

/// Shrinks mutants' failures, and replays each from the text that it prints.
fn mutants(engine: &str) {
    let runner = find(engine, "hash-map").unwrap();
    let cases = cases(&*runner);
    let all = sites(&cases, Budget::default(), &Watcher::default()).unwrap();
    let (mut caught, mut small) = (0, 0);
    for met in all.iter().step_by(every()) {
        // Some need another structure or start.
        let Some((found, shrunk)) = shrunk(&*runner, met, &cases) else {
            println!("without {}: not met by a failure\n", met.site);
            continue;
        };
        caught += 1;
        let Shrunk { failure, from, to, runs, complete } = shrunk;
        let text = failure.to_string();
        println!("without {}: {from} -> {to}, {runs} runs\n{text}\n", met.site);
        assert!(complete && runs <= EFFORT.runs);
        assert!(to.operations <= 6, "{to}");
        small += u64::from(to.cores == 1 && to.operations <= 2);
        let names_it =
            |text: &str| named(text).into_iter().any(|store| is_root_cause(&met.site, store));
        assert!(names_it(&text), "{text}");
        // Before it is shrunk, a failure after several crash points may have no single root cause, or several.
        let found = found.to_string();
        let several = found.contains("cut again");
        assert!(names_it(&found) || named(&found).is_empty() || several, "{found}");
        let command = text.lines().last().unwrap().trim().strip_prefix("again: perdura-lab crash ");
        let again = Choice::parse(command.unwrap()).unwrap().run(&*runner).unwrap_err();
        assert_eq!(again.to_string(), text);
    }
    println!("{caught} of {}, {small} of them with one or two operations", all.len());
    // The fence of a checkpoint matters to other cores, and later.
    assert!(caught >= 13 / every() && small + 1 >= caught as u64, "{caught}, {small}");
}

#[test]
fn undo_mutants_shrink_and_come_again() {
    mutants("undo");
}

#[test]
fn redo_mutants_shrink_and_come_again() {
    mutants("redo");
}

/// The same failure shrinks in the same way; and when it may not take long, it is still one.
#[test]
fn shrinking_is_deterministic_and_bounded() {
    let runner = find("redo", "sps").unwrap();
    let cases = cases(&*runner);
    let all = sites(&cases, Budget::default(), &Watcher::default()).unwrap();
    let fences = all.iter().filter(|met| met.site.kind == Kind::Fence);
    let mut caught = fences.filter_map(|met| Some((met, shrunk(&*runner, met, &cases)?)));
    let (fence, (failure, first)) = caught.next().unwrap();
    let (_, second) = shrunk(&*runner, fence, &cases).unwrap();
    assert_eq!(first.failure.to_string(), second.failure.to_string());
    assert_eq!((first.runs, first.to), (second.runs, second.to));

    let (budget, watcher) = (Budget::default(), Watcher::default());
    let effort = Effort { runs: 3, ..EFFORT };
    let mut told = 0;
    let short = shrink(&*runner, &failure, budget, effort, &watcher, &mut |_, _| told += 1);
    assert!(!short.complete && short.runs <= 4 && told > 0);
    let command = short.failure.options();
    assert!(Choice::parse(&command).unwrap().run(&*runner).is_err(), "{command}");
}
