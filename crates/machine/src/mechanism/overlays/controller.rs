//! The mechanism at work: reads find lines where overlays or pages have them, and written lines go to overlays.

use super::mutants::{FORGET, PLACE};
use super::state::{Counts, NONE, PageOverlaysController};
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::{EpochTickets, Fetch, Flush, Leaving, Mechanism, Moments, Verdict};

impl PageOverlaysController {
    /// The entry of a page's overlay is used at `from`, and perhaps changed. Returns when the controller has it.
    fn look_up(&mut self, hardware: &mut Hardware, page: u64, changes: bool, from: Ps) -> Ps {
        let config = &self.design.config;
        let from = from + hardware.cycles(config.lookup_cycles);
        if config.cached_entries == 0 {
            return from;
        }
        if self.cached.touch(page) {
            if changes {
                self.cached.change(page);
            }
            return from;
        }
        self.counts.misses += 1;
        let entries = config.dram_entries;
        if let Some((replaced, ())) = self.cached.insert(page, (), changes) {
            hardware.write_own_dram(replaced % entries, from);
        }
        hardware.read_own_dram(page % entries, from)
    }
}

impl Mechanism for PageOverlaysController {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn fetched(&mut self, hardware: &mut Hardware, fetch: &Fetch, places: &mut [u64]) -> Ps {
        let page = fetch.wanted / self.layout.page;
        let overlays = self.pages.get(page as usize).filter(|_| fetch.wanted < self.layout.header);
        let some = overlays.is_some_and(|page| page.now != NONE || page.old != NONE);
        for place in places {
            if *place < self.layout.header {
                *place = self.working(*place);
            }
        }
        // A page's translation says whether it has an overlay.
        match some {
            true => self.look_up(hardware, page, false, fetch.now),
            false => fetch.now + hardware.cycles(self.design.config.lookup_cycles),
        }
    }

    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let line = leaving.line;
        let page = line / self.layout.page;
        let looked = self.look_up(hardware, page, true, leaving.from).max(self.committed);
        let old = self.in_overlay(self.pages[page as usize].old, line);
        if let Some(to) = old.filter(|_| self.design.leaves_out(FORGET)) {
            return Verdict::RedirectAfter(to, looked);
        }
        let number = self.overlay_for(hardware, page, self.with(line, leaving.block));
        self.overlays[number as usize].add(line % self.layout.page);
        if self.design.leaves_out(PLACE) && line % 8 == 3 {
            return Verdict::After(looked);
        }
        let copied = self.overlays[number as usize].copied;
        Verdict::RedirectAfter(self.working(line), looked.max(copied))
    }

    fn due(&mut self, hardware: &mut Hardware, number: u64) {
        if self.next_merge.is(number)
            && let Some(overlay) = self.to_merge.pop_front()
        {
            let durable = self.merge(hardware, overlay);
            self.next_merge.schedule(hardware, durable);
        }
    }

    fn end_epoch(&mut self, hardware: &mut Hardware) -> Flush {
        self.merge_rest(hardware);
        Flush::Everything
    }

    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        self.checkpoint(hardware, home);
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
            ("overlays", counts.overlays),
            ("most_overlays", counts.most),
            ("growths", counts.growths),
            ("lines_moved", counts.moved),
            ("pages_merged", counts.merges),
            ("lines_merged", counts.merged),
            ("merges_waited_for", counts.late),
            ("table_misses", counts.misses),
        ]
    }
}
