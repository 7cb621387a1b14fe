//! One program for most of the tests, so that common code is compiled and linked once.

#![allow(missing_docs)]

mod api;
mod check;
mod collections;
mod collections_damage;
mod collections_engines;
mod collections_lines;
mod counts;
mod crash;
mod creation;
mod errors;
mod examples;
mod explicit;
mod family;
mod heap;
mod lanes;
mod many_sessions;
mod pieces;
mod pins;
mod pool;
mod readme;
mod release;
mod room;
mod sections;
mod stocks;
mod sums;
mod traps;
mod unclean;
mod untyped;
mod vanished;
mod words;
