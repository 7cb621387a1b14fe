//! Transactions on a [`Memory`](perdura_memory::Memory): all or nothing, isolated, durable.
//!
//! An [`Engine`] is one way to keep that promise; what it keeps per thread is a [`Session`], and
//! what a transaction's body sees of it is [`Access`]. The engines are generic over the memory,
//! so that the same code runs natively, under the crash tester and in the simulator.
//!
//! What an engine is made of cannot be named outside of this crate: the overlay and a group's state are
//! only to be reached with the lock held, which a session sees to.
//!
//! ```compile_fail,E0603
//! use perdura_engine::logged::Protocol;
//! ```
//! ```compile_fail,E0603
//! use perdura_engine::overlay::Overlay;
//! ```
//!
//! Reading order: [`access`], [`engine`], [`writes`] (what a transaction wants to store),
//! [`record`] (what a log holds), [`area`] (where logs live), [`sums`] (checksums of what is at
//! rest), then the engines: [`volatile`], [`undo`], [`redo`], [`swal`], [`archapt`].

pub mod access;
mod alone;
pub mod archapt;
pub mod area;
pub mod counters;
pub mod engine;
mod engines;
pub mod error;
mod filter;
mod guarded;
mod left;
pub mod lock;
mod log;
mod logged;
#[cfg(all(test, loom))]
mod models;
mod overlay;
#[doc(hidden)]
pub mod planted;
pub mod record;
pub mod redo;
mod session;
pub mod sums;
pub mod swal;
mod sync;
mod touched;
pub mod undo;
pub mod volatile;
mod writer;
pub mod writes;

pub use access::{Access, Mark, Mode};
pub use archapt::{
    ArchaptRedoEngine, ArchaptUndoEngine, Skip, SkippingRedoEngine, SkippingUndoEngine, Tuning,
};
pub use counters::Counters;
pub use engine::{Engine, Recovery, Session, Ticket};
pub use engines::{EngineKind, OnEngine};
pub use error::{Error, Result};
pub use redo::RedoEngine;
pub use sums::{Places, Sums};
pub use swal::SWalEngine;
pub use undo::UndoEngine;
pub use volatile::Volatile;
