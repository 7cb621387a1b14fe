//! One program for most of the tests, so that their common code is compiled and linked once.

#![allow(missing_docs)]

mod crowded;
mod deaths;
mod elided;
mod engines;
mod hardware;
mod hybrid;
mod mechanisms;
mod pins;
mod plain;
mod planted;
mod rot;
mod sections;
mod serial;
mod shrink;
mod sqlite;
mod tester;
mod unseen;
