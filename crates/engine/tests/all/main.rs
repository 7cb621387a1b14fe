//! One program for most of the tests, so that their common code is compiled and linked once.

#![allow(missing_docs)]

mod archapt;
mod archapt_flushes;
mod archapt_limits;
mod arrows;
mod eager;
mod failure;
mod give_back;
mod graph;
mod group_commit;
mod idle_readers;
mod many_sessions;
mod misuse;
mod numbers;
mod parts;
mod peek;
mod plain;
mod readers;
mod recovery_cost;
mod rot;
mod section_room;
mod sections;
mod shared;
mod skipping;
mod speculating;
mod threads;
mod undo_each;
mod void;

use perdura_engine::{Engine, Session};
use perdura_memory::{AnyMemory, Memory, Ram};
use std::sync::Arc;

/// Plain memory, as an `AnyMemory`: each engine is compiled for that once, and for `Reference` once.
fn ram(len: u64) -> AnyMemory {
    AnyMemory::new(Arc::new(Ram::new(len)))
}

/// Whether writing transactions run concurrently on a memory without hardware transactions.
fn is_concurrent<M: Memory, E: Engine<M>>() -> bool {
    E::Session::CONFLICTS && !E::NAME.starts_with("htm-")
}

/// Starts an engine on a memory whose log, of `log` bytes at its beginning, is new.
fn start_on<M: Memory + 'static, E: Engine<M>>(memory: M, log: u64) -> Arc<E> {
    let memory = Arc::new(memory);
    E::format(&memory, 0..log);
    E::start(memory, 0..log).expect("an empty log")
}
