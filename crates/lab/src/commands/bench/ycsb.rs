//! `perdura-lab bench ycsb`: YCSB's core workloads, in process.

use crate::bench::keyspace::Served;
use crate::bench::options::{Over, Setting};
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, show_count};
use perdura_workloads::records::Plain;
use perdura_workloads::ycsb::{
    Distribution, Keyed, Letter, Options, Order, Own, Shape, Table, YcsbOn,
};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which of the core workloads: a, b, c, d, e or f
    #[arg(long, value_name = "LETTER", default_value = "a")]
    workload: Letter,

    /// Where the records are
    #[arg(long, value_enum, default_value_t = Over::Table)]
    over: Over,

    /// Records loaded
    #[arg(long, value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
    records: u64,

    /// Operations
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
    ops: u64,

    /// How keys are chosen: zipfian (scrambled, as YCSB has it), latest or uniform [default:
    /// the workload's own]
    #[arg(long, value_name = "NAME")]
    distribution: Option<Distribution>,

    /// Name records by their number, so that they are inserted in key order
    #[arg(long)]
    ordered: bool,

    /// Fields in a record
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    fields: usize,

    /// Bytes in a field
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    field_bytes: usize,

    /// Operations in a transaction
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    ops_per_tx: u64,

    #[command(flatten)]
    setting: Setting,
}

impl Arguments {
    fn options(&self, operations: u64) -> Options {
        let mut options = Options::new(self.workload, self.records, operations);
        options.distribution = self.distribution.unwrap_or(options.distribution);
        options.order = if self.ordered { Order::Ordered } else { Order::Hashed };
        options.shape = Shape { fields: self.fields, field_bytes: self.field_bytes };
        options.operations_per_transaction = self.ops_per_tx;
        options
    }

    /// Approximate bytes of all records; inserts at most double them.
    fn data_bytes(&self, options: &Options) -> u64 {
        let Shape { fields, .. } = options.shape;
        // The key and its entries; the names of fields, and the sorted set.
        let besides = match self.over {
            Over::Table => 256,
            Over::Plain | Over::Store => 512 + 24 * fields as u64,
        };
        let inserts = (self.ops as f64 * self.workload.mix().insert) as u64;
        let records = self.records.saturating_add(2 * inserts);
        records.saturating_mul(options.shape.record_bytes() as u64 + besides)
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    match arguments.over {
        Over::Table => run_on::<Own>(arguments),
        Over::Plain => run_on::<Keyed<Plain>>(arguments),
        Over::Store => run_on::<Keyed<Served>>(arguments),
    }
}

fn run_on<T: Table>(arguments: &Arguments) -> Outcome {
    let options = arguments.options(arguments.ops);
    let case = Case {
        title: format!(
            "YCSB {} over {}: {} operations on {} records of {} x {} bytes, {} keys{}",
            arguments.workload,
            arguments.over.in_words(),
            show_count(arguments.ops),
            show_count(arguments.records),
            arguments.fields,
            arguments.field_bytes,
            options.distribution,
            match arguments.ops_per_tx {
                1 => String::new(),
                several => format!(", {several} operations in a transaction"),
            }
        ),
        parameters: json!({
            "bench": "ycsb",
            "workload": arguments.workload.to_string(),
            "over": arguments.over.to_string(),
            "records": arguments.records,
            "ops": arguments.ops,
            "distribution": options.distribution.to_string(),
            "ordered": arguments.ordered,
            "fields": arguments.fields,
            "field_bytes": arguments.field_bytes,
            "ops_per_tx": arguments.ops_per_tx,
        }),
        operations: arguments.ops,
        data_bytes: arguments.data_bytes(&options),
        make: &|operations| YcsbOn::<T>::new(arguments.options(operations)),
    };
    series::run_and_show(&case, &arguments.setting)
}
