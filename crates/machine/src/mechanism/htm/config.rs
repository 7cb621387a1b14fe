//! The figures of speculation, and the mutants.

use crate::mechanism::Mutant;
use serde::{Deserialize, Serialize};

pub(in crate::mechanism) const READS: Mutant =
    Mutant { name: "reads", what: "lines that were read are in no set" };
pub(in crate::mechanism) const OWN: Mutant =
    Mutant { name: "own", what: "programs' own memory is in no set" };

/// Its mutants.
pub(in crate::mechanism) const MUTANTS: &[Mutant] = &[READS, OWN];

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

impl HtmConfig {
    /// Fails if a figure is none that hardware can have.
    pub(in crate::mechanism) fn validate(&self) -> Result<(), String> {
        if self.read_level == 0 {
            return Err("read_level must be at least 1".to_owned());
        }
        if !(0.0..=LONGEST_NS).contains(&self.interrupt_ns) {
            return Err("interrupt_ns must be from 0 to 1e12".to_owned());
        }
        Ok(())
    }
}
