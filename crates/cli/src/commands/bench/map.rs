//! `perdura bench map`: inserts, removals and look-ups on a hash map or an ordered map.

use crate::failure::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(super) fn run(_arguments: &Arguments) -> Outcome {
    Ok(())
}
