//! A module for Redis and Valkey: each node of a stock cluster has its data in a Perdura pool, durable when it is
//! acknowledged. docs/cluster.md says how it is used, and what holds.
//!
//! Clients send ordinary commands. A filter gives those on data to the module, which performs them with the code of
//! `perdura serve`. The host has, for each key in the pool, a value that says no more than that: so slots, replication,
//! expiry, eviction, migration, WATCH and failover stay the host's.
//!
//! Invariants:
//! - Outside of a command, the host has a value of the module for a key exactly if the pool has the key, and both know the
//!   same time at which it expires.
//! - A reply leaves the process when all that it tells is durable. The host sends the replies of a turn of its event
//!   loop at the turn's end, and the module waits for its transactions before ([`node`]).
//! - The commands of an EXEC, and those of a script, are one transaction of the pool ([`group`]).
//! - The host calls on one thread. `free` alone may be called on others, and touches nothing of the node.
//!
//! Reading order: `settings`, `work` (what is done in a transaction), `group`, `node`, `resp` (replies, taken
//! apart), `snapshot` (what a forked child reads), `watch` (scripts that run
//! for long), then `ffi`, which has all `unsafe` code.

mod ffi;
mod group;
mod node;
mod resp;
mod settings;
mod snapshot;
mod watch;
mod work;
