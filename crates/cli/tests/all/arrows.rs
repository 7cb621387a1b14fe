//! The dependencies between the crates, as ARCHITECTURE.md draws them.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};

/// For each crate, the crates of the workspace that it may use.
const ARROWS: [(&str, &[&str]); 19] = [
    ("perdura-testing", &[]),
    ("perdura-memory", &[]),
    ("perdura-machine", &["perdura-memory"]),
    ("perdura-derive", &[]),
    ("perdura-engine", &["perdura-memory"]),
    ("perdura-matrices", &["perdura-memory"]),
    ("perdura", &["perdura-memory", "perdura-derive", "perdura-engine"]),
    ("perdura-workloads", &["perdura", "perdura-sqlite"]),
    (
        "perdura-crashtest",
        &[
            "perdura-memory",
            "perdura-machine",
            "perdura-engine",
            "perdura",
            "perdura-sqlite",
            "perdura-workloads",
        ],
    ),
    ("perdura-server", &["perdura"]),
    ("perdura-transfer", &["perdura-memory", "perdura", "perdura-server"]),
    ("perdura-disktest", &["perdura-memory", "perdura", "perdura-server"]),
    ("perdura-capi", &["perdura"]),
    ("perdura-sqlite", &["perdura"]),
    ("perdura-sqlite-extension", &["perdura-sqlite"]),
    ("perdura-baselines", &["perdura-workloads"]),
    (
        "perdura-cli",
        &[
            "perdura-memory",
            "perdura",
            "perdura-server",
            "perdura-transfer",
            "perdura-sqlite",
            // For `perdura-lab` alone.
            "perdura-baselines",
            "perdura-workloads",
        ],
    ),
    (
        "perdura-lab",
        &[
            "perdura-memory",
            "perdura-machine",
            "perdura-matrices",
            "perdura-engine",
            "perdura",
            "perdura-workloads",
            "perdura-crashtest",
            "perdura-disktest",
            "perdura-server",
            "perdura-sqlite",
            "perdura-baselines",
            "perdura-cli",
        ],
    ),
    (
        "perdura-fuzz",
        &[
            "perdura-memory",
            "perdura-machine",
            "perdura-engine",
            "perdura",
            "perdura-workloads",
            "perdura-server",
            "perdura-transfer",
            "perdura-sqlite",
        ],
    ),
];

#[test]
fn crates_use_only_what_lies_below_them() {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata");
    let allowed: BTreeMap<_, _> = ARROWS.into_iter().collect();
    let packages = metadata.workspace_packages();
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(names, allowed.keys().copied().collect(), "a crate without arrows, or the reverse");
    for package in &packages {
        let may_use = allowed[package.name.as_str()];
        for dependency in &package.dependencies {
            // Tests may use any crate.
            if dependency.kind != DependencyKind::Development
                && names.contains(dependency.name.as_str())
            {
                assert!(
                    may_use.contains(&dependency.name.as_str()),
                    "{} must not use {}",
                    package.name,
                    dependency.name
                );
            }
        }
    }
}
