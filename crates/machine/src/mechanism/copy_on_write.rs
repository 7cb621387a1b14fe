//! Copy-on-write of pages in the memory controller, by epochs: the *CoW* that Dual-Page Checkpointing (2.2, 5.1.2)
//! compares with.
//!
//! It sits between the DRAM cache and the home device. When a line of a page goes home for the first time in an epoch,
//! the page takes a shadow: its clean lines are copied there, and the epoch's writes to the page go there too. The DRAM
//! cache has the clean lines of a page that leaves it; a page of which a line leaves alone is copied from the home
//! device. Dirty lines are not copied, since they leave before the epoch ends: so a page that leaves once in an epoch is
//! written once. An unbounded table knows where pages are. An epoch ends when every dirty line is home: then the table entries
//! of its pages are stored, and after them the epoch's number, which makes these entries valid at once. Recovery
//! brings all pages home, and makes all entries dead.
//!
//! What always holds: until the epoch's number is durable, nothing is written to a page of the last checkpoint, nor to
//! the entries that say where that is. A page's place is its own home or a page of the pool, so that recovery copies
//! from the pool to homes, and reads nothing that it has written.

use super::epoch_number;
use super::mutant::Mutant;
use super::{
    Design, EpochTickets, Fetch, Flush, Home, InDram, Leaving, Mechanism, Moments, Promise, Verdict,
};
use crate::Ps;
use crate::hardware::Hardware;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Pages whose entries share a line of the table.
const ENTRIES: u64 = 4;

const COPY: Mutant = Mutant { name: "copy", what: "every eighth line of a page is not copied" };
const SHADOW: Mutant =
    Mutant { name: "shadow", what: "every eighth line goes to the page of the checkpoint" };
const FORGET: Mutant = Mutant {
    name: "forget",
    what: "pages that an epoch has copied count as copied in the next one",
};
const FREE: Mutant = Mutant {
    name: "free",
    what: "a page of the checkpoint is free when its shadow is taken, and not when the epoch has ended",
};
const HOME: Mutant =
    Mutant { name: "home", what: "an epoch's number does not wait for copies and lines" };
const ENTRY: Mutant = Mutant { name: "entry", what: "every fourth page's entry is not stored" };
const MAPPING: Mutant =
    Mutant { name: "mapping", what: "an epoch's number does not wait for the entries" };
const NUMBER: Mutant = Mutant { name: "number", what: "every fourth epoch's number is not stored" };
const STALL: Mutant =
    Mutant { name: "stall", what: "cores do not wait until an epoch's number is durable" };
const BELIEVE: Mutant =
    Mutant { name: "believe", what: "recovery believes the entries of an unfinished epoch" };
const DEAD: Mutant = Mutant {
    name: "dead",
    what: "recovery brings pages home and does not make the table's entries dead",
};
const RECOVER: Mutant =
    Mutant { name: "recover", what: "recovery leaves out the last line of each page" };

/// Its mutants.
pub(super) const MUTANTS: &[Mutant] =
    &[COPY, SHADOW, FORGET, FREE, HOME, ENTRY, MAPPING, NUMBER, STALL, BELIEVE, DEAD, RECOVER];

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyOnWriteConfig {
    /// Where they are from.
    pub source: String,
    /// Cycles to look up where a page is.
    pub lookup_cycles: u32,
    /// Bytes of a page: a power of two, from 64 to 2 MiB.
    pub page_bytes: u64,
}

impl Default for CopyOnWriteConfig {
    fn default() -> Self {
        CopyOnWriteConfig { source: "assumed".to_owned(), lookup_cycles: 0, page_bytes: 4096 }
    }
}

/// The design.
#[derive(Clone, Debug, Default)]
pub struct CopyOnWrite {
    config: CopyOnWriteConfig,
    left_out: Option<Mutant>,
}

/// Layout of the mechanism's lines: the first holds the number of finished epochs, and the number of the epoch up to
/// which entries are dead; then come the table, and from a page boundary the pool, with as many pages as the program's
/// lines have.
#[derive(Clone, Copy, Debug)]
struct Layout {
    header: u64,
    page: u64,
}

/// Where a page is: its home, or a page of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageLocation {
    Home,
    Pool(u32),
}

/// A page in the table.
#[derive(Clone, Copy, Debug)]
struct PageState {
    place: PageLocation,
    /// The last epoch that has copied the page, and when that copy is durable.
    copied: u64,
    durable: Ps,
}

/// The mechanism.
struct CopyOnWriteController {
    design: CopyOnWrite,
    layout: Layout,
    epoch: u64,
    pages: Vec<PageState>,
    /// Pages that this epoch has copied.
    copied: Vec<u64>,
    /// The block that left with the last copied page: its dirty lines are not in the copy.
    left_with_copy: Option<InDram>,
    /// Pages of the pool that are free, and those that become free when the epoch has ended.
    free: Vec<u32>,
    left: Vec<u32>,
    copies: u64,
    /// Lines copied from the home device.
    from_home: u64,
    most_pages: u64,
    /// Epochs that had ended when measuring began.
    unmeasured: u64,
    tickets: EpochTickets,
}

impl CopyOnWrite {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// The page size is out of range, or not a power of two.
    pub fn new(config: CopyOnWriteConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if !config.page_bytes.is_power_of_two() || !(64..=2 << 20).contains(&config.page_bytes) {
            return Err("page_bytes is a power of two, from 64 to 2097152".to_owned());
        }
        Ok(CopyOnWrite { config, left_out: left_out.copied() })
    }

    fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }

    fn page_lines(&self) -> u64 {
        self.config.page_bytes / 64
    }

    fn layout(&self, own: &Range<u64>) -> Layout {
        Layout { header: own.start, page: self.page_lines() }
    }
}

impl Layout {
    /// The program's pages; the last may be shorter.
    fn pages(self) -> u64 {
        self.header.div_ceil(self.page)
    }

    fn page_of(self, line: u64) -> usize {
        (line / self.page) as usize
    }

    /// The program's lines of a page.
    fn lines(self, page: u64) -> Range<u64> {
        page * self.page..((page + 1) * self.page).min(self.header)
    }

    /// The line of the table with a page's two entries, and the index of their first word.
    fn entry(self, page: u64) -> (u64, usize) {
        (self.header + 1 + page / ENTRIES, (page % ENTRIES) as usize * 2)
    }

    /// Where a line of the program's lies when its page is at `place`.
    fn line_at(self, place: PageLocation, line: u64) -> u64 {
        let table_ends = self.header + 1 + self.pages().div_ceil(ENTRIES);
        let pool = table_ends.next_multiple_of(self.page);
        match place {
            PageLocation::Home => line,
            PageLocation::Pool(number) => pool + u64::from(number) * self.page + line % self.page,
        }
    }
}

/// An entry of the table: the epoch whose end makes it valid, and the place, 32 bits each. A page has two entries, of
/// which the valid one with the higher epoch counts; the next one is stored over the other. A page without a valid
/// entry is at home.
fn entry(epoch: u64, place: PageLocation) -> u64 {
    let place = match place {
        PageLocation::Home => 0,
        PageLocation::Pool(number) => u64::from(number) + 1,
    };
    epoch << 32 | place
}

fn epoch_of(entry: u64) -> u64 {
    entry >> 32
}

fn place_of(entry: u64) -> PageLocation {
    (entry as u32).checked_sub(1).map_or(PageLocation::Home, PageLocation::Pool)
}

impl CopyOnWriteController {
    /// Where a line is; lines that are not the program's do not move.
    fn place(&self, line: u64) -> u64 {
        match self.pages.get(self.layout.page_of(line)) {
            Some(page) if line < self.layout.header => self.layout.line_at(page.place, line),
            _ => line,
        }
    }

    /// The page of a leaving line takes a shadow and is copied there, unless it has one in this epoch.
    fn take_shadow(&mut self, hardware: &mut Hardware, leaving: &Leaving) {
        let page = self.layout.page_of(leaving.line);
        let (old, copied) = (self.pages[page].place, self.pages[page].copied);
        let forgets = self.design.leaves_out(FORGET) && copied > 0;
        if copied == self.epoch || forgets {
            return;
        }
        // The pool has a page for each page; the shadow of a page in the pool is its home.
        let shadow = match old {
            PageLocation::Home => {
                PageLocation::Pool(self.free.pop().expect("a page of the pool for each page"))
            }
            PageLocation::Pool(number) => {
                let free =
                    if self.design.leaves_out(FREE) { &mut self.free } else { &mut self.left };
                free.push(number);
                PageLocation::Home
            }
        };
        let durable = self.copy(hardware, leaving, (old, shadow));
        self.pages[page] = PageState { place: shadow, copied: self.epoch, durable };
        self.copied.push(page as u64);
        self.left_with_copy = leaving.block;
        self.copies += 1;
    }

    /// Copies the page of a leaving line, but not that line, nor those that the DRAM cache has dirty: they will leave too.
    /// Returns when the copies are durable.
    fn copy(
        &mut self,
        hardware: &mut Hardware,
        leaving: &Leaving,
        (old, shadow): (PageLocation, PageLocation),
    ) -> Ps {
        let now = hardware.now();
        let mut durable = now;
        let with = leaving.block.map(|block| (block, hardware.block_of(leaving.line)));
        for line in self.layout.lines(self.layout.page_of(leaving.line) as u64) {
            let left_out = self.design.leaves_out(COPY) && line % 8 == 7;
            if line == leaving.line || left_out {
                continue;
            }
            let [from, to] = [old, shadow].map(|place| self.layout.line_at(place, line));
            let leaves = with.as_ref().filter(|(_, lines)| lines.contains(&line));
            let block = leaves.map_or_else(|| hardware.in_dram(line), |(block, _)| Some(*block));
            let read = match block {
                Some(block) if block.is_dirty(line) => continue,
                Some(block) => hardware.read_dram(line, now.max(block.ready)),
                None => {
                    self.from_home += 1;
                    hardware.read_home(from)
                }
            };
            let words = hardware.home_line(from);
            durable = durable.max(hardware.write_home("shadow copy", to, words, read));
        }
        durable
    }

    /// Stores the entries of the pages that the epoch has copied. Returns when all are durable.
    fn store_entries(&mut self, hardware: &mut Hardware) -> Ps {
        let mut durable = hardware.now();
        self.copied.sort_unstable();
        for pages in self.copied.chunk_by(|page, next| page / ENTRIES == next / ENTRIES) {
            let (line, _) = self.layout.entry(pages[0]);
            let mut words = hardware.home_line(line);
            for page in pages {
                if self.design.leaves_out(ENTRY) && page % 4 == 3 {
                    continue;
                }
                let (_, first) = self.layout.entry(*page);
                let older = epoch_of(words[first]) > epoch_of(words[first + 1]);
                words[first + usize::from(older)] =
                    entry(self.epoch, self.pages[*page as usize].place);
            }
            durable = durable.max(hardware.write_home("mapping", line, words, hardware.now()));
        }
        durable
    }
}

impl Design for CopyOnWrite {
    fn name(&self) -> &'static str {
        "copy-on-write"
    }

    fn reserves(&self, lines: u64) -> u64 {
        let pages = lines.div_ceil(self.page_lines());
        // Every page could be copied in one epoch; the pool begins at a page's boundary.
        1 + pages.div_ceil(ENTRIES) + self.page_lines() - 1 + pages * self.page_lines()
    }

    fn promises(&self) -> Promise {
        Promise::Epoch
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let layout = self.layout(&own);
        let pages = layout.pages();
        Box::new(CopyOnWriteController {
            design: self.clone(),
            layout,
            epoch: hardware.home_line(layout.header)[0] + 1,
            pages: vec![
                PageState { place: PageLocation::Home, copied: 0, durable: Ps(0) };
                pages as usize
            ],
            copied: Vec::new(),
            left_with_copy: None,
            free: (0..pages as u32).rev().collect(),
            left: Vec::new(),
            copies: 0,
            from_home: 0,
            most_pages: 0,
            unmeasured: 0,
            tickets: EpochTickets::default(),
        })
    }

    fn recover(&self, home: &mut Home<'_>) {
        let layout = self.layout(&home.own());
        let header = home.line(layout.header);
        let (finished, dead) = (header[0] + u64::from(self.leaves_out(BELIEVE)), header[1]);
        let mut last = header[0];
        for page in 0..layout.pages() {
            let (line, first) = layout.entry(page);
            let table = home.line(line);
            let entries = &table[first..first + 2];
            last = entries.iter().fold(last, |last, entry| last.max(epoch_of(*entry)));
            let valid = entries.iter().filter(|it| (dead + 1..=finished).contains(&epoch_of(**it)));
            let Some(entry) = valid.max() else { continue };
            let lines = layout.lines(page);
            let left_out = u64::from(self.leaves_out(RECOVER));
            for line in lines.start..lines.end - left_out {
                let place = layout.line_at(place_of(*entry), line);
                if place != line {
                    home.put(line, &home.line(place));
                }
            }
        }
        if !self.leaves_out(DEAD) {
            epoch_number::make_dead(home, layout.header, last);
        }
    }
}

impl Mechanism for CopyOnWriteController {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn fetched(&mut self, hardware: &mut Hardware, fetch: &Fetch, places: &mut [u64]) -> Ps {
        places.iter_mut().for_each(|place| *place = self.place(*place));
        fetch.now + hardware.cycles(self.design.config.lookup_cycles)
    }

    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let line = leaving.line;
        let looked = leaving.from + hardware.cycles(self.design.config.lookup_cycles);
        let page = self.layout.page_of(line);
        let old = self.pages[page].place;
        self.take_shadow(hardware, leaving);
        if self.design.leaves_out(SHADOW) && line % 8 == 3 {
            return Verdict::RedirectAfter(self.layout.line_at(old, line), looked);
        }
        // A line must not overtake its own copy, if it has one. No crash point would show that: of two writes to a line
        // the machine takes the one handed over later, whatever their times.
        let copied = leaving.block.is_none() || leaving.block != self.left_with_copy;
        let after = if copied { self.pages[page].durable } else { looked };
        Verdict::RedirectAfter(self.place(line), looked.max(after))
    }

    fn end_epoch(&mut self, _: &mut Hardware) -> Flush {
        Flush::Everything
    }

    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        let mapped = self.store_entries(hardware);
        let waits = |time: Ps, mutant| if self.design.leaves_out(mutant) { Ps(0) } else { time };
        let from = waits(home, HOME).max(waits(mapped, MAPPING));
        let skips = self.design.leaves_out(NUMBER);
        let done = epoch_number::store(hardware, self.layout.header, self.epoch, from, skips);
        self.tickets.ended(done);
        if !self.design.leaves_out(STALL) {
            hardware.all_wait_until(done);
        }
        self.epoch += 1;
        self.most_pages = self.most_pages.max(self.copied.len() as u64);
        self.copied.clear();
        self.left_with_copy = None;
        self.free.append(&mut self.left);
    }

    fn tickets(&mut self) -> Option<&mut EpochTickets> {
        Some(&mut self.tickets)
    }

    fn start_measuring(&mut self) {
        (self.unmeasured, self.copies, self.most_pages) = (self.epoch - 1, 0, 0);
        self.from_home = 0;
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("epochs", self.epoch - 1 - self.unmeasured),
            ("pages_copied", self.copies),
            ("lines_copied_from_home", self.from_home),
            ("most_pages_in_an_epoch", self.most_pages),
        ]
    }
}
