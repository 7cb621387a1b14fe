//! What the tester needs of an engine, as an object-safe trait: exploring is compiled once for each structure, and not
//! again for each engine.

use crate::engines::Family;
use crate::life::{World, recover_alone};
use crate::{Case, Trial};
use perdura::{AnyHeap, Format, Heap, Memory, OpenError, Opening};
use perdura_machine::{Machine, Sites};
use perdura_memory::AnyMemory;
use std::marker::PhantomData;
use std::sync::Arc;

/// A family of engines.
pub(crate) trait AnyFamily: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// See [`Family::GROUPS`].
    fn groups(&self) -> bool;

    /// See [`Family::SKIPS`].
    fn skips(&self) -> bool;

    /// See [`Family::IN_ORDER`].
    fn in_order(&self) -> bool;

    /// Opens, or creates, a heap on a machine.
    fn on_machine(
        &self,
        machine: &Arc<Machine>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError>;

    /// Opens, or creates, a heap on an image.
    fn on_trial(
        &self,
        trial: &Arc<Trial>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError>;

    /// See [`recover_alone`].
    fn recover_alone(&self, case: &Case, world: World) -> Result<Sites, String>;
}

/// The family `F`.
pub(crate) struct Of<F>(PhantomData<fn() -> F>);

impl<F> Of<F> {
    pub(crate) const ENGINE: Self = Of(PhantomData);
}

impl<F: Family> AnyFamily for Of<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn groups(&self) -> bool {
        F::GROUPS
    }

    fn skips(&self) -> bool {
        F::SKIPS
    }

    fn in_order(&self) -> bool {
        F::IN_ORDER
    }

    fn on_machine(
        &self,
        machine: &Arc<Machine>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError> {
        heap_on::<F, _>(machine, new)
    }

    fn on_trial(
        &self,
        trial: &Arc<Trial>,
        new: Option<Format>,
    ) -> Result<Box<dyn AnyHeap>, OpenError> {
        // Compiled with the heap, once: an image's memory need not know call sites.
        heap_on::<F, _>(&Arc::new(AnyMemory::new(trial.clone())), new)
    }

    fn recover_alone(&self, case: &Case, world: World) -> Result<Sites, String> {
        recover_alone::<F>(case, world)
    }
}

fn heap_on<F: Family, M: Memory + 'static>(
    memory: &Arc<M>,
    new: Option<Format>,
) -> Result<Box<dyn AnyHeap>, OpenError> {
    let heap = match new {
        None => Heap::<M, F::On<M>>::open(memory.clone(), Opening::default()),
        Some(format) => Heap::create(memory.clone(), format),
    };
    Ok(Box::new(heap?))
}
