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

const WORKLOADS: [&str; 4] = ["sps", "hash", "rbtree", "bptree"];

/// Each machine with each workload; with the few usual operations, with one of them.
#[test]
fn nothing_is_faster_than_stores_alone() {
    let (ops, entries) = (number("PERDURA_PLAIN_OPS", 100), number("PERDURA_PLAIN_ENTRIES", 1000));
    let all = std::env::var_os("PERDURA_PLAIN_OPS").is_some();
    let mut faster = Vec::new();
    for (index, machine) in perdura_machine::presets::names().enumerate() {
        let one = |number: &usize| all || *number == index % WORKLOADS.len();
        for workload in (0..WORKLOADS.len()).filter(one).map(|number| WORKLOADS[number]) {
            let run = ["sim", "--json", "--machine", machine, "--workload", workload];
            let report = succeed(&[&run[..], &["--ops", &ops, "--entries", &entries]].concat());
            let report: Value = serde_json::from_str(&report).expect("JSON");
            assert_eq!(report["baseline"], "plain");
            let engines = report["engines"].as_array().expect("engines");
            assert_eq!(engines.len(), perdura::EngineKind::ALL.len());
            for engine in engines {
                let relative = engine["relative_to_baseline"].as_f64().expect("a number");
                let what = format!("{machine} {workload} {} {relative:.4}", engine["engine"]);
                println!("{what}");
                if relative > 1.0 {
                    faster.push(what);
                }
            }
        }
    }
    assert!(faster.is_empty(), "faster than plain: {faster:#?}");
}
