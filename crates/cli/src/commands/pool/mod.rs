//! `perdura pool`: create a pool, look at one, or move its data.

mod check;
mod copy;
mod create;
mod export;
mod import;
mod info;
mod moving;

use crate::failure::Outcome;
pub(super) use check::check_pool;
use clap::Subcommand;

/// The command and its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create an empty pool
    Create(create::Arguments),
    /// Show a pool's sizes, free space, engine, persistence domain and the processor's features
    Info(info::Arguments),
    /// Check everything in a pool and name what is wrong, without writing to it
    Check(check::Arguments),
    /// Copy a pool's data to a new pool, of any size and engine, compacted
    Copy(copy::Arguments),
    /// Export a pool's data to a file that does not depend on the pool's format
    Export(export::Arguments),
    /// Make a pool from an export, or from an append-only file of Redis
    Import(import::Arguments),
}

/// Runs the command.
///
/// # Errors
/// The command's failure.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Create(arguments) => create::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Copy(arguments) => copy::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
    }
}
