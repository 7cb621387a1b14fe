//! No engine is faster than `plain` in the simulated machine: everything that engines do has a cost there.
//!
//! With more workloads, operations and entries:
//!
//!     PERDURA_PLAIN_WORKLOADS=6 PERDURA_PLAIN_OPS=20000 PERDURA_PLAIN_ENTRIES=65536 cargo test --release -p perdura-lab --test all plain:: -- --nocapture

use crate::common::succeed;
use serde_json::Value;

fn number(name: &str, usual: u64) -> String {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number")).to_string()
}

const WORKLOADS: [&str; 6] = ["sps", "hash", "rbtree", "bptree", "sdg", "sqlite-pages"];

/// The engines that are faster than `plain` on a machine with a workload.
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

/// Each machine with three of the workloads, the following ones for the next machine (more with
/// `PERDURA_PLAIN_WORKLOADS`), all engines, on one core.
#[test]
fn nothing_is_faster_than_stores_alone() {
    let (ops, entries) = (number("PERDURA_PLAIN_OPS", 40), number("PERDURA_PLAIN_ENTRIES", 256));
    let (ops, entries) = (ops.as_str(), entries.as_str());
    let some: usize = number("PERDURA_PLAIN_WORKLOADS", 2).parse().expect("a number");
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
