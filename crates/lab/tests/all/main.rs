//! One program for most of the tests, so that common code is compiled and linked once.

#![allow(missing_docs)]

mod bench;
mod cli;
#[path = "../../../cli/tests/all/common/mod.rs"]
mod common;
mod crash;
mod crash_disk;
mod crash_mechanisms;
mod figures;
mod over_store;
mod plain;
mod planted;
mod reproduce;
mod reproduce_checkpoints;
mod reproduce_protocols;
mod rot;
mod sim;
mod sqlite;
mod stores;
mod stress;
mod through_server;
mod transactions;
mod valgrind;
