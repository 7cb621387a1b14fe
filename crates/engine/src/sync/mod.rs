//! Who may go when: the second half of what makes an engine, beside its consistency.
//!
//! Today's are locks: [`Spin`], the lock of the paper (Persistence and Synchronization, IV-C), and [`Fair`],
//! in which writers come in as they came. What they have in common, one writer and readers beside it until
//! it stores, is the crate `memory`'s [`Lock`](perdura_memory::lock::Lock), which also gives out the right
//! to what it guards; a lock here says in which order writers come in.
//!
//! What is still to come has its place here as well. Software transactional memory (`stm.rs`: a lock and a
//! version for each line, a clock) lets transactions run beside one another, so that a session must have
//! its loads looked at, and a commit can fail for a conflict; hardware transactional memory (`htm.rs`) runs
//! a session's body in the processor's transaction, with a lock to fall back on, and cannot write back or
//! fence inside of it, which [`Synchronisation::FENCES`] says.

mod fair;
mod safety;
mod spin;

pub use fair::Fair;
pub use safety::{Synchronisation, refusal};
pub use spin::Spin;
