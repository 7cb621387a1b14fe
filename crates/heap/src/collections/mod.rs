//! Collections that live in the pool.
//!
//! A collection is a block, its header, and everything the header leads to. In a program it is a *handle*: a copyable
//! value around the header's offset, valid in every process that opens the pool. Its operations take the transaction
//! that they run in.
//!
//! Data read from the pool may be damaged: a wrong tag, length or pointer is
//! [`Error::Corrupt`](crate::Error::Corrupt), and every walk is bounded. A mistake of the program is another error: a
//! handle of the wrong type is [`Error::WrongType`](crate::Error::WrongType), detected by the header's first word,
//! which has the kind of the collection and the types of its items; a handle of another pool or of a freed collection,
//! or a stale cursor, is [`Error::Misuse`](crate::Error::Misuse).
//!
//! ```
//! use perdura::collections::{Bytes, HashMap, OrderedMap, Pair, Total};
//! use perdura::{Result, Tx, TxExt};
//!
//! fn body(tx: &mut dyn Tx) -> Result<()> {
//!     let ages = tx.open_or_create::<HashMap<Bytes, u64>>("ages")?;
//!     ages.insert(tx, b"ada", 36)?;
//!     assert_eq!(ages.get(tx, b"ada")?, Some(36));
//!
//!     let board = tx.open_or_create::<OrderedMap<Pair<Total, Bytes>, (), true>>("board")?;
//!     board.insert(tx, (Total(2.5), b"grace"), ())?;
//!     board.insert(tx, (Total(1.5), b"ada"), ())?;
//!     assert_eq!(board.rank(tx, (Total(2.5), b"grace"))?, (1, true));
//!     Ok(())
//! }
//! # perdura::testing::TestHeap::new().run(&mut |tx| body(tx)).unwrap();
//! ```
//!
//! docs/collections.md has the layouts, and each operation's cost in cache lines.
//!
//! Reading order: [`form`], [`bytes`], [`codec`], [`string`], then one collection at a time.

pub mod bytes;
pub mod cell;
pub mod codec;
pub mod compact;
pub mod form;
pub mod hash_map;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod model;
pub mod named;
pub mod ordered_map;
mod pieces;
mod root;
mod segments;
pub mod string;
mod tag;
pub mod untyped;
pub mod vector;

pub use bytes::Blob;
pub use cell::Cell;
pub use codec::{Item, OrderedItem, Pair, Total};
pub(crate) use form::mix;
pub use hash_map::HashMap;
pub use named::Collection;
pub use ordered_map::{Cursor, OrderedMap};
pub(crate) use root::tagged_kind;
pub use root::{check_root, destroy_root_some};
pub use string::Bytes;
pub use vector::Vector;

/// The object that a named root points to: [`Root::kind`](crate::tx::Root::kind).
pub mod kind {
    /// A [`Blob`](super::Blob).
    pub const BLOB: u32 = 1;
    /// A [`HashMap`](super::HashMap).
    pub const HASH_MAP: u32 = 2;
    /// An [`OrderedMap`](super::OrderedMap).
    pub const ORDERED_MAP: u32 = 3;
    /// A [`Vector`](super::Vector).
    pub const VECTOR: u32 = 4;
}

/// Called with the offset of each block that a collection owns; an error stops the walk.
pub type Visit<'a> = dyn FnMut(u64) -> crate::Result<()> + 'a;
