//! `perdura-lab bench hash-map` and `ordered-map`: inserts, removals and look-ups.

use crate::bench::options::Setting;
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, show_count};
use perdura_workloads::map::{Maps, OnHashMap, OnOrderedMap, WordMap};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Keys that are drawn; half of them are there
    #[arg(long, value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
    keys: u64,

    /// Operations: 25 % inserts, 25 % removals, 50 % look-ups
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "2M", value_parser = quantity::count)]
    ops: u64,

    /// Each thread has a map of its own, with its part of the keys
    #[arg(long)]
    disjoint: bool,

    #[command(flatten)]
    setting: Setting,
}

/// One of the heap's maps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Hash,
    /// A B+ tree.
    Ordered,
}

/// Most bytes that a key takes, half-empty nodes included.
pub(super) const BYTES_PER_KEY: u64 = 64;

pub(super) fn run(arguments: &Arguments, kind: Kind) -> Outcome {
    let maps = if arguments.disjoint { arguments.setting.threads.threads as usize } else { 1 };
    match kind {
        Kind::Hash => run_on(arguments, "hash-map", &|_| OnHashMap::new(arguments.keys, maps)),
        Kind::Ordered => {
            run_on(arguments, "ordered-map", &|_| OnOrderedMap::new(arguments.keys, maps))
        }
    }
}

fn run_on<M: WordMap>(
    arguments: &Arguments,
    kind: &str,
    make: &dyn Fn(u64) -> perdura_workloads::Outcome<Maps<M>>,
) -> Outcome {
    let Arguments { keys, ops, disjoint, setting } = arguments;
    let case = Case {
        title: format!(
            "{kind}: {} operations (25 % inserts, 25 % removals, 50 % look-ups) on {} keys{}",
            show_count(*ops),
            show_count(*keys),
            if *disjoint { ", a map for each thread" } else { "" }
        ),
        parameters: json!({
            "bench": kind, "keys": keys, "ops": ops, "disjoint": disjoint,
        }),
        operations: *ops,
        data_bytes: keys.saturating_mul(BYTES_PER_KEY),
        make,
    };
    series::run_and_show(&case, setting)
}
