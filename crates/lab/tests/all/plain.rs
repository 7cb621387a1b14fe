//! No engine is faster than `plain` in the simulated machine: everything that engines do has a cost there.
//!
//! In caches of a few sets, as the machines `tiny` have, the place of an engine's own tables decides how often lines push each
//! other out, and the same accesses can be a quarter faster. There engines may not make fewer accesses.

use crate::common::succeed;
use perdura_testing::times;
use serde_json::Value;

const WORKLOADS: [&str; 6] = ["sps", "hash", "rbtree", "bptree", "sdg", "sqlite-pages"];

/// The engines that are faster than `plain` on a machine with a workload.
fn faster(machine: &str, workload: &str, ops: &str, entries: &str) -> Vec<String> {
    let run = ["sim", "--json", "--machine", machine, "--workload", workload];
    let report = succeed(&[&run[..], &["--ops", ops, "--entries", entries]].concat());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["baseline"], "plain");
    let engines = report["engines"].as_array().expect("engines");
    let all = perdura::EngineKind::ALL.into_iter().filter(|engine| engine.isolates());
    assert_eq!(engines.len(), all.count());
    let accesses = |engine: &Value| engine["machine"]["accesses"].as_u64().expect("a count");
    let plain = engines.iter().find(|engine| engine["engine"] == "plain").expect("the baseline");
    let mut faster = Vec::new();
    for engine in engines {
        let relative = engine["relative_to_baseline"].as_f64().expect("a number");
        let what = format!("{machine} {workload} {} {relative:.4}", engine["engine"]);
        println!("{what}");
        let by_place = machine.starts_with("tiny");
        if relative > 1.0 && !by_place || accesses(engine) < accesses(plain) {
            faster.push(what);
        }
    }
    faster
}

/// Each machine with two of the workloads, the following ones for the next machine (more with
/// a larger budget), all engines, on one core.
#[test]
fn nothing_is_faster_than_stores_alone() {
    let (ops, entries) = (times(40).to_string(), times(256).to_string());
    let (ops, entries, some) = (ops.as_str(), entries.as_str(), times(2) as usize);
    let of_workload = |index: usize| {
        let each = perdura_machine::presets::names().enumerate();
        let its = each.filter(|(turn, _)| (index + turn) % WORKLOADS.len() < some);
        its.flat_map(|(_, machine)| faster(machine, WORKLOADS[index], ops, entries))
            .collect::<Vec<_>>()
    };
    let faster: Vec<String> = std::thread::scope(|scope| {
        let each = 0..WORKLOADS.len();
        let threads: Vec<_> = each.map(|index| scope.spawn(move || of_workload(index))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(faster.is_empty(), "faster than plain: {faster:#?}");
}
