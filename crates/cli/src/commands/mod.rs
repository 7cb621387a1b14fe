//! The command line: one file for each command.

mod bench;
mod crash;
mod crash_disk;
mod pool;
mod reproduce;
mod rot;
mod serve;
mod sim;

use crate::failure::Outcome;
use clap::{Parser, Subcommand};

/// A durable heap: transactions on memory that outlive a power cut.
#[derive(Debug, Parser)]
#[command(name = "perdura", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a pool to Redis clients
    Serve(serve::Arguments),
    /// Create a pool, look at one, or move its data
    #[command(subcommand)]
    Pool(pool::Command),
    /// Measure: every figure with its baseline from the same run
    #[command(subcommand)]
    Bench(bench::Command),
    /// Cut the power of a simulated machine everywhere, and check what is left
    Crash(Box<crash::Arguments>),
    /// Record what a server writes to a block device, and check what a power cut may leave
    CrashDisk(crash_disk::Arguments),
    /// Damage pools as a medium does, and see whether wrong values are served unnoticed
    Rot(rot::Arguments),
    /// Run a workload on a simulated machine, timed by its clock
    Sim(sim::Arguments),
    /// Run a table or figure of a paper again, and put ours beside the paper's
    Reproduce(reproduce::Arguments),
}

/// Does what was asked.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Pool(command) => pool::run(command),
        Command::Bench(command) => bench::run(command),
        Command::Crash(arguments) => crash::run(&arguments),
        Command::CrashDisk(arguments) => crash_disk::run(&arguments),
        Command::Rot(arguments) => rot::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
    }
}
