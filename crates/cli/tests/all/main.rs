//! One program for most of the tests, so that common code is compiled and linked once.

#![allow(missing_docs)]

mod arrows;
mod bench;
mod check;
mod cli;
mod common;
mod crash;
mod crash_disk;
mod crash_mechanisms;
mod dependencies;
mod figures;
mod kill;
mod listed;
mod moving;
mod plain;
mod planted;
mod reproduce;
mod reproduce_protocols;
mod results;
mod rot;
mod serve;
mod sim;
mod stores;
mod stress;
mod through_server;
mod valgrind;
