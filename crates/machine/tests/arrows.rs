//! The arrows between the files of this crate. One circle is there on purpose: the hardware calls mechanisms, and they
//! use the hardware.

#[path = "../../engine/tests/all/graph.rs"]
mod graph;

use std::collections::BTreeSet;
use std::path::Path;

/// The hardware, and the interface of what plugs into it.
const CIRCLE: [&str; 6] = [
    "hardware",
    "hardware/agenda",
    "hardware/asking",
    "hardware/own",
    "hardware/speculating",
    "mechanism/interface",
];

#[test]
fn only_hardware_and_mechanisms_use_each_other() {
    let below = graph::arrows(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let arrows: usize = below.values().map(BTreeSet::len).sum();
    assert!(arrows > 250, "only {arrows} arrows were found");
    assert_eq!(graph::circles(&below), [CIRCLE], "circles");
}

/// The small types at the bottom: of this crate they use time at most.
#[test]
fn ground_files_use_no_others() {
    let below = graph::arrows(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let module = |name: &str| name.split('/').map(str::to_owned).collect::<Vec<_>>();
    for name in ["by_number", "finishes", "mechanism/mutant", "mechanism/promise"] {
        let used = &below[&module(name)];
        assert!(used.iter().all(|used| *used == module("time")), "{name} uses {used:?}");
    }
    assert!(below[&module("config")].iter().all(|used| used[0] != "mechanism"));
}
