//! `perdura serve`

use crate::failure::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments) -> Outcome {
    Ok(())
}
