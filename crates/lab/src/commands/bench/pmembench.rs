//! `perdura-lab bench ctree` and `hashmap-tx`: pmembench's insertions, removals and look-ups.

use crate::bench::options::Setting;
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, show_count};
use perdura_workloads::pmembench::{MapBench, Operation, PmdkMap};
use serde_json::json;

/// What is done with the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Insert,
    Remove,
    Get,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What is done with the keys, each in a transaction; all are there before if they are not inserted
    #[arg(long, value_enum, default_value_t = What::Insert)]
    op: What,

    /// Keys, all threads together
    #[arg(long, value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    keys: u64,

    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run<M: PmdkMap>(arguments: &Arguments) -> Outcome {
    let Arguments { op, keys, .. } = arguments;
    let (operation, name) = match op {
        What::Insert => (Operation::Insert, "insert"),
        What::Remove => (Operation::Remove, "remove"),
        What::Get => (Operation::Get, "get"),
    };
    let mut setting = arguments.setting.clone();
    // The keys follow from the printed seed, too.
    let seed = setting.common.seed();
    setting.common.seed = Some(seed);
    let make = |_| MapBench::<M>::new(operation, *keys, seed);
    let case = Case {
        title: format!("{}: {name} {} keys", M::NAME, show_count(*keys)),
        parameters: json!({ "bench": M::NAME, "op": name, "keys": keys }),
        operations: *keys,
        data_bytes: make(0)?.bytes(),
        make: &make,
    };
    series::run_and_show(&case, &setting)
}
