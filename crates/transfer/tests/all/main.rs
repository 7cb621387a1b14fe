//! One program for all tests.

#![allow(missing_docs)]

mod common;
mod copies;
mod exports;
mod files;
mod hostile;
mod kept;
