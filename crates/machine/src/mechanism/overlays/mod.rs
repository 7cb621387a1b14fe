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
//! Reading order: this file, `segments` (an overlay and its segment), `tables` (their form in the home device), `mutants`.

mod mutants;
mod segments;
mod tables;

use super::mutant::Mutant;
use super::{
    Design, EpochTickets, Fetch, Flush, Home, InDram, Leaving, Mechanism, Moments, Promise, Verdict,
};
use crate::Ps;
use crate::hardware::Hardware;
use mutants::{DATA, EARLY, ENTRY, FORGET, FREE, GROW, MAPPING, MERGE, NUMBER, PLACE, STALL};
use perdura_memory::LINE;
use segments::{Overlay, Segments};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;
use tables::Layout;

pub(super) use mutants::MUTANTS;

pub use segments::OVERLAY_ENTRY_BITS;

const NONE: u32 = u32::MAX;

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageOverlaysConfig {
    /// Where they are from.
    pub source: String,
    /// Cycles to look an overlay up.
    pub lookup_cycles: u32,
    /// Bytes of a page: a power of two, from 64 to 4096.
    pub page_bytes: u64,
    /// Overlays' entries that the controller holds, the others are in DRAM; 0: all of them.
    pub cached_entries: usize,
    /// Entries in DRAM, 64 bytes each; pages share them if there are more. Nothing if the controller holds all.
    pub dram_entries: u64,
}

impl Default for PageOverlaysConfig {
    fn default() -> Self {
        PageOverlaysConfig {
            source: "assumed".to_owned(),
            lookup_cycles: 0,
            page_bytes: 4096,
            cached_entries: 0,
            dram_entries: 0,
        }
    }
}

/// The design.
#[derive(Clone, Debug, Default)]
pub struct PageOverlays {
    config: PageOverlaysConfig,
    left_out: Option<Mutant>,
}

/// The overlays of a page: that of this epoch, and that of the last one until it is merged.
#[derive(Clone, Copy)]
struct PageState {
    now: u32,
    old: u32,
}

/// What it counts.
#[derive(Debug, Default)]
struct Counts {
    overlays: u64,
    most: u64,
    growths: u64,
    moved: u64,
    merges: u64,
    merged: u64,
    late: u64,
    misses: u64,
}

/// The mechanism.
struct PageOverlaysController {
    design: PageOverlays,
    layout: Layout,
    epoch: u64,
    pages: Vec<PageState>,
    overlays: Vec<Overlay>,
    unused: Vec<u32>,
    segments: Segments,
    /// The overlays of this epoch, and those of the last checkpoint.
    now: Vec<u32>,
    old: Vec<u32>,
    /// Those of the last checkpoint that are not merged yet.
    to_merge: VecDeque<u32>,
    /// Pages whose entries the controller holds, the one used last behind the others, and whether they have changed.
    cached: VecDeque<(u64, bool)>,
    /// The calls scheduled so far: all but the last are out of date.
    calls: u64,
    /// When the last checkpoint became durable: what it has replaced is not overwritten before, though a core's clock may
    /// be behind.
    committed: Ps,
    counts: Counts,
    tickets: EpochTickets,
    /// Epochs that had ended when measuring began.
    unmeasured: u64,
}

impl PageOverlays {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A figure is out of range.
    pub fn new(config: PageOverlaysConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if !config.page_bytes.is_power_of_two() || !(64..=4096).contains(&config.page_bytes) {
            return Err("page_bytes is a power of two, from 64 to 4096".to_owned());
        }
        if (config.cached_entries == 0) != (config.dram_entries == 0) {
            return Err("there are entries in DRAM if the controller does not hold all".to_owned());
        }
        Ok(PageOverlays { config, left_out: left_out.copied() })
    }

    fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }

    fn layout(&self, program: u64) -> Layout {
        Layout::new(program, self.config.page_bytes / LINE)
    }
}

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
        Box::new(PageOverlaysController {
            design: self.clone(),
            layout,
            epoch: hardware.home_line(layout.header)[0] + 1,
            pages: vec![PageState { now: NONE, old: NONE }; layout.pages() as usize],
            overlays: Vec::new(),
            unused: Vec::new(),
            segments: Segments::new(layout.page),
            now: Vec::new(),
            old: Vec::new(),
            to_merge: VecDeque::new(),
            cached: VecDeque::new(),
            calls: 0,
            committed: Ps(0),
            counts: Counts::default(),
            tickets: EpochTickets::default(),
            unmeasured: 0,
        })
    }

    fn recover(&self, home: &mut Home<'_>) {
        let layout = self.layout(home.own().start);
        tables::recover(home, layout, &|mutant| self.leaves_out(mutant));
    }
}

impl PageOverlaysController {
    /// Where an overlay has a line; `None` if it does not have it.
    fn in_overlay(&self, overlay: u32, line: u64) -> Option<u64> {
        let overlay = self.overlays.get(overlay as usize)?;
        let slot = overlay.slot(line % self.layout.page)?;
        Some(self.layout.pool() + overlay.first_line() + slot)
    }

    /// Where the newest version of a program's line is.
    fn working(&self, line: u64) -> u64 {
        let PageState { now, old } = self.pages[(line / self.layout.page) as usize];
        let overlay = self.in_overlay(now, line).or_else(|| self.in_overlay(old, line));
        overlay.unwrap_or(line)
    }

    /// The entry of a page's overlay is used at `from`, and perhaps changed. Returns when the controller has it.
    fn look_up(&mut self, hardware: &mut Hardware, page: u64, changes: bool, from: Ps) -> Ps {
        let config = &self.design.config;
        let from = from + hardware.cycles(config.lookup_cycles);
        if config.cached_entries == 0 {
            return from;
        }
        if let Some(at) = self.cached.iter().position(|(cached, _)| *cached == page) {
            let (_, changed) = self.cached.remove(at).expect("it is there");
            self.cached.push_back((page, changed || changes));
            return from;
        }
        self.counts.misses += 1;
        let entries = config.dram_entries;
        if self.cached.len() == config.cached_entries
            && let Some((replaced, true)) = self.cached.pop_front()
        {
            hardware.write_own_dram(replaced % entries, from);
        }
        self.cached.push_back((page, changes));
        hardware.read_own_dram(page % entries, from)
    }

    /// The page's overlay of this epoch, with room for these lines of the page.
    fn overlay_for(&mut self, hardware: &mut Hardware, page: u64, lines: u64) -> u32 {
        let number = self.pages[page as usize].now;
        if number == NONE {
            let overlay =
                Overlay::new(page, (self.segments.take(lines.count_ones()), self.layout.page));
            let number = match self.unused.pop() {
                Some(number) => {
                    self.overlays[number as usize] = overlay;
                    number
                }
                None => {
                    self.overlays.push(overlay);
                    self.overlays.len() as u32 - 1
                }
            };
            self.pages[page as usize].now = number;
            self.now.push(number);
            self.counts.overlays += 1;
            return number;
        }
        let needed = self.overlays[number as usize].lines() | lines;
        if u64::from(needed.count_ones()) > self.overlays[number as usize].slots() {
            self.grow(hardware, number, needed.count_ones());
        }
        number
    }

    /// An overlay moves to a larger segment.
    fn grow(&mut self, hardware: &mut Hardware, number: u32, lines: u32) {
        let larger = self.segments.take(lines);
        let old = self.overlays[number as usize].clone();
        let outgrown = self.overlays[number as usize].move_to(larger);
        let first = old.page() * self.layout.page;
        let (mut copied, mut leave_out) = (old.copied, self.design.leaves_out(GROW));
        for index in old.indices() {
            if std::mem::take(&mut leave_out) {
                continue;
            }
            let from = self.layout.pool() + old.first_line() + old.slot(index).unwrap_or_default();
            let Some(to) = self.in_overlay(number, first + index) else { continue };
            let words = hardware.home_line(from);
            // A program's line waits for these.
            let read = hardware.read_home(from).max(self.committed);
            copied = copied.max(hardware.write_home("overlay copy", to, words, read));
            self.counts.moved += 1;
        }
        self.overlays[number as usize].copied = copied;
        // No table names it.
        outgrown.into_iter().for_each(|segment| self.segments.give_back(segment));
        self.counts.growths += 1;
    }

    /// The dirty lines of a page that leave with a line of it, itself included, as bits.
    fn with(&self, line: u64, block: Option<InDram>) -> u64 {
        let page = self.layout.page;
        let (first, own) = (line - line % page, 1 << (line % page));
        let Some(block) = block else { return own };
        let bits = match block.first.checked_sub(first) {
            Some(after) => block.dirty << after,
            None => block.dirty >> (first - block.first),
        };
        let mask = if page == 64 { u64::MAX } else { (1 << page) - 1 };
        bits & mask | own
    }

    /// Copies an overlay's lines into its page. Returns when they are durable.
    fn merge(&mut self, hardware: &mut Hardware, number: u32) -> Ps {
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

    fn call(&mut self, hardware: &mut Hardware, at: Ps) {
        self.calls += 1;
        let now = hardware.now();
        hardware.schedule(at.max(now), self.calls);
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
        if number == self.calls
            && let Some(overlay) = self.to_merge.pop_front()
        {
            let durable = self.merge(hardware, overlay);
            self.call(hardware, durable);
        }
    }

    fn end_epoch(&mut self, hardware: &mut Hardware) -> Flush {
        while let Some(overlay) = self.to_merge.pop_front() {
            self.counts.late += 1;
            if self.design.leaves_out(MERGE) {
                let page = self.overlays[overlay as usize].page();
                self.pages[page as usize].old = NONE;
                continue;
            }
            self.merge(hardware, overlay);
        }
        Flush::Everything
    }

    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        let waits = |time: Ps, mutant| if self.design.leaves_out(mutant) { Ps(0) } else { time };
        // Merged lines too: the pages of the last checkpoint's overlays are whole without these.
        let data = waits(home.max(hardware.all_durable()), DATA).max(hardware.now());
        self.counts.most = self.counts.most.max((self.now.len() + self.old.len()) as u64);
        let mapped = self.store_entries(hardware, data);
        let from = if self.design.leaves_out(MAPPING) { data } else { mapped };
        if self.design.leaves_out(EARLY) {
            self.now.clone().into_iter().for_each(|number| _ = self.merge(hardware, number));
        }
        let mut header = hardware.home_line(self.layout.header);
        header[0] = self.epoch;
        let stored = !(self.design.leaves_out(NUMBER) && self.epoch.is_multiple_of(4));
        let done = match stored {
            true => hardware.write_home("epoch", self.layout.header, header, from),
            false => from,
        };
        hardware.promise(done);
        self.tickets.ended(done);
        let stalls = !self.design.leaves_out(STALL);
        if stalls {
            hardware.all_wait_until(done);
        }
        self.commit(if stalls { done } else { Ps(0) });
        self.epoch += 1;
        self.call(hardware, done);
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
