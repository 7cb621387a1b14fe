//! Perdura: a durable heap. Transactions on memory that outlive a power cut.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("visits.pool");
//! use perdura::collections::{Bytes, HashMap};
//! use perdura::{Options, TxExt};
//!
//! let pool = Options::new().open_or_create(&path)?;
//! let visits = pool.session()?.transaction(|tx| {
//!     let pages = tx.open_or_create::<HashMap<Bytes, u64>>("pages")?;
//!     let visits = pages.get(tx, b"/index.html")?.unwrap_or(0) + 1;
//!     pages.insert(tx, b"/index.html", visits)?;
//!     Ok(visits)
//! })?;
//! assert_eq!(visits, 1); // And durable: the next run says 2.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Pool`] is a file with a heap in it; [`Options`] say how it is created or opened.
//! - [`Handle`], from [`Pool::session`], runs one thread's transactions: [`transaction`](Handle::transaction) and
//!   [`read`](Handle::read) take a closure, [`begin_write`](Handle::begin_write) returns a [`Transaction`], and
//!   [`submit`](Handle::submit) a ticket that can be waited for, or awaited ([`Pool::durable`]).
//! - [`PoolTx`] is what a closure gets; [`Tx`] and [`TxExt`] are the operations of every transaction. [`collections`] live
//!   in the pool, and are found by their names.
//! - [`Persist`] can be derived for a program's own structs and enums.
//! - [`Error`] and [`OpenError`] say what happened and what to do; [`check`](check::check()) walks a pool.
//!
//! [`Heap`] and its sessions do the same on any memory with any engine, for simulators and crash tests. Programs
//! seldom need them.
//!
//! Reading order of the code: [`tx`] (operations of a transaction), [`pool`] (files), [`heap`] (any memory),
//! [`superblock`] and [`alloc`] (the pool's structure), [`roots`], [`persist`], [`collections`], [`check`].

// Derived code names the crate.
extern crate self as perdura;

pub mod alloc;
pub mod check;
pub mod collections;
pub mod draft;
pub mod error;
mod fresh;
pub mod heap;
pub mod info;
mod inside;
pub mod persist;
pub mod pool;
pub mod roots;
mod savepoint;
pub mod source;
pub mod superblock;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod tx;

pub use error::OpenError;
pub use heap::{AnyHeap, AnySession, AnyTx, Format, Heap, HeapSession, HeapTx, Opening};
pub use info::Info;
pub use perdura_derive::Persist;
pub use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, AtlasEngine, CcStmEngine, CcStmUndoEngine,
    Counters, EagerEngine, Engine, Error, HtmEngine, HtmRedoEngine, HtmUndoEngine,
    HtmVolatileEngine, Mode, OnEngine, PlainEngine, Recovery, RedoEngine, Result, SWalEngine,
    SeqEngine, Session, Skip, SkippingRedoEngine, SkippingUndoEngine, StmEngine, Ticket, Tuning,
    UndoEachEngine, UndoEngine, Volatile, on_each_engine,
};
pub use perdura_memory::mapped::report_sigbus;
pub use perdura_memory::{Domain, Gather, MapError, Mapped, Memory, Survives};
pub use persist::Persist;
pub use pool::{
    Compaction, Durable, EngineKind, Handle, Options, Pool, PoolTx, Transaction, Visitor,
};
pub use tx::{Extent, Fresh, Locked, Moment, Ptr, Purpose, Root, Savepoint, Tx, TxExt};
