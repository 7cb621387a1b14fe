//! `perdura-lab bench overwrite`: whole values overwritten at random.

use crate::bench::options::{Setting, require};
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, show_bytes, show_count};
use perdura_workloads::overwrite::Overwrite;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Values
    #[arg(long, value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    values: u64,

    /// Bytes in a value, a multiple of 8
    #[arg(long, value_name = "BYTES", default_value = "1K", value_parser = quantity::bytes)]
    bytes: u64,

    /// Updates, a transaction each
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "500k", value_parser = quantity::count)]
    ops: u64,

    /// Each thread overwrites its own part of the values
    #[arg(long)]
    disjoint: bool,

    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { values, bytes, ops, disjoint, setting } = arguments;
    let parts = if *disjoint { u64::from(setting.threads.threads) } else { 1 };
    require(
        *values >= parts,
        "there must be a value, and one for each thread with --disjoint: raise --values",
    )?;
    let case = Case {
        title: format!(
            "overwrite: {} updates of {} values of {}{}",
            show_count(*ops),
            show_count(*values),
            show_bytes(*bytes),
            if *disjoint { ", threads apart" } else { "" }
        ),
        parameters: json!({
            "bench": "overwrite", "values": values, "bytes": bytes, "ops": ops,
            "disjoint": disjoint,
        }),
        operations: *ops,
        data_bytes: values.saturating_mul(bytes + 64),
        make: &|_| Overwrite::new(*values, *bytes as usize, *disjoint),
    };
    series::run_and_show(&case, setting)
}
