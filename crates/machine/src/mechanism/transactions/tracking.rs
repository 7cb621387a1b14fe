//! The mechanism for logged transactions, with an exchangeable order of steps.

use super::tracked::Tracked;
use super::window::PriorWriter;
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::{Accessed, Effect, HeldVersion, Leaving, Mechanism, Moments, Verdict};
use perdura_memory::{HardwareAbort, HardwareTicket};

/// The order in which log, commit records and lines are persisted.
pub(in crate::mechanism) trait PersistOrder: Send {
    /// A transaction has committed: `core` may be made to wait.
    fn committed(&mut self, tracked: &mut Tracked, hardware: &mut Hardware, core: usize);

    /// A core wants to begin one.
    fn begins(&mut self, tracked: &mut Tracked, hardware: &mut Hardware, core: usize) {
        let _ = (tracked, hardware, core);
    }

    /// A transaction did not fit into the log together with others: makes room, so that it fits when it runs again, if
    /// it ever can.
    fn refused(&mut self, tracked: &mut Tracked, hardware: &mut Hardware) {
        let _ = (tracked, hardware);
    }

    /// The window has ended by itself: no transaction begins before `time`.
    fn stalls(&mut self, time: Ps) {
        let _ = time;
    }

    /// Whatever its figures count is counted from here on.
    fn start_measuring(&mut self) {}

    /// Its figures.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The mechanism for logged transactions.
pub(in crate::mechanism) struct Tracking<O> {
    pub(in crate::mechanism) tracked: Tracked,
    pub(in crate::mechanism) order: O,
}

impl<O: PersistOrder> Mechanism for Tracking<O> {
    fn moments(&self) -> Moments {
        Moments::STORE | Moments::FILL | Moments::EVICTION | Moments::CACHES
    }

    fn accessed(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        if !self.tracked.is_its_store(access) {
            return Effect::Happens;
        }
        match self.tracked.meet(hardware, access) {
            None => return Effect::Lost,
            Some(PriorWriter::Own | PriorWriter::Logged) => {}
            Some(PriorWriter::New) => self.tracked.save_before(hardware, access),
            Some(PriorWriter::Version(writer)) => {
                self.tracked.keep_version(hardware, access, writer)
            }
        }
        Effect::Happens
    }

    fn filled(&mut self, hardware: &mut Hardware, _: usize, line: u64) -> u64 {
        self.tracked.source(hardware, line)
    }

    fn evicted(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        self.tracked.evict(hardware, leaving)
    }

    fn displaced(&mut self, hardware: &mut Hardware, version: &HeldVersion) {
        self.tracked.move_version(hardware, version);
    }

    fn begin(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        self.tracked.may_begin(core)?;
        self.order.begins(&mut self.tracked, hardware, core);
        self.tracked.window.begin(core);
        Ok(())
    }

    fn commit(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
    ) -> Result<HardwareTicket, HardwareAbort> {
        if self.tracked.window.running() != Some(core) {
            return Err(HardwareAbort::Nested);
        }
        if self.tracked.too_large {
            self.abort(hardware, core);
            self.order.refused(&mut self.tracked, hardware);
            return Err(HardwareAbort::Capacity);
        }
        if self.tracked.commit(hardware) {
            self.order.committed(&mut self.tracked, hardware, core);
        }
        Ok(self.tracked.ticket())
    }

    fn abort(&mut self, hardware: &mut Hardware, core: usize) -> bool {
        if self.tracked.window.running() != Some(core) {
            return false;
        }
        if let Some(over) = self.tracked.undo(hardware) {
            self.order.stalls(over);
        }
        true
    }

    fn flush(&mut self, hardware: &mut Hardware, core: usize) {
        // Otherwise each flush would seal a partly filled group of the running transaction, and use up the log.
        if self.tracked.has_unannounced() {
            let durable = self.tracked.persist(hardware);
            self.tracked.announce(durable);
        }
        // Transactions persisted before may take longer.
        hardware.wait_until(core, self.tracked.last_durable());
    }

    fn due(&mut self, hardware: &mut Hardware, _: u64) {
        let now = hardware.now();
        self.tracked.retire(hardware, now);
    }

    fn durable(&mut self, hardware: &mut Hardware) -> HardwareTicket {
        HardwareTicket(self.tracked.known(hardware.now()))
    }

    fn start_measuring(&mut self) {
        self.tracked.start_measuring();
        self.order.start_measuring();
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.tracked.figures();
        figures.extend(self.order.figures());
        figures
    }
}
