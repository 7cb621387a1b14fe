//! A simulated computer that is a [`Memory`](perdura_memory::Memory): the same engines,
//! collections and workloads run on it unchanged. Its clock can be read, and its power can be
//! cut.
//!
//! Reading order: [`time`], `by_number`, `lru`, `finishes` (small types), [`config`] (what a machine is made of), [`cache`] (which
//! cache has which line), [`controller`] (what a line costs beyond the caches, and where durability begins),
//! `processor` (a core's clock), `arrivals` (lines on their way to a core), `data` (the bytes, apart from time),
//! `held` (stores of speculating cores), `flights` (lines on their way home), [`hardware`] (all of these together), [`mechanism`] (where hardware
//! mechanisms plug in), `parse`, [`presets`] and `change` (machines' files), `spin` (cores in spin loops), `state`,
//! [`machine`], `run` (programs on cores), `memory` (what programs call).

mod arrivals;
mod by_number;
pub mod cache;
mod change;
pub mod config;
pub mod controller;
mod data;
mod finishes;
mod flights;
pub mod hardware;
mod held;
mod lru;
pub mod machine;
pub mod mechanism;
mod memory;
mod parse;
pub mod presets;
mod processor;
mod promised;
mod run;
pub mod schedule;
pub mod sites;
mod spin;
mod state;
pub mod stats;
pub mod time;
pub mod trace;

pub use config::{ConfigError, MachineConfig};
pub use controller::Cause;
pub use data::Keep;
pub use hardware::Hardware;
pub use machine::{AfterCut, Machine, Options};
pub use mechanism::{Design, Mechanism, Plain, Verdict};
pub use processor::CoreStats;
pub use schedule::Schedule;
pub use sites::{CallSite, Event, Kind, Sites};
pub use stats::{CheckpointStats, Statistics, WriteBacks};
pub use time::Ps;
