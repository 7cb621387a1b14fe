//! Engines that log, made of a [consistency](crate::consistency) and a [synchronisation](crate::sync).
//!
//! Reading order: `state`, `looked` (what it sees that is not in the memory), `session` (a transaction from its begin to its commit), `engine` (opening, recovery,
//! checkpoints).

mod engine;
mod looked;
mod session;
mod state;

pub(crate) use state::Logged;
