//! The caches compared with models, with formulas, and with results worked out by hand.

mod extras;
mod invariants;
mod levels;
mod models;
mod naive;
mod policies;
mod residency;

use perdura_machine::cache::{Access, Hierarchy, Policy};
use perdura_machine::config::{Holds, Level};

/// A private level that is not inclusive, of 10 cycles.
fn level(sets: u64, ways: u32, policy: Policy) -> Level {
    Level {
        source: "made up".to_owned(),
        name: "a cache".to_owned(),
        bytes: sets * u64::from(ways) * 64,
        ways,
        latency_cycles: 10,
        policy,
        shared: false,
        holds: Holds::NonInclusive,
    }
}

/// A single set. It reports its victims if all accesses are stores.
fn single_set(ways: u32, policy: Policy, seed: u64) -> Hierarchy {
    Hierarchy::new(&[level(1, ways, policy)], 1, 0, seed)
}

/// Stores a line into a single set. Returns whether it was there, and which line it replaced.
fn store(set: &mut Hierarchy, line: u64) -> (bool, Option<u64>) {
    let hit = set.access(0, line, Access::Store).level == 0;
    assert!(set.evicted().len() <= 1, "a set replaces one line at most");
    (hit, set.evicted().first().copied())
}
