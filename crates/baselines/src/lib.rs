//! Competitors on the same work, in the same run, on the same folder.
//!
//! A [`Baseline`] does a piece of [`Work`] and says how long it took, having checked its own
//! answer: [`pmemobj`] has libpmemobj do it, in C. Embedded stores ([`stores`], built with the feature of
//! that name) make durable [`puts`]. Servers are compared by one client for all: [`server`] starts them,
//! [`redis_benchmark`] and [`ycsb`] load them, [`footprint`] measures what they take.
//!
//! Nothing here is needed to build or test the rest. What a baseline needs (a C compiler, a
//! library, a server) is looked for when it runs, and reported as [`Error::Unavailable`] with
//! what to install.
//!
//! To add a baseline: implement [`Baseline`] in a file of its own, or [`puts::Library`] for a store; every
//! failure to find it is `Unavailable`.

// LMDB is opened by a function that is unsafe.
#![cfg_attr(not(feature = "stores"), forbid(unsafe_code))]

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
