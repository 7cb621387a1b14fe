//! Undo logging in the memory controller, by epochs: the *Logging* that Dual-Page Checkpointing
//! (5.1.2) compares with, in ATOM's manner.
//!
//! Before a line is written home for the first time in an epoch, its old contents go into a log
//! beside the program's lines; the write is held back until that is durable. An unbounded table
//! remembers which lines the epoch has logged. An epoch ends when every dirty line is home: then
//! the epoch's number is stored, which makes all records of it dead. Recovery puts the old lines
//! of the unfinished epoch back.

use super::{Home, Mechanism, Verdict};
use crate::hardware::Hardware;
use crate::{Cause, Ps};
use std::collections::HashSet;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Data lines that share a line of metadata (ATOM).
const GROUP: u64 = 7;
/// Share of the log from which on the epoch should end.
const NEARLY_FULL: u64 = 8;

/// The mechanism. Layout of its own lines: one that holds the number of finished epochs, then
/// groups of a metadata line (in each word: epoch and check of 32 bits, the home line's number in
/// the next word's place of the group) and seven data lines.
#[derive(Debug, Default)]
pub struct HardwareUndoLog {
    first: u64,
    groups: u64,
    epoch: u64,
    logged: HashSet<u64>,
    records: u64,
    most_records: u64,
}

impl HardwareUndoLog {
    /// A log for machines with any number of lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lines of record `index`: metadata, data, and its place in the group.
    fn place(&self, index: u64) -> (u64, u64, usize) {
        let (group, slot) = (index / GROUP, index % GROUP);
        let metadata = self.first + 1 + group * (GROUP + 1);
        (metadata, metadata + 1 + slot, slot as usize)
    }

    fn capacity(&self) -> u64 {
        self.groups * GROUP
    }

    /// Logs the old contents of `line`; when they are durable.
    fn log(&mut self, hardware: &mut Hardware, line: u64) -> Ps {
        let (metadata, data, slot) = self.place(self.records);
        let old = hardware.home_line(line);
        let mut entries = if slot == 0 { [0; 8] } else { hardware.home_line(metadata) };
        entries[slot] = entry(self.epoch, line, &old);
        // The group's epoch: what is left of older ones in the line does not count.
        entries[7] = self.epoch;
        self.records += 1;
        self.most_records = self.most_records.max(self.records);
        let fetched = hardware.read_home(line);
        let durable = hardware.write_home(data, old, fetched);
        durable.max(hardware.write_home(metadata, entries, durable))
    }
}

/// A record's word: a check of epoch, home and contents over the home line's number.
fn entry(epoch: u64, line: u64, old: &[u64; 8]) -> u64 {
    line << 32 | check(epoch, line, old)
}

fn check(epoch: u64, line: u64, old: &[u64; 8]) -> u64 {
    let bytes: Vec<u8> = old.iter().flat_map(|word| word.to_ne_bytes()).collect();
    xxh3_64_with_seed(&bytes, epoch ^ line.rotate_left(32)) >> 32
}

impl Mechanism for HardwareUndoLog {
    fn name(&self) -> &'static str {
        "undo-log"
    }

    fn reserves(&self, lines: u64) -> u64 {
        // Every line could be logged in one epoch.
        1 + lines.div_ceil(GROUP) * (GROUP + 1)
    }

    fn start(&mut self, hardware: &mut Hardware, first: u64) {
        self.first = first;
        self.groups = (hardware.home_lines() - first - 1) / (GROUP + 1);
        self.epoch = hardware.home_line(first)[0] + 1;
    }

    fn evict(&mut self, hardware: &mut Hardware, line: u64, _: Cause) -> Verdict {
        if self.logged.insert(line) {
            Verdict::After(self.log(hardware, line))
        } else {
            Verdict::Allow
        }
    }

    fn wants_epoch_end(&self) -> bool {
        self.records + self.capacity() / NEARLY_FULL > self.capacity()
    }

    fn end_epoch(&mut self, hardware: &mut Hardware) {
        let home = hardware.clean_caches(self);
        let mut header = hardware.home_line(self.first);
        header[0] = self.epoch;
        let done = hardware.write_home(self.first, header, home);
        hardware.all_wait_until(done);
        self.epoch += 1;
        self.logged.clear();
        self.records = 0;
    }

    fn recover(&self, home: &mut Home<'_>) {
        let first = home.first_reserved();
        let epoch = home.line(first)[0] + 1;
        let groups = (home.lines() - first - 1) / (GROUP + 1);
        for group in 0..groups {
            let metadata = first + 1 + group * (GROUP + 1);
            let entries = home.line(metadata);
            if entries[7] != epoch {
                break;
            }
            for slot in 0..GROUP {
                let old = home.line(metadata + 1 + slot);
                let line = entries[slot as usize] >> 32;
                if line < first && entries[slot as usize] == entry(epoch, line, &old) {
                    home.put(line, &old);
                }
            }
        }
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("epochs", self.epoch.saturating_sub(1)),
            ("most_records_in_an_epoch", self.most_records),
        ]
    }
}
