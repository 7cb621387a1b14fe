//! Hardware transactional memory whose transactions are durable: *ccHTM* (Fernando and others, "Persistence and
//! Synchronization: Friends or Foes?", IV-A), for machines with transient caches.
//!
//! Sets, conflicts, capacity and interrupts are those of [`htm`](super::htm). In addition each transactional store is
//! doubled by a non-temporal one, made by the hardware and not transactional, which appends the word and its offset to
//! the core's redo log in home memory. A commit:
//!
//! 1. a fence: the log's entries are durable. Until then the transaction may be lost.
//! 2. the log's tail becomes the number of entries, in one non-temporal store;
//! 3. a fence: the transaction is durable;
//! 4. the lines that were stored to are written back;
//! 5. a fence: they are home;
//! 6. the tail becomes 0;
//! 7. a fence: the entries are dead;
//! 8. the lines leave the speculative state, at one moment.
//!
//! An abort writes nothing: entries behind the tail are void. Recovery redoes the entries of each log whose tail is not 0,
//! in their order, and resets its tail; two logs with entries never have a word in common.
//!
//! The paper leaves open what happens between 2 and 8, where the transaction cannot be lost any more, since its tail may
//! be durable at any time. Here a core whose access would make it lose waits until 8, and no interrupt ends it. So
//! whatever a program has seen of a transaction is durable, and transactions that depend on each other become durable in
//! their order.
//!
//! Reading order: `log`, `release` (the waits), `running` (the mechanism).

mod log;
mod mutants;
mod release;
mod running;

use super::htm::{HtmConfig, Tracker};
use super::mutant::Mutant;
use super::{Design, Home, Mechanism};
use crate::hardware::Hardware;
pub(super) use mutants::MUTANTS;
use running::DurableTransactions;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The largest log.
const MOST_BYTES: u64 = 1 << 30;

/// Its figures. Those that [`HtmConfig`] has too are the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CcHtmConfig {
    /// Where they are from.
    pub source: String,
    /// The level of cache, counted from 1, that a line which was read must not leave.
    pub read_level: usize,
    /// Cycles to begin.
    pub begin_cycles: u32,
    /// Cycles to commit, beside those of the log, the write-backs and the fences.
    pub commit_cycles: u32,
    /// Cycles from an abort until the program goes on.
    pub abort_cycles: u32,
    /// Mean time between two interrupts of a core, ns; 0 for none.
    #[serde(default)]
    pub interrupt_ns: f64,
    /// Bytes of each core's log, its tail included.
    pub log_bytes: u64,
}

impl Default for CcHtmConfig {
    fn default() -> Self {
        let HtmConfig {
            read_level, begin_cycles, commit_cycles, abort_cycles, interrupt_ns, ..
        } = HtmConfig::default();
        CcHtmConfig {
            source: "Table IV: 10 MB for each core; the others are assumed, as htm's".to_owned(),
            read_level,
            begin_cycles,
            commit_cycles,
            abort_cycles,
            interrupt_ns,
            log_bytes: 10 << 20,
        }
    }
}

impl CcHtmConfig {
    /// The figures of speculation alone.
    fn speculation(&self) -> HtmConfig {
        let CcHtmConfig { read_level, begin_cycles, commit_cycles, .. } = *self;
        let CcHtmConfig { abort_cycles, interrupt_ns, .. } = *self;
        let source = self.source.clone();
        HtmConfig { source, read_level, begin_cycles, commit_cycles, abort_cycles, interrupt_ns }
    }
}

/// The design.
#[derive(Clone, Debug)]
pub struct CcHtm {
    config: CcHtmConfig,
    left_out: Option<Mutant>,
}

impl CcHtm {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A figure is none that hardware can have.
    pub fn new(config: CcHtmConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        config.speculation().validate()?;
        let room = log::LEAST_LINES * 64..=MOST_BYTES;
        if !config.log_bytes.is_multiple_of(64) || !room.contains(&config.log_bytes) {
            let text =
                "log_bytes must be a multiple of 64 from 128, a tail and four entries, to 1 GiB";
            return Err(text.to_owned());
        }
        Ok(CcHtm { config, left_out: left_out.copied() })
    }

    fn log_lines(&self) -> u64 {
        self.config.log_bytes / 64
    }
}

impl Design for CcHtm {
    fn name(&self) -> &'static str {
        "cc-htm"
    }

    fn reserves_for_each_core(&self) -> u64 {
        self.log_lines()
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let tracker = Tracker::new(self.config.speculation(), self.left_out, hardware);
        Box::new(DurableTransactions::new(tracker, hardware.count(), own.start, self.log_lines()))
    }

    /// Before a program's own recovery, which finds hardware transactions whole or not at all.
    fn recover(&self, home: &mut Home<'_>) {
        log::recover(home, self.log_lines(), self.left_out);
    }
}
