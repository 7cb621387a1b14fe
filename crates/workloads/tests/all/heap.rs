//! Heaps with their engine and memory type erased, so that code for all of them is compiled once.

use perdura::alloc::walk::walk;
use perdura::{AnyHeap, EngineKind, Format, Opening};
use perdura_memory::{AnyMemory, Memory, Ram};
use perdura_workloads::Plan;
use std::sync::Arc;

/// An empty heap, with a log of this many bytes.
pub(crate) fn create(
    engine: EngineKind,
    memory: Arc<dyn Memory>,
    log: Option<u64>,
) -> Box<dyn AnyHeap> {
    let limit = memory.limit();
    let format = Format { limit, log, id: 1, requires: None, checksums: false };
    <dyn AnyHeap>::create(engine, Arc::new(AnyMemory::new(memory)), format).expect("a heap")
}

/// The heap that is there.
pub(crate) fn open(engine: EngineKind, memory: Arc<dyn Memory>) -> Box<dyn AnyHeap> {
    let memory = Arc::new(AnyMemory::new(memory));
    <dyn AnyHeap>::open(engine, memory, Opening::default()).expect("a heap")
}

/// An empty heap in plain memory.
pub(crate) fn in_ram(engine: EngineKind) -> Box<dyn AnyHeap> {
    create(engine, Arc::new(Ram::new(64 << 20)), None)
}

/// An empty heap in plain memory of this many bytes.
pub(crate) fn of_bytes(engine: EngineKind, bytes: u64) -> Box<dyn AnyHeap> {
    create(engine, Arc::new(Ram::new(bytes)), None)
}

/// Bytes of all allocations.
pub(crate) fn allocated(heap: &dyn AnyHeap) -> u64 {
    let (blocks, problems) = walk(heap.memory(), heap.space().layout());
    assert!(problems.is_empty());
    blocks.iter().map(|block| block.bytes).sum()
}

/// A run without a warm-up, on one seed, whose operations are not timed.
pub(crate) fn plan(threads: usize, operations: u64) -> Plan {
    Plan {
        threads,
        operations,
        warm_up: 0,
        seed: 3,
        sample_every: 0,
        per_second: None,
        pinned: false,
        window: 1,
    }
}
