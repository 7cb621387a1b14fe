//! One program for most of the tests, so that shared code is compiled and linked once.

#![allow(missing_docs)]

mod cuts;
mod echo;
mod engines;
mod graph;
mod heap;
mod neighbours;
mod nstore;
mod records;
mod stamp;
mod streams;
mod tatp;
mod windows;
