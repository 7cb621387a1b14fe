//! The derivative page table as it is while the power is on: which base page each derivative page has, and the two
//! vectors of each, in the controller or in DRAM (4.3 of the paper).

use super::config::{DualPageConfig, Metadata};
use crate::Ps;
use crate::hardware::Hardware;

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

/// A pair of vectors in the controller.
#[derive(Clone, Copy, Debug)]
struct CachedPair {
    entry: u32,
    vectors: Vectors,
    changed: bool,
}

/// What the table has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TableCounts {
    /// Vectors that were in the controller when they were wanted, and those that were not.
    pub(super) hits: u64,
    pub(super) misses: u64,
}

/// The table.
pub(super) struct Table {
    pub(super) entries: Vec<Entry>,
    /// The entry of each base page.
    by_page: Vec<u32>,
    /// The vectors, where they are kept: with all of them in the controller, or in DRAM.
    vectors: Vec<Vectors>,
    /// Those of some entries in the controller, the one used last at the end.
    cached: Vec<CachedPair>,
    places: usize,
    metadata: Metadata,
    /// The page looked up last, whose entry is in the controller, where all metadata is in DRAM.
    last: Option<u64>,
    loses_changes: bool,
    pub(super) counts: TableCounts,
}

impl Table {
    pub(super) fn new(
        config: &DualPageConfig,
        (entries, pages): (u64, u64),
        loses_changes: bool,
    ) -> Self {
        let none = Entry { page: None, ready: Ps(0), written: 0 };
        Table {
            entries: vec![none; entries as usize],
            by_page: vec![NONE; pages as usize],
            vectors: vec![Vectors::default(); entries as usize],
            cached: Vec::new(),
            places: config.cached_vectors,
            metadata: config.metadata,
            last: None,
            loses_changes,
            counts: TableCounts::default(),
        }
    }

    /// The entry of a base page.
    pub(super) fn entry_of(&self, page: u64) -> Option<u32> {
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
        if self.metadata != Metadata::Dram || self.last == Some(page) {
            return (from, found);
        }
        // A hash table in DRAM: one line has the entry, or shows that there is none.
        self.last = Some(page);
        let line = found.map_or(page % self.entries.len() as u64, u64::from) / 2;
        (hardware.read_own_dram(line, from), found)
    }

    /// The vectors of an entry, in the controller. Returns from when they are there.
    pub(super) fn fetch(
        &mut self,
        hardware: &mut Hardware,
        entry: u32,
        from: Ps,
    ) -> (Ps, &mut Vectors) {
        if self.metadata == Metadata::Controller || !hardware.has_dram() {
            return (from, &mut self.vectors[entry as usize]);
        }
        let at = self.cached.iter().position(|pair| pair.entry == entry);
        let mut there = from;
        let pair = match at {
            Some(at) => {
                self.counts.hits += 1;
                self.cached.remove(at)
            }
            None => {
                self.counts.misses += 1;
                if self.cached.len() == self.places {
                    let oldest = self.cached.remove(0);
                    self.put_back(hardware, oldest, from);
                }
                // Where all is in DRAM, the look-up has read the whole entry.
                if self.metadata == Metadata::Split {
                    there = hardware.read_own_dram(u64::from(entry) / 4, from);
                }
                let vectors = self.vectors[entry as usize];
                CachedPair { entry, vectors, changed: false }
            }
        };
        self.cached.push(pair);
        let last = self.cached.len() - 1;
        (there, &mut self.cached[last].vectors)
    }

    /// The vectors that [`fetch`](Self::fetch) has returned last were changed.
    pub(super) fn note_change(&mut self) {
        if let Some(pair) = self.cached.last_mut() {
            pair.changed = true;
        }
    }

    fn put_back(&mut self, hardware: &mut Hardware, pair: CachedPair, from: Ps) {
        if !pair.changed || self.loses_changes {
            return;
        }
        self.vectors[pair.entry as usize] = pair.vectors;
        hardware.write_own_dram(self.dram_line(pair.entry), from);
    }

    /// Writes all vectors in the controller to where they are kept.
    pub(super) fn put_all_back(&mut self, hardware: &mut Hardware, from: Ps) {
        for pair in std::mem::take(&mut self.cached) {
            self.put_back(hardware, pair, from);
        }
    }

    /// The vectors of an entry where they are kept, for work in the background that leaves the ones in the controller
    /// alone. Returns from when they are there.
    pub(super) fn read(&mut self, hardware: &mut Hardware, entry: u32, from: Ps) -> (Ps, Vectors) {
        if let Some(pair) = self.cached.iter().find(|pair| pair.entry == entry) {
            return (from, pair.vectors);
        }
        let there = match self.metadata {
            Metadata::Controller => from,
            _ => hardware.read_own_dram(self.dram_line(entry), from),
        };
        (there, self.vectors[entry as usize])
    }

    /// As [`read`](Self::read), changes them.
    pub(super) fn write(
        &mut self,
        hardware: &mut Hardware,
        entry: u32,
        vectors: Vectors,
        from: Ps,
    ) {
        self.cached.retain(|pair| pair.entry != entry);
        self.vectors[entry as usize] = vectors;
        if self.metadata != Metadata::Controller {
            hardware.write_own_dram(self.dram_line(entry), from);
        }
    }

    /// The vectors of an entry, without time.
    pub(super) fn kept(&mut self, entry: u32) -> &mut Vectors {
        &mut self.vectors[entry as usize]
    }

    /// The line of DRAM that has an entry's vectors: four pairs, or with all fields two entries to a line.
    pub(super) fn dram_line(&self, entry: u32) -> u64 {
        u64::from(entry) / if self.metadata == Metadata::Dram { 2 } else { 4 }
    }

    /// Gives a derivative page to a base page. Nothing of it is dirty, and its checkpoint is in the base page.
    pub(super) fn give(&mut self, entry: u32, page: u64, ready: Ps) {
        self.by_page[page as usize] = entry;
        self.entries[entry as usize] = Entry { page: Some(page), ready, written: 0 };
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
