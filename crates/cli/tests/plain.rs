//! No engine is faster than `plain` in the simulated machine: what they all do costs something there.
//!
//! With more operations:
//!
//!     PERDURA_PLAIN_OPS=20000 PERDURA_PLAIN_ENTRIES=65536 cargo test --release -p perdura-cli --test plain -- --nocapture

#![allow(missing_docs)]

mod common;

use common::succeed;
use serde_json::Value;

fn number(name: &str, usual: u64) -> String {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number")).to_string()
}

#[test]
fn nothing_is_faster_than_stores_alone() {
    let (ops, entries) = (number("PERDURA_PLAIN_OPS", 150), number("PERDURA_PLAIN_ENTRIES", 1000));
    let mut faster = Vec::new();
    for machine in perdura_machine::presets::names() {
        for workload in ["sps", "hash", "rbtree", "bptree"] {
            let report = succeed(&[
                "sim",
                "--json",
                "--machine",
                machine,
                "--workload",
                workload,
                "--ops",
                &ops,
                "--entries",
                &entries,
            ]);
            let report: Value = serde_json::from_str(&report).expect("JSON");
            assert_eq!(report["baseline"], "plain");
            let engines = report["engines"].as_array().expect("engines");
            assert_eq!(engines.len(), perdura::EngineKind::ALL.len());
            for engine in engines {
                let relative = engine["relative_to_baseline"].as_f64().expect("a number");
                println!("{machine} {workload} {} {relative:.3}", engine["engine"]);
                if relative > 1.0 {
                    faster.push(format!("{machine} {workload} {} {relative:.4}", engine["engine"]));
                }
            }
        }
    }
    assert!(faster.is_empty(), "faster than plain: {faster:#?}");
}
