//! The command `perdura-lab`: measure, simulate, crash-test.
//!
//! Reading order: [`commands`] (the command line, one file for each command), [`workload`] (workloads by name),
//! [`mod@bench`] (shared by the benchmarks), [`simulate`] (the same on a simulated machine), [`mod@reproduce`] (the papers' figures, from both).

#![forbid(unsafe_code)]

mod bench;
mod commands;
mod computing;
mod csv;
mod engines;
mod faults;
mod interrupt;
mod machine;
mod output;
mod reproduce;
mod simulate;
mod workload;

use clap::Parser;
use perdura_cli::{domain, failure, quantity};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    perdura_cli::report(|| commands::run(arguments))
}
