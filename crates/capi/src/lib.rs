//! The C API: pools, sessions, transactions and maps by numbers and offsets.
//!
//! Invariants: no argument from C makes this panic or hang in a call of its own thread, or
//! write to the log, the page table, the named roots or a collection's header; a mistake comes back
//! as a code, with a message that names a remedy. C gets no pointer into a pool: offsets go out,
//! and bytes are copied in and out. Pools, sessions and cursors are numbers that are looked up; a
//! map is a value that is checked at each use. No panic leaves a call.
//!
//! Reading order: [`codes`] and [`types`] (the header's contents), `fail` (errors of a call),
//! `table` (numbers), `pools`, `sessions`, `memory` and `guard` (operations in transactions,
//! and their limits), `maps`, `archapt` (the paper's names); [`ffi`] has the functions themselves,
//! and all `unsafe` code.
//!
//! The header, `include/perdura.h`, is generated from this crate: see `tests/header.rs`.

// In the order of the header.
pub mod codes;
pub mod types;

pub mod ffi;

mod archapt;
mod fail;
mod guard;
mod maps;
mod memory;
mod pools;
mod sessions;
mod table;

pub use codes::*;
pub use ffi::{archapt::*, errors::*, map::*, pool::*, transaction::*};
pub use types::*;
