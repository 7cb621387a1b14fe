//! One program for most of the tests, so that their common code is compiled and linked once.

#![allow(missing_docs)]

mod acl;
mod blocking;
mod busy;
mod clients;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod counts;
mod differential;
mod doors;
mod durability;
mod engines;
mod eviction;
mod filtered;
mod following;
mod full;
mod handing_over;
mod kept;
mod latency;
mod migrating;
mod model;
mod moving_in;
mod operation;
mod pausing;
mod peers;
mod publishing;
mod room;
mod room_mix;
mod saving;
mod scripts;
mod space;
mod tracking;
mod transactions;
