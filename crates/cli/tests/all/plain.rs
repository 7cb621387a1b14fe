//! No engine is faster than `plain` in the simulated machine: what they all do costs something there.
//!
//! With more operations:
//!
//!     PERDURA_PLAIN_OPS=20000 PERDURA_PLAIN_ENTRIES=65536 cargo test --release -p perdura-cli --test all plain:: -- --nocapture

use crate::common::succeed;
use serde_json::Value;

fn number(name: &str, usual: u64) -> String {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number")).to_string()
}

const WORKLOADS: [&str; 6] = ["sps", "hash", "rbtree", "bptree", "sdg", "sqlite-pages"];

/// What is above `plain` on a machine with a workload.
fn faster(machine: &str, workload: &str, ops: &str, entries: &str) -> Vec<String> {
    let run = ["sim", "--json", "--machine", machine, "--workload", workload];
    let report = succeed(&[&run[..], &["--ops", ops, "--entries", entries]].concat());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["baseline"], "plain");
    let engines = report["engines"].as_array().expect("engines");
    assert_eq!(engines.len(), perdura::EngineKind::ALL.len());
    let mut faster = Vec::new();
    for engine in engines {
        let relative = engine["relative_to_baseline"].as_f64().expect("a number");
        let what = format!("{machine} {workload} {} {relative:.4}", engine["engine"]);
        println!("{what}");
        if relative > 1.0 {
            faster.push(what);
        }
    }
    faster
}

/// Each machine with each workload, all engines, on one core.
#[test]
fn nothing_is_faster_than_stores_alone() {
    let (ops, entries) = (number("PERDURA_PLAIN_OPS", 40), number("PERDURA_PLAIN_ENTRIES", 256));
    let (ops, entries) = (ops.as_str(), entries.as_str());
    let of_workload = |workload| {
        let each = perdura_machine::presets::names();
        each.flat_map(|machine| faster(machine, workload, ops, entries)).collect::<Vec<_>>()
    };
    let faster: Vec<String> = std::thread::scope(|scope| {
        let threads = WORKLOADS.map(|workload| scope.spawn(move || of_workload(workload)));
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(faster.is_empty(), "faster than plain: {faster:#?}");
}
