//! Fuzz targets: hostile bytes must not cause a panic, a hang, or unbounded use of memory. One function for each place
//! where bytes come in.
//!
//! A [`Target`] takes any bytes. On stable Rust the test `smoke` feeds it mutants of its seeds ([`Mutator`]), a few in
//! every run of the suite, more with PERDURA_TEST_BUDGET; libFuzzer, guided by coverage, runs the same
//! functions (`.ci/fuzz`).
//!
//! Checksums would stop nearly all mutants at the first check: where the pool format has one, a target can correct it
//! first ([`repair`]), since deliberately damaged pools have the right ones.

#![forbid(unsafe_code)]

mod graph;
mod import;
mod log;
mod machine;
mod mutate;
mod pool;
pub mod repair;
mod requests;
mod sample;
mod sqlite;
mod vectors;

pub use mutate::{Mutator, NUMBERS};

/// A place where bytes come in.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Reads the bytes. Panics only if there is a bug in the reading code.
    pub run: fn(&[u8]),
    /// The seeds of its mutants.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words with a meaning there, which mutants use in addition to numbers.
    pub words: &'static [&'static str],
}

/// All of them.
pub const TARGETS: [Target; 9] = [
    requests::REQUESTS,
    requests::COMMANDS,
    log::LOG,
    pool::POOL,
    import::IMPORT,
    machine::MACHINE,
    graph::GRAPH,
    vectors::VECTORS,
    sqlite::SQLITE,
];

/// The target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    const ALL: &[Target] = &TARGETS;
    ALL.iter().find(|target| target.name == name)
}
