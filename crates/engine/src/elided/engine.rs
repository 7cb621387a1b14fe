//! The engine: opening, recovery and checkpoints, which are those of the fallback path.

use super::fallback::Fallback;
use super::session::ElidedSession;
use super::shared::{Elided, HardwareState, Inner};
use crate::engine::Named;
use crate::pins::{Oldest, Pins};
use crate::sums::{Places, Sums};
use crate::tuning::Tuning;
use crate::{Counters, Engine, Error, Recovery, Result, Ticket};
use perdura_memory::{Memory, Speculation};
use std::ops::Range;
use std::sync::Arc;

impl<M, C, S> Engine<M> for Elided<M, C, S>
where
    M: Memory + 'static,
    C: Fallback<S>,
    S: Send + Sync + 'static,
    (C, S): Named,
{
    const NAME: &'static str = <(C, S)>::NAME;
    const CRASH_CONSISTENT: bool = C::IS_LOGGED;
    const SYNCS_STORES: bool = <C::Engine<M> as Engine<M>>::SYNCS_STORES;
    const IN_ORDER: bool = false;
    const KEEPS_CHECKSUMS: bool = false;
    type Session = ElidedSession<M, C, S>;

    fn refusal(memory: &M) -> Option<&'static str> {
        Inner::<M, C, S>::refusal(memory)
    }

    fn beside_log(limit: u64) -> u64 {
        Inner::<M, C, S>::beside_log(limit)
    }

    fn format(memory: &M, area: Range<u64>) {
        Inner::<M, C, S>::format(memory, area);
    }

    fn inspect(memory: &M, area: Range<u64>) -> Result<Recovery> {
        Inner::<M, C, S>::inspect(memory, area)
    }

    fn recover(memory: &M, area: Range<u64>) -> Result<Recovery> {
        Inner::<M, C, S>::recover(memory, area)
    }

    fn start_with_sums(memory: Arc<M>, area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>> {
        if sums.as_ref().is_some_and(Sums::has_all) {
            return Err(Error::Invalid(
                "the engines htm-* do not keep checksums of all pages, since concurrent transactions would conflict on the sums: take another engine, or a pool without them",
            ));
        }
        let places: Option<Places> = sums.as_ref().map(|sums| *sums.places());
        let inner = Inner::<M, C, S>::start_with_sums(memory.clone(), area, sums)?;
        let speculates = memory.speculation() != Speculation::Absent;
        let hardware = speculates.then(|| HardwareState::new(&*memory, places));
        Ok(Arc::new(Elided { memory, inner, hardware }))
    }

    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        Ok(ElidedSession::new(self.clone(), self.inner.session()?))
    }

    fn reclaimable(&self) -> Ticket {
        match self.hardware {
            // Whoever can still reach freed memory is lost when that is stored to.
            Some(_) => Ticket(u64::MAX),
            None => self.inner.reclaimable(),
        }
    }

    fn pins(&self) -> Pins {
        match self.hardware {
            Some(_) => Pins { left: self.reclaimable(), seen: Vec::new() },
            None => self.inner.pins(),
        }
    }

    fn oldest(&self) -> Option<Oldest> {
        self.inner.oldest()
    }

    fn give_back_due(&self) -> bool {
        self.inner.give_back_due()
    }

    fn give_back(&self) -> Result<()> {
        self.inner.give_back()
    }

    fn tune(&self, tuning: &Tuning) {
        self.inner.tune(tuning);
        if let Some(hardware) = &self.hardware {
            hardware.patience.tune(tuning);
        }
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn checkpoint(&self) -> Result<()> {
        let Some(hardware) = &self.hardware else { return self.inner.checkpoint() };
        let memory = &*self.memory;
        hardware.lock.holding(memory, || {
            self.inner.checkpoint()?;
            let unlogged = memory.speculation() == Speculation::Isolated;
            if C::IS_LOGGED && unlogged && memory.domain().needs_write_back() {
                // No log has the lines that the hardware's transactions have stored to.
                memory.write_back(0, memory.len());
                memory.fence();
                memory.check_fence()?;
            }
            Ok(())
        })
    }
}
