//! Commands: a table, and one file for each family.
//!
//! A command is either on *data*, and runs inside a transaction, perhaps more than once, or on
//! the *client* that sent it, and runs outside, exactly once. To add one: write its handler in
//! its family's file and its line in that file's `TABLE`.

mod acl;
mod bits;
pub(crate) mod blocking;
mod call;
mod choices;
mod client;
mod client_tracking;
mod config;
mod connection;
mod copy;
mod debug;
mod dump;
#[cfg(test)]
mod edge_tests;
mod events;
mod expiry;
mod failure;
mod flags;
#[cfg(test)]
mod function_tests;
pub(crate) mod functions;
mod geo;
mod geohash;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod harness;
mod hash_numbers;
mod hashes;
mod hyperloglog;
mod info;
mod key_flags;
mod key_places;
mod keys;
mod latency;
mod lcs;
mod list_places;
#[cfg(test)]
mod list_tests;
mod lists;
mod migrate;
pub(crate) mod monitor;
mod multi;
mod name_range;
mod numbers;
mod objects;
pub(crate) mod parts;
pub(crate) mod perform;
mod pubsub;
pub(crate) mod random;
mod replication;
mod saving;
mod scan;
mod score_range;
mod scripts;
mod set_algebra;
mod set_choices;
#[cfg(test)]
mod set_tests;
mod sets;
mod shutdown;
mod sketch;
mod slowlog;
mod sort;
mod stream_claims;
mod stream_groups;
pub(crate) mod stream_ids;
mod stream_info;
pub(crate) mod stream_reads;
#[cfg(test)]
mod stream_tests;
mod streams;
mod strings;
mod substrings;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod types_tests;
mod zset_algebra;
mod zset_pops;
mod zset_ranges;
mod zsets;

pub(crate) use call::{Call, Env, Notes};
pub(crate) use client::{ClientCall, Command, Next, Run};
pub(crate) use config::Tuning;
pub(crate) use events::{Classes, Events};
pub(crate) use failure::{Failure, Outcome, shown};
#[cfg(test)]
pub(crate) use key_places::has_keys;
pub(crate) use key_places::{move_about, positions as key_positions};
pub(crate) use multi::{
    Exec, PER_ARGUMENT, PER_COMMAND, Queue, Step, is_immediate, is_never_queued, refused,
};
pub(crate) use pubsub::goes_while_subscribed;
pub(crate) use random::Random;
pub(crate) use scripts::note_script;
pub(crate) use table::{all, find, find_whole};

/// The version of Redis that clients see, since some go by it.
pub(crate) const VERSION: &str = "7.2.0";
/// The same as scripts have it: a byte for each part.
pub(crate) const VERSION_NUMBER: i64 = 0x0007_0200;
