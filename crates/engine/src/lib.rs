//! Transactions on a [`Memory`](perdura_memory::Memory): all or nothing, isolated, durable.
//!
//! An [`Engine`] is one way to keep that promise; what it keeps per thread is a [`Session`], and
//! what a transaction's body sees of it is [`Access`]. The engines are generic over the memory,
//! so that the same code runs natively, under the crash tester and in the simulator.
//!
//! An engine is a named pair: a consistency (what is written and fenced in which order) and a
//! synchronisation (who may go when). [`engines!`] is the one list of them. What an engine is made of cannot
//! be named outside of this crate:
//!
//! ```compile_fail,E0603
//! use perdura_engine::consistency::core::Core;
//! ```
//!
//! Reading order, each using only what stands before it: [`access`] and [`engine`] (what a transaction's body
//! sees; engines, sessions, the two commit moments), [`writes`] (what a transaction wants to store), `log` (what
//! a log holds, where it is), [`sums`] (checksums of what is at rest), `sync`, `consistency`, [`groups`], `logged`
//! (a transaction from begin to commit, with a lock), `optimistic` (the same with software transactional memory),
//! `engines` (the list).

#![forbid(unsafe_code)]

pub mod access;
mod consistency;
mod counters;
pub mod engine;
mod engines;
pub mod error;
pub mod groups;
mod log;
mod logged;
#[cfg(all(test, loom))]
mod models;
mod optimistic;
#[doc(hidden)]
pub mod planted;
pub mod sums;
pub mod sync;
#[cfg(test)]
mod tests;
mod tuning;
pub mod writes;

pub use access::{Access, Mark, Mode};
pub use counters::Counters;
pub use engine::{Engine, Recovery, Session, Ticket};
pub use engines::*;
pub use error::{Error, Result};
pub use log::{area, record, recovery};
pub use sums::{Places, Sums};
pub use tuning::{Skip, Tuning};
