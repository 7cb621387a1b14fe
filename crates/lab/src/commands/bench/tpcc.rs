//! `perdura-lab bench tpcc`: TPC-C, in process.

use crate::bench::keyspace::Served;
use crate::bench::options::{Over, Setting};
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, plural, show_count};
use crate::tpcc::{Rows, Size, no_table};
use perdura_workloads::records::{Plain, Rooted};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Warehouses [default: as many as threads, each thread with its own]
    #[arg(long, value_name = "NUMBER")]
    warehouses: Option<u32>,

    /// Where the tables are: store, which is what the server keeps, or plain, the heap's own
    /// collections
    #[arg(long, value_enum, default_value_t = Over::Store, hide_possible_values = true)]
    over: Over,

    /// Rows: full, as TPC-C has them, or small, about fiftyfold fewer
    #[arg(long, value_enum, default_value_t = Rows::Full)]
    scale: Rows,

    /// Transactions
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    ops: u64,

    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    match arguments.over {
        Over::Table => Err(no_table()),
        Over::Plain => run_on::<Plain>(arguments),
        Over::Store => run_on::<Served>(arguments),
    }
}

fn run_on<R: Rooted>(arguments: &Arguments) -> Outcome {
    let mut setting = arguments.setting.clone();
    let warehouses = arguments.warehouses.unwrap_or(setting.threads.threads);
    let size = Size { warehouses, rows: arguments.scale };
    size.validate()?;
    // The first rows follow from the printed seed, too.
    let seed = setting.common.seed();
    setting.common.seed = Some(seed);
    let total = arguments.ops.saturating_add(setting.threads.warm_up.unwrap_or(arguments.ops / 10));
    let rows = arguments.scale.name();
    let case = Case {
        title: format!(
            "TPC-C over {}: {} transactions on {} ({rows} scale); without keying and think times, so \
             these are no tpmC",
            arguments.over.in_words(),
            show_count(arguments.ops),
            plural(u64::from(warehouses), "warehouse"),
        ),
        parameters: json!({
            "bench": "tpcc", "over": arguments.over.to_string(), "warehouses": warehouses, "scale": rows, "ops": arguments.ops,
        }),
        operations: arguments.ops,
        data_bytes: size.bytes(total),
        make: &|_| size.make::<R>(seed),
    };
    series::run_and_show(&case, &setting)
}
