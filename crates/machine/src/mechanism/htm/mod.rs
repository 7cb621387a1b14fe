//! Hardware transactional memory, best effort, as Intel's restricted transactional memory and the SESC simulator's are
//! (Fernando and others, "Persistence and Synchronization: Friends or Foes?", II-B and V): for the place for
//! transactions.
//!
//! What a core has stored to must stay in its nearest cache, and what it has read in the cache of a level
//! (`read_level`); a line that leaves is an abort for lack of capacity. Another core's access to a line that was stored
//! to, or its store to one that was read, is a conflict: whoever asks wins, and the other core's stores are undone
//! before the access goes on. The lines of programs' own memory are in the sets as the pool's are. Interrupts come to a
//! core by its own clock, at times drawn from the machine's seed. Nothing is durable by this: where caches are
//! persistent a commit is durable as a whole, where they are transient its lines are like any others.

mod config;
mod sets;
mod tracker;

use super::mutant::Mutant;
use super::{Accessed, Departure, Design, Effect, Mechanism, Moments};
use crate::hardware::Hardware;
pub use config::HtmConfig;
pub(super) use config::{MUTANTS, OWN, READS};
use perdura_memory::{HardwareAbort, HardwareTicket, Speculation};
use std::ops::Range;
pub(super) use tracker::{Tracker, stores};

/// The design.
#[derive(Clone, Debug)]
pub struct Htm {
    config: HtmConfig,
    left_out: Option<Mutant>,
}

impl Htm {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A figure is none that hardware can have.
    pub fn new(config: HtmConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        config.validate()?;
        Ok(Htm { config, left_out: left_out.copied() })
    }
}

impl Design for Htm {
    fn name(&self) -> &'static str {
        "htm"
    }

    fn build(&self, hardware: &mut Hardware, _: Range<u64>) -> Box<dyn Mechanism> {
        Box::new(Transactional(Tracker::new(self.config.clone(), self.left_out, hardware)))
    }
}

/// The mechanism.
struct Transactional(Tracker);

impl Mechanism for Transactional {
    fn moments(&self) -> Moments {
        self.0.moments()
    }

    fn speculation(&self) -> Speculation {
        Speculation::Isolated
    }

    fn speculate(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        self.0.speculate(hardware, core)
    }

    fn accessed(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        self.0.accessed(hardware, access);
        Effect::Happens
    }

    fn departed(&mut self, hardware: &mut Hardware, departure: &Departure) {
        self.0.departed(hardware, departure);
    }

    fn prepare(&mut self, hardware: &mut Hardware, core: usize) {
        let stored = hardware.stores_done(core);
        hardware.wait_until(core, stored);
        self.0.charge_commit(hardware, core);
        self.0.prepare(hardware, core);
    }

    fn commit(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
    ) -> Result<HardwareTicket, HardwareAbort> {
        self.0.commit(hardware, core);
        Ok(HardwareTicket::DURABLE)
    }

    fn is_lost(&mut self, hardware: &mut Hardware, core: usize, why: HardwareAbort) {
        self.0.is_lost(hardware, core, why);
    }

    fn ended(&mut self, hardware: &mut Hardware, core: usize) {
        self.0.ended(hardware, core);
    }

    fn start_measuring(&mut self) {
        self.0.start_measuring();
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.0.figures()
    }
}
