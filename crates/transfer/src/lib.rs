//! Pools' data moved: copied to another pool, written to a file without the pool's format, and read from one.
//!
//! The contents of a pool are found by its named roots: the heap's collections, and the server's keyspace. What these
//! own can be read and made anew ([`copy()`], [`export()`], [`import()`]). Objects of a program's own are known to that
//! program alone; a pool with such roots can be copied with all offsets as they are ([`copy_pages`]).
//!
//! Invariants: the pool that is read is not written to, and nobody can open it meanwhile. A new file has its
//! name when it is whole and durable; after a failure there is no part of it. Transactions are bounded, whatever the
//! data. The bytes of a file cause an error at worst.
//!
//! Reading order: [`contents`] (a pool's roots), [`fill`] (a collection filled, in transactions), [`mod@copy`],
//! [`pages`]; [`json`] (collections as lines), [`mod@export`], [`mod@import`].

#![forbid(unsafe_code)]

pub mod contents;
pub mod copy;
mod error;
pub mod export;
pub mod fill;
pub mod import;
mod interruptible;
pub mod json;
pub mod pages;
mod target;

pub use copy::{Copied, copy};
pub use error::Error;
pub use export::{Exported, Form, export, export_file};
pub use import::{Imported, import, import_redis};
pub use interruptible::Interruptible;
pub use pages::copy_pages;
pub use perdura_server::transfer::Going;
pub use target::Target;

/// The crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;
