//! `perdura bench versus`: versus

use crate::failure::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(super) fn run(_arguments: &Arguments) -> Outcome {
    Ok(())
}
