//! `perdura pool`: create a pool, or look at one.

use crate::failure::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {}

pub(super) fn run(command: Command) -> Outcome {
    match command {}
}
