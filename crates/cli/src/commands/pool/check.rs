//! `perdura pool check`.

use crate::failure::Outcome;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pool's file; it is not written to
    path: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(_arguments: &Arguments) -> Outcome {
    Ok(())
}
