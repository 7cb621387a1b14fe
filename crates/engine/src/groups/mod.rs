//! Archapt (Wu, Ren, Li: Architecture-Aware, High Performance Transaction for Persistent Memory):
//! groups of transactions on undo and on redo logging, which take write-backs of data out of transactions.
//!
//! A commit has the paper's two moments. At the *logical* commit the transaction's words join a
//! `Group`: they are visible to every later transaction, and durable nowhere. At the *physical*
//! commit a group becomes durable as a whole, as one transaction of the engine below. Then its
//! lines wait for their write-back in the `History`, the paper's LRU queue:
//! - *redo*: the log has the new words, so that a group is durable with its record. A line that
//!   is written again while it waits needs no write-back for what the later record covers; a line
//!   is written back when it leaves the queue, or when its oldest record is about to be
//!   overwritten.
//! - *undo*: the log has the old words, each word once between two physical commits. A group
//!   is durable when its lines are written back, each once however often it was written, and the
//!   log is cut behind it.
//!
//! What always holds: no word is durable in place before the record that protects it is; a record
//! is overwritten only when every line that it protects has been written back, or is protected
//! whole by a later one. docs/archapt.md says where this is the paper's way and where not.
//!
//! Two more engines skip write-backs, and have checksums vouch for what was left to the caches
//! (III-C): less certain, and for measuring what that gains.
//!
//! Reading order: `group` (the writer's own, and the writer at work on it), `open` (the group as readers see
//! it), `direct` (commits that wait at once), `answer` (physical commits), `history` and `pace` (lines that
//! wait), `base` (what differs between undo and redo); for skipping, [`cover`] and `skip`; then `archapt`,
//! which is all of that as a consistency.

mod answer;
mod archapt;
mod base;
pub mod cover;
mod direct;
mod group;
mod history;
mod open;
mod pace;
mod skip;

pub use archapt::Archapt;
pub use base::{ArchaptRedo, ArchaptUndo, Skipping};
