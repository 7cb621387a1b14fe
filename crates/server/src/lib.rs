//! The Redis protocol on a Perdura pool: [`run`] serves until it is told to stop, or a
//! [`Server`] is bound first and run later.
//!
//! Every command is a transaction, and is answered when it is durable. Commands that arrive
//! together share transactions and fences: a worker thread works in turns, of which each takes
//! what its connections have sent, does it in as few transactions as possible, waits once until
//! they are durable, and sends the answers.
//!
//! A program that has the pool open can use what is served directly, in transactions of its own:
//! [`Keyspace`].
//!
//! Reading order: `protocol` (bytes to requests, replies to bytes), `keyspace` (what is in the
//! pool), `command` (the table and the families), `net` (connections, turns, workers), `serve`
//! (threads and signals).

#![forbid(unsafe_code)]

#[cfg(test)]
mod beside_tests;
mod client;
mod command;
mod descriptors;
mod embedded;
mod error;
#[cfg(test)]
mod failing_tests;
#[cfg(test)]
mod hooked;
mod house;
mod keyspace;
mod net;
mod options;
mod protocol;
mod room;
mod save;
mod serve;
mod server;
mod signals;
mod stats;
mod store;
#[doc(hidden)]
pub mod testing;
pub mod transfer;
mod watch;
#[cfg(test)]
mod watch_tests;

pub use embedded::Keyspace;
pub use error::ServeError;
pub use keyspace::{Findings, check, check_root};
pub use options::Options;
pub use serve::{Listener, Server, Shutdown, run, serve};
