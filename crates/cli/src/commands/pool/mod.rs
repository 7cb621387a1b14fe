//! `perdura pool`: create a pool, look at one, or move its data.

mod check;
mod copy;
mod create;
mod export;
mod import;
mod info;
mod moving;

use crate::failure::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an empty pool
    Create(create::Arguments),
    /// Tell sizes, free space, engine, persistence domain and processor features
    Info(info::Arguments),
    /// Walk everything in a pool and name what is wrong, without writing to it
    Check(check::Arguments),
    /// Copy what is in a pool to a new one, of any size and engine, without gaps
    Copy(copy::Arguments),
    /// Write a pool's data to a file without the pool's format
    Export(export::Arguments),
    /// Make a pool of an export, or of a stream of Redis's commands
    Import(import::Arguments),
}

pub(super) fn run(command: Command) -> Outcome {
    match command {
        Command::Create(arguments) => create::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Copy(arguments) => copy::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
    }
}
