//! What mechanisms for logged transactions in hardware have in common (Lu, Shu, Sun and Mutlu, "Improving the
//! Performance and Endurance of Persistent Memory with Loose-Ordering Consistency": LOC).
//!
//! A transaction's stores stay in the caches, tagged with it. A line that leaves them goes to the log, never home,
//! until its transaction's commit is durable. The caches have one copy of a line, which is written both to the log and
//! in place. The mechanisms differ in when the log is written, how recovery recognises a commit, and what waits for
//! what: an [`PersistOrder`], one file each.
//!
//! Transactions of several cores take turns: one that begins while another runs is refused
//! ([`HardwareAbort::Busy`](perdura_memory::HardwareAbort)), since LOC leaves open what would hold between them
//! (3.5). Programs take a lock around them. They become durable in the order in which they have begun.
//!
//! Reading order: `window` (which transactions, which lines), `log` (where), `tracked` (both, in a running machine),
//! `tracking` (the calls from the machine), `recover`; `nonvolatile` (blocks in a non-volatile cache), `caching` (these
//! and the window, in a running machine).

mod caching;
mod log;
mod nonvolatile;
mod recover;
mod storage;
mod tracked;
mod tracking;
mod window;

pub(super) use caching::{Caching, CachingSettings, recover as recover_cache};
pub(super) use log::LogArea;
pub(super) use recover::{Commits, recover};
pub use storage::{CacheTag, Overhead, TX_STATE_ENTRIES};
pub(super) use tracked::Tracked;
pub(super) use tracking::{PersistOrder, Tracking};

use super::list::Mutant;
use serde::{Deserialize, Serialize};

pub(super) const METADATA: Mutant =
    Mutant { name: "metadata", what: "a group's metadata is not held back behind its data" };
pub(super) const EVICTED: Mutant = Mutant {
    name: "evicted",
    what: "lines of a transaction that leave the caches go home and not to the log",
};
pub(super) const LOGGED: Mutant =
    Mutant { name: "logged", what: "lines go home without waiting for the log" };
pub(super) const HEAD: Mutant =
    Mutant { name: "head", what: "the log head moves before lines are home" };
pub(super) const UNDONE: Mutant =
    Mutant { name: "undone", what: "what an aborted transaction has overwritten is not rescued" };
pub(super) const APPLY: Mutant =
    Mutant { name: "recover", what: "recovery leaves out the last block of each transaction" };
pub(super) const RECORD: Mutant =
    Mutant { name: "record", what: "the commit record does not wait for the log" };
pub(super) const COUNT: Mutant = Mutant {
    name: "count",
    what: "a transaction counts as whole as soon as its last block is in the log",
};
pub(super) const ONE_LESS: Mutant =
    Mutant { name: "one-less", what: "a transaction's blocks are counted one short" };
pub(super) const PAIR: Mutant =
    Mutant { name: "pair", what: "the last dependency pair of a window is not logged" };
pub(super) const VERSION: Mutant =
    Mutant { name: "version", what: "a version that leaves the caches goes home" };
pub(super) const HOME: Mutant = Mutant {
    name: "home",
    what: "commit bits, which say too where the log begins, do not wait until the last window is home",
};
pub(super) const OLDER: Mutant = Mutant {
    name: "older",
    what: "contents that a transaction overwrites are given up before it has committed",
};
pub(super) const CLOSED: Mutant =
    Mutant { name: "closed", what: "what is cut off does not take along what it has overlapped" };
pub(super) const CUT_OFF: Mutant = Mutant {
    name: "cut-off",
    what: "what has committed behind a transaction that has not is recovered too",
};

/// Figures of the log and of its writing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// Where they are from.
    pub source: String,
    /// Bytes of the memory log area.
    pub area_bytes: u64,
    /// Cycles to find a block of a transaction in the caches and hand it over.
    pub block_cycles: u32,
}

impl Default for LogConfig {
    fn default() -> Self {
        let source = "LOC 4.2: 32 MB; a block in each cycle is assumed".to_owned();
        LogConfig { source, area_bytes: 32 << 20, block_cycles: 1 }
    }
}

impl LogConfig {
    /// Fails if it is too small, or larger than it can be.
    pub(super) fn validate(&self) -> Result<(), String> {
        let right =
            (16 << 10..=16 << 30).contains(&self.area_bytes) && self.area_bytes.is_multiple_of(512);
        right.then_some(()).ok_or_else(|| {
            "area_bytes is a multiple of 512 from 16 KiB to 16 GiB: block groups have 512"
                .to_owned()
        })
    }
}
