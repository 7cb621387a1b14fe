//! One program for the tests, so that SQLite is linked once.

#![allow(missing_docs)]

mod attach;
mod basics;
mod child;
mod common;
mod concurrency;
mod damage;
mod differential;
mod failures;
mod kill;
mod large;
mod logic;
mod moving;
mod power;
