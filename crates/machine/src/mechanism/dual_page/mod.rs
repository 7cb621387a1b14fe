//! Dual-page checkpointing in the memory controller, by epochs (*Dual-Page Checkpointing*, Wu and others).
//!
//! A page that is written to is mapped to two pages of the home device: its own, the *base page*, and a *derivative
//! page* of a pool. Two bits for each line say where its two versions are: the *checkpoint position*, and whether the
//! epoch has written it, *dirty*. The working version is where their exclusive or says (Equation 1); a written line
//! goes there, and never to where the checkpoint is. So a line is written once in an epoch, without a copy. At an
//! epoch's end the changed entries of the table go into the standby one of two contexts, and a pointer makes it valid.
//!
//! What always holds: until the pointer is durable, nothing is written to a place where the last context says that its
//! checkpoint is. `pool` has the one rule for which the paper's text is not enough.
//!
//! Reading order: `entry` (the table's fields), `layout` (lines), `table`, `controller` (the path of a line), `pool`,
//! `checkpoint` (the end of an epoch, and recovery).

mod checkpoint;
mod controller;
mod entry;
mod layout;
mod mutants;
mod pool;
mod table;

pub use entry::{CONTROLLER_BITS, DRAM_BITS, ENTRY_BITS, HOME_BITS};
pub(super) use mutants::MUTANTS;

use super::{Design, Home, Mechanism, Mutant, Promise};
use crate::MachineConfig;
use crate::hardware::Hardware;
use controller::DualPageController;
use layout::Layout;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Where the table is while the power is on (5.5.1 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metadata {
    /// Page indexes in the controller, vectors in DRAM, some of them cached: the paper's.
    Split,
    /// All in the controller.
    Controller,
    /// All in DRAM, some entries cached.
    Dram,
}

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DualPageConfig {
    /// Where they are from.
    pub source: String,
    /// Cycles to look a page up.
    pub lookup_cycles: u32,
    /// Derivative pages, at most as many as the program has pages; 0 for 3.7 % of those, and four at least.
    pub pool_pages: u64,
    /// Where the table is.
    pub metadata: Metadata,
    /// Entries whose vectors the controller has at a time, from 1 on.
    pub cached_vectors: usize,
    /// Lines of the special buffer: not fewer than lines fit into all caches, and 256 more.
    pub special_lines: u64,
    /// Bytes of a core's state.
    pub state_bytes: u64,
}

impl Default for DualPageConfig {
    fn default() -> Self {
        DualPageConfig {
            source: "assumed".to_owned(),
            lookup_cycles: 0,
            pool_pages: 0,
            metadata: Metadata::Split,
            cached_vectors: 1,
            special_lines: 1 << 16,
            state_bytes: 1024,
        }
    }
}

/// The design.
#[derive(Clone, Debug, Default)]
pub struct DualPage {
    config: DualPageConfig,
    left_out: Option<Mutant>,
}

impl DualPage {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A figure is out of range.
    pub fn new(config: DualPageConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        let DualPageConfig { pool_pages, cached_vectors, special_lines, state_bytes, .. } = config;
        if cached_vectors == 0 || cached_vectors > 1 << 16 {
            return Err("cached_vectors is from 1 to 65536".to_owned());
        }
        if pool_pages > 1 << 31 || special_lines > 1 << 31 || state_bytes > 1 << 20 {
            return Err(
                "pool_pages and special_lines are 2^31 at most, state_bytes 2^20".to_owned()
            );
        }
        Ok(DualPage { config, left_out: left_out.copied() })
    }

    fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }
}

impl Design for DualPage {
    fn name(&self) -> &'static str {
        "dual-page"
    }

    fn reserves(&self, lines: u64) -> u64 {
        Layout::reserved(&self.config, lines)
    }

    fn reserves_for_each_core(&self) -> u64 {
        2 * self.config.state_bytes.div_ceil(64)
    }

    fn reserves_dram(&self) -> u64 {
        table::dram_bytes(self.config.metadata, self.config.pool_pages)
    }

    /// The special buffer must have room for all lines that come into DRAM between a failed allocation and the end of
    /// the epoch that follows: those of the caches, and of the blocks that one access dirties.
    fn fits(&self, machine: &MachineConfig) -> Result<(), String> {
        let cores = machine.cores.count as u64;
        let caches = machine.caches.iter();
        let bytes =
            caches.map(|cache| cache.bytes * if cache.shared { 1 } else { cores }).sum::<u64>();
        let least = bytes / 64 + 256;
        let special = self.config.special_lines;
        let enough = special >= least;
        enough
            .then_some(())
            .ok_or_else(|| format!("special_lines is {special}, and this machine needs {least}"))
    }

    fn promises(&self) -> Promise {
        Promise::Epoch
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let layout = Layout::new(&self.config, &own);
        let epoch = hardware.home_line(layout.pointer)[0] + 1;
        let mut built = DualPageController::new(self.clone(), layout, epoch);
        built.look_anew();
        Box::new(built)
    }

    fn recover(&self, home: &mut Home<'_>) {
        let layout = Layout::new(&self.config, &home.own());
        checkpoint::recover(self, layout, home);
    }
}
