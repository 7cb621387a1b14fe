//! debug
#![allow(missing_docs)]
mod common;
