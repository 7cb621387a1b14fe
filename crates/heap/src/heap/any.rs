//! Heaps on any memory: every engine is compiled here, once, for simulated machines, tests and examples.

use super::{AnyHeap, Format, Heap, Opening};
use crate::error::OpenError;
use perdura_engine::{Engine, EngineKind, OnEngine, Recovery, Result};
use perdura_memory::AnyMemory;
use std::ops::Range;
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

    /// As [`Engine::recover`], with the engine of this kind. With the feature `any-memory` only.
    ///
    /// # Errors
    /// As [`Engine::recover`].
    pub fn recover(engine: EngineKind, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery> {
        engine.run(Recover(memory, log))
    }

    /// As [`Engine::inspect`], with the engine of this kind. With the feature `any-memory` only.
    ///
    /// # Errors
    /// As [`Engine::inspect`].
    pub fn inspect(engine: EngineKind, memory: &AnyMemory, log: Range<u64>) -> Result<Recovery> {
        engine.run(Inspect(memory, log))
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

struct Recover<'a>(&'a AnyMemory, Range<u64>);

impl OnEngine<AnyMemory> for Recover<'_> {
    type Output = Result<Recovery>;

    fn run<E: Engine<AnyMemory>>(self) -> Self::Output {
        E::recover(self.0, self.1)
    }
}

struct Inspect<'a>(&'a AnyMemory, Range<u64>);

impl OnEngine<AnyMemory> for Inspect<'_> {
    type Output = Result<Recovery>;

    fn run<E: Engine<AnyMemory>>(self) -> Self::Output {
        E::inspect(self.0, self.1)
    }
}
