//! Archapt (Wu, Ren, Li: Architecture-Aware, High Performance Transaction for Persistent Memory): groups of
//! transactions on undo and on redo logging, which take write-backs of data out of transactions.
//!
//! A commit has the paper's two moments. At the *logical* commit the transaction's words join a `Group`: they are
//! visible to every later transaction, and not yet durable. At the *physical* commit a group becomes durable as a
//! whole, as one transaction of the engine below. Then its lines wait for their write-back in the `History`, the
//! paper's LRU queue:
//! - *redo*: the log has the new words, so that a group is durable with its record. A line that is written again while
//!   it waits needs no write-back for the words in the later record; a line is written back when it leaves the queue,
//!   or when its oldest record is about to be overwritten.
//! - *undo*: the log has the old words, each word once between two physical commits. A group is durable when its lines
//!   are written back, each once however often it was written, and the log is truncated behind it.
//!
//! What always holds: no word is durable in place before the record that protects it is; a record is overwritten only
//! when every line that it protects has been written back, or is protected whole by a later one. docs/archapt.md says
//! where this follows the paper and where not.
//!
//! Two more engines skip write-backs, and protect the deferred lines by checksums (III-C): less certain, and for
//! measuring what that gains.
//!
//! Reading order: `group` (the writer's own state, and the writer at work on it), `open` (the group as readers see it),
//! `direct` (commits that wait at once), `flush` (group flushes), `history` and `pace` (waiting lines), `base` (what
//! differs between undo and redo); for skipping, [`deferred`] and `skip`; then `archapt`, which makes a consistency of all
//! that.

mod archapt;
mod base;
pub mod deferred;
mod direct;
mod flush;
mod group;
mod history;
mod open;
mod pace;
mod skip;

pub use archapt::Archapt;
pub use base::{ArchaptRedo, ArchaptUndo, Skipping};
