//! Engines on hardware transactions (Fernando and others, "Persistence and Synchronization: Friends or Foes?", II-B and
//! IV-A): a transaction runs as a speculation of the memory's hardware, and one that the hardware gives up too often runs
//! on the fallback path, alone, as under an engine with a lock.
//!
//! | path | stores | durable |
//! |---|---|---|
//! | hardware | in place at once, seen by nobody until the hardware commits; nothing is logged, written back or fenced | with the commit where caches are persistent, or where the hardware makes its transactions durable; where caches are transient, any part of it by chance: *approximate*, as in the paper's Table III |
//! | fallback | as the engine's with the same log: `undo-each`, `s-wal` or `volatile` | when its commit returns |
//!
//! What always holds:
//! - a speculation reads the word of the lock before anything else, and goes on only if it is free; a transaction on the
//!   fallback path holds it from before its first access until its commit is durable. So either path sees all of the other
//!   one's transactions or nothing of them, and what it sees is durable where that is promised.
//! - the fallback path's log is empty whenever the lock is free: its engines truncate it with each commit (eagerly, as
//!   the paper's). So no record is ever applied over words that the hardware has committed since.
//! - a body that has been told nothing has seen one committed state: each access asks whether the speculation is lost.
//!
//! On a memory without hardware for speculation the engine is the one of its fallback path, and the lock is not used.
//!
//! Reading order: `fallback` (which consistencies there are on the fallback path), `shared` (what sessions share), `session` (a transaction from begin to commit), `hardware`
//! (accesses on the hardware path), `engine` (opening, recovery, checkpoints).

mod engine;
mod fallback;
mod hardware;
mod session;
mod shared;

pub(crate) use shared::Elided;
