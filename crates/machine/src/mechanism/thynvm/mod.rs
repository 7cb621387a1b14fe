//! `ThyNVM` (Ren et al., MICRO 2015) as Dual-Page Checkpointing (2.3, 3.5, 5.1.2) has it behind a DRAM cache: two tables of
//! different granularity, and checkpoints that are made while the next epoch runs.
//!
//! Lines of a page with few dirty lines go to places of their own (*block remapping*): a table of limited size has an entry
//! for each of them. A page with many dirty lines is written as a whole (*page writeback*), from the next epoch on. An
//! epoch ends when the dirty lines of the CPU's caches are in DRAM. Then the dirty lines in DRAM, as they are at that
//! moment, go to the home device page by page while programs go on; after them the changed entries of both tables, into
//! the older of two copies; and at last the epoch's number, which makes that copy the valid one.
//!
//! What always holds: there are three versions of a line, that of the last checkpoint, that of the checkpoint being made,
//! and the working one. Nothing is written to a place that one of the first two has (`places`). So the power may be cut
//! at any time. Recovery copies from places to homes, which it never reads.
//!
//! Reading order: this file (when it is called), `design` (its figures), `tables` (places, and their form in the home
//! device), `places` (where the versions are), `controller` (its state), `checkpoint`, `mutants`.

mod checkpoint;
mod controller;
mod design;
mod mutants;
mod places;
mod tables;

use super::epoch_number::NextStep;
use super::{
    Design, Dirtied, EpochTickets, Fetch, Flush, Home, Leaving, Mechanism, Moments, Promise,
    Verdict,
};
use crate::Ps;
use crate::hardware::Hardware;
use controller::{Counts, DirtyLines, ThyNvmController};
use mutants::PLACE;
use places::{Changed, Places};
use std::ops::Range;

pub(super) use mutants::MUTANTS;

pub use design::{ThyNvm, ThyNvmConfig};
pub use tables::{BLOCK_INDEX_BITS, PAGE_INDEX_BITS};

impl Design for ThyNvm {
    fn name(&self) -> &'static str {
        "thynvm"
    }

    fn reserves(&self, lines: u64) -> u64 {
        self.layout(lines).end() - lines
    }

    fn promises(&self) -> Promise {
        Promise::Epoch
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let layout = self.layout(own.start);
        Box::new(ThyNvmController {
            design: self.clone(),
            layout,
            epoch: hardware.home_line(layout.header)[0] + 1,
            places: Places::new(layout),
            checkpoint: None,
            before: Changed::default(),
            next_step: NextStep::default(),
            committed: Ps(0),
            counts: Counts::default(),
            tickets: EpochTickets::default(),
            unmeasured: 0,
        })
    }

    fn recover(&self, home: &mut Home<'_>) {
        let layout = self.layout(home.own().start);
        let left_out = |mutant| self.leaves_out(mutant);
        tables::recover(home, layout, &left_out);
    }
}

impl Mechanism for ThyNvmController {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn fetched(&mut self, hardware: &mut Hardware, fetch: &Fetch, places: &mut [u64]) -> Ps {
        for place in places {
            if *place < self.layout.header {
                self.take_turn(hardware, *place);
                *place = self.places.working(*place);
            }
        }
        fetch.now + hardware.cycles(self.design.config.lookup_cycles)
    }

    fn dirtied(&mut self, hardware: &mut Hardware, dirtied: &Dirtied) {
        self.take_turn(hardware, dirtied.line);
        self.places.note_dirty(dirtied.line);
    }

    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let line = leaving.line;
        self.take_turn(hardware, line);
        self.places.note_dirty(line);
        let still = DirtyLines::after(hardware, line, leaving.block);
        let last = self.places.last(line);
        let (to, copies) = self.assign(line, &still);
        self.copy(hardware, &copies, leaving.block);
        let looked = leaving.from + hardware.cycles(self.design.config.lookup_cycles);
        if self.design.leaves_out(PLACE) && line % 8 == 3 {
            return Verdict::RedirectAfter(last, looked);
        }
        Verdict::RedirectAfter(to, looked.max(self.committed))
    }

    fn due(&mut self, hardware: &mut Hardware, number: u64) {
        if self.next_step.is(number) {
            self.go_on(hardware);
        }
    }

    fn end_epoch(&mut self, hardware: &mut Hardware) -> Flush {
        if self.checkpoint.is_some() {
            self.counts.waited += 1;
            self.finish(hardware);
        }
        Flush::Caches
    }

    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        self.begin(hardware, home);
    }

    fn tickets(&mut self) -> Option<&mut EpochTickets> {
        Some(&mut self.tickets)
    }

    fn start_measuring(&mut self) {
        (self.unmeasured, self.counts) = (self.epoch - 1, Counts::default());
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.counts;
        vec![
            ("epochs", self.epoch - 1 - self.unmeasured),
            ("checkpoints", counts.checkpoints),
            ("epochs_that_waited", counts.waited),
            ("blocks_remapped", counts.blocks),
            ("pages_written", counts.pages),
            ("lines_copied", counts.copied),
            ("pages_for_full_table", counts.full),
            ("switches_to_pages", counts.to_pages),
            ("switches_to_lines", counts.to_lines),
            ("blocks_moved_home", counts.moved),
            ("pages_written_ahead", counts.turns),
            ("most_block_entries", counts.most_entries),
            ("entries_stored", counts.entries_stored),
        ]
    }
}
