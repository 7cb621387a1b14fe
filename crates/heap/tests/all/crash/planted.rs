//! Engines with a planted bug, which the tests must find.

use perdura::{Engine, Memory, Recovery, Result, Ticket};
use perdura_engine::Sums;
use perdura_engine::area::{Checkpoint, Geometry};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Freed memory is reused at once, although the log still refers to it.
pub(crate) const NO_LIMBO: u8 = 0;
/// Recovery keeps the salt, so that later records can revive discarded ones.
pub(crate) const SAME_SALT: u8 = 1;

/// The engine `E` with the bug `BUG`.
pub(crate) struct Planted<E, M, const BUG: u8> {
    inner: Arc<E>,
    memory: PhantomData<fn() -> M>,
}

impl<M: Memory + 'static, E: Engine<M>, const BUG: u8> Engine<M> for Planted<E, M, BUG> {
    const NAME: &'static str = E::NAME;
    type Session = E::Session;

    fn format(memory: &M, area: Range<u64>) {
        E::format(memory, area);
    }

    fn inspect(memory: &M, area: Range<u64>) -> Result<Recovery> {
        E::inspect(memory, area)
    }

    fn recover(memory: &M, area: Range<u64>) -> Result<Recovery> {
        E::recover(memory, area)
    }

    fn start_with_sums(memory: Arc<M>, area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>> {
        if BUG == SAME_SALT {
            let geometry = Geometry::read(&*memory, area.clone(), E::NAME)?;
            let Checkpoint { sequence, ticket, .. } = geometry.checkpoint(&*memory)?;
            let checkpoint = Checkpoint { sequence: sequence + 1, ticket, salt: 77 };
            geometry.set_checkpoint(&*memory, checkpoint);
        }
        let inner = E::start_with_sums(memory, area, sums)?;
        Ok(Arc::new(Planted { inner, memory: PhantomData }))
    }

    fn session(self: &Arc<Self>) -> Result<E::Session> {
        self.inner.session()
    }

    fn reclaimable(&self) -> Ticket {
        if BUG == NO_LIMBO { Ticket(u64::MAX) } else { self.inner.reclaimable() }
    }

    fn checkpoint(&self) -> Result<()> {
        self.inner.checkpoint()
    }
}
