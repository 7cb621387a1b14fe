//! `perdura-lab bench limit`: the hardware's cost, and the engines' smallest transactions as multiples of one flushed line
//! and a fence, and of a bare redo log for the same stores.

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
use crate::workload::Made;
use perdura_workloads::limit::{Bench, Primitive, Timing};
use perdura_workloads::packed::Packed;
use perdura_workloads::random::Random;
use perdura_workloads::sps::Sps;
use perdura_workloads::word::Word;
use serde::Serialize;
use serde_json::json;

/// Batches of a millisecond or more for each primitive.
const BATCHES: usize = 31;
/// Words in the arrays of the smallest transactions.
const WORDS: u64 = 1_000_000;
/// Bytes for the bare log and its array.
const BARE_BYTES: u64 = 40 << 20;
/// Swaps in the larger transactions.
const SWAPS: [usize; 3] = [1, 4, 16];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Transactions of each kind
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
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
    name: String,
    line_and_fence_ns: Spread,
    /// The cost of a bare redo log for it.
    bare_log_ns: Spread,
    engines: Vec<EngineReport>,
}

/// The work of a transaction.
#[derive(Clone, Copy)]
enum What {
    Add,
    Swap(usize),
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let common = Common { seed: Some(arguments.common.seed()), ..arguments.common.clone() };
    let stage = Stage::within(&arguments.folder)?;
    let (memory, primitives) = primitives(&common, &stage)?;
    let kinds = [What::Add].into_iter().chain(SWAPS.map(What::Swap));
    let transactions = kinds
        .map(|what| smallest(what, arguments.ops, &common, &stage))
        .collect::<Outcome<Vec<_>>>()?;
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
    series::with_area(&stage.site, common.domain.0, series::BASELINE_BYTES, |memory| {
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

/// Measures one kind of transaction on every engine, after the bare log.
fn smallest(what: What, operations: u64, common: &Common, stage: &Stage) -> Outcome<Smallest> {
    let bare_log_ns = bare_log(what, operations, common, stage)?;
    let (name, report) = match what {
        What::Add => {
            let make = |_| Ok(Made::of(Word::new(WORDS)?, WORDS * 8));
            ("add to a word".to_owned(), on_engines(&make, operations, common, stage)?)
        }
        What::Swap(swaps) => {
            let sps = Sps { entries: WORDS, swaps, disjoint: false, within: None };
            let make = |_| Ok(Made::of(sps.clone(), WORDS * 8));
            let name = format!("swap {} words (SPS)", 2 * swaps);
            (name, on_engines(&make, (operations / swaps as u64).max(1), common, stage)?)
        }
    };
    let Report { line_and_fence_ns, engines, .. } = report;
    Ok(Smallest { name, line_and_fence_ns, bare_log_ns, engines })
}

fn on_engines(
    make: &dyn Fn(u64) -> perdura_workloads::Outcome<Made>,
    operations: u64,
    common: &Common,
    stage: &Stage,
) -> Outcome<Report> {
    let case = Case { title: String::new(), parameters: json!({}), operations, make };
    series::run(&case, common, &threads(), &Knobs::default(), stage)
}

/// The cost of a bare redo log for a transaction, measured as often as the engines.
fn bare_log(what: What, operations: u64, common: &Common, stage: &Stage) -> Outcome<Spread> {
    let seed = common.seed();
    series::with_area(&stage.site, common.domain.0, BARE_BYTES, |memory| {
        let mut bare = Packed::new(memory, WORDS)?;
        let mut added = 0;
        let mut once = |count: u64, stream: u64| {
            let mut random = Random::new(seed, stream);
            let took = match what {
                What::Add => {
                    added += count;
                    bare.additions(count, &mut random)
                }
                What::Swap(swaps) => bare.swaps(swaps, count, &mut random),
            };
            took.as_nanos() as f64 / count as f64
        };
        let count = match what {
            What::Add => operations,
            What::Swap(swaps) => (operations / swaps as u64).max(1),
        };
        once((count / 10).max(1), 0);
        let times: Vec<f64> = (1..=u64::from(common.repeat)).map(|run| once(count, run)).collect();
        bare.check(added)?;
        Ok(Spread::of(times))
    })?
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
                    engine.thread_ns_per_operation.show(show_ns),
                    format!("{:.2}", engine.multiple.median),
                    smallest.bare_log_ns.show(show_ns),
                    format!(
                        "{:.2}",
                        engine.thread_ns_per_operation.median / smallest.bare_log_ns.median
                    ),
                ]
            })
        });
        let transactions =
            table(["transaction", "time", "x line and fence", "bare log", "x bare log"], rows);
        format!(
            "what one flushed line and a fence cost here, and what engines make of it; seed {}\n\
             {}\n{}\n\n{primitives}\n\n\
             small transactions on 1,000,000 words, {} additions or swaps for each figure, their \
             answers checked; the bare log is the least that redo logging takes:\n\n\
             {transactions}",
            self.seed,
            self.machine,
            self.memory,
            show_count(ops)
        )
    }
}
