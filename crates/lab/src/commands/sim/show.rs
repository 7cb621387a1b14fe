//! The output of `perdura-lab sim`.

use super::Arguments;
use crate::csv;
use crate::failure::Outcome;
use crate::output;
use crate::quantity::{plural, show_count, show_ns};
use crate::simulate::{Run, TransactionsChoice};
use crate::workload::{show_sizes, values_as_json};
use perdura::EngineKind;
use perdura_crashtest::Losses;
use perdura_machine::{CheckpointStats, MachineConfig};
use perdura_workloads::list::Values;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The figures of each engine's run beside those of the first, the baseline.
struct Figures {
    per_second: f64,
    relative: f64,
    ns: f64,
    reads: f64,
    writes: f64,
    traffic: f64,
    fence_share: f64,
    miss: f64,
    wear: u64,
    energy_nj: Option<f64>,
}

impl Figures {
    fn of(run: &Run, baseline: &Run) -> Self {
        let statistics = &run.statistics;
        let per_second = |run: &Run| run.operations as f64 / (run.statistics.time_ns / 1e9);
        let each = |count: u64| count as f64 / run.operations as f64;
        let home = &statistics.memory.home;
        let stored: u64 = statistics.cores.iter().map(|core| core.stored_bytes).sum();
        let first = statistics.caches.levels.first().copied().unwrap_or_default();
        Figures {
            per_second: per_second(run),
            relative: per_second(run) / per_second(baseline),
            ns: statistics.time_ns * statistics.cores.len() as f64 / run.operations as f64,
            reads: each(home.reads),
            writes: each(home.writes),
            traffic: home.written_bytes as f64 / stored.max(1) as f64,
            fence_share: statistics.fence_share(),
            miss: first.misses as f64 / (first.hits + first.misses).max(1) as f64,
            wear: home.wear.map_or(0, |wear| wear.most),
            energy_nj: home.energy_nj.map(|energy| energy / run.operations as f64),
        }
    }
}

pub(super) fn report(
    arguments: &Arguments,
    machine: &MachineConfig,
    runs: &[(EngineKind, Run)],
) -> Outcome {
    let Some(first) = runs.first() else { return Ok(()) };
    let (baseline, values) = (&first.1, &arguments.values()?);
    if arguments.json {
        return output::print_json(&as_json(arguments, values, machine, runs));
    }
    if arguments.csv {
        return csv::print(&as_json(arguments, values, machine, runs), &["engines"]);
    }
    output::print(heading(arguments, values, machine))?;
    let rows = runs.iter().map(|(engine, run)| {
        let figures = Figures::of(run, baseline);
        [
            engine.to_string(),
            show_count(figures.per_second as u64),
            format!("{:.3}", figures.relative),
            show_ns(figures.ns),
            format!("{:.2}", figures.reads),
            format!("{:.2}", figures.writes),
            format!("{:.3}", figures.traffic),
            format!("{:.1} %", figures.fence_share * 100.0),
            format!("{:.1} %", figures.miss * 100.0),
            show_count(figures.wear),
            figures.energy_nj.map_or("-".to_owned(), |energy| format!("{energy:.1}")),
        ]
    });
    let header = [
        "engine",
        "tx/s",
        "relative",
        "tx",
        "NVM reads/tx",
        "NVM writes/tx",
        "written/stored",
        "in fences",
        "L1 misses",
        "most worn",
        "nJ/tx",
    ];
    output::print(output::table(header, rows))?;
    if arguments.cuts > 0 {
        output::print(losses(runs))?;
    }
    if runs.iter().any(|(_, run)| run.statistics.checkpoints.epochs > 0) {
        output::print(checkpoints(runs))?;
    }
    if arguments.transactions.is_some() {
        output::print(paths(runs))?;
    }
    if !baseline.sizes.is_empty() {
        output::print(show_sizes(baseline.sizes.iter().copied()))?;
    }
    if !baseline.counts.is_empty() {
        output::print(counts(runs))?;
    }
    let accesses: u64 = runs.iter().map(|(_, run)| run.statistics.accesses).sum();
    let seconds: f64 = runs.iter().map(|(_, run)| run.seconds).sum();
    output::print(format!(
        "simulated: {} accesses in {seconds:.2} s, {:.1} million a second, engine and workload included",
        show_count(accesses),
        accesses as f64 / seconds / 1e6,
    ))?;
    output::print(verdict(runs, first))
}

/// The conclusion.
fn verdict(runs: &[(EngineKind, Run)], (first, baseline): &(EngineKind, Run)) -> String {
    let safe = runs.iter().filter(|(engine, _)| engine.is_crash_consistent());
    let relative = safe.map(|(engine, run)| (engine, relative(run, baseline)));
    match relative.max_by(|(_, left), (_, right)| left.total_cmp(right)) {
        Some((engine, relative)) => format!(
            "verdict: every run's data was checked, and is right; the fastest crash-consistent engine is {engine}, at \
             {relative:.3} of {first}"
        ),
        None => "verdict: every run's data was checked, and is right".to_owned(),
    }
}

/// The run's parameters.
pub(super) fn heading(arguments: &Arguments, values: &Values, machine: &MachineConfig) -> String {
    let hardware =
        arguments.transactions.map(|own| format!("hardware transactions {}", own.name()));
    format!(
        "{}, {values}, on {} ({}), {}{}: {} after {}; seed {}",
        arguments.workload.row.name,
        machine.name,
        machine.title,
        plural(arguments.cores as u64, "core"),
        [arguments.window.remark(), arguments.knobs.remark(), hardware]
            .into_iter()
            .flatten()
            .map(|remark| format!(", {remark}"))
            .collect::<String>(),
        plural(arguments.ops, "transaction"),
        show_count(arguments.warm_up()),
        arguments.seed,
    )
}

/// A run's throughput beside the baseline's.
pub(super) fn relative(run: &Run, baseline: &Run) -> f64 {
    Figures::of(run, baseline).relative
}

/// Lines that power cuts would have taken, over all cuts.
fn losses(runs: &[(EngineKind, Run)]) -> comfy_table::Table {
    let rows = runs.iter().filter(|(engine, _)| engine.skips()).map(|(engine, run)| {
        let Losses { cuts, deferred, inconsistent, detected, uncorrected, refused } = run.losses;
        let counts = [cuts, deferred, inconsistent, detected, uncorrected, refused].map(show_count);
        let [cuts, deferred, inconsistent, detected, uncorrected, refused] = counts;
        [engine.to_string(), cuts, deferred, inconsistent, detected, uncorrected, refused]
    });
    let header = [
        "engine",
        "power cuts",
        "lines left to the caches",
        "inconsistent",
        "detected",
        "not corrected",
        "cuts refused",
    ];
    output::table(header, rows)
}

/// What the ends of a mechanism's epochs took: a line for each engine.
fn checkpoints(runs: &[(EngineKind, Run)]) -> comfy_table::Table {
    let rows = runs.iter().map(|(engine, run)| {
        let CheckpointStats { epochs, wait_ps, lines, mechanism_lines } =
            run.statistics.checkpoints;
        let each = |count: u64| format!("{:.1}", count as f64 / epochs.max(1) as f64);
        [
            engine.to_string(),
            show_count(epochs),
            show_ns(wait_ps.as_ns() / epochs.max(1) as f64),
            format!("{:.2} %", run.statistics.checkpoint_share() * 100.0),
            each(lines),
            each(mechanism_lines),
        ]
    });
    let header = [
        "engine",
        "checkpoints",
        "each",
        "of the time",
        "lines home in each",
        "mechanism's own lines in each",
    ];
    output::table(header, rows)
}

/// On which path transactions have committed, and why those in hardware were lost: a line for each engine that speculates.
fn paths(runs: &[(EngineKind, Run)]) -> comfy_table::Table {
    let speculating = runs.iter().filter(|(_, run)| run.counters.speculations() > 0);
    let rows = speculating.map(|(engine, run)| {
        let own = &run.counters;
        let share = own.hardware_commits as f64 / own.speculations() as f64 * 100.0;
        let ended = [own.hardware_commits, own.hardware_fallbacks].map(show_count);
        let lost = [
            own.hardware_conflicts,
            own.hardware_capacity,
            own.hardware_interrupts,
            own.hardware_others,
            own.hardware_locked,
            own.hardware_cancelled,
        ];
        let ([by_hardware, by_fallback], [a, b, c, d, e, f]) = (ended, lost.map(show_count));
        let share = format!("{share:.1} %");
        [engine.to_string(), by_hardware, by_fallback, share, a, b, c, d, e, f]
    });
    let header = [
        "engine",
        "by hardware",
        "by fallback",
        "success rate",
        "lost: conflict",
        "capacity",
        "interrupt",
        "other",
        "lock taken",
        "rolled back",
    ];
    output::table(header, rows)
}

/// The workload's counters, by the machine's clock.
fn counts(runs: &[(EngineKind, Run)]) -> comfy_table::Table {
    let rows = runs.iter().flat_map(|(engine, run)| {
        let seconds = run.statistics.time_ns / 1e9;
        run.counts.iter().map(move |(name, count)| {
            let rate = show_count((*count as f64 / seconds) as u64);
            [engine.to_string(), (*name).to_owned(), show_count(*count), rate]
        })
    });
    output::table(["engine", "kind", "count", "a second"], rows)
}

/// All of it.
pub(super) fn as_json(
    arguments: &Arguments,
    values: &Values,
    machine: &MachineConfig,
    runs: &[(EngineKind, Run)],
) -> Value {
    let rows: Vec<Value> = runs
        .iter()
        .map(|(engine, run)| {
            let figures = Figures::of(run, &runs[0].1);
            json!({
                "engine": engine.to_string(),
                "transactions": run.operations,
                "per_second": figures.per_second,
                "relative_to_baseline": figures.relative,
                "ns_per_transaction": figures.ns,
                "nvm_reads_per_transaction": figures.reads,
                "nvm_writes_per_transaction": figures.writes,
                "written_bytes_per_stored_byte": figures.traffic,
                "share_of_time_in_fences": figures.fence_share,
                "l1_miss_ratio": figures.miss,
                "engine_counters": run.counters,
                "power_cuts": run.losses,
                "sizes": run.sizes.iter().copied().collect::<BTreeMap<_, _>>(),
                "counts": run.counts.iter().copied().collect::<BTreeMap<_, _>>(),
                "machine": run.statistics,
            })
        })
        .collect();
    json!({
        "sim": arguments.workload.row.name,
        "parameters": values_as_json(values),
        "machine": machine,
        "cores": arguments.cores,
        "transactions": arguments.transactions.map(TransactionsChoice::name),
        "window": arguments.window,
        "tuning": arguments.knobs,
        "warm_up": arguments.warm_up(),
        "seed": arguments.seed,
        "baseline": runs.first().map(|(engine, _)| engine.to_string()),
        "engines": rows,
    })
}
