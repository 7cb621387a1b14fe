//! Page overlays (Seshadri et al., ISCA 2015), used for checkpoints as in Dual-Page Checkpointing (2.3, 3.5, 5.1.2).
//!
//! It sits between the DRAM cache and the home device. The lines of a page that an epoch has dirtied go to the page's
//! overlay, a segment that has room for a sixteenth of the page, or for two, four, eight sixteenths, or all of it; the
//! page itself stays as the last checkpoint has it. An overlay that is full moves to a larger segment, and the line that
//! caused this waits. An epoch ends when every dirty line is in an overlay: then each overlay's entry is stored, in the
//! older of two tables, and after them the epoch's number, which makes that table the valid one. In the next epoch the
//! overlays' lines are copied into their pages, in the background; the next end of an epoch waits for that.
//!
//! What always holds: an overlay's segment is not written again before a table without it is the valid one, and no page
//! is written before its overlay is in the valid table. So the power may be cut at any time. Recovery copies from overlays
//! to pages, which it never reads.
//!
//! Reading order: `segments` (an overlay and its segment), `tables` (their form in the home device, and recovery), `config`,
//! `state`, `room` (how overlays grow), `checkpoint` (the end of an epoch, and merges), `controller` (the path of a line).

mod checkpoint;
mod config;
mod controller;
mod mutants;
mod room;
mod segments;
mod state;
mod tables;

pub use config::{PageOverlays, PageOverlaysConfig};
pub(super) use mutants::MUTANTS;
pub use segments::OVERLAY_ENTRY_BITS;

use super::{Design, Home, Mechanism, Promise};
use crate::hardware::Hardware;
use perdura_memory::LINE;
use state::PageOverlaysController;
use std::ops::Range;

impl Design for PageOverlays {
    fn name(&self) -> &'static str {
        "page-overlays"
    }

    fn reserves(&self, lines: u64) -> u64 {
        self.layout(lines).end() - lines
    }

    fn reserves_dram(&self) -> u64 {
        self.config.dram_entries * LINE
    }

    fn promises(&self) -> Promise {
        Promise::Epoch
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let layout = self.layout(own.start);
        let epoch = hardware.home_line(layout.header)[0] + 1;
        Box::new(PageOverlaysController::new(self.clone(), layout, epoch))
    }

    fn recover(&self, home: &mut Home<'_>) {
        let layout = self.layout(home.own().start);
        tables::recover(home, layout, &|mutant| self.leaves_out(mutant));
    }
}
