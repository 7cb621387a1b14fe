//! One program for most of the tests, so that common code is compiled and linked once.

#![allow(missing_docs)]

mod arrows;
mod check;
mod cli;
mod common;
mod dependencies;
mod kill;
mod kill_types;
mod listed;
mod moving;
mod results;
mod serve;
mod sqlite;
