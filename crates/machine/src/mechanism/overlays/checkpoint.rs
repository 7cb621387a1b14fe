//! The end of an epoch, when all lines are in overlays, and the merges of the next one.

use super::mutants::{DATA, EARLY, ENTRY, FREE, MAPPING, MERGE, NUMBER, STALL};
use super::state::{NONE, PageOverlaysController, PageState};
use super::tables;
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::epoch_number;

impl PageOverlaysController {
    /// Stores the table of the epoch's overlays, then the epoch's number, while all cores wait.
    pub(super) fn checkpoint(&mut self, hardware: &mut Hardware, home: Ps) {
        let waits = |time: Ps, mutant| if self.design.leaves_out(mutant) { Ps(0) } else { time };
        // Merged lines too: the pages of the last checkpoint's overlays are whole without these.
        let data = waits(home.max(hardware.all_durable()), DATA).max(hardware.now());
        self.counts.most = self.counts.most.max((self.now.len() + self.old.len()) as u64);
        let mapped = self.store_entries(hardware, data);
        let from = if self.design.leaves_out(MAPPING) { data } else { mapped };
        if self.design.leaves_out(EARLY) {
            self.now.clone().into_iter().for_each(|number| _ = self.merge(hardware, number));
        }
        let skips = self.design.leaves_out(NUMBER);
        let done = epoch_number::store(hardware, self.layout.header, self.epoch, from, skips);
        self.tickets.ended(done);
        let stalls = !self.design.leaves_out(STALL);
        if stalls {
            hardware.all_wait_until(done);
        }
        self.commit(if stalls { done } else { Ps(0) });
        self.epoch += 1;
        self.next_merge.schedule(hardware, done);
    }

    /// Stores the entries of the epoch's overlays from `from` on. Returns when they are durable.
    fn store_entries(&mut self, hardware: &mut Hardware, from: Ps) -> Ps {
        let mut mapped = from;
        for (index, number) in self.now.iter().enumerate() {
            if self.design.leaves_out(ENTRY) && index % 4 == 3 {
                continue;
            }
            let words = tables::entry(&self.overlays[*number as usize], self.epoch);
            let line = self.layout.entry(self.epoch % 2, index as u64);
            mapped = mapped.max(hardware.write_home("mapping", line, words, from));
        }
        mapped
    }

    /// The epoch's table is the valid one from `done` on: segments that only the one before names are free, and the
    /// epoch's overlays are to be merged.
    fn commit(&mut self, done: Ps) {
        for number in std::mem::take(&mut self.old) {
            if let Some(segment) = self.overlays[number as usize].give_up() {
                self.segments.give_back(segment);
            }
            self.unused.push(number);
        }
        self.old = std::mem::take(&mut self.now);
        for number in &self.old {
            let page = self.overlays[*number as usize].page() as usize;
            self.pages[page] = PageState { now: NONE, old: *number };
        }
        self.to_merge.extend(&self.old);
        self.committed = done;
    }

    /// Merges the overlays of the last epoch that the background has not merged yet.
    pub(super) fn merge_rest(&mut self, hardware: &mut Hardware) {
        while let Some(overlay) = self.to_merge.pop_front() {
            self.counts.late += 1;
            if self.design.leaves_out(MERGE) {
                let page = self.overlays[overlay as usize].page();
                self.pages[page as usize].old = NONE;
                continue;
            }
            self.merge(hardware, overlay);
        }
    }

    /// Copies an overlay's lines into its page. Returns when they are durable.
    pub(super) fn merge(&mut self, hardware: &mut Hardware, number: u32) -> Ps {
        let overlay = self.overlays[number as usize].clone();
        let (page, mut durable) = (overlay.page(), hardware.now());
        for index in overlay.indices() {
            let line = page * self.layout.page + index;
            let Some(from) = self.in_overlay(number, line) else { continue };
            let words = hardware.home_line(from);
            let read = hardware.read_home_in_background(from).max(self.committed);
            durable = durable.max(hardware.write_home("merge", line, words, read));
            self.counts.merged += 1;
        }
        self.counts.merges += 1;
        if self.pages[page as usize].old == number {
            self.pages[page as usize].old = NONE;
        }
        if self.design.leaves_out(FREE)
            && let Some(segment) = self.overlays[number as usize].give_up()
        {
            self.segments.give_back(segment);
        }
        durable
    }
}
