//! `perdura-lab bench hash | rbtree | bptree`: keys inserted if absent, deleted if there.

use crate::bench::options::Setting;
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, plural, show_count};
use perdura_workloads::toggle::{KeySet, Toggles};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Keys inserted or deleted in a transaction; as large as those of the LOC paper are 4 in
    /// hash, 8 in rbtree, 6 in bptree
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    ops_per_tx: u32,

    /// Entries at first, and about so many all the time; twice as many keys are drawn
    #[arg(long, value_name = "NUMBER", default_value = "65536", value_parser = quantity::count)]
    entries: u64,

    /// Transactions
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "500k", value_parser = quantity::count)]
    ops: u64,

    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run<K: KeySet>(arguments: &Arguments) -> Outcome {
    let Arguments { ops_per_tx, entries, ops, setting } = arguments;
    let case = Case {
        title: format!(
            "{}: {} in a transaction, {} transactions on {} entries",
            K::NAME,
            plural(u64::from(*ops_per_tx), "key"),
            show_count(*ops),
            show_count(*entries),
        ),
        parameters: json!({
            "bench": K::NAME, "ops_per_tx": ops_per_tx, "entries": entries, "ops": ops,
        }),
        operations: *ops,
        data_bytes: entries.saturating_mul(K::BYTES_PER_ENTRY),
        make: &|_| Toggles::<K>::new(*entries, *ops_per_tx as usize),
    };
    series::run_and_show(&case, setting)
}
