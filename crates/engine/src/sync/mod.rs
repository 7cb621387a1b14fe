//! Synchronisation, which decides which transactions may run when: one half of an engine, the other being its
//! consistency.
//!
//! Today's are locks: [`Spin`], the lock of the paper (Persistence and Synchronization, IV-C), and [`Fair`], in which
//! writers enter in order of arrival. The common part, one writer with readers alongside until it stores, is the
//! [`Lock`](perdura_memory::lock::Lock) of the crate `memory`, which also gives out the right to the guarded data; a
//! lock here decides the order of writers.
//!
//! [`Stm`] is no lock: transactions run concurrently, and one that has met another's changes runs again.
//!
//! [`Unlocked`] is none, for threads that share nothing.
//!
//! [`Htm`] is hardware's: a session's body runs in a transaction of the processor, with a lock to fall back on, and
//! cannot write back inside it, which [`Synchronisation::FENCES`] declares. [`Hybrid`] is both: a body in hardware, the commit
//! of software transactional memory.

mod fair;
mod htm;
pub(crate) mod in_place;
mod safety;
mod spin;
pub(crate) mod stm;
mod unlocked;

pub use fair::Fair;
pub(crate) use htm::Patience;
pub use htm::{Htm, Hybrid};
pub use safety::{Synchronisation, refusal};
pub use spin::Spin;
pub use stm::{Concurrency, Stm};
pub use unlocked::Unlocked;
