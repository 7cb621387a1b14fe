//! Who may go when: the second half of what makes an engine, beside its consistency.
//!
//! Today's are locks: [`Spin`], the lock of the paper (Persistence and Synchronization, IV-C), and [`Fair`],
//! in which writers come in as they came. What they have in common, one writer and readers beside it until
//! it stores, is the crate `memory`'s [`Lock`](perdura_memory::lock::Lock), which also gives out the right
//! to what it guards; a lock here says in which order writers come in.
//!
//! [`Stm`] is no lock: transactions run beside one another, and one that has met another's changes runs again.
//!
//! What is still to come has its place here as well: hardware transactional memory (`htm.rs`) runs
//! a session's body in the processor's transaction, with a lock to fall back on, and cannot write back or
//! fence inside of it, which [`Synchronisation::FENCES`] says.

mod fair;
mod safety;
mod spin;
pub(crate) mod stm;

pub use fair::Fair;
pub use safety::{Synchronisation, refusal};
pub use spin::Spin;
pub use stm::Stm;
