//! `perdura-lab bench sqlite-pages`: rows replaced in pages of 1 KiB, as SQLite writes them.

use crate::bench::options::Setting;
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, plural, show_count};
use perdura_workloads::pages::{self, Pages};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rows replaced in a transaction; as large as those of the LOC paper are 8
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    ops_per_tx: u32,

    /// Rows, of a key of 16 bytes and a value of 100
    #[arg(long, value_name = "NUMBER", default_value = "65536", value_parser = quantity::count)]
    rows: u64,

    /// Transactions
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "200k", value_parser = quantity::count)]
    ops: u64,

    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { ops_per_tx, rows, ops, setting } = arguments;
    let case = Case {
        title: format!(
            "SQLite's pages: {} in a transaction, {} transactions on {} rows",
            plural(u64::from(*ops_per_tx), "row"),
            show_count(*ops),
            show_count(*rows),
        ),
        parameters: json!({
            "bench": "sqlite-pages", "ops_per_tx": ops_per_tx, "rows": rows, "ops": ops,
        }),
        operations: *ops,
        data_bytes: pages::bytes(*rows),
        make: &|_| Pages::new(*rows, *ops_per_tx as usize),
    };
    series::run_and_show(&case, setting)
}
