//! Loose-Ordering Consistency on write-ahead logging: LOC's *LOC-WAL*, and *EC-WAL*, which has eager commit alone (LOC
//! 3.2, 3.3, 5.3).
//!
//! *Eager commit*: there are no commit records. A transaction's last block in the log has the number of its blocks, and
//! recovery counts them. *Speculative persistence*: consecutive transactions share a window. At its end the
//! newest contents of each line go into the log, in any order, with the pairs that say how many blocks of a transaction
//! later ones have overlapped; then the lines are written in place. Programs do not wait: a commit returns at once, and
//! only the first transaction of the next window waits, until the window before is durable in the log (or, as
//! configured, in place). EC-WAL has windows of one transaction, and waits at its commit, as H-WAL does.

use super::mutant::Mutant;
use super::transactions::{
    APPLY, Acknowledged, CLOSED, COUNT, CUT_OFF, Commits, EVICTED, HEAD, LOGGED, LogArea,
    LogConfig, METADATA, ONE_LESS, PAIR, PersistOrder, TX_STATE_ENTRIES, Tracked, Tracking, UNDONE,
    VERSION, Waits, recover,
};
use super::{Design, Home, Mechanism, Promise};
use crate::Ps;
use crate::hardware::Hardware;
use serde::{Deserialize, Serialize};
use std::ops::Range;

pub(super) const MUTANTS: &[Mutant] = &[
    METADATA, EVICTED, LOGGED, HEAD, APPLY, COUNT, ONE_LESS, PAIR, VERSION, UNDONE, CUT_OFF, CLOSED,
];
pub(super) const EAGER_MUTANTS: &[Mutant] =
    &[METADATA, EVICTED, LOGGED, HEAD, APPLY, COUNT, ONE_LESS, PAIR];

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocConfig {
    /// Where they are from.
    pub source: String,
    /// The speculation degree: transactions of a window, 1 to 64. At most half of the numbers that are valid at a time,
    /// since the next window runs while a window goes home.
    pub degree: u64,
    /// Bytes of the memory log area.
    pub area_bytes: u64,
    /// Cycles to find a block of a transaction in the caches and hand it over.
    pub block_cycles: u32,
    /// When a program goes on.
    #[serde(default)]
    pub acknowledged: Acknowledged,
    /// Where it waits.
    #[serde(default = "at_begin")]
    pub waits: Waits,
}

fn at_begin() -> Waits {
    Waits::Begin
}

impl Default for LocConfig {
    fn default() -> Self {
        let LogConfig { source, area_bytes, block_cycles, acknowledged, .. } = LogConfig::default();
        let source = format!("{source}; LOC 5.1: a speculation degree of 16");
        LocConfig { source, degree: 16, area_bytes, block_cycles, acknowledged, waits: at_begin() }
    }
}

/// The design.
#[derive(Clone, Debug)]
pub struct LooseOrdering {
    name: &'static str,
    degree: u64,
    log: LogConfig,
    left_out: Option<Mutant>,
}

/// Windows of transactions.
struct LooseOrder {
    degree: u64,
    /// When the last window is home.
    over: Ps,
    stalled: Ps,
}

impl LooseOrdering {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// The degree or the log is too small or too large.
    pub fn new(config: LocConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if !(1..=TX_STATE_ENTRIES / 2).contains(&config.degree) {
            return Err("degree is a number of transactions from 1 to 64".to_owned());
        }
        let LocConfig { source, degree, area_bytes, block_cycles, acknowledged, waits } = config;
        let log = LogConfig { source, area_bytes, block_cycles, acknowledged, waits };
        LooseOrdering { degree, ..Self::eager(log, left_out)? }.named("loc-wal")
    }

    /// Eager commit alone.
    ///
    /// # Errors
    /// The log is too small or too large.
    pub fn eager(log: LogConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        log.validate()?;
        Ok(LooseOrdering { name: "ec-wal", degree: 1, log, left_out: left_out.copied() })
    }

    fn named(self, name: &'static str) -> Result<Self, String> {
        Ok(LooseOrdering { name, ..self })
    }
}

impl Design for LooseOrdering {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reserves(&self, _: u64) -> u64 {
        LogArea::lines(self.log.area_bytes)
    }

    fn promises(&self) -> Promise {
        Promise::Transactions
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let tracked = Tracked::new(self.log.clone(), self.left_out, hardware, &own);
        let order = LooseOrder { degree: self.degree, over: Ps::default(), stalled: Ps::default() };
        Box::new(Tracking { tracked, order })
    }

    fn recover(&self, home: &mut Home<'_>) {
        recover(home, Commits::Counted, self.left_out);
    }
}

impl LooseOrder {
    fn end(&mut self, tracked: &mut Tracked, hardware: &mut Hardware) {
        let logged = tracked.persist(hardware);
        tracked.announce(logged);
        self.over = tracked.finish(hardware, logged);
    }

    fn wait(&mut self, hardware: &mut Hardware, core: usize) {
        self.stalled += self.over.since(hardware.now());
        hardware.wait_until(core, self.over);
    }
}

impl PersistOrder for LooseOrder {
    fn committed(&mut self, tracked: &mut Tracked, hardware: &mut Hardware, core: usize) {
        if tracked.len() as u64 >= self.degree {
            self.end(tracked, hardware);
            if tracked.config.waits == Waits::Commit {
                self.wait(hardware, core);
            }
        }
    }

    fn begins(&mut self, tracked: &mut Tracked, hardware: &mut Hardware, core: usize) {
        tracked.wait_for_room(hardware, core, self.degree);
        if tracked.len() > 0 && tracked.is_full() {
            self.end(tracked, hardware);
            tracked.wait_for_room(hardware, core, self.degree);
        }
        self.wait(hardware, core);
    }

    fn refused(&mut self, tracked: &mut Tracked, hardware: &mut Hardware) {
        if tracked.len() > 0 {
            self.end(tracked, hardware);
        }
        tracked.retire_all(hardware);
    }

    fn stalls(&mut self, time: Ps) {
        self.over = self.over.max(time);
    }

    fn start_measuring(&mut self) {
        self.stalled = Ps::default();
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("stalled_ns", self.stalled.as_ns() as u64)]
    }
}
