//! The commands.

pub mod pool;
pub mod serve;
pub mod shell;
pub mod sqlite;

/// With the format of the pools that it reads, which an upgrade may change.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (pool format 7)");
const _: () = assert!(perdura::superblock::VERSION == 7, "the version names the format");
