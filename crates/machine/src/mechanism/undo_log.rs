//! Undo logging in the memory controller, by epochs: the *Logging* that Dual-Page Checkpointing
//! (5.1.2) compares with, in ATOM's manner.
//!
//! It sits between the DRAM cache and the home device. Before a line is written home for the first time in an epoch,
//! its old contents go into a log in reserved lines; the write is held back until the record is durable, and later
//! writes of the line come after it. An unbounded table remembers which lines the epoch has logged. An epoch ends when
//! every dirty line is home: then the epoch's number is stored, which makes all its records dead. Recovery puts the old
//! lines of the unfinished epoch back.

use super::mutant::Mutant;
use super::{Design, EpochTickets, Flush, Home, Leaving, Mechanism, Moments, Promise, Verdict};
use crate::Ps;
use crate::hardware::Hardware;
use perdura_memory::image::LineWords;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Data lines that share a line of metadata (ATOM).
const GROUP: u64 = 7;

const HOLD: Mutant =
    Mutant { name: "hold", what: "lines are not held back until their records are durable" };
const METADATA: Mutant = Mutant {
    name: "metadata",
    what: "lines are held back for the old contents, and not for their metadata",
};
const HOME: Mutant =
    Mutant { name: "home", what: "an epoch's end does not wait until its lines are home" };
const FORGET: Mutant = Mutant {
    name: "forget",
    what: "lines that an epoch has logged count as logged in the next one",
};
const RECORD: Mutant = Mutant { name: "record", what: "every eighth line is not logged" };
const CHECK: Mutant =
    Mutant { name: "recover", what: "recovery leaves out the last record of each group" };

/// Its mutants.
pub(super) const MUTANTS: &[Mutant] = &[HOLD, METADATA, HOME, FORGET, RECORD, CHECK];

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoLogConfig {
    /// Where they are from.
    pub source: String,
    /// Cycles to look up whether a line is logged.
    pub lookup_cycles: u32,
    /// The epoch ends when the free share of the log's records is down to this.
    pub ends_when_free: f64,
}

impl Default for UndoLogConfig {
    fn default() -> Self {
        UndoLogConfig { source: "assumed".to_owned(), lookup_cycles: 0, ends_when_free: 0.125 }
    }
}

/// The design. Layout of its own lines: one that holds the number of finished epochs, then groups of a metadata line
/// (in each word: check of 32 bits and the home line's number; in the last one the epoch) and seven data lines.
#[derive(Clone, Debug, Default)]
pub struct HardwareUndoLog {
    config: UndoLogConfig,
    left_out: Option<Mutant>,
}

/// Where the log is.
#[derive(Clone, Copy, Debug)]
struct UndoLogLayout {
    header: u64,
    groups: u64,
}

/// The mechanism.
struct UndoLogController {
    design: HardwareUndoLog,
    log: UndoLogLayout,
    epoch: u64,
    /// The lines that the epoch has logged, a bit each.
    logged: Vec<u64>,
    records: u64,
    most_records: u64,
    /// Epochs that had ended when measuring began.
    unmeasured: u64,
    tickets: EpochTickets,
}

impl HardwareUndoLog {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// `ends_when_free` is not a share.
    pub fn new(config: UndoLogConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if !(0.0..1.0).contains(&config.ends_when_free) {
            return Err("ends_when_free is a share from 0 to 1, and not 1".to_owned());
        }
        Ok(HardwareUndoLog { config, left_out: left_out.copied() })
    }

    fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }
}

impl UndoLogLayout {
    fn new(own: Range<u64>) -> Self {
        UndoLogLayout { header: own.start, groups: (own.end - own.start - 1) / (GROUP + 1) }
    }

    fn group(self, group: u64) -> u64 {
        self.header + 1 + group * (GROUP + 1)
    }

    /// The metadata line and data line of record `index`, and its place in the group.
    fn place(self, index: u64) -> (u64, u64, usize) {
        let (metadata, slot) = (self.group(index / GROUP), index % GROUP);
        (metadata, metadata + 1 + slot, slot as usize)
    }

    fn capacity(self) -> u64 {
        self.groups * GROUP
    }
}

impl UndoLogController {
    /// Notes that the epoch logs the line. Returns whether it had not before.
    fn is_first(&mut self, line: u64) -> bool {
        let (word, bit) = (&mut self.logged[(line / 64) as usize], 1 << (line % 64));
        let first = *word & bit == 0;
        *word |= bit;
        first
    }

    /// Logs the old contents of `line`. Returns when they are durable.
    fn log(&mut self, hardware: &mut Hardware, line: u64) -> Ps {
        let (metadata, data, slot) = self.log.place(self.records);
        let old = hardware.home_line(line);
        let mut entries = if slot == 0 { [0; 8] } else { hardware.home_line(metadata) };
        entries[slot] = entry(self.epoch, line, &old);
        // The group's epoch: entries left from older epochs in the line do not count.
        entries[7] = self.epoch;
        self.records += 1;
        self.most_records = self.most_records.max(self.records);
        let fetched = hardware.read_home(line);
        let durable = hardware.write_home("undo record", data, old, fetched);
        let proven = hardware.write_home("undo metadata", metadata, entries, durable);
        if self.design.leaves_out(METADATA) { durable } else { durable.max(proven) }
    }
}

/// A record's word: a check of epoch, home and contents over the home line's number.
fn entry(epoch: u64, line: u64, old: &LineWords) -> u64 {
    line << 32 | check(epoch, line, old)
}

fn check(epoch: u64, line: u64, old: &LineWords) -> u64 {
    let bytes: Vec<u8> = old.iter().flat_map(|word| word.to_ne_bytes()).collect();
    xxh3_64_with_seed(&bytes, epoch ^ line.rotate_left(32)) >> 32
}

impl Design for HardwareUndoLog {
    fn name(&self) -> &'static str {
        "undo-log"
    }

    fn reserves(&self, lines: u64) -> u64 {
        // Every line could be logged in one epoch.
        1 + lines.div_ceil(GROUP) * (GROUP + 1)
    }

    fn promises(&self) -> Promise {
        Promise::Epoch
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let log = UndoLogLayout::new(own);
        Box::new(UndoLogController {
            design: self.clone(),
            epoch: hardware.home_line(log.header)[0] + 1,
            log,
            logged: vec![0; log.header.div_ceil(64) as usize],
            records: 0,
            most_records: 0,
            unmeasured: 0,
            tickets: EpochTickets::default(),
        })
    }

    fn recover(&self, home: &mut Home<'_>) {
        let log = UndoLogLayout::new(home.own());
        let epoch = home.line(log.header)[0] + 1;
        let slots = if self.leaves_out(CHECK) { GROUP - 1 } else { GROUP };
        for metadata in (0..log.groups).map(|group| log.group(group)) {
            let entries = home.line(metadata);
            // Groups become durable in any order: a later one may count.
            if entries[7] != epoch {
                continue;
            }
            for slot in 0..slots {
                let old = home.line(metadata + 1 + slot);
                let line = entries[slot as usize] >> 32;
                if line < log.header && entries[slot as usize] == entry(epoch, line, &old) {
                    home.put(line, &old);
                }
            }
        }
    }
}

impl Mechanism for UndoLogController {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let line = leaving.line;
        let looked = leaving.from + hardware.cycles(self.design.config.lookup_cycles);
        let holds = !self.design.leaves_out(HOLD);
        if !self.is_first(line) || self.design.leaves_out(RECORD) && line % 8 == 7 {
            // This write must not overtake an earlier one that waits for the record.
            let before = hardware.on_its_way(line).filter(|_| holds);
            return Verdict::After(before.map_or(looked, |durable| looked.max(durable)));
        }
        let durable = self.log(hardware, line);
        let free = self.log.capacity() - self.records;
        if (free as f64) < self.design.config.ends_when_free * self.log.capacity() as f64 {
            hardware.request_epoch_end();
        }
        Verdict::After(if holds { looked.max(durable) } else { looked })
    }

    fn end_epoch(&mut self, _: &mut Hardware) -> Flush {
        Flush::Everything
    }

    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        let mut header = hardware.home_line(self.log.header);
        header[0] = self.epoch;
        let from = if self.design.leaves_out(HOME) { hardware.now() } else { home };
        let done = hardware.write_home("epoch", self.log.header, header, from);
        hardware.promise(done);
        self.tickets.ended(done);
        hardware.all_wait_until(done.max(home));
        self.epoch += 1;
        self.records = 0;
        if !self.design.leaves_out(FORGET) {
            self.logged.fill(0);
        }
    }

    fn tickets(&mut self) -> Option<&mut EpochTickets> {
        Some(&mut self.tickets)
    }

    fn start_measuring(&mut self) {
        (self.unmeasured, self.most_records) = (self.epoch - 1, 0);
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("epochs", self.epoch.saturating_sub(1 + self.unmeasured)),
            ("most_records_in_an_epoch", self.most_records),
        ]
    }
}
