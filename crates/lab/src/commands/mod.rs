//! The command line: one file for each command.

mod bench;
mod crash;
mod crash_disk;
mod list;
mod reproduce;
mod rot;
mod sim;
mod stress;

use crate::failure::Outcome;
use clap::{CommandFactory, Parser, Subcommand};
use perdura_cli::commands::{VERSION, pool, serve, shell};

/// The laboratory of a durable heap: its figures with their baselines, simulated machines, and tests by crashes.
#[derive(Debug, Parser)]
#[command(name = "perdura-lab", version = VERSION, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure: every figure with its baseline from the same run
    Bench(Box<bench::Arguments>),
    /// Cut the power of a simulated machine at every event, and check the images
    Crash(Box<crash::Arguments>),
    /// Record a server's writes to a block device, and check images that a power cut may leave
    CrashDisk(crash_disk::Arguments),
    /// Damage pools as a medium does, and check that no wrong values are served unnoticed
    Rot(rot::Arguments),
    /// Run threads on real pools, kill their processes, and check their reads and the pools
    Stress(stress::Arguments),
    /// List workloads, structures, policies, mechanisms, machines and engines
    List(list::Arguments),
    /// Run a workload on a simulated machine, timed by its clock
    Sim(sim::Arguments),
    /// Run a table or figure of a paper again, and compare the results with the paper's
    Reproduce(reproduce::Arguments),
    /// As `perdura serve`: for the benchmarks' own servers
    Serve(Box<serve::Arguments>),
    /// As `perdura pool`, for the benchmarks' own pools too
    #[command(subcommand)]
    Pool(pool::Command),
    /// Print a script that completes the command line in a shell
    Completions(shell::Completions),
    /// Write the manual's pages
    Man(shell::Man),
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Crash(arguments) => crash::run(&arguments),
        Command::CrashDisk(arguments) => crash_disk::run(&arguments),
        Command::Rot(arguments) => rot::run(&arguments),
        Command::Stress(arguments) => stress::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Pool(command) => pool::run(command),
        Command::Completions(arguments) => shell::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => shell::man(&arguments, Arguments::command()),
    }
}
