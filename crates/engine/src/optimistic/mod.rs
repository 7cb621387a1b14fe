//! Engines whose synchronisation is [software transactional memory](crate::sync::Stm), one for each consistency.
//!
//! | engine | consistency |
//! |---|---|
//! | `stm` | none: for figures |
//! | `ccstm` | redo logging: Persistence and Synchronization's ccSTM (IV-B), after Mnemosyne |
//!
//! A transaction that writes keeps its words to itself, and what it has read in a [`ReadSet`](reads::ReadSet). Its commit
//! 1. makes room in the log, which may wait for others, and so comes before all else;
//! 2. locks the ownership records of the lines that it stores to, and takes its stamp;
//! 3. looks whether what it has read is what it was;
//! 4. writes its record, and fences: the only wait;
//! 5. stores its words in place, and unlocks the records.
//!
//! So what another transaction can see is durable, conflicting commits are durable in their order, and recovery applies
//! every record that is whole, by stamp. (On a block device one sync serves many commits instead: [`group`].) Sessions have nothing in common that a commit writes but the ownership records
//! of its own lines. A transaction that reads checks what it reads in the same way, and keeps that as long as it is
//! little; from then on, or when it has met a conflict, it reads a [snapshot](crate::sync::stm), and waits for nothing.
//!
//! Reading order: `reads`, `locks`, `state` (what sessions share), `session` (what a body may do), `load` (a word that is
//! consistent with all that was read), `commit`, `group` (commits on a block device), `engine` (opening, recovery, checkpoints).

mod commit;
mod engine;
mod group;
mod load;
mod locks;
mod reads;
mod session;
mod state;

#[cfg(all(test, loom))]
pub(crate) use locks::Locks;
pub(crate) use state::Optimistic;
