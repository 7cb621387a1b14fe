//! Heaps on any memory: every engine is compiled here, once, for simulated machines, tests and examples.

use super::{AnyHeap, Format, Heap, Opening};
use crate::error::OpenError;
use perdura_engine::{Engine, EngineKind, OnEngine};
use perdura_memory::AnyMemory;
use std::sync::Arc;

impl dyn AnyHeap {
    /// As [`Heap::create`], with the engine of this kind. With the feature `any-memory` only.
    ///
    /// # Errors
    /// As [`Heap::create`].
    pub fn create(
        engine: EngineKind,
        memory: Arc<AnyMemory>,
        format: Format,
    ) -> Result<Box<dyn AnyHeap>, OpenError> {
        engine.run(Create(memory, format))
    }

    /// As [`Heap::open`], with the engine of this kind. With the feature `any-memory` only.
    ///
    /// # Errors
    /// As [`Heap::open`].
    pub fn open(
        engine: EngineKind,
        memory: Arc<AnyMemory>,
        opening: Opening,
    ) -> Result<Box<dyn AnyHeap>, OpenError> {
        engine.run(Open(memory, opening))
    }
}

struct Create(Arc<AnyMemory>, Format);

impl OnEngine<AnyMemory> for Create {
    type Output = Result<Box<dyn AnyHeap>, OpenError>;

    fn run<E: Engine<AnyMemory>>(self) -> Self::Output {
        Ok(Box::new(Heap::<_, E>::create(self.0, self.1)?))
    }
}

struct Open(Arc<AnyMemory>, Opening);

impl OnEngine<AnyMemory> for Open {
    type Output = Result<Box<dyn AnyHeap>, OpenError>;

    fn run<E: Engine<AnyMemory>>(self) -> Self::Output {
        Ok(Box::new(Heap::<_, E>::open(self.0, self.1)?))
    }
}
