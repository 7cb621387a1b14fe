//! Baselines for comparison: other systems on the same work, in the same run, on the same folder.
//!
//! A [`Baseline`] does a piece of [`Work`] and reports how long it took, having checked its own answer: [`pmemobj`]
//! uses libpmemobj, in C. Embedded stores ([`stores`], built with the feature of that name) make durable [`puts`].
//! Servers are compared by one client for all: [`server`] starts them, [`redis_benchmark`] and [`ycsb`] load them,
//! [`footprint`] measures the space they take, and [`cache`] uses them with too little room.
//!
//! Nothing here is needed to build or test the rest. A baseline's requirements (a C compiler, a library, a server) are
//! looked for when it runs, and reported as [`Error::Unavailable`] with what to install.
//!
//! To add a baseline: implement [`Baseline`] in a file of its own, or [`puts::Library`] for a store; every failure to
//! find it is `Unavailable`.

// The function that opens LMDB is unsafe.
#![cfg_attr(not(feature = "stores"), forbid(unsafe_code))]

pub mod cache;
pub mod child;
pub mod error;
pub mod footprint;
pub mod pmemobj;
pub mod puts;
pub mod redis_benchmark;
pub mod server;
pub mod stores;
pub mod work;
pub mod ycsb;

pub use error::{Error, Result};
pub use work::{Baseline, Figure, Size, Work};
