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

mod sets;
mod tracker;

use super::mutant::Mutant;
use super::{Accessed, Departure, Design, Effect, Mechanism, Moments};
use crate::hardware::Hardware;
use perdura_memory::{HardwareAbort, HardwareTicket, Speculation};
use serde::{Deserialize, Serialize};
use std::ops::Range;
pub(super) use tracker::{Tracker, stores};

pub(super) const READS: Mutant =
    Mutant { name: "reads", what: "lines that were read are in no set" };
pub(super) const OWN: Mutant = Mutant { name: "own", what: "programs' own memory is in no set" };

/// Its mutants.
pub(super) const MUTANTS: &[Mutant] = &[READS, OWN];

/// The longest mean time between interrupts, ns.
const LONGEST_NS: f64 = 1e12;

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HtmConfig {
    /// Where they are from.
    pub source: String,
    /// The level of cache, counted from 1, that a line which was read must not leave: 1 as for lines that were stored
    /// to, more for hardware that remembers such lines elsewhere.
    pub read_level: usize,
    /// Cycles to begin.
    pub begin_cycles: u32,
    /// Cycles to commit, once all stores are in the nearest cache.
    pub commit_cycles: u32,
    /// Cycles from an abort until the program goes on.
    pub abort_cycles: u32,
    /// Mean time between two interrupts of a core, ns; 0 for none.
    #[serde(default)]
    pub interrupt_ns: f64,
}

impl Default for HtmConfig {
    fn default() -> Self {
        HtmConfig {
            source: "assumed".to_owned(),
            read_level: 1,
            begin_cycles: 10,
            commit_cycles: 10,
            abort_cycles: 100,
            interrupt_ns: 0.0,
        }
    }
}

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

impl HtmConfig {
    /// Fails if a figure is none that hardware can have.
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.read_level == 0 {
            return Err("read_level must be at least 1".to_owned());
        }
        if !(0.0..=LONGEST_NS).contains(&self.interrupt_ns) {
            return Err("interrupt_ns must be from 0 to 1e12".to_owned());
        }
        Ok(())
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

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.0.figures()
    }
}
