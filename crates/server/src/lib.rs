//! The Redis protocol on a Perdura pool: [`run`] serves until a signal or SHUTDOWN, or a
//! [`Server`] is bound first and run later.
//!
//! Every command is a transaction, and is answered when it is durable. Commands that arrive
//! together share transactions and fences: a worker thread works in turns, of which each takes
//! its connections' requests, does them in a few transactions, waits once until
//! they are durable, and sends the answers.
//!
//! A program that has the pool open can use the served data directly, in transactions of its own:
//! [`Keyspace`].
//!
//! Reading order: `protocol` (bytes to requests, replies to bytes), `keyspace` (the data in the
//! pool), `command` (the table and the families), `net` (connections, turns, workers), `serve`
//! (threads and signals), `acl` (users), `tracking` (clients that keep what they read). For operators: `stats`, `slow_log`, `metrics`, `logging`, `notify`, `save`.

#![forbid(unsafe_code)]

mod acl;
mod client;
mod command;
#[cfg(test)]
mod conflict_tests;
mod cron;
mod descriptors;
mod direct;
mod embedded;
mod error;
mod eviction;
#[cfg(test)]
mod failing_tests;
#[cfg(test)]
mod faults;
mod keyspace;
mod latency;
mod listing;
mod logging;
mod metrics;
mod migrate;
mod net;
mod notify;
mod options;
mod pause;
mod percentiles;
mod protocol;
mod pubsub;
mod rates;
mod rdb;
#[cfg(test)]
mod replicating_tests;
mod replication;
mod room;
mod save;
mod script;
mod serve;
mod server;
mod signals;
mod slow_log;
mod stats;
mod store;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
mod tls;
mod tracking;
pub mod transfer;
mod waiting;
#[cfg(test)]
mod waiting_tests;
mod walk;
mod watch;
#[cfg(test)]
mod watch_tests;

pub use direct::{Commands, DataCommand, KeyState, Performed, Request, Waiting};
pub use embedded::{EachEntry, EachPending, End, EntryId, Keyspace};
pub use error::ServeError;
pub use eviction::EvictionPolicy;
pub use keyspace::{Findings, check, check_root};
pub use logging::{LogFormat, LogLevel, log_warning, start_logging};
pub use options::Options;
pub use serve::{Listener, Server, Shutdown, check_files, run, serve};
pub use tls::{ClientCertificates, TlsFiles};
