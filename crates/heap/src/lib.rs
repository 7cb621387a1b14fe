//! Perdura: a durable heap. Transactions on memory that outlive a power cut.

pub mod alloc;
pub mod collections;
pub mod error;
pub mod heap;
pub mod info;
pub mod pool;
pub mod roots;
pub mod superblock;
#[doc(hidden)]
pub mod testing;
pub mod tx;

pub use bytemuck::{Pod, Zeroable};
pub use error::OpenError;
pub use heap::{Format, Heap, HeapSession, HeapTx, Opening};
pub use info::Info;
pub use perdura_engine::{
    Access, Counters, Engine, Error, Mark, Mode, Recovery, RedoEngine, Result, Session, Ticket,
    UndoEngine, Volatile,
};
pub use perdura_memory::{Domain, Memory, Survives};
pub use pool::{EngineKind, Handle, Options, Pool, Visitor};
pub use tx::{Ptr, Purpose, Root, Tx, TxExt, TxMark};
