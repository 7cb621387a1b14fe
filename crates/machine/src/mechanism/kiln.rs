//! Transactions in a non-volatile last-level cache: *Kiln* (Zhao et al., "Kiln: Closing the Performance Gap Between
//! Systems With and Without Persistence Support", MICRO 2013), and *LOC-Kiln*, its combination with loose ordering (LOC
//! 5.2).
//!
//! The cache has the new version of a line, memory the old one, and lines that fit into the cache are not logged. At a
//! commit the transaction's lines in the caches nearer to the core are written to the last-level cache, and then its
//! commit bit: transactions below a number in the log head have theirs. Recovery drops lines of other transactions.
//! Uncommitted lines may not leave the cache; where a set has no room, the line is logged (LOC 5.5: Kiln falls back to
//! write-ahead logging), and goes home when its transaction is durable. *Kiln* waits for each commit; *LOC-Kiln* has
//! windows: the newest contents of several transactions' lines are written together, and the first transaction of the
//! next window waits.

use super::mutant::Mutant;
use super::transactions::{
    APPLY, Acknowledged, Caching, CachingSettings, EVICTED, HEAD, HOME, LogConfig, OLDER, RECORD,
    TX_STATE_ENTRIES, UNDONE, VERSION, Waits, recover_cache,
};
use super::{Design, Home, Mechanism, Promise};
use crate::hardware::Hardware;
use serde::{Deserialize, Serialize};
use std::ops::Range;

pub(super) const MUTANTS: &[Mutant] = &[EVICTED, RECORD, OLDER, HEAD, APPLY];
pub(super) const LOOSE_MUTANTS: &[Mutant] =
    &[EVICTED, RECORD, OLDER, HOME, HEAD, VERSION, UNDONE, APPLY];

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KilnConfig {
    /// Where they are from.
    pub source: String,
    /// Transactions of a window, 1 to 64: Kiln itself has windows of one.
    pub degree: u64,
    /// Time of a write to the last-level cache, nanoseconds.
    pub write_ns: f64,
    /// Such writes that can overlap.
    pub banks: usize,
    /// Whether contents that a transaction overwrites stay in the cache until it has committed, and take up a way;
    /// otherwise they go home first.
    pub keeps_older: bool,
    /// Blocks that the durable image of the cache has room for: twice the cache's lines are enough.
    pub slots: u64,
    /// Bytes of the log for lines that do not fit into the cache.
    pub area_bytes: u64,
    /// Cycles to find a block of a transaction in the caches and hand it over.
    pub block_cycles: u32,
    /// When a program goes on whose transaction did not fit into the cache.
    #[serde(default)]
    pub acknowledged: Acknowledged,
}

impl KilnConfig {
    fn of(degree: u64) -> Self {
        let LogConfig { area_bytes, block_cycles, .. } = LogConfig::default();
        let source = "LOC 2.1: STT-RAM is written in less than 20 ns; 8 writes at a time, a block in each cycle, \
                      and older contents that stay are assumed; log and degree: LOC 4.2, 5.1";
        KilnConfig {
            source: source.to_owned(),
            degree,
            write_ns: 20.0,
            banks: 8,
            keeps_older: true,
            slots: 1 << 15,
            area_bytes,
            block_cycles,
            acknowledged: Acknowledged::default(),
        }
    }

    fn validate(&self) -> Result<(), String> {
        if !(1..=TX_STATE_ENTRIES / 2).contains(&self.degree) {
            return Err("degree is a number of transactions from 1 to 64".to_owned());
        }
        if !(0.0..1e6).contains(&self.write_ns) {
            return Err("write_ns is a time from 0 to 1,000,000 ns".to_owned());
        }
        if !(1..=1024).contains(&self.banks) {
            return Err("banks is a number from 1 to 1024".to_owned());
        }
        if !(64..=1 << 26).contains(&self.slots) {
            return Err("slots is a number of blocks from 64 to 67,108,864".to_owned());
        }
        Ok(())
    }
}

impl Default for KilnConfig {
    fn default() -> Self {
        KilnConfig::of(1)
    }
}

/// The figures of LOC-Kiln.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LocKilnConfig(pub KilnConfig);

impl Default for LocKilnConfig {
    fn default() -> Self {
        LocKilnConfig(KilnConfig::of(16))
    }
}

/// The design.
#[derive(Clone, Debug)]
pub struct Kiln {
    name: &'static str,
    settings: CachingSettings,
}

impl Kiln {
    /// Kiln, with these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// Figures are out of their ranges, or the window has several transactions.
    pub fn new(config: KilnConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if config.degree != 1 {
            return Err("degree is 1: windows of several transactions are loc-kiln's".to_owned());
        }
        Self::with("kiln", true, config, left_out)
    }

    /// LOC-Kiln, likewise.
    ///
    /// # Errors
    /// Figures are out of their ranges.
    pub fn loose(config: LocKilnConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        Self::with("loc-kiln", false, config.0, left_out)
    }

    fn with(
        name: &'static str,
        waits: bool,
        config: KilnConfig,
        left_out: Option<&Mutant>,
    ) -> Result<Self, String> {
        config.validate()?;
        let KilnConfig { source, area_bytes, block_cycles, acknowledged, .. } = config;
        let log = LogConfig {
            source,
            area_bytes,
            block_cycles,
            acknowledged,
            waits: if waits { Waits::Commit } else { Waits::Begin },
        };
        log.validate()?;
        let settings = CachingSettings {
            degree: config.degree,
            write_ns: config.write_ns,
            banks: config.banks,
            keeps_older: config.keeps_older,
            slots: config.slots,
            log,
            left_out: left_out.copied(),
        };
        Ok(Kiln { name, settings })
    }
}

impl Design for Kiln {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reserves(&self, _: u64) -> u64 {
        self.settings.lines()
    }

    fn promises(&self) -> Promise {
        Promise::Transactions
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        Box::new(Caching::new(self.settings.clone(), hardware, &own))
    }

    fn recover(&self, home: &mut Home<'_>) {
        recover_cache(home, &self.settings);
    }
}
