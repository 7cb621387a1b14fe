//! The mechanism at work: reads find lines where the vectors say, and written lines go where the checkpoint is not
//! (Figures 7a and 8 of the paper).

use super::DualPage;
use super::entry::PAGE_LINES;
use super::layout::Layout;
use super::mutants::{CONTEXT, XOR};
use super::pool::{Pool, PoolCounts};
use super::table::{Table, TableCounts, Vectors};
use crate::Ps;
use crate::by_number::ByNumber;
use crate::hardware::Hardware;
use crate::mechanism::{Dirtied, Fetch, Flush, Leaving, Mechanism, Moments, Mutant, Verdict};

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
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) epochs: u64,
    /// Epochs that ended since no page was clean.
    pub(super) early_epochs: u64,
    /// Lines of programs that went home.
    pub(super) lines: u64,
    /// Lines of tables that contexts have stored, and entries that had changed.
    pub(super) table_lines: u64,
    /// Lines in special buffers, and the most in an epoch.
    pub(super) special: u64,
    pub(super) most_special: u64,
}

impl DualPageController {
    pub(super) fn new(design: DualPage, layout: Layout, epoch: u64) -> Self {
        let pages = layout.pointer.div_ceil(PAGE_LINES);
        let loses = design.leaves_out(super::mutants::STALE);
        DualPageController {
            table: Table::new(&design.config, (layout.entries, pages), loses),
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
        }
    }

    pub(super) fn leaves_out(&self, mutant: Mutant) -> bool {
        self.design.leaves_out(mutant)
    }

    /// Where a page's working lines are in the derivative page.
    fn working(&self, vectors: Vectors) -> u64 {
        if self.leaves_out(XOR) { vectors.dirty } else { vectors.working() }
    }

    /// The entry's line of the table is to be stored.
    pub(super) fn note_changed(&mut self, entry: u32) {
        let line = u64::from(entry) / super::entry::ENTRIES_OF_LINE;
        if self.changed_in[line as usize] != self.epoch {
            self.changed_in[line as usize] = self.epoch;
            self.changed.push(line);
        }
    }

    fn lookup(&self, hardware: &Hardware) -> Ps {
        hardware.cycles(self.design.config.lookup_cycles)
    }

    /// A line that no derivative page has room for goes into the special buffer of the next context.
    fn keep_special(&mut self, line: u64) -> u64 {
        let slot = self.special.len() as u64;
        assert!(slot < self.layout.special, "a special buffer for all lines of the caches");
        self.special.insert(line, slot);
        self.counts.special += 1;
        self.layout.special_line(self.epoch % 2, slot)
    }
}

impl Mechanism for DualPageController {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn fetched(&mut self, hardware: &mut Hardware, fetch: &Fetch, places: &mut [u64]) -> Ps {
        let from = fetch.now + self.lookup(hardware);
        let page = fetch.first / PAGE_LINES;
        let (mut from, entry) = self.table.look_up(hardware, page, from);
        if let Some(entry) = entry {
            let (there, vectors) = self.table.fetch(hardware, entry, from);
            let vectors = *vectors;
            from = there;
            let working = self.working(vectors);
            for place in places.iter_mut().filter(|place| **place < self.layout.pointer) {
                if working >> (*place % PAGE_LINES) & 1 == 1 {
                    *place = self.layout.derivative(entry, *place);
                }
            }
        }
        if !self.special.is_empty() {
            for place in places {
                if let Some(slot) = self.special.get(place) {
                    *place = self.layout.special_line(self.epoch % 2, *slot);
                }
            }
        }
        from
    }

    /// Pre-allocation (4.4.3).
    fn dirtied(&mut self, hardware: &mut Hardware, dirtied: &Dirtied) {
        let page = dirtied.line / PAGE_LINES;
        if dirtied.first && self.table.entry_of(page).is_none() {
            let given = self.allocate(hardware, page);
            self.pool_counts.early += u64::from(given.is_some());
        }
    }

    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let line = leaving.line;
        self.counts.lines += 1;
        let from = leaving.from + self.lookup(hardware);
        if let Some(slot) = self.special.get(&line) {
            let place = self.layout.special_line(self.epoch % 2, *slot);
            return Verdict::RedirectAfter(place, from);
        }
        let page = line / PAGE_LINES;
        let (from, found) = self.table.look_up(hardware, page, from);
        let entry = match found {
            Some(entry) => entry,
            None => match self.allocate(hardware, page) {
                Some(entry) => {
                    self.pool_counts.late += 1;
                    entry
                }
                None => return Verdict::RedirectAfter(self.keep_special(line), from),
            },
        };
        let (from, vectors) = self.table.fetch(hardware, entry, from);
        let bit = 1 << (line % PAGE_LINES);
        let first = vectors.dirty & bit == 0;
        vectors.dirty |= bit;
        let vectors = *vectors;
        if first {
            self.table.note_change();
        }
        let state = &mut self.table.entries[entry as usize];
        let ready = state.ready;
        if state.written != self.epoch {
            state.written = self.epoch;
            self.written.push(entry);
            self.note_changed(entry);
        }
        let derivative = self.working(vectors) & bit != 0;
        let place = if derivative { self.layout.derivative(entry, line) } else { line };
        Verdict::RedirectAfter(place, from.max(ready))
    }

    fn end_epoch(&mut self, _: &mut Hardware) -> Flush {
        Flush::Everything
    }

    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        let home = if self.leaves_out(CONTEXT) { hardware.now() } else { home };
        self.checkpoint(hardware, home);
    }

    fn start_measuring(&mut self) {
        self.counts = Counts::default();
        self.pool_counts = PoolCounts::default();
        self.table.counts = TableCounts::default();
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let (counts, pool, table) = (&self.counts, &self.pool_counts, &self.table.counts);
        vec![
            ("epochs", counts.epochs),
            ("early_epochs", counts.early_epochs),
            ("lines", counts.lines),
            ("pages_allocated_early", pool.early),
            ("pages_allocated_late", pool.late),
            ("allocations_failed", pool.failed),
            ("uncached_pages_reclaimed", pool.uncached),
            ("cached_pages_reclaimed", pool.cached),
            ("lines_reclaimed", pool.lines),
            ("entries_made_void", pool.voids),
            ("vector_hits", table.hits),
            ("vector_misses", table.misses),
            ("table_lines", counts.table_lines),
            ("special_lines", counts.special),
            ("most_special_lines_in_an_epoch", counts.most_special),
        ]
    }
}
