//! Engines that log, made of a [consistency](crate::consistency) and a [synchronisation](crate::sync).
//!
//! Reading order: `state`, `lookup` (a session's view of words that are not in the memory), `access` and `session` (a transaction
//! from its begin to its commit), `snapshot` (transactions that read for long), `window` (how one begins if committed
//! words are in the writer's write set), `section` (sections over several locks), `durable` (tickets, and waits for them), `engine` (opening, recovery,
//! checkpoints).

mod access;
mod durable;
mod engine;
mod lookup;
mod section;
mod session;
mod snapshot;
mod state;
mod window;

pub(crate) use state::Logged;
