//! The command `perdura`: serve a pool, look after one, and measure.
//!
//! Reading order: [`commands`] (the command line, one file for each command), [`mod@bench`] (shared by the
//! benchmarks), [`simulate`] (the same on a simulated machine), [`mod@reproduce`] (the papers' figures, from both).
//! Failures are one line on the standard error, with what to do; the exit status is 1, or 2 for an invalid command
//! line or configuration file. Without the feature `measure`, which is on unless `--no-default-features` is given, the
//! program only serves and maintains pools, and is built in a seventh of the time.

#![forbid(unsafe_code)]

mod commands;
mod domain;
mod failure;
mod interrupt;
#[cfg_attr(not(feature = "measure"), allow(dead_code))]
mod output;
#[cfg_attr(not(feature = "measure"), allow(dead_code))]
mod quantity;

// Measuring, simulating and crash-testing.
#[cfg(feature = "measure")]
mod bench;
#[cfg(feature = "measure")]
mod csv;
#[cfg(feature = "measure")]
mod engines;
#[cfg(feature = "measure")]
mod faults;
#[cfg(feature = "measure")]
mod machine;
#[cfg(feature = "measure")]
mod micro;
#[cfg(feature = "measure")]
mod named;
#[cfg(feature = "measure")]
mod reproduce;
#[cfg(feature = "measure")]
mod simulate;
#[cfg(feature = "measure")]
mod tpcc;

use clap::Parser;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| eprintln!("error: {}", failure::own_fault(info))));
    // Without it, a file that is cut short ends the process silently.
    let _ = perdura::report_sigbus();
    let arguments = commands::Arguments::parse();
    let ended = std::panic::catch_unwind(|| commands::run(arguments));
    match ended {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => report(&failure),
        // The hook has printed the message.
        Err(_) => ExitCode::FAILURE,
    }
}

fn report(failure: &Failure) -> ExitCode {
    match failure {
        // The reader of our output has seen enough.
        Failure::BrokenPipe => ExitCode::SUCCESS,
        Failure::Interrupted => ExitCode::from(130),
        Failure::Message(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
        Failure::Usage(text) => {
            eprintln!("error: {text}");
            ExitCode::from(2)
        }
    }
}
