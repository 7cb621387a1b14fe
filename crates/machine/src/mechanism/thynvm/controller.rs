//! The mechanism in a running machine: its state, and where it sends a dirty line.

use super::super::epoch_number::NextStep;
use super::super::{EpochTickets, InDram};
use super::design::ThyNvm;
use super::mutants::{COPY, FORGET, MADE};
use super::places::{Changed, LineCopy, Places, Rules, Scheme};
use super::tables::Layout;
use crate::Ps;
use crate::by_number::ByNumber;
use crate::hardware::Hardware;
use perdura_memory::image::LineWords;
use std::collections::VecDeque;

/// What it counts.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) checkpoints: u64,
    pub(super) waited: u64,
    pub(super) blocks: u64,
    pub(super) pages: u64,
    pub(super) copied: u64,
    pub(super) full: u64,
    pub(super) to_pages: u64,
    pub(super) to_lines: u64,
    pub(super) moved: u64,
    pub(super) turns: u64,
    pub(super) most_entries: u64,
    pub(super) entries_stored: u64,
}

/// The mechanism.
pub(super) struct ThyNvmController {
    pub(super) design: ThyNvm,
    pub(super) layout: Layout,
    pub(super) epoch: u64,
    pub(super) places: Places,
    /// The checkpoint being made.
    pub(super) checkpoint: Option<Checkpoint>,
    /// Changes that the last checkpoint has stored in one copy of the tables.
    pub(super) before: Changed,
    pub(super) next_step: NextStep,
    /// When the last checkpoint became durable: what it has replaced is not overwritten before, though a core's clock may
    /// be behind.
    pub(super) committed: Ps,
    pub(super) counts: Counts,
    pub(super) tickets: EpochTickets,
    /// Epochs that had ended when measuring began.
    pub(super) unmeasured: u64,
}

/// What is to be written of a page.
#[derive(Default)]
pub(super) struct WaitingPage {
    /// Dirty lines, as the epoch has left them, and their places.
    pub(super) lines: Vec<(u64, LineWords, u64)>,
    pub(super) ready: Ps,
    pub(super) copies: Vec<LineCopy>,
}

/// How far it is.
pub(super) enum Stage {
    Lines,
    Tables,
    /// The epoch's number is durable at this time.
    Number(Ps),
}

/// A checkpoint being made.
pub(super) struct Checkpoint {
    pub(super) epoch: u64,
    pub(super) stage: Stage,
    pub(super) turns: VecDeque<u64>,
    pub(super) pages: ByNumber<WaitingPage>,
    /// When all lines handed over so far are durable.
    pub(super) durable: Ps,
    pub(super) changed: Changed,
}

/// Dirty lines of a block.
pub(super) struct DirtyLines {
    pub(super) first: u64,
    pub(super) bits: u64,
}

impl DirtyLines {
    /// Those that will leave after a leaving line in the same epoch: behind it in its block, or left behind in DRAM.
    pub(super) fn after(hardware: &Hardware, line: u64, block: Option<InDram>) -> Self {
        let first = hardware.block_of(line).start;
        let bit = line - first;
        let bits = match block {
            // Those before it have left.
            Some(block) => block.dirty & (u64::MAX << bit << 1),
            None => hardware.in_dram(line).map_or(0, |block| block.dirty & !(1 << bit)),
        };
        DirtyLines { first, bits }
    }

    pub(super) fn have(&self, line: u64) -> bool {
        line.checked_sub(self.first).is_some_and(|bit| bit < 64 && self.bits >> bit & 1 == 1)
    }
}

impl ThyNvmController {
    /// Where a dirty line is to be written, and what must be copied for that.
    pub(super) fn assign(&mut self, line: u64, still: &DirtyLines) -> (u64, Vec<LineCopy>) {
        let design = &self.design;
        let rules = Rules {
            epoch: self.epoch,
            two_versions: design.leaves_out(MADE),
            forgets: design.leaves_out(FORGET),
        };
        let assigned = self.places.assign(line, rules, &|other| still.have(other));
        let counts = &mut self.counts;
        counts.blocks += u64::from(assigned.block);
        counts.pages += u64::from(assigned.page);
        counts.full += u64::from(assigned.full);
        counts.most_entries = counts.most_entries.max(self.places.used());
        (assigned.to, assigned.copies)
    }

    /// The pages that the epoch has dirtied change their schemes for the next one.
    pub(super) fn switch(&mut self) {
        let (whole_above, lines_below) =
            (self.design.config.whole_above, self.design.config.lines_below);
        let counts = &mut self.counts;
        self.places.end_counting(|scheme, dirty| match scheme {
            Scheme::Lines if dirty > whole_above => {
                counts.to_pages += 1;
                Scheme::Page
            }
            Scheme::Page if dirty < lines_below => {
                counts.to_lines += 1;
                Scheme::Lines
            }
            same => same,
        });
    }

    /// Copies lines to where their page is written: out of the block with which the page leaves, out of DRAM, or from where
    /// they are. Returns when they are durable.
    pub(super) fn copy(
        &mut self,
        hardware: &mut Hardware,
        copies: &[LineCopy],
        leaves: Option<InDram>,
    ) -> Ps {
        let now = hardware.now();
        let mut durable = now;
        for copy in copies {
            if self.design.leaves_out(COPY) && copy.line % 4 == 1 {
                continue;
            }
            let first = hardware.block_of(copy.line).start;
            let with = leaves.filter(|block| block.first == first);
            let read = match with.or_else(|| hardware.in_dram(copy.line)) {
                Some(block) => hardware.read_dram(copy.line, now.max(block.ready)),
                None => hardware.read_home_in_background(copy.from),
            };
            let words = hardware.home_line(copy.from);
            let earliest = read.max(self.committed);
            durable = durable.max(hardware.write_home("page copy", copy.to, words, earliest));
            self.counts.copied += 1;
        }
        durable
    }
}
