//! `perdura bench limit`: what the hardware charges, and the engines' smallest transactions as
//! multiples of one flushed line and a fence.

use crate::bench::knobs::Knobs;
use crate::bench::options::{Common, Folder, Threads};
use crate::bench::report::{EngineReport, Report};
use crate::bench::series::{self, Case};
use crate::bench::spread::Spread;
use crate::bench::stage::Stage;
use crate::bench::window::Window;
use crate::failure::Outcome;
use crate::machine::Machine;
use crate::output::{print, print_json, table};
use crate::quantity::{self, show_count, show_ns};
use perdura_workloads::limit::{Bench, Primitive, Timing};
use perdura_workloads::overwrite::Overwrite;
use perdura_workloads::sps::Sps;
use serde::Serialize;
use serde_json::json;

/// Batches of a millisecond or more for each primitive.
const BATCHES: usize = 31;
/// Words in the arrays of the smallest transactions.
const WORDS: u64 = 1_000_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Transactions of each kind
    #[arg(long, value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
    ops: u64,

    #[command(flatten)]
    folder: Folder,

    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Limits {
    machine: Machine,
    memory: String,
    seed: u64,
    line_and_fence_ns: f64,
    primitives: Vec<Timing>,
    transactions: Vec<Smallest>,
}

/// One of the smallest transactions, on every engine.
#[derive(Serialize)]
struct Smallest {
    name: &'static str,
    line_and_fence_ns: Spread,
    engines: Vec<EngineReport>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let common = Common { seed: Some(arguments.common.seed()), ..arguments.common.clone() };
    let stage = Stage::within(&arguments.folder)?;
    let (memory, primitives) = primitives(&common, &stage)?;
    let word = one_word(arguments.ops, &common, &stage)?;
    let swap = one_swap(arguments.ops, &common, &stage)?;
    let transactions = vec![word, swap];
    let limits = Limits {
        machine: Machine::here(),
        memory,
        seed: common.seed(),
        line_and_fence_ns: primitives[0].median_ns,
        primitives,
        transactions,
    };
    if common.json { print_json(&limits) } else { print(limits.text(arguments.ops)) }
}

fn primitives(common: &Common, stage: &Stage) -> Outcome<(String, Vec<Timing>)> {
    series::with_area(&stage.site, common.domain.0, |memory| {
        let mut bench = Bench::new(memory, 0..series::BASELINE_BYTES, common.seed());
        let timings = Primitive::ALL.map(|primitive| bench.time(primitive, BATCHES));
        (memory.describe(), timings.into())
    })
}

fn threads() -> Threads {
    Threads {
        threads: 1,
        sample: 0,
        rate: None,
        pin: false,
        window: Window::CLOSED_LOOP,
        warm_up: None,
    }
}

fn one_word(operations: u64, common: &Common, stage: &Stage) -> Outcome<Smallest> {
    let case = Case {
        title: String::new(),
        parameters: json!({}),
        operations,
        data_bytes: WORDS * 16,
        make: &|_| Overwrite::new(WORDS, 8, false),
    };
    let report = series::run(&case, common, &threads(), &Knobs::default(), stage)?;
    Ok(smallest("write one word", report))
}

fn one_swap(operations: u64, common: &Common, stage: &Stage) -> Outcome<Smallest> {
    let sps = Sps { entries: WORDS, swaps: 1, disjoint: false };
    let case = Case {
        title: String::new(),
        parameters: json!({}),
        operations,
        data_bytes: WORDS * 8,
        make: &|_| Ok(sps.clone()),
    };
    let report = series::run(&case, common, &threads(), &Knobs::default(), stage)?;
    Ok(smallest("swap two words (SPS)", report))
}

fn smallest(name: &'static str, report: Report) -> Smallest {
    let Report { line_and_fence_ns, engines, .. } = report;
    Smallest { name, line_and_fence_ns, engines }
}

impl Limits {
    fn text(&self, ops: u64) -> String {
        let multiple = |ns: f64| format!("{:.2}", ns / self.line_and_fence_ns);
        let primitives = table(
            ["what", "median", "least", "most", "x line and fence"],
            self.primitives.iter().map(|timing| {
                [
                    timing.name.clone(),
                    show_ns(timing.median_ns),
                    show_ns(timing.least_ns),
                    show_ns(timing.most_ns),
                    multiple(timing.median_ns),
                ]
            }),
        );
        let rows = self.transactions.iter().flat_map(|smallest| {
            smallest.engines.iter().map(|engine| {
                [
                    format!("{}: {}", engine.engine, smallest.name),
                    engine.ns_per_operation.show(show_ns),
                    show_ns(smallest.line_and_fence_ns.median),
                    format!("{:.2}", engine.multiple.median),
                ]
            })
        });
        let transactions =
            table(["transaction", "time", "line and fence then", "x line and fence"], rows);
        format!(
            "what one flushed line and a fence cost here, and what engines make of it; seed {}\n\
             {}\n{}\n\n{primitives}\n\n\
             the smallest transactions, {} each on 1,000,000 words, their answers checked:\n\n\
             {transactions}",
            self.seed,
            self.machine,
            self.memory,
            show_count(ops)
        )
    }
}
