//! `ThyNVM` (Ren et al., MICRO 2015) as Dual-Page Checkpointing (2.3, 3.5, 5.1.2) has it behind a DRAM cache: two tables of
//! different granularity, and checkpoints that are made while the next epoch runs.
//!
//! Lines of a page with few dirty lines go to places of their own (*block remapping*): a table of limited size has an entry
//! for each of them. A page with many dirty lines is written as a whole (*page writeback*), from the next epoch on. An
//! epoch ends when the dirty lines of the CPU's caches are in DRAM. Then the dirty lines in DRAM, as they are at that
//! moment, go to the home device page by page while programs go on; after them the changed entries of both tables, into
//! the older of two copies; and at last the epoch's number, which makes that copy the valid one.
//!
//! What always holds: there are three versions of a line, that of the last checkpoint, that of the checkpoint being made,
//! and the working one. Nothing is written to a place that one of the first two has (`places`). So the power may be cut
//! at any time. Recovery copies from places to homes, which it never reads.
//!
//! Reading order: this file, `places` (where the versions are), `tables` (their form in the home device), `checkpoint`.

mod checkpoint;
mod places;
mod tables;

use super::mutant::Mutant;
use super::{
    Design, Dirtied, EpochTickets, Fetch, Flush, Home, Leaving, Mechanism, Moments, Promise,
    Verdict,
};
use crate::Ps;
use crate::hardware::Hardware;
use checkpoint::{Checkpoint, DirtyLines};
use perdura_memory::LINE;
use places::{Changed, Places, Scheme};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use tables::Layout;

pub use tables::{BLOCK_INDEX_BITS, PAGE_INDEX_BITS};

const COPY: Mutant =
    Mutant { name: "copy", what: "every fourth line of a page that is written whole is left out" };
const PLACE: Mutant =
    Mutant { name: "place", what: "every eighth line goes to the place of the last checkpoint" };
const MADE: Mutant = Mutant {
    name: "made",
    what: "programs' lines may go to places of the checkpoint being made: two versions, not three",
};
const FORGET: Mutant = Mutant {
    name: "forget",
    what: "places that an epoch has taken count as taken in the next one",
};
const FREE: Mutant = Mutant {
    name: "free",
    what: "places of the last checkpoint are free when the next one is begun, and not when it is durable",
};
const AS_OF: Mutant = Mutant {
    name: "as-of",
    what: "a checkpoint has lines as they are when they are written, and not as the epoch has left them",
};
const DATA: Mutant =
    Mutant { name: "data", what: "the tables and the epoch's number do not wait for the lines" };
const MAPPING: Mutant =
    Mutant { name: "mapping", what: "the epoch's number does not wait for the tables" };
const ENTRY: Mutant = Mutant { name: "entry", what: "every fourth entry is not stored" };
const STANDBY: Mutant = Mutant {
    name: "standby",
    what: "a copy of the tables gets the changes of one epoch, and not of both since it was written",
};
const NUMBER: Mutant = Mutant { name: "number", what: "every fourth epoch's number is not stored" };
const STALL: Mutant = Mutant {
    name: "stall",
    what: "an epoch's end does not wait for the checkpoint that is being made",
};
const MOVE: Mutant = Mutant {
    name: "move",
    what: "blocks that get their entries back for others are not copied home",
};
const BELIEVE: Mutant =
    Mutant { name: "believe", what: "recovery believes the copy of the unfinished epoch" };
const DEAD: Mutant =
    Mutant { name: "dead", what: "recovery does not make the tables' entries dead" };
const PAGES: Mutant = Mutant { name: "pages", what: "recovery leaves out the last line of pages" };
const BLOCKS: Mutant = Mutant { name: "blocks", what: "recovery leaves out every fourth block" };

/// Its mutants.
pub(super) const MUTANTS: &[Mutant] = &[
    COPY, PLACE, MADE, FORGET, FREE, AS_OF, DATA, MAPPING, ENTRY, STANDBY, NUMBER, STALL, MOVE,
    BELIEVE, DEAD, PAGES, BLOCKS,
];

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThyNvmConfig {
    /// Where they are from.
    pub source: String,
    /// Cycles to look up where a line is, in both tables at once.
    pub lookup_cycles: u32,
    /// Bytes of a page: a power of two, from 64 to 4096.
    pub page_bytes: u64,
    /// Entries of the table of blocks.
    pub block_entries: u64,
    /// A page with more dirty lines in an epoch is written as a whole from the next one on.
    pub whole_above: u32,
    /// A page with fewer dirty lines in an epoch is written line by line again.
    pub lines_below: u32,
    /// Blocks that an epoch has not written are copied home if the free share of the table is below this.
    pub moves_when_free: f64,
}

impl Default for ThyNvmConfig {
    fn default() -> Self {
        ThyNvmConfig {
            source: "assumed; thresholds: ThyNVM".to_owned(),
            lookup_cycles: 0,
            page_bytes: 4096,
            block_entries: 76_800,
            whole_above: 22,
            lines_below: 16,
            moves_when_free: 0.25,
        }
    }
}

/// The design.
#[derive(Clone, Debug, Default)]
pub struct ThyNvm {
    config: ThyNvmConfig,
    left_out: Option<Mutant>,
}

/// What it counts.
#[derive(Debug, Default)]
struct Counts {
    checkpoints: u64,
    waited: u64,
    blocks: u64,
    pages: u64,
    copied: u64,
    full: u64,
    to_pages: u64,
    to_lines: u64,
    moved: u64,
    turns: u64,
    most_entries: u64,
    entries_stored: u64,
}

/// The mechanism.
struct ThyNvmController {
    design: ThyNvm,
    layout: Layout,
    epoch: u64,
    places: Places,
    /// The checkpoint being made.
    checkpoint: Option<Checkpoint>,
    /// Changes that the last checkpoint has stored in one copy of the tables.
    before: Changed,
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

impl ThyNvm {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A figure is out of range.
    pub fn new(config: ThyNvmConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if !config.page_bytes.is_power_of_two() || !(64..=4096).contains(&config.page_bytes) {
            return Err("page_bytes is a power of two, from 64 to 4096".to_owned());
        }
        if !(1..=1 << 30).contains(&config.block_entries) {
            return Err("block_entries is from 1 to 2^30".to_owned());
        }
        if !(0.0..=1.0).contains(&config.moves_when_free) {
            return Err("moves_when_free is a share from 0 to 1".to_owned());
        }
        Ok(ThyNvm { config, left_out: left_out.copied() })
    }

    fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }

    fn layout(&self, program: u64) -> Layout {
        Layout::new(program, self.config.page_bytes / LINE, self.config.block_entries)
    }
}

impl Design for ThyNvm {
    fn name(&self) -> &'static str {
        "thynvm"
    }

    fn reserves(&self, lines: u64) -> u64 {
        self.layout(lines).end() - lines
    }

    fn promises(&self) -> Promise {
        Promise::Epoch
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let layout = self.layout(own.start);
        Box::new(ThyNvmController {
            design: self.clone(),
            layout,
            epoch: hardware.home_line(layout.header)[0] + 1,
            places: Places::new(layout),
            checkpoint: None,
            before: Changed::default(),
            calls: 0,
            committed: Ps(0),
            counts: Counts::default(),
            tickets: EpochTickets::default(),
            unmeasured: 0,
        })
    }

    fn recover(&self, home: &mut Home<'_>) {
        let layout = self.layout(home.own().start);
        let left_out = |mutant| self.leaves_out(mutant);
        tables::recover(home, layout, &left_out);
    }
}

impl Mechanism for ThyNvmController {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn fetched(&mut self, hardware: &mut Hardware, fetch: &Fetch, places: &mut [u64]) -> Ps {
        for place in places {
            if *place < self.layout.header {
                self.take_turn(hardware, *place);
                *place = self.places.working(*place);
            }
        }
        fetch.now + hardware.cycles(self.design.config.lookup_cycles)
    }

    fn dirtied(&mut self, hardware: &mut Hardware, dirtied: &Dirtied) {
        self.take_turn(hardware, dirtied.line);
        self.places.note_dirty(dirtied.line);
    }

    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let line = leaving.line;
        self.take_turn(hardware, line);
        self.places.note_dirty(line);
        let still = DirtyLines::after(hardware, line, leaving.block);
        let last = self.places.last(line);
        let (to, copies) = self.assign(line, &still);
        self.copy(hardware, &copies, leaving.block);
        let looked = leaving.from + hardware.cycles(self.design.config.lookup_cycles);
        if self.design.leaves_out(PLACE) && line % 8 == 3 {
            return Verdict::RedirectAfter(last, looked);
        }
        Verdict::RedirectAfter(to, looked.max(self.committed))
    }

    fn due(&mut self, hardware: &mut Hardware, number: u64) {
        if number == self.calls {
            self.go_on(hardware);
        }
    }

    fn end_epoch(&mut self, hardware: &mut Hardware) -> Flush {
        if self.checkpoint.is_some() {
            self.counts.waited += 1;
            self.finish(hardware);
        }
        Flush::Caches
    }

    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        self.begin(hardware, home);
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
            ("checkpoints", counts.checkpoints),
            ("epochs_that_waited", counts.waited),
            ("blocks_remapped", counts.blocks),
            ("pages_written", counts.pages),
            ("lines_copied", counts.copied),
            ("pages_for_full_table", counts.full),
            ("switches_to_pages", counts.to_pages),
            ("switches_to_lines", counts.to_lines),
            ("blocks_moved_home", counts.moved),
            ("pages_written_ahead", counts.turns),
            ("most_block_entries", counts.most_entries),
            ("entries_stored", counts.entries_stored),
        ]
    }
}

impl ThyNvmController {
    /// Where a dirty line is to be written, and what must be copied for that.
    fn assign(&mut self, line: u64, still: &DirtyLines) -> (u64, Vec<places::LineCopy>) {
        let design = &self.design;
        let rules = places::Rules {
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
    fn switch(&mut self) {
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
}
