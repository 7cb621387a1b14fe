//! Transactions on a [`Memory`](perdura_memory::Memory): all or nothing, isolated, durable.
//!
//! An [`Engine`] is one way to keep that promise; its per-thread state is a [`Session`], and the body of a transaction
//! sees it as [`Access`]. The engines are generic over the memory, so that the same code runs natively, under the crash
//! tester and in the simulator.
//!
//! An engine is a named pair: a consistency (the order of writes and fences) and a synchronisation (which transactions
//! may run when). [`engines!`] is the one list of them. The parts of an engine cannot be named outside this crate:
//!
//! ```compile_fail,E0603
//! use perdura_engine::consistency::core::Core;
//! ```
//!
//! Reading order, each using only what stands before it: [`access`] and [`engine`] (what a transaction's body sees;
//! engines, sessions, the two commit moments), [`writes`] (a transaction's buffered stores), `log` (the format and
//! place of logs), [`sums`] (checksums of data at rest), `sections` (between a first lock and a last unlock), `sync`, `consistency`, [`groups`], `logged` (a transaction
//! from begin to commit, with a lock), `optimistic` (the same with software transactional memory), `elided` (the same
//! with hardware transactional memory, over one of those with a lock), `engines` (the list).

#![forbid(unsafe_code)]

pub mod access;
mod consistency;
mod counters;
mod elided;
pub mod engine;
mod engines;
pub mod error;
pub mod groups;
mod log;
mod logged;
#[cfg(all(test, loom))]
mod models;
mod optimistic;
mod pins;
#[doc(hidden)]
pub mod planted;
mod sections;
#[cfg(all(test, loom))]
mod stm_models;
pub mod sums;
pub mod sync;
#[cfg(test)]
mod tests;
mod tuning;
mod writable;
pub mod writes;

pub use access::{Access, Mark, Mode, words_from};
pub use counters::Counters;
pub use engine::{Engine, Recovery, SESSIONS, Session, Ticket};
pub use engines::*;
pub use error::{Error, Result};
pub use log::{area, record, recovery};
pub use pins::{Oldest, Pins, Seen};
pub use sums::{Places, Sums};
pub use tuning::{Skip, Tuning};
