//! `perdura-lab bench sps`: random swaps in an array of words.

use crate::bench::options::Setting;
use crate::bench::series::{self, Case};
use crate::failure::Outcome;
use crate::quantity::{self, plural, show_count};
use perdura_workloads::sps::Sps;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Swaps in a transaction
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    swaps: u32,

    /// Words in the array
    #[arg(long, value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
    entries: u64,

    /// Transactions
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "2M", value_parser = quantity::count)]
    ops: u64,

    /// Each thread swaps in its own part of the array
    #[arg(long)]
    disjoint: bool,

    /// Both entries of a swap are in one aligned block of this number of words
    #[arg(long, value_name = "WORDS")]
    within: Option<u64>,

    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { swaps, entries, ops, disjoint, within, setting } = arguments;
    let sps =
        Sps { entries: *entries, swaps: *swaps as usize, disjoint: *disjoint, within: *within };
    sps.validate(setting.threads.threads as usize)?;
    let case = Case {
        title: format!(
            "SPS: {} in a transaction, {} transactions on {} words{}{}",
            plural(u64::from(*swaps), "swap"),
            show_count(*ops),
            show_count(*entries),
            if *disjoint { ", threads apart" } else { "" },
            within.map_or_else(String::new, |words| format!(", each within {words} words")),
        ),
        parameters: json!({
            "bench": "sps", "swaps": swaps, "entries": entries, "ops": ops, "disjoint": disjoint,
            "within": within,
        }),
        operations: *ops,
        data_bytes: entries * 8,
        make: &|_| Ok(sps.clone()),
    };
    series::run_and_show(&case, setting)
}
