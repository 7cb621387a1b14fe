//! Engines whose synchronisation is [software transactional memory](crate::sync::Stm), one for each consistency.
//!
//! | engine | consistency |
//! |---|---|
//! | `stm` | none: for figures |
//! | `ccstm` | redo logging: Persistence and Synchronization's ccSTM (IV-B), after Mnemosyne |
//! | `ccstm-undo` | undo logging: the same, with the other log |
//! | `htm` | redo logging; bodies run in [hardware], where the memory has some |
//!
//! A writing transaction buffers its words, and records its reads in a [`ReadSet`](reads::ReadSet). Its commit
//! 1. makes room in the log, which may wait for others, and so comes first;
//! 2. locks the ownership records of the lines that it stores to, and takes its stamp;
//! 3. checks that everything it has read is unchanged;
//! 4. writes its record, and fences: the only wait;
//! 5. stores its words in place, and unlocks the records.
//!
//! So everything another transaction can see is durable, conflicting commits are durable in their order, and recovery
//! applies every whole record, by stamp. (On a block device one sync serves many commits instead: [`group`].) Commits
//! of different sessions write no common words but the ownership records of their own lines. (Over an undo log 4 and 5
//! differ, and a commit leaves nothing in the log: [`undo`].) A reading transaction
//! checks its reads in the same way, and records them as long as they are few; from then on, or when it has met a
//! conflict, it reads a [snapshot](crate::sync::stm), and waits for nothing.
//!
//! Reading order: `reads`, `locks`, `dirty`, `state` (what sessions share), `session` (what a body may do), `load` (a word that
//! is consistent with all earlier reads), `commit`, `group` (commits on a block device), `undo` (commits over an undo log), `hardware` (bodies in hardware), `engine` (opening, recovery,
//! checkpoints).

mod commit;
mod dirty;
mod engine;
mod group;
mod hardware;
mod load;
mod locks;
mod reads;
mod session;
mod snapshots;
mod state;
mod undo;

#[cfg(all(test, loom))]
pub(crate) use locks::Locks;
pub(crate) use state::Optimistic;
