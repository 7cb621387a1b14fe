//! `perdura bench`: one file for each benchmark.

mod limit;
mod map;
mod overwrite;
mod sps;
mod versus;
mod ycsb;

use crate::failure::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// YCSB's core workloads A to F, in process
    Ycsb(ycsb::Arguments),
    /// Random swaps in an array of words
    Sps(sps::Arguments),
    /// What durability costs here: one flushed line and a fence, and the smallest transactions
    Limit(limit::Arguments),
    /// Against libpmemobj and Redis, on the same work in the same run
    Versus(versus::Arguments),
    /// 25 % inserts, 25 % removals and 50 % look-ups on a map
    Map(map::Arguments),
    /// Whole values overwritten at random
    Overwrite(overwrite::Arguments),
}

pub(super) fn run(command: Command) -> Outcome {
    match command {
        Command::Ycsb(arguments) => ycsb::run(&arguments),
        Command::Sps(arguments) => sps::run(&arguments),
        Command::Limit(arguments) => limit::run(&arguments),
        Command::Versus(arguments) => versus::run(&arguments),
        Command::Map(arguments) => map::run(&arguments),
        Command::Overwrite(arguments) => overwrite::run(&arguments),
    }
}
