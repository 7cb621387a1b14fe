//! `perdura bench tpcc`: TPC-C, in process.

use crate::bench::keyspace::Served;
use crate::bench::options::{Over, Setting};
use crate::bench::series::{self, Case};
use crate::failure::{Failure, Outcome};
use crate::quantity::{self, plural, show_count};
use perdura_workloads::records::{Plain, Rooted};
use perdura_workloads::tpcc::{Scale, Tpcc};
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
    #[arg(long, value_enum, default_value_t = Size::Full)]
    scale: Size,

    /// Transactions
    #[arg(long, value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    ops: u64,

    #[command(flatten)]
    setting: Setting,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Size {
    /// 3,000 customers a district and 100,000 items
    Full,
    /// 60 customers a district and 1,000 items
    Small,
}

impl Size {
    fn scale(self, warehouses: u32) -> Scale {
        match self {
            Size::Full => Scale::full(warehouses),
            Size::Small => Scale::small(warehouses),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Size::Full => "full",
            Size::Small => "small",
        }
    }
}

/// Bytes that a transaction adds, about: an order has ten lines, and comes in 45 of 100.
pub(crate) const BYTES_PER_TX: u64 = 1536;

/// TPC-C has no table of its own.
pub(crate) fn no_table() -> Failure {
    Failure::new("TPC-C runs over store or plain: it has no table of its own")
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
    let scale = arguments.scale.scale(warehouses);
    scale.validate()?;
    // The first rows follow from the seed that is printed, too.
    let seed = setting.common.seed();
    setting.common.seed = Some(seed);
    let total = arguments.ops.saturating_add(setting.threads.warm_up.unwrap_or(arguments.ops / 10));
    let size = arguments.scale.name();
    let case = Case {
        title: format!(
            "TPC-C over {}: {} transactions on {} ({size} scale); without keying and think times, so \
             these are no tpmC",
            arguments.over.in_words(),
            show_count(arguments.ops),
            plural(u64::from(warehouses), "warehouse"),
        ),
        parameters: json!({
            "bench": "tpcc", "over": arguments.over.to_string(), "warehouses": warehouses, "scale": size, "ops": arguments.ops,
        }),
        operations: arguments.ops,
        data_bytes: scale.bytes().saturating_add(total.saturating_mul(BYTES_PER_TX)),
        make: &|_| Tpcc::<R>::new(scale, seed),
    };
    series::run_and_show(&case, &setting)
}
