//! The command `perdura`: see the library.

#![forbid(unsafe_code)]

use clap::{CommandFactory, Parser, Subcommand};
use perdura_cli::commands::{VERSION, pool, serve, shell, sqlite};
use perdura_cli::failure::{Failure, Outcome};
use std::process::ExitCode;

/// A durable heap: transactions on memory that outlive a power cut.
#[derive(Debug, Parser)]
#[command(name = "perdura", version = VERSION, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a pool to Redis clients
    Serve(Box<serve::Arguments>),
    /// Create or inspect a pool, or move its data
    #[command(subcommand)]
    Pool(pool::Command),
    /// Move databases of SQLite into a pool and out of it, or check them
    #[command(subcommand)]
    Sqlite(sqlite::Command),
    /// Print a script that completes the command line in a shell
    Completions(shell::Completions),
    /// Write the manual's pages
    Man(shell::Man),
    /// In another program
    #[command(
        hide = true,
        name = "bench",
        aliases = ["crash", "crash-disk", "list", "reproduce", "rot", "sim", "stress"],
        disable_help_flag = true
    )]
    Lab {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _rest: Vec<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    perdura_cli::report(|| run(arguments))
}

fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Pool(command) => pool::run(command),
        Command::Sqlite(command) => sqlite::run(command),
        Command::Completions(arguments) => shell::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => shell::man(&arguments, Arguments::command()),
        Command::Lab { .. } => Err(Failure::usage(
            "measuring, simulating and crash-testing are another program: `perdura-lab`, built and run by `cargo run \
             --release -p perdura-lab -- bench` and the like",
        )),
    }
}
