//! Perdura: a durable heap. Transactions on memory that outlive a power cut.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("visits.pool");
//! use perdura::{Options, Ptr, Purpose, Root, Tx, TxExt};
//!
//! let pool = Options::new().open_or_create(&path)?;
//! let mut session = pool.session()?;
//! let visits = session.transaction(|tx| {
//!     let counter = match tx.root("visits")? {
//!         Some(root) => Ptr::<u64>::new(root.at),
//!         None => {
//!             let counter = tx.new_object(Purpose::General, 0u64)?;
//!             tx.set_root("visits", Root { at: counter.at(), kind: 1000 })?;
//!             counter
//!         }
//!     };
//!     let visits = tx.read(counter)? + 1;
//!     tx.write(counter, visits)?;
//!     Ok(visits)
//! })?;
//! assert_eq!(visits, 1); // And durable: the next run says 2.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading order: [`tx`] (what a transaction can do), [`pool`] (files), [`heap`] (any memory),
//! [`superblock`] and [`alloc`] (what is in a pool), [`roots`], [`collections`], [`check`].

pub mod alloc;
pub mod check;
pub mod collections;
pub mod draft;
pub mod error;
mod fresh;
pub mod heap;
pub mod info;
mod inside;
pub mod pool;
pub mod roots;
mod savepoint;
pub mod source;
pub mod superblock;
#[doc(hidden)]
pub mod testing;
pub mod tx;

pub use bytemuck::{Pod, Zeroable};
pub use error::OpenError;
pub use heap::{AnyHeap, AnySession, AnyTx, Format, Heap, HeapSession, HeapTx, Opening};
pub use info::Info;
pub use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, Counters, EagerEngine, Engine, Error, Mode,
    OnEngine, PlainEngine, Recovery, RedoEngine, Result, SWalEngine, Session, Skip,
    SkippingRedoEngine, SkippingUndoEngine, Ticket, Tuning, UndoEngine, Volatile, on_each_engine,
};
pub use perdura_memory::{Domain, Gather, MapError, Memory, Survives};
pub use pool::{Compaction, EngineKind, Handle, Options, Pool, Visitor};
pub use tx::{Extent, Fresh, Moment, Ptr, Purpose, Root, Savepoint, Tx, TxExt};
