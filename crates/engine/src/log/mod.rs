//! Logs, as bytes in a memory: nothing here depends on engines or locks.
//!
//! Reading order: [`record`] (the format of a log), [`area`] (where logs live, and checkpoints), [`segments`] (a log in
//! use), [`recovery`] (which of its transactions count), `left` (what a dead process left).

pub mod area;
pub(crate) mod left;
pub mod record;
pub mod recovery;
pub(crate) mod segments;
