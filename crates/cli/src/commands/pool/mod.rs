//! `perdura pool`: create a pool, or look at one.

mod check;
mod create;
mod info;

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
}

pub(super) fn run(command: Command) -> Outcome {
    match command {
        Command::Create(arguments) => create::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
    }
}
