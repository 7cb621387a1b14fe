//! The command line: one file for each command.

#[cfg(feature = "measure")]
mod bench;
#[cfg(feature = "measure")]
mod crash;
#[cfg(feature = "measure")]
mod crash_disk;
mod pool;
#[cfg(feature = "measure")]
mod reproduce;
#[cfg(feature = "measure")]
mod rot;
mod serve;
mod shell;
#[cfg(feature = "measure")]
mod sim;
#[cfg(feature = "measure")]
mod stress;

use crate::failure::Outcome;
use clap::{Parser, Subcommand};

/// With the format of the pools that it reads, which an upgrade may change.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (pool format 6)");
const _: () = assert!(perdura::superblock::VERSION == 6, "the version names the format");

/// A durable heap: transactions on memory that outlive a power cut.
#[derive(Debug, Parser)]
#[command(name = "perdura", version = VERSION, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a pool to Redis clients
    Serve(serve::Arguments),
    /// Create or inspect a pool, or move its data
    #[command(subcommand)]
    Pool(pool::Command),
    #[cfg(feature = "measure")]
    /// Measure: every figure with its baseline from the same run
    #[command(subcommand)]
    Bench(bench::Command),
    #[cfg(feature = "measure")]
    /// Cut the power of a simulated machine at every event, and check the images
    Crash(Box<crash::Arguments>),
    #[cfg(feature = "measure")]
    /// Record a server's writes to a block device, and check images that a power cut may leave
    CrashDisk(crash_disk::Arguments),
    #[cfg(feature = "measure")]
    /// Damage pools as a medium does, and check that no wrong values are served unnoticed
    Rot(rot::Arguments),
    #[cfg(feature = "measure")]
    /// Run threads on real pools, kill their processes, and check their reads and the pools
    Stress(stress::Arguments),
    #[cfg(feature = "measure")]
    /// Run a workload on a simulated machine, timed by its clock
    Sim(sim::Arguments),
    #[cfg(feature = "measure")]
    /// Run a table or figure of a paper again, and compare the results with the paper's
    Reproduce(reproduce::Arguments),
    #[cfg(not(feature = "measure"))]
    /// Not in this build
    #[command(hide = true, name = "bench", aliases = ["crash", "crash-disk", "rot", "sim", "stress", "reproduce"], disable_help_flag = true)]
    Measure {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _rest: Vec<String>,
    },
    /// Print a script that completes the command line in a shell
    Completions(shell::Completions),
    /// Write the manual's pages
    Man(shell::Man),
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Pool(command) => pool::run(command),
        #[cfg(feature = "measure")]
        Command::Bench(command) => bench::run(command),
        #[cfg(feature = "measure")]
        Command::Crash(arguments) => crash::run(&arguments),
        #[cfg(feature = "measure")]
        Command::CrashDisk(arguments) => crash_disk::run(&arguments),
        #[cfg(feature = "measure")]
        Command::Rot(arguments) => rot::run(&arguments),
        #[cfg(feature = "measure")]
        Command::Stress(arguments) => stress::run(&arguments),
        #[cfg(feature = "measure")]
        Command::Sim(arguments) => sim::run(&arguments),
        #[cfg(feature = "measure")]
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        #[cfg(not(feature = "measure"))]
        Command::Measure { .. } => Err(crate::failure::Failure::usage(
            "this build only serves and maintains pools: build the whole without `--no-default-features` (`cargo build \
             --release`)",
        )),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
    }
}
