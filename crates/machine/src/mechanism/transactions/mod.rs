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
//! When a program goes on is a figure ([`Acknowledged`]): once its transaction is durable in the log, by default. Then
//! lines go in place behind, and several windows may be on their way home.
//!
//! Reading order: `window` (which transactions, which lines), `log` (where), `on_way` (lines not home yet), `tracked` (both, in a running machine),
//! `tracking` (the calls from the machine), `recover`; `nonvolatile` (blocks in a non-volatile cache), `caching` (these
//! and the window, in a running machine).

mod caching;
mod config;
mod log;
mod mutants;
mod nonvolatile;
mod on_way;
mod recover;
mod storage;
mod tracked;
mod tracking;
mod window;

pub(super) use caching::{Caching, CachingSettings, recover_cache};
pub use config::{Acknowledged, LogConfig, Waits};
pub(super) use log::LogArea;
pub(super) use mutants::{
    APPLY, CLOSED, COUNT, CUT_OFF, EVICTED, HEAD, HOME, LOGGED, METADATA, OLDER, ONE_LESS, PAIR,
    RECORD, UNDONE, VERSION,
};
pub(super) use recover::{Commits, recover};
pub use storage::{CacheTag, Overhead, TX_STATE_ENTRIES};
pub(super) use tracked::Tracked;
pub(super) use tracking::{PersistOrder, Tracking};
