//! Mechanisms in hardware: logging, checkpointing, transactions in caches and memory controller.
//!
//! A mechanism is two types. Its [`Design`] exists before the power is on and after a power cut: its name, its figures,
//! the lines that it needs, and its recovery. Its [`Mechanism`] is built from the design in a running machine, and is
//! gone with the power. It is called at these moments, nearest to the core first:
//!
//! | moment | where | asked for |
//! |---|---|---|
//! | [`accessed`](Mechanism::accessed) | a core, before the data changes, hits too | [`Moments::ACCESS`], or [`Moments::STORE`] |
//! | [`filled`](Mechanism::filled) | the caches want a line that none of them has | [`Moments::FILL`] |
//! | [`departed`](Mechanism::departed), [`displaced`](Mechanism::displaced) | a marked line, or a version, leaves a cache | [`Moments::CACHES`] |
//! | [`evicted`](Mechanism::evicted) | a dirty line leaves the caches | [`Moments::EVICTION`] |
//! | [`fetched`](Mechanism::fetched), [`dirtied`](Mechanism::dirtied), [`leaves`](Mechanism::leaves) | between the DRAM cache, or the caches where there is none, and the home device | [`Moments::HOME`] |
//! | [`speculate`](Mechanism::speculate), [`prepare`](Mechanism::prepare), [`is_lost`](Mechanism::is_lost), [`ended`](Mechanism::ended) | a program's speculation, in the place for transactions | always |
//! | [`held`](Mechanism::held) | it has stored to the pool | [`Moments::HELD`] |
//! | [`complete`](Mechanism::complete) | before its commit | where speculations are durable |
//! | [`begin`](Mechanism::begin), [`commit`](Mechanism::commit), [`abort`](Mechanism::abort), [`flush`](Mechanism::flush) | a program's transaction | always |
//! | [`tickets`](Mechanism::tickets) | the same, of a mechanism by epochs | always |
//! | [`due`](Mechanism::due) | a scheduled time | always |
//! | [`end_epoch`](Mechanism::end_epoch), [`epoch_is_home`](Mechanism::epoch_is_home) | the end of an epoch | always |
//!
//! Every method does nothing unless it is overridden; a moment that a mechanism does not ask for costs the machine one
//! test of a bit. Neither the caches nor the controller name any mechanism. A mechanism may use
//! [`Hardware`](crate::Hardware).
//!
//! A machine has two places for mechanisms: one for transactions, which is nearer to the cores and is called first,
//! and one for persistence. A mechanism is never called about what it does itself.
//!
//! Reading order: this file, `moments` (what a mechanism is told and answers), `promise`, `interface` (the two traits),
//! [`home`] (recovery), [`list`](mod@list) (all mechanisms by name), then any mechanism; `cached` and `epoch_number` are what
//! several of them share. Only `interface` and the files of the hardware use each other: the hardware calls mechanisms,
//! and they use the hardware.

mod cached;
mod cc_htm;
mod copy_on_write;
mod dual_page;
mod epoch_number;
mod epochs;
mod h_wal;
pub mod home;
mod htm;
mod in_order;
mod interface;
mod kiln;
pub mod list;
mod loc_wal;
mod moments;
mod mutant;
mod overlays;
mod promise;
mod thynvm;
mod transactions;
mod undo_log;

pub use cc_htm::{CcHtm, CcHtmConfig};
pub use copy_on_write::{CopyOnWrite, CopyOnWriteConfig};
pub use dual_page::{
    CONTROLLER_BITS, DRAM_BITS, DualPage, DualPageConfig, ENTRY_BITS, HOME_BITS, Metadata,
};
pub use epochs::EpochTickets;
pub use h_wal::HardwareWal;
pub use home::Home;
pub use htm::{Htm, HtmConfig};
pub use in_order::{InOrder, InOrderConfig};
pub use interface::{Design, Mechanism, Plain};
pub use kiln::{Kiln, KilnConfig, LocKilnConfig};
pub use list::Kind;
pub use loc_wal::{LocConfig, LooseOrdering};
pub use moments::{Accessed, Dirtied, Effect, Flush, How, Leaving, Moments, Verdict};
pub use mutant::Mutant;
pub use overlays::{OVERLAY_ENTRY_BITS, PageOverlays, PageOverlaysConfig};
pub use promise::Promise;
pub use thynvm::{BLOCK_INDEX_BITS, PAGE_INDEX_BITS, ThyNvm, ThyNvmConfig};
pub use transactions::{Acknowledged, CacheTag, LogConfig, Overhead, TX_STATE_ENTRIES, Waits};
pub use undo_log::{HardwareUndoLog, UndoLogConfig};

pub use crate::cache::{Departure, DepartureReason, HeldVersion, Version, VictimRule};
pub use crate::controller::{Fetch, InDram};
