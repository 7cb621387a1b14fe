//! What the mechanism knows while the power is on.

use super::config::DualPage;
use super::entry::{ENTRIES_OF_LINE, PAGE_LINES};
use super::layout::Layout;
use super::mutants::STALE;
use super::table::Table;
use crate::by_number::ByNumber;
use crate::mechanism::{EpochTickets, Mutant};
use std::collections::VecDeque;

/// The mechanism.
pub(super) struct DualPageController {
    pub(super) design: DualPage,
    pub(super) layout: Layout,
    /// The epoch that runs, from 1 on.
    pub(super) epoch: u64,
    pub(super) table: Table,
    pub(super) pool: Pool,
    /// Entries that the epoch has written.
    pub(super) written: Vec<u32>,
    /// Lines of the table that have changed in this epoch, and in the last one: the standby context has neither.
    pub(super) changed: Vec<u64>,
    pub(super) changed_before: Vec<u64>,
    /// For each line of the table, the last epoch that has changed it.
    pub(super) changed_in: Vec<u64>,
    /// Lines written in this epoch that no derivative page had room for, and their places in the special buffer.
    pub(super) special: ByNumber<u64>,
    /// This epoch has been asked to end.
    pub(super) ends_early: bool,
    pub(super) pool_counts: PoolCounts,
    pub(super) counts: Counts,
    pub(super) tickets: EpochTickets,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) epochs: u64,
    /// Epochs that ended since no page was clean.
    pub(super) early_epochs: u64,
    /// Epochs that ended after the last one in which the pool has grown.
    pub(super) settled_epochs: u64,
    /// Lines of programs that went home.
    pub(super) lines: u64,
    /// Lines of tables that contexts have stored, and entries that had changed.
    pub(super) table_lines: u64,
    /// Lines in special buffers, and the most in an epoch.
    pub(super) special: u64,
    pub(super) most_special: u64,
}

/// Derivative pages that can be had.
#[derive(Default)]
pub(super) struct Pool {
    /// Those that no base page has.
    pub(super) free: Vec<u32>,
    /// Those that may be clean, as at the epoch's beginning, and were not looked at since: in the order of the table.
    pub(super) unseen: Vec<u32>,
    /// Those that were clean, and their base pages in DRAM.
    pub(super) cached: VecDeque<u32>,
    /// The entry behind the last one that was reclaimed.
    pub(super) hand: u32,
    /// How many were free at the end of the last epoch in which the pool has grown.
    pub(super) fewest_free: Option<usize>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PoolCounts {
    /// Pages given out when their DRAM page became dirty, and when a line was already leaving.
    pub(super) early: u64,
    pub(super) late: u64,
    /// Requests that found no clean page.
    pub(super) failed: u64,
    /// Pages reclaimed whose base page was not in DRAM, and those where it was.
    pub(super) uncached: u64,
    pub(super) cached: u64,
    /// Lines copied for that, and entries made void.
    pub(super) lines: u64,
    pub(super) voids: u64,
}

impl DualPageController {
    pub(super) fn new(design: DualPage, layout: Layout, has_dram: bool, epoch: u64) -> Self {
        let pages = layout.pointer.div_ceil(PAGE_LINES);
        let loses = design.leaves_out(STALE);
        let table = Table::new(&design.config, (layout.entries, pages), has_dram, loses);
        DualPageController {
            table,
            pool: Pool { free: (0..layout.entries as u32).rev().collect(), ..Pool::default() },
            design,
            layout,
            epoch,
            written: Vec::new(),
            changed: Vec::new(),
            changed_before: Vec::new(),
            changed_in: vec![0; layout.table_lines() as usize],
            special: ByNumber::default(),
            ends_early: false,
            pool_counts: PoolCounts::default(),
            counts: Counts::default(),
            tickets: EpochTickets::default(),
        }
    }

    pub(super) fn leaves_out(&self, mutant: Mutant) -> bool {
        self.design.leaves_out(mutant)
    }

    /// The entry's line of the table is to be stored.
    pub(super) fn note_changed(&mut self, entry: u32) {
        let line = u64::from(entry) / ENTRIES_OF_LINE;
        if self.changed_in[line as usize] != self.epoch {
            self.changed_in[line as usize] = self.epoch;
            self.changed.push(line);
        }
    }
}
