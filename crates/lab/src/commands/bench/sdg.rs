//! `perdura-lab bench sdg`: edges inserted if absent, deleted if there.

use crate::bench::options::Setting;
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, plural, show_count};
use perdura_workloads::sdg;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Edges inserted or deleted in a transaction; as large as those of the LOC paper are 12
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    ops_per_tx: u32,

    /// Vertices, up to the next power of two: a graph of the Scalable Data Generator of SSCA#2
    #[arg(long, value_name = "NUMBER", default_value = "65536", value_parser = quantity::count)]
    vertices: u64,

    /// Transactions
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "500k", value_parser = quantity::count)]
    ops: u64,

    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { ops_per_tx, vertices, ops, .. } = arguments;
    let mut setting = arguments.setting.clone();
    // The graph follows from the printed seed, too.
    let seed = setting.common.seed();
    setting.common.seed = Some(seed);
    let make = |_| sdg::workload(*vertices, *ops_per_tx as usize, seed);
    let case = Case {
        title: format!(
            "SDG: {} in a transaction, {} transactions on {} vertices",
            plural(u64::from(*ops_per_tx), "edge"),
            show_count(*ops),
            show_count(*vertices),
        ),
        parameters: json!({
            "bench": "sdg", "ops_per_tx": ops_per_tx, "vertices": vertices, "ops": ops,
        }),
        operations: *ops,
        data_bytes: make(0)?.bytes(),
        make: &make,
    };
    series::run_and_show(&case, &setting)
}
