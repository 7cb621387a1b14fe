//! The mechanism at work: reads find lines where the vectors say, and written lines go where the checkpoint is not
//! (Figures 7a and 8 of the paper).

use super::entry::PAGE_LINES;
use super::mutants::{CONTEXT, XOR};
use super::state::{Counts, DualPageController, PoolCounts};
use super::table::{TableCounts, Vectors};
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::{Dirtied, EpochTickets, Fetch, Flush, Leaving, Mechanism, Moments, Verdict};

impl DualPageController {
    /// Where a page's working lines are in the derivative page.
    fn working(&self, vectors: Vectors) -> u64 {
        if self.leaves_out(XOR) { vectors.dirty } else { vectors.working() }
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

    /// Pre-allocation (4.4.3): its look-up is in the background too.
    fn dirtied(&mut self, hardware: &mut Hardware, dirtied: &Dirtied) {
        let page = dirtied.line / PAGE_LINES;
        if !dirtied.first {
            return;
        }
        let now = hardware.now();
        if let (_, None) = self.table.look_up(hardware, page, now) {
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
        let (from, mut vectors) = self.table.fetch(hardware, entry, from);
        let bit = 1 << (line % PAGE_LINES);
        if vectors.dirty & bit == 0 {
            vectors.dirty |= bit;
            self.table.change(entry, vectors);
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

    fn tickets(&mut self) -> Option<&mut EpochTickets> {
        Some(&mut self.tickets)
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
            ("epochs_since_pool_settled", counts.settled_epochs),
            ("lines", counts.lines),
            ("pages_allocated_early", pool.early),
            ("pages_allocated_late", pool.late),
            ("allocations_failed", pool.failed),
            ("uncached_pages_reclaimed", pool.uncached),
            ("cached_pages_reclaimed", pool.cached),
            ("lines_reclaimed", pool.lines),
            ("entries_made_void", pool.voids),
            ("entry_hits", table.hits),
            ("entry_misses", table.misses),
            ("absent_entries_read", table.absent),
            ("entries_written_back", table.written_back),
            ("table_lines", counts.table_lines),
            ("special_lines", counts.special),
            ("most_special_lines_in_an_epoch", counts.most_special),
        ]
    }
}
