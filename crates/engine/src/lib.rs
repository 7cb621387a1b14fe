//! Transactions on a [`Memory`](perdura_memory::Memory): all or nothing, isolated, durable.
//!
//! An [`Engine`] is one way to keep that promise; what it keeps per thread is a [`Session`], and
//! what a transaction's body sees of it is [`Access`]. The engines are generic over the memory,
//! so that the same code runs natively, under the crash tester and in the simulator.
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
pub mod error;
mod filter;
mod guarded;
pub mod lock;
mod log;
pub mod logged;
pub mod overlay;
pub mod record;
pub mod redo;
pub mod session;
pub mod sums;
pub mod swal;
pub mod undo;
pub mod volatile;
pub mod writer;
pub mod writes;

pub use access::{Access, Mark, Mode};
pub use archapt::{
    ArchaptRedoEngine, ArchaptUndoEngine, Skip, SkippingRedoEngine, SkippingUndoEngine, Tuning,
};
pub use counters::Counters;
pub use engine::{Engine, Recovery, Session, Ticket};
pub use error::{Error, Result};
pub use redo::RedoEngine;
pub use sums::{Places, Sums};
pub use swal::SWalEngine;
pub use undo::UndoEngine;
pub use volatile::Volatile;
