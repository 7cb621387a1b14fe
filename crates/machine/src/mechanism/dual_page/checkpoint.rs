//! The end of an epoch, when all lines are home (Figure 7b of the paper, steps 3 and 4), and recovery (3.4).

use super::config::DualPage;
use super::entry::{ENTRIES_OF_LINE, StoredEntry, entry_in, put_entry};
use super::layout::Layout;
use super::mutants::{
    CACHED, DEAD, DIRTY, DRAIN, ENTRY, POINTER, RECOVER, SPECIAL, STALL, STANDBY,
};
use super::state::DualPageController;
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::Home;

impl DualPageController {
    /// Stores the standby context, then the pointer to it, while all cores wait.
    pub(super) fn checkpoint(&mut self, hardware: &mut Hardware, home: Ps) {
        let read = self.turn_clean(hardware, home);
        let stored = self.store_table(hardware, read).max(self.store_special(hardware, home));
        let stored = stored.max(self.store_states(hardware, home));
        let from = if self.leaves_out(POINTER) { home } else { home.max(stored) };
        let pointer = [self.epoch, 0, 0, 0, 0, 0, 0, 0];
        let done = hardware.write_home("pointer", self.layout.pointer, pointer, from);
        hardware.promise(done);
        self.tickets.ended(done);
        if !self.leaves_out(STALL) {
            hardware.all_wait_until(done);
        }
        self.drain(hardware, done);
        self.counts.epochs += 1;
        self.counts.early_epochs += u64::from(std::mem::take(&mut self.ends_early));
        self.counts.settled_epochs =
            if self.has_grown() { 0 } else { self.counts.settled_epochs + 1 };
        self.changed_before = std::mem::take(&mut self.changed);
        self.epoch += 1;
        self.look_anew();
    }

    /// The lines that the epoch has written become the checkpoint's: a checkpoint position is flipped where the line
    /// is dirty, and nothing is dirty any more. Entries that the controller has copies of are changed there. Returns when
    /// the others' vectors have been read.
    fn turn_clean(&mut self, hardware: &mut Hardware, from: Ps) -> Ps {
        let mut written = std::mem::take(&mut self.written);
        written.sort_unstable();
        let mut last = from;
        let mut line_before = None;
        for entry in written {
            let line = self.table.line_of_uncached(entry);
            if let Some(line) = line.filter(|line| line_before != Some(*line)) {
                line_before = Some(line);
                let read = hardware.read_own_dram(line, from);
                last = last.max(read);
                hardware.write_own_dram(line, read);
            }
            let keeps = self.leaves_out(DIRTY)
                && self.table.entries[entry as usize].page.is_some_and(|page| page % 4 == 3);
            let mut vectors = self.table.newest(entry);
            vectors.checkpoint ^= vectors.dirty;
            if !keeps {
                vectors.dirty = 0;
            }
            self.table.change(entry, vectors);
        }
        last
    }

    /// Stores the lines of the table that have changed since the standby context was stored: two epochs ago. Returns
    /// when they are durable.
    fn store_table(&mut self, hardware: &mut Hardware, from: Ps) -> Ps {
        let mut lines = self.changed.clone();
        if !self.leaves_out(STANDBY) {
            lines.extend(&self.changed_before);
        }
        lines.sort_unstable();
        lines.dedup();
        let mut durable = from;
        for line in lines {
            let mut words = [0; 8];
            let first = line * ENTRIES_OF_LINE;
            for entry in first..(first + ENTRIES_OF_LINE).min(self.layout.entries) {
                let page = self.table.entries[entry as usize].page;
                let vectors = match self.leaves_out(CACHED) {
                    true => self.table.kept(entry as u32),
                    false => self.table.newest(entry as u32),
                };
                let mut checkpoint = vectors.checkpoint;
                if self.leaves_out(ENTRY) && page.is_some_and(|page| page % 4 == 3) {
                    checkpoint = 0;
                }
                put_entry(&mut words, (entry - first) as usize, StoredEntry { page, checkpoint });
            }
            let place = self.layout.table_line(self.epoch % 2, line);
            durable = durable.max(hardware.write_home("table", place, words, from));
            self.counts.table_lines += 1;
        }
        durable
    }

    /// Stores which lines are in the special buffer: the lines themselves are there. Returns when that is durable.
    fn store_special(&mut self, hardware: &mut Hardware, from: Ps) -> Ps {
        let (context, mut durable) = (self.epoch % 2, from);
        let mut lines: Vec<(u64, u64)> =
            self.special.iter().map(|(line, slot)| (*slot, *line)).collect();
        lines.sort_unstable();
        self.counts.most_special = self.counts.most_special.max(lines.len() as u64);
        let count = if self.leaves_out(SPECIAL) { 0 } else { lines.len() as u64 };
        for group in lines.chunks(8) {
            let mut words = [0; 8];
            group.iter().zip(&mut words).for_each(|((_, line), word)| *word = *line);
            let place = self.layout.numbers(context, group[0].0);
            durable = durable.max(hardware.write_home("special numbers", place, words, from));
        }
        let count = [count, 0, 0, 0, 0, 0, 0, 0];
        durable.max(hardware.write_home("special count", self.layout.count(context), count, from))
    }

    /// Stores the cores' states. They have no contents here: a program begins anew after recovery. Returns when they are
    /// durable.
    fn store_states(&mut self, hardware: &mut Hardware, from: Ps) -> Ps {
        let mut durable = from;
        for line in self.layout.state_lines(self.epoch % 2) {
            durable = durable.max(hardware.write_home("core's state", line, [0; 8], from));
        }
        durable
    }

    /// Writes the lines of the special buffer to their base pages. The checkpoint that has just become valid has them in
    /// the buffer; the one before, which needs the base pages, is over at `from`.
    fn drain(&mut self, hardware: &mut Hardware, from: Ps) {
        let mut lines: Vec<(u64, u64)> = std::mem::take(&mut self.special).into_iter().collect();
        lines.sort_unstable();
        for (line, slot) in lines {
            let place = self.layout.special_line(self.epoch % 2, slot);
            let words = hardware.home_line(place);
            let read = hardware.read_home_in_background(place);
            if !self.leaves_out(DRAIN) {
                hardware.write_home("special line", line, words, read.max(from));
            }
        }
    }
}

/// Brings each line home whose checkpoint is elsewhere. Then it makes the contexts void, and empty: the next life's
/// first contexts have only what that changes. It reads derivative pages and special buffers, and writes base pages
/// and contexts, so that it may begin again at any point.
pub(super) fn recover(design: &DualPage, layout: Layout, home: &mut Home<'_>) {
    let mut pointer = home.line(layout.pointer);
    let context = pointer[0] % 2;
    if pointer[1] == 0 {
        bring_home(design, layout, context, home);
        pointer[1] = 1;
        if !design.leaves_out(DEAD) {
            home.put(layout.pointer, &pointer);
        }
    }
    if design.leaves_out(DEAD) {
        return;
    }
    for context in [0, 1] {
        let lines = std::iter::once(layout.count(context))
            .chain((0..layout.table_lines()).map(|line| layout.table_line(context, line)));
        for line in lines {
            if home.line(line) != [0; 8] {
                home.put(line, &[0; 8]);
            }
        }
    }
}

fn bring_home(design: &DualPage, layout: Layout, context: u64, home: &mut Home<'_>) {
    for entry in 0..layout.entries {
        let (line, index) = (entry / ENTRIES_OF_LINE, entry % ENTRIES_OF_LINE);
        let table = home.line(layout.table_line(context, line));
        let StoredEntry { page, checkpoint } = entry_in(&table, index as usize);
        let Some(page) = page else { continue };
        for line in layout.lines_of(page, checkpoint) {
            if !(design.leaves_out(RECOVER) && line % 64 == 63) {
                home.put(line, &home.line(layout.derivative(entry as u32, line)));
            }
        }
    }
    let count = home.line(layout.count(context))[0].min(layout.special);
    for slot in 0..count {
        let line = home.line(layout.numbers(context, slot))[(slot % 8) as usize];
        if line < layout.pointer {
            home.put(line, &home.line(layout.special_line(context, slot)));
        }
    }
}
