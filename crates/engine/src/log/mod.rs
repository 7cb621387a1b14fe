//! Logs, as bytes in a memory: nothing here knows of engines or locks.
//!
//! Reading order: [`record`] (what a log holds), [`area`] (where logs live, and checkpoints), [`segments`] (a
//! log in use), [`recovery`] (which transactions of it count), `left` (what a dead process left).

pub mod area;
pub(crate) mod left;
pub mod record;
pub mod recovery;
pub(crate) mod segments;
