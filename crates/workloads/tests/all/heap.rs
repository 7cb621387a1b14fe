//! Heaps with their engine and memory type erased, so that code for all of them is compiled once.

use perdura::{AnyHeap, Engine, EngineKind, Format, Heap, OnEngine, Opening};
use perdura_memory::{AnyMemory, Memory, Ram};
use std::sync::Arc;

struct Make {
    memory: Arc<AnyMemory>,
    new: Option<Format>,
}

impl OnEngine<AnyMemory> for Make {
    type Output = Box<dyn AnyHeap>;

    fn run<E: Engine<AnyMemory>>(self) -> Self::Output {
        let heap = match self.new {
            Some(format) => Heap::<_, E>::create(self.memory, format),
            None => Heap::open(self.memory, Opening::default()),
        };
        Box::new(heap.expect("a heap"))
    }
}

/// An empty heap, with a log of this many bytes.
pub(crate) fn create(
    engine: EngineKind,
    memory: Arc<dyn Memory>,
    log: Option<u64>,
) -> Box<dyn AnyHeap> {
    let limit = memory.limit();
    let new = Some(Format { limit, log, id: 1, requires: None, checksums: false });
    engine.run(Make { memory: Arc::new(AnyMemory::new(memory)), new })
}

/// The heap that is there.
pub(crate) fn open(engine: EngineKind, memory: Arc<dyn Memory>) -> Box<dyn AnyHeap> {
    engine.run(Make { memory: Arc::new(AnyMemory::new(memory)), new: None })
}

/// An empty heap in plain memory.
pub(crate) fn in_ram(engine: EngineKind) -> Box<dyn AnyHeap> {
    create(engine, Arc::new(Ram::new(64 << 20)), None)
}
