//! `perdura-lab bench churn`: blocks of random sizes allocated, resized and freed.

use crate::bench::options::{Setting, require};
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, plural, show_count};
use perdura_workloads::churn::{BYTES_PER_BLOCK, Churn};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Blocks allocated, resized or freed in a transaction
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    ops_per_tx: u32,

    /// Places for a block, of which two thirds are taken in the long run
    #[arg(long, value_name = "NUMBER", default_value = "10k", value_parser = quantity::count)]
    slots: u64,

    /// Transactions
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "200k", value_parser = quantity::count)]
    ops: u64,

    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { ops_per_tx, slots, ops, setting } = arguments;
    require(
        *slots >= u64::from(setting.threads.threads),
        "churning needs a slot for each thread: raise --slots",
    )?;
    let case = Case {
        title: format!(
            "churn: {} in a transaction, {} transactions on {} slots",
            plural(u64::from(*ops_per_tx), "block"),
            show_count(*ops),
            show_count(*slots),
        ),
        parameters: json!({
            "bench": "churn", "ops_per_tx": ops_per_tx, "slots": slots, "ops": ops,
        }),
        operations: *ops,
        data_bytes: slots.saturating_mul(BYTES_PER_BLOCK),
        make: &|_| Churn::new(*slots, *ops_per_tx as usize),
    };
    series::run_and_show(&case, setting)
}
