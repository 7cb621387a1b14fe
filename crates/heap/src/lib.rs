//! Perdura: a durable heap. Transactions on memory that outlive a power cut.

pub mod collections;
#[doc(hidden)]
pub mod testing;
pub mod tx;

pub use bytemuck::{Pod, Zeroable};
pub use perdura_engine::{Access, Counters, Error, Mark, Mode, Result, Ticket};
pub use tx::{Ptr, Purpose, Tx, TxExt};
