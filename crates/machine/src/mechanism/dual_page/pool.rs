//! Derivative pages: allocation, and reclaim of clean ones (4.4 of the paper).
//!
//! What always holds: a derivative page that the last context needs is not written. The context needs it until its
//! lines are back in the base page *and* the context's entry is void, both durably. The paper asks for the first alone
//! (4.4.2): then the context, which is not touched during an epoch (4.3), still says that the checkpoint is in the
//! derivative page, when another base page's lines are there already.

use super::entry::{ENTRIES_OF_LINE, PAGE_LINES, StoredEntry, put_entry};
use super::mutants::{CLEAN, COPIES, OVERTAKE, RECLAIM, WAIT};
use super::state::DualPageController;
use crate::Ps;
use crate::hardware::Hardware;

impl DualPageController {
    /// Gives a derivative page to a base page that has none. Returns it, unless all were written in this epoch.
    pub(super) fn allocate(&mut self, hardware: &mut Hardware, page: u64) -> Option<u32> {
        let Some(entry) = self.pool.free.pop().or_else(|| self.reclaim(hardware)) else {
            self.pool_counts.failed += 1;
            if !self.ends_early {
                self.ends_early = true;
                hardware.request_epoch_end();
            }
            return None;
        };
        let ready = self.table.entries[entry as usize].ready;
        self.table.give(hardware, entry, page, ready);
        self.note_changed(entry);
        Some(entry)
    }

    /// Finds a clean page, of which DRAM has no copy if there is one, and frees it.
    fn reclaim(&mut self, hardware: &mut Hardware) -> Option<u32> {
        while let Some(entry) = self.pool.unseen.pop() {
            let Some(page) = self.clean_page(hardware, entry) else { continue };
            if is_in_dram(hardware, page).is_some() {
                self.pool.cached.push_back(entry);
                continue;
            }
            self.pool_counts.uncached += 1;
            self.free(hardware, entry, page);
            return Some(entry);
        }
        while let Some(entry) = self.pool.cached.pop_front() {
            let Some(page) = self.clean_page(hardware, entry) else { continue };
            self.pool_counts.cached += 1;
            self.free(hardware, entry, page);
            return Some(entry);
        }
        None
    }

    /// The base page of an entry, if nothing of it was written in this epoch, and DRAM has no dirty line of it, which
    /// would need the derivative page soon.
    fn clean_page(&self, hardware: &Hardware, entry: u32) -> Option<u64> {
        let state = self.table.entries[entry as usize];
        let page = state.page?;
        if self.leaves_out(CLEAN) {
            return Some(page);
        }
        let dirty = state.written == self.epoch || is_in_dram(hardware, page) == Some(true);
        (!dirty).then_some(page)
    }

    /// Brings the checkpoint of a clean page home, and takes its derivative page.
    fn free(&mut self, hardware: &mut Hardware, entry: u32, page: u64) {
        let now = hardware.now();
        let (from, vectors) = self.table.read(hardware, entry, now);
        let mut home = from;
        for line in self.layout.lines_of(page, vectors.checkpoint) {
            let place = self.layout.derivative(entry, line);
            let words = hardware.home_line(place);
            let read = hardware.read_home_in_background(place).max(from);
            home = home.max(hardware.write_home("reclaimed line", line, words, read));
            self.pool_counts.lines += 1;
        }
        let copied = if self.leaves_out(COPIES) { from } else { home };
        // With no line in the derivative page, the context's entry leads nowhere.
        let needs = vectors.checkpoint != 0 && !self.leaves_out(RECLAIM);
        let void = if needs { self.void(hardware, entry, copied) } else { copied };
        self.table.take_back(entry);
        self.table.clear(hardware, entry, from);
        let ready = if self.leaves_out(WAIT) || self.leaves_out(COPIES) { from } else { void };
        self.table.entries[entry as usize].ready = ready;
        self.note_changed(entry);
        self.pool.hand = (entry + 1) % self.table.entries.len() as u32;
    }

    /// Makes an entry of the last context void, in place: a line is stored whole or not at all, and until then its lines
    /// are in both pages. Returns when it is durable.
    fn void(&mut self, hardware: &mut Hardware, entry: u32, from: Ps) -> Ps {
        let (line, index) =
            (u64::from(entry) / ENTRIES_OF_LINE, u64::from(entry) % ENTRIES_OF_LINE);
        let line = self.layout.table_line((self.epoch - 1) % 2, line);
        let mut words = hardware.home_line(line);
        put_entry(&mut words, index as usize, StoredEntry::default());
        self.pool_counts.voids += 1;
        // The line has other entries: one that is on its way to be void must not be so before its own lines are home.
        let before = hardware.on_its_way(line).filter(|_| !self.leaves_out(OVERTAKE));
        let from = before.map_or(from, |durable| from.max(durable));
        hardware.write_home("void entry", line, words, from)
    }

    /// Whether a hundredth of all pages has been given out for the first time since the last epoch in which that was so.
    /// A full pool grows no more, nor does one in which all pages that the programs write have found room.
    pub(super) fn has_grown(&mut self) -> bool {
        let (all, free) = (self.table.entries.len(), self.pool.free.len());
        let before = self.pool.fewest_free.unwrap_or(all);
        let grown = before - free > all / 100;
        if grown {
            self.pool.fewest_free = Some(free);
        }
        grown
    }

    /// All pages are clean, and may be reclaimed: the epoch has ended. The look begins behind the last page that was
    /// reclaimed.
    pub(super) fn look_anew(&mut self) {
        let (entries, hand) = (self.table.entries.len() as u32, self.pool.hand);
        self.pool.cached.clear();
        self.pool.unseen.clear();
        self.pool.unseen.extend((hand..entries).chain(0..hand).rev());
    }
}

/// Whether DRAM has lines of a base page, and then whether dirty ones.
fn is_in_dram(hardware: &Hardware, page: u64) -> Option<bool> {
    let cache = hardware.config().memory.dram_cache.as_ref()?;
    let lines = page * PAGE_LINES..(page + 1) * PAGE_LINES;
    let blocks = lines.step_by((cache.block_bytes / 64) as usize);
    let seen = blocks.filter_map(|line| hardware.in_dram(line)).map(|block| block.dirty != 0);
    seen.reduce(|some, next| some || next)
}
