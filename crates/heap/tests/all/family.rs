//! Engines with their types erased: tests of all engines are compiled once.

use perdura::{AnyHeap, Engine, Format, Heap, OpenError, Opening, Recovery};
use perdura_engine::{Result, on_each_engine};
use perdura_memory::{AnyMemory, Ram};
use std::ops::Range;
use std::sync::Arc;

type Opened = Result<Box<dyn AnyHeap>, OpenError>;

/// An engine.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) crash_consistent: bool,
    pub(crate) keeps_checksums: bool,
    create: fn(Arc<AnyMemory>, Format) -> Opened,
    open: fn(Arc<AnyMemory>) -> Opened,
    recover: fn(&AnyMemory, Range<u64>) -> Result<Recovery>,
    inspect: fn(&AnyMemory, Range<u64>) -> Result<Recovery>,
}

impl Family {
    /// The engine `E`.
    pub(crate) const fn of<E: Engine<AnyMemory>>() -> Self {
        Family {
            name: E::NAME,
            crash_consistent: E::CRASH_CONSISTENT,
            keeps_checksums: E::KEEPS_CHECKSUMS,
            create: |memory, format| Ok(Box::new(Heap::<_, E>::create(memory, format)?)),
            open: |memory| Ok(Box::new(Heap::<_, E>::open(memory, Opening::default())?)),
            recover: E::recover,
            inspect: E::inspect,
        }
    }

    /// All engines.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        on_each_engine!(add::<AnyMemory>(&mut all));
        all
    }

    /// All engines that can roll back.
    pub(crate) fn rolling_back() -> Vec<Self> {
        let mut all = Vec::new();
        on_each_engine!(rolling_back add::<AnyMemory>(&mut all));
        all
    }

    /// All crash-consistent engines.
    pub(crate) fn crash_consistent() -> Vec<Self> {
        let mut all = Vec::new();
        on_each_engine!(crash_consistent add::<AnyMemory>(&mut all));
        all
    }

    /// A new heap in `bytes` bytes of plain memory.
    pub(crate) fn in_ram(&self, format: Format) -> Box<dyn AnyHeap> {
        let memory = AnyMemory::new(Arc::new(Ram::new(format.limit)));
        self.create(&memory, format).expect("a heap")
    }

    /// A new heap.
    pub(crate) fn create(&self, memory: &AnyMemory, format: Format) -> Opened {
        (self.create)(Arc::new(memory.clone()), format)
    }

    /// Opens the heap in a memory.
    pub(crate) fn open(&self, memory: &AnyMemory) -> Opened {
        (self.open)(Arc::new(memory.clone()))
    }

    /// As [`Engine::recover`].
    pub(crate) fn recover(&self, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery> {
        (self.recover)(memory, log)
    }

    /// As [`Engine::inspect`].
    pub(crate) fn inspect(&self, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery> {
        (self.inspect)(memory, log)
    }
}

fn add<E: Engine<AnyMemory>>(all: &mut Vec<Family>) {
    all.push(Family::of::<E>());
}
