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
//! Reading order: `config`, `entry` (the table's fields), `layout` (lines), `table`, `state`, `pool`, `controller` (the path
//! of a line), `checkpoint` (the end of an epoch, and recovery).

mod checkpoint;
mod config;
mod controller;
mod entry;
mod layout;
mod mutants;
mod pool;
mod state;
mod table;

pub use config::{DualPage, DualPageConfig, Metadata};
pub use entry::{CONTROLLER_BITS, DRAM_BITS, ENTRY_BITS, HOME_BITS};
pub(super) use mutants::MUTANTS;

use super::{Design, Home, Mechanism, Promise};
use crate::MachineConfig;
use crate::hardware::Hardware;
use layout::Layout;
use state::DualPageController;
use std::ops::Range;

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
        enough.then_some(()).ok_or_else(|| {
            format!(
                "special_lines is {special}, and must be {least} at least for the caches of {cores} \
                 cores: raise it, or take fewer cores"
            )
        })
    }

    fn promises(&self) -> Promise {
        Promise::Epoch
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let layout = Layout::new(&self.config, &own);
        let epoch = hardware.home_line(layout.pointer)[0] + 1;
        let mut built = DualPageController::new(self.clone(), layout, hardware.has_dram(), epoch);
        built.look_anew();
        Box::new(built)
    }

    fn recover(&self, home: &mut Home<'_>) {
        let layout = Layout::new(&self.config, &home.own());
        checkpoint::recover(self, layout, home);
    }
}
