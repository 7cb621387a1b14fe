//! One program for most of the tests: what they have in common is compiled and linked once.

#![allow(missing_docs)]

mod archapt;
mod archapt_flushes;
mod archapt_limits;
mod arrows;
mod eager;
mod failure;
mod group_commit;
mod misuse;
mod numbers;
mod parts;
mod plain;
mod readers;
mod rot;
mod shared;
mod skipping;
mod threads;
mod void;

use perdura_memory::{AnyMemory, Ram};
use std::sync::Arc;

/// Plain memory, as any: each engine is compiled for it and for what fails at once.
fn ram(len: u64) -> AnyMemory {
    AnyMemory::new(Arc::new(Ram::new(len)))
}
