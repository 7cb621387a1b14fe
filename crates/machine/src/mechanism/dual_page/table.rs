//! The derivative page table as it is while the power is on: which base page each derivative page has, and the two
//! vectors of each, in the controller or in DRAM (4.3 of the paper).

use super::config::{DualPageConfig, Metadata};
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::cached::CachedEntries;

/// No entry.
const NONE: u32 = u32::MAX;

/// The two vectors of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vectors {
    /// Lines whose checkpoint is in the derivative page.
    pub(super) checkpoint: u64,
    /// Lines that the epoch has written.
    pub(super) dirty: u64,
}

impl Vectors {
    /// Lines whose working version is in the derivative page: Equation 1 of the paper.
    pub(super) fn working(self) -> u64 {
        self.checkpoint ^ self.dirty
    }
}

/// An entry without its vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The base page, if the entry is valid.
    pub(super) page: Option<u64>,
    /// From when the derivative page may be written.
    pub(super) ready: Ps,
    /// The epoch that has last written the page, or 0.
    pub(super) written: u64,
}

/// What the table has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TableCounts {
    /// Entries that the controller had a copy of when they were wanted, and those that were read.
    pub(super) hits: u64,
    pub(super) misses: u64,
    /// Look-ups that found in DRAM that a page has no entry.
    pub(super) absent: u64,
    /// Changed copies that were replaced.
    pub(super) written_back: u64,
}

/// The table.
pub(super) struct Table {
    pub(super) entries: Vec<Entry>,
    /// The entry of each base page.
    by_page: Vec<u32>,
    /// The vectors, where they are kept: with all of them in the controller, or in DRAM.
    vectors: Vec<Vectors>,
    /// The controller's copies of entries in DRAM: of their vectors, or of all fields. They outlive checkpoints.
    cached: CachedEntries<Vectors>,
    metadata: Metadata,
    /// The last page that had no entry, where all metadata is in DRAM.
    absent: Option<u64>,
    loses_changes: bool,
    pub(super) counts: TableCounts,
}

impl Table {
    /// For this many entries and base pages. Without DRAM, all is in the controller.
    pub(super) fn new(
        config: &DualPageConfig,
        (entries, pages): (u64, u64),
        has_dram: bool,
        loses_changes: bool,
    ) -> Self {
        let none = Entry { page: None, ready: Ps(0), written: 0 };
        Table {
            entries: vec![none; entries as usize],
            by_page: vec![NONE; pages as usize],
            vectors: vec![Vectors::default(); entries as usize],
            cached: CachedEntries::new(config.cached_entries),
            metadata: if has_dram { config.metadata } else { Metadata::Controller },
            absent: None,
            loses_changes,
            counts: TableCounts::default(),
        }
    }

    /// The entry of a base page.
    fn entry_of(&self, page: u64) -> Option<u32> {
        Some(self.by_page[page as usize]).filter(|entry| *entry != NONE)
    }

    /// Looks a base page up, from `from` on. Returns when that is done, and its entry.
    pub(super) fn look_up(
        &mut self,
        hardware: &mut Hardware,
        page: u64,
        from: Ps,
    ) -> (Ps, Option<u32>) {
        let found = self.entry_of(page);
        if self.metadata != Metadata::Dram {
            return (from, found);
        }
        // A hash table in DRAM: one line has the entry, or shows that there is none.
        if let Some(entry) = found {
            return (self.bring(hardware, entry, from), found);
        }
        if self.absent.replace(page) == Some(page) {
            return (from, None);
        }
        self.counts.absent += 1;
        let line = page % self.entries.len() as u64 / 2;
        (hardware.read_own_dram(line, from), None)
    }

    /// The vectors of an entry that was looked up, in the controller. Returns from when they are there.
    pub(super) fn fetch(&mut self, hardware: &mut Hardware, entry: u32, from: Ps) -> (Ps, Vectors) {
        let there = match self.metadata {
            Metadata::Split => self.bring(hardware, entry, from),
            // The look-up has brought the whole entry.
            Metadata::Controller | Metadata::Dram => from,
        };
        (there, self.newest(entry))
    }

    /// Has a copy of an entry in the controller. Returns from when.
    fn bring(&mut self, hardware: &mut Hardware, entry: u32, from: Ps) -> Ps {
        if self.cached.touch(entry.into()) {
            self.counts.hits += 1;
            return from;
        }
        self.counts.misses += 1;
        self.copy(hardware, entry, self.vectors[entry as usize], false, from);
        hardware.read_own_dram(self.dram_line(entry), from)
    }

    /// Puts a copy into the controller. The one that it replaces is written to DRAM, if it has changed.
    fn copy(
        &mut self,
        hardware: &mut Hardware,
        entry: u32,
        vectors: Vectors,
        changed: bool,
        from: Ps,
    ) {
        let replaced = self.cached.insert(entry.into(), vectors, changed);
        if let Some((replaced, vectors)) = replaced
            && !self.loses_changes
        {
            self.counts.written_back += 1;
            self.vectors[replaced as usize] = vectors;
            hardware.write_own_dram(self.dram_line(replaced as u32), from);
        }
    }

    /// Changes the vectors of an entry, in the controller if it has a copy.
    pub(super) fn change(&mut self, entry: u32, vectors: Vectors) {
        let copy = self.cached.change(entry.into());
        *copy.unwrap_or(&mut self.vectors[entry as usize]) = vectors;
    }

    /// The vectors of an entry, for work in the background that leaves the copies in the controller alone. Returns from
    /// when they are there.
    pub(super) fn read(&mut self, hardware: &mut Hardware, entry: u32, from: Ps) -> (Ps, Vectors) {
        let line = self.line_of_uncached(entry);
        let there = line.map_or(from, |line| hardware.read_own_dram(line, from));
        (there, self.newest(entry))
    }

    /// Makes an entry's vectors zero: in the controller if that has a copy, otherwise in DRAM.
    pub(super) fn clear(&mut self, hardware: &mut Hardware, entry: u32, from: Ps) {
        if let Some(line) = self.line_of_uncached(entry) {
            hardware.write_own_dram(line, from);
        }
        self.change(entry, Vectors::default());
    }

    /// The vectors of an entry, without time.
    pub(super) fn newest(&self, entry: u32) -> Vectors {
        *self.cached.peek(entry.into()).unwrap_or(&self.vectors[entry as usize])
    }

    /// The vectors of an entry as they are where all are kept, without time.
    pub(super) fn kept(&self, entry: u32) -> Vectors {
        self.vectors[entry as usize]
    }

    /// The line of DRAM with an entry's vectors, if they are there and the controller has no copy.
    pub(super) fn line_of_uncached(&self, entry: u32) -> Option<u64> {
        let in_dram =
            self.metadata != Metadata::Controller && self.cached.peek(entry.into()).is_none();
        in_dram.then(|| self.dram_line(entry))
    }

    /// The line of DRAM that has an entry's vectors: four pairs, or with all fields two entries to a line.
    fn dram_line(&self, entry: u32) -> u64 {
        u64::from(entry) / if self.metadata == Metadata::Dram { 2 } else { 4 }
    }

    /// Gives a derivative page to a base page. Nothing of it is dirty, and its checkpoint is in the base page. Where all
    /// fields are in DRAM, the controller has the new entry.
    pub(super) fn give(&mut self, hardware: &mut Hardware, entry: u32, page: u64, ready: Ps) {
        self.by_page[page as usize] = entry;
        self.entries[entry as usize] = Entry { page: Some(page), ready, written: 0 };
        if self.metadata == Metadata::Dram {
            if self.cached.touch(entry.into()) {
                self.change(entry, Vectors::default());
            } else {
                let now = hardware.now();
                self.copy(hardware, entry, Vectors::default(), true, now);
            }
        }
    }

    /// Takes a derivative page back.
    pub(super) fn take_back(&mut self, entry: u32) {
        if let Some(page) = self.entries[entry as usize].page.take() {
            self.by_page[page as usize] = NONE;
        }
    }
}

/// Bytes of DRAM for a table of `entries`.
pub(super) fn dram_bytes(metadata: Metadata, entries: u64) -> u64 {
    match metadata {
        Metadata::Controller => 0,
        Metadata::Split => entries.div_ceil(4) * 64,
        Metadata::Dram => entries.div_ceil(2) * 64,
    }
}
