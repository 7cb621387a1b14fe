//! The command `perdura`: serve a pool, and look after one; and the parts that `perdura-lab` has in common with it.
//!
//! Reading order: [`commands`] (one file for each command), then the parts that all of them use: [`failure`],
//! [`interrupt`], [`output`], [`quantity`], [`domain`]. Failures are one line on the standard error, with a remedy; the
//! exit status is 1, or 2 for an invalid command line or configuration file.

#![forbid(unsafe_code)]

pub mod commands;
pub mod domain;
pub mod failure;
pub mod interrupt;
pub mod output;
pub mod quantity;

use failure::{Failure, Outcome};
use std::process::ExitCode;

/// Runs `command`, the whole of a program, and reports how it ended.
pub fn report(command: impl FnOnce() -> Outcome + std::panic::UnwindSafe) -> ExitCode {
    std::panic::set_hook(Box::new(|info| eprintln!("error: {}", failure::own_fault(info))));
    // Without it, a file that is cut short ends the process silently.
    let _ = perdura::report_sigbus();
    match std::panic::catch_unwind(command) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => told(&failure),
        // The hook has printed the message.
        Err(_) => ExitCode::FAILURE,
    }
}

fn told(failure: &Failure) -> ExitCode {
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
