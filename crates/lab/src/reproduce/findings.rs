//! Figures computed from the runs, each for a place, workload, number of threads and engine.
//!
//! A figure that compares two runs is computed within each repetition, and its median is taken afterwards: noise
//! common to both cancels.

use super::kind::Kind;
use super::plan::Place;
use super::quantity::Quantity::{self, *};
use super::quantity::Step;
use super::runs::{Cell, DramSample, Sample};
use crate::bench::spread::Spread;
use perdura::Counters;
use perdura_crashtest::Losses;
use perdura_matrices::cost::{Cost, Costs};
use perdura_workloads::reuse::Reuse;
use serde::Serialize;
use std::collections::BTreeMap;

/// If an engine adds less than this share of the base engine's time, that is too little to break down.
const LEAST_ADDED: f64 = 0.03;

/// Writes that a line endures: those of phase-change memory, 10^6 to 10^8 (LOC 2.1).
const ENDURANCE: f64 = 1e8;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    #[serde(flatten)]
    pub(crate) cell: Cell,
    pub(crate) quantity: Quantity,
    #[serde(flatten)]
    pub(crate) spread: Spread,
    /// Whether it is of runs with too few epochs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) few_epochs: bool,
}

/// The names of the engines that a cell's engine is compared with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ComparedEngines<'b> {
    /// The engine that `bases` names, or else the base.
    pub(crate) base: Option<&'b str>,
    /// The workload's base.
    pub(crate) workload_base: Option<&'b str>,
    pub(crate) server_baseline: Option<&'b str>,
    /// The number of threads of the base's runs, if not that of the compared run.
    pub(crate) base_threads: Option<u32>,
}

/// All figures of `samples`; `compared_engines` gives the engines that a cell's engine is compared with.
pub(crate) fn figures<'b>(
    kind: Kind,
    compared_engines: impl Fn(&Cell) -> ComparedEngines<'b>,
    samples: &[Sample],
) -> Vec<Figure> {
    let mut figures = Vec::new();
    for cell in cells(samples) {
        let rounds = rounds(&cell, compared_engines(&cell), samples);
        for quantity in Quantity::of(kind) {
            let values: Vec<f64> =
                rounds.iter().filter_map(|round| value(quantity, round)).collect();
            if values.len() == rounds.len() && !values.is_empty() {
                let spread = Spread::of(values);
                let few_epochs = rounds.iter().any(Round::has_few_epochs);
                figures.push(Figure { cell: cell.clone(), quantity, spread, few_epochs });
            }
        }
    }
    figures
}

/// The means of these figures over the workloads `over`, each for the same engine, setting and place, under `name`.
pub(crate) fn means(figures: &[Figure], over: &[String], name: &str) -> Vec<Figure> {
    let mut means: Vec<Figure> = Vec::new();
    for figure in figures.iter().filter(|figure| over.contains(&figure.cell.workload)) {
        let cell = Cell { workload: name.to_owned(), ..figure.cell.clone() };
        if means.iter().any(|mean| mean.cell == cell && mean.quantity == figure.quantity) {
            continue;
        }
        let alike = figures.iter().filter(|other| {
            let here = Cell { workload: name.to_owned(), ..other.cell.clone() };
            over.contains(&other.cell.workload) && here == cell && other.quantity == figure.quantity
        });
        let alike: Vec<&Figure> = alike.collect();
        // A mean over fewer workloads would be another quantity.
        if alike.len() == over.len() {
            let medians = alike.iter().map(|other| other.spread.median);
            let spread = Spread::of([medians.sum::<f64>() / alike.len() as f64]);
            let few_epochs = alike.iter().any(|other| other.few_epochs);
            means.push(Figure { cell, quantity: figure.quantity, spread, few_epochs });
        }
    }
    means
}

/// The workload's name in a figure that is a mean over several.
pub(crate) const MEAN: &str = "mean";
/// The same where the mean is over accepted workloads alone.
pub(crate) const MEAN_OF_ACCEPTED: &str = "mean of accepted";

/// The cells in the order in which they were first run.
fn cells(samples: &[Sample]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for sample in samples {
        if !cells.contains(&sample.cell) {
            cells.push(sample.cell.clone());
        }
    }
    cells
}

/// A run, and those of the same repetition that it is compared with.
struct Round<'a> {
    own: &'a Sample,
    unflushed: Option<&'a Sample>,
    /// `None` for the base's own run.
    base: Option<&'a Sample>,
    /// `None` for the workload's base's own run.
    workload_base: Option<&'a Sample>,
    /// `None` for the baseline server's own run.
    server_baseline: Option<&'a Sample>,
}

impl Round<'_> {
    /// Whether one of its runs has too few epochs.
    fn has_few_epochs(&self) -> bool {
        let Round { own, base, workload_base, .. } = *self;
        [Some(own), base, workload_base].into_iter().flatten().any(Sample::has_few_epochs)
    }
}

fn rounds<'a>(cell: &Cell, names: ComparedEngines<'_>, samples: &'a [Sample]) -> Vec<Round<'a>> {
    let is_other = |other: Option<&str>, threads: u32, sample: &Sample| {
        let wanted = Cell { threads, engine: other.map(str::to_owned), ..cell.clone() };
        other.is_some() && wanted != *cell && sample.cell == wanted
    };
    let own_threads = cell.threads;
    let base_threads = names.base_threads.unwrap_or(own_threads);
    let own = samples.iter().filter(|sample| sample.cell == *cell && !sample.unflushed);
    let same_repetition = |own: &Sample, fits: &dyn Fn(&Sample) -> bool| {
        samples.iter().find(|sample| sample.repetition == own.repetition && fits(sample))
    };
    own.map(|own| Round {
        own,
        unflushed: same_repetition(own, &|sample| sample.cell == *cell && sample.unflushed),
        base: same_repetition(own, &|sample| is_other(names.base, base_threads, sample)),
        workload_base: same_repetition(own, &|sample| {
            is_other(names.workload_base, base_threads, sample)
        }),
        server_baseline: same_repetition(own, &|sample| {
            is_other(names.server_baseline, own_threads, sample)
        }),
    })
    .collect()
}

fn value(quantity: Quantity, round: &Round<'_>) -> Option<f64> {
    let Round { own, unflushed, base, workload_base, server_baseline } = *round;
    // Only if compared with another engine than the base; compared with the base, the share is the figure.
    let other = base
        .filter(|base| workload_base.is_some_and(|workload_base| workload_base.cell != base.cell));
    let per_commit =
        |count: u64| (own.counters.commits > 0).then(|| count as f64 / own.counters.commits as f64);
    let counters = &own.counters;
    match quantity {
        PerSecond => Some(own.per_second),
        ThroughputChange => Some(change(base?.per_second, own.per_second)?),
        BaselineChange => change(server_baseline?.per_second, own.per_second),
        AnswerP99 if own.cell.place != Place::Served => None,
        AnswerP99 | P99 => own.p99_ns.map(|ns| ns as f64),
        P99Change => change(base?.p99_ns? as f64, own.p99_ns? as f64),
        Added => change(base?.ns_per_operation, own.ns_per_operation),
        PersistenceShare => persistence_share(base?, unflushed?, own),
        LogFlushes => per_commit(counters.write_backs_log),
        DataFlushes => per_commit(counters.write_backs_data),
        ChecksumFlushes => per_commit(counters.write_backs_checksum),
        OtherFlushes => per_commit(counters.write_backs_metadata),
        Flushes => per_commit(counters.write_backs()),
        FlushChange => flush_change(base?, own, |sample| sample.counters.write_backs()),
        FlushChangeWithoutLog => flush_change(base?, own, |sample| {
            sample.counters.write_backs() - sample.counters.write_backs_log
        }),
        MemoryWrites => per_commit(own.memory_writes?),
        MemoryWriteChange => {
            let each = |sample: &Sample| {
                Some(sample.memory_writes? as f64 / sample.counters.commits.max(1) as f64)
            };
            change(each(base?)?, each(own)?)
        }
        Dirtiness => dirtiness(own),
        DirtinessChange => change(dirtiness(base?)?, dirtiness(own)?),
        Eighths(words) => eighths(own, words),
        ObjectTime(step) => Some(cost(own.checksums.as_ref()?, step)?.nanoseconds),
        ObjectLines(step) => Some(cost(own.checksums.as_ref()?, step)?.lines),
        ObjectChange(step) => {
            let costs = own.checksums.as_ref()?;
            change(costs.flush.nanoseconds, cost(costs, step)?.nanoseconds)
        }
        Share => ratio(own.per_second, workload_base?.per_second),
        Gain => change(other?.per_second, own.per_second),
        Traffic => traffic(own),
        TrafficRatio => ratio(traffic(own)?, traffic(other?)?),
        LinesWritten => lines_written(own),
        LinesRatio => ratio(lines_written(own)?, lines_written(other?)?),
        MostWorn => worn(own).map(|each| each * 1000.0),
        Lifetime => ratio(ENDURANCE / own.per_second / 3600.0, worn(own)?),
        Time => ratio(1e9, own.per_second),
        Fences => own.fence_share.map(|share| share * 100.0),
        InCheckpoints => own.checkpoint_share.map(|share| share * 100.0),
        Checkpoints => own.checkpoints.map(|count| count as f64),
        DeviceWrites => device_writes(own),
        WritesRatio => ratio(device_writes(own)?, device_writes(workload_base?)?),
        DramMisses => {
            let DramSample { hits, misses, .. } = own.dram.as_ref()?;
            ratio(*misses as f64 * 100.0, (hits + misses) as f64)
        }
        ReadsByWrites => {
            own.dram.as_ref().and_then(|dram| ratio(dram.reads as f64, dram.writes as f64))
        }
        CleanLines => clean_lines(own.dram.as_ref()?),
        EntryHits => entry_hits(&own.mechanism),
        Footprint => own.loaded_bytes.map(|bytes| bytes as f64 / 1e6),
        CheckpointsRatio => ratio(own.checkpoints? as f64, workload_base?.checkpoints? as f64),
        HardwareSuccess => {
            let (commits, begun) = (own.counters.hardware_commits, own.counters.speculations());
            ratio(commits as f64 * 100.0, begun as f64)
        }
        CapacityLosses => {
            let lost = own.counters.speculations() - own.counters.hardware_commits;
            ratio(own.counters.hardware_capacity as f64 * 100.0, lost as f64)
        }
        InPlace => of_mechanism(own, "lines_in_place"),
        EvictedBlocks => of_mechanism(own, "evicted_blocks"),
        DisplacedVersions => of_mechanism(own, "displaced_versions"),
        // Of two figures: see the comparison with the paper.
        SpeedUp | Slowdown => None,
        _ if quantity.kind() == Kind::Crash => lost(quantity, own.losses.as_ref()?),
        _ => reuse(quantity, own.reuse.as_ref()?),
    }
}

/// The share of the entries of its table that a mechanism had copies of when it looked them up, percent.
fn entry_hits(mechanism: &BTreeMap<&'static str, u64>) -> Option<f64> {
    let count = |name| mechanism.get(name).map(|count| *count as f64);
    let hits = count("entry_hits")?;
    let read = count("entry_misses")? + count("absent_entries_read").unwrap_or_default();
    ratio(hits * 100.0, hits + read)
}

fn lost(quantity: Quantity, losses: &Losses) -> Option<f64> {
    let count = match quantity {
        LeftToCaches => losses.deferred,
        Inconsistent => losses.inconsistent,
        Detected => losses.detected,
        Uncorrected => losses.uncorrected,
        RefusedCuts => losses.refused,
        _ => return None,
    };
    Some(count as f64)
}

fn cost(costs: &Costs, step: Step) -> Option<Cost> {
    match step {
        Step::Flush => Some(costs.flush),
        Step::Create => Some(costs.create),
        Step::Packed => Some(costs.packed),
        Step::Update => costs.update,
    }
}

fn ratio(own: f64, other: f64) -> Option<f64> {
    (other > 0.0).then(|| own / other)
}

/// Bytes written to memory per byte stored by the program.
fn traffic(sample: &Sample) -> Option<f64> {
    ratio(sample.memory_bytes? as f64, sample.stored_bytes? as f64)
}

/// Lines that reached memory for each transaction, also for engines that count no commits.
fn lines_written(sample: &Sample) -> Option<f64> {
    ratio(sample.memory_writes? as f64, sample.operations as f64)
}

/// Lines that were written to the home device's cells for each transaction.
fn device_writes(sample: &Sample) -> Option<f64> {
    ratio(sample.device_writes? as f64, sample.operations as f64)
}

/// The share of clean lines in blocks that went home with dirty ones, percent.
fn clean_lines(dram: &DramSample) -> Option<f64> {
    let blocks: u64 = dram.dirty_lines.iter().sum();
    let dirty: u64 = (1..).zip(&dram.dirty_lines).map(|(lines, blocks)| lines * blocks).sum();
    ratio(dirty as f64, (blocks * dram.lines) as f64).map(|dirty| (1.0 - dirty) * 100.0)
}

/// Writes of the most frequently written line, for each transaction.
fn worn(sample: &Sample) -> Option<f64> {
    ratio(sample.most_worn? as f64, sample.operations as f64)
}

/// A count of the sample's mechanism for each of its transactions.
fn of_mechanism(sample: &Sample, name: &str) -> Option<f64> {
    let count = |name| sample.mechanism.get(name).map(|count| *count as f64);
    ratio(count(name)?, count("transactions")?)
}

/// From `from` to `to`, percent.
fn change(from: f64, to: f64) -> Option<f64> {
    (from > 0.0).then(|| (to / from - 1.0) * 100.0)
}

/// The part of the time added to the base's that disappears without persistence operations.
fn persistence_share(base: &Sample, unflushed: &Sample, own: &Sample) -> Option<f64> {
    let added = own.ns_per_operation - base.ns_per_operation;
    let saved = own.ns_per_operation - unflushed.ns_per_operation;
    (added > base.ns_per_operation * LEAST_ADDED).then(|| saved / added * 100.0)
}

/// Runs of the same seed write about equally often; their small differences must not count.
fn flush_change(base: &Sample, own: &Sample, count: impl Fn(&Sample) -> u64) -> Option<f64> {
    let each = |sample: &Sample| count(sample) as f64 / sample.counters.commits.max(1) as f64;
    change(each(base), each(own))
}

/// Dirty bytes of the 64 in a data line written back, percent.
fn dirtiness(sample: &Sample) -> Option<f64> {
    let counters = &sample.counters;
    (counters.write_backs_data > 0).then(|| counters.dirty_bytes_per_line() / 64.0 * 100.0)
}

/// The share of lines with this many dirty words, if the engine knows it for all lines.
fn eighths(sample: &Sample, words: u8) -> Option<f64> {
    let Counters { dirtied, write_backs_data, .. } = &sample.counters;
    let known: u64 = dirtied.iter().sum();
    (known > 0 && known == *write_backs_data)
        .then(|| dirtied[usize::from(words) - 1] as f64 / known as f64 * 100.0)
}

fn reuse(quantity: Quantity, reuse: &Reuse) -> Option<f64> {
    let Reuse { never, once, twice, more } = *reuse;
    let (count, of) = match quantity {
        Unused => (never, reuse.objects()),
        UsedOnce => (once, reuse.objects()),
        UsedTwice => (twice, reuse.objects()),
        UsedMore => (more, reuse.objects()),
        OnceOrTwice => (once + twice, reuse.objects()),
        OnceOrTwiceOfUsed => (once + twice, reuse.objects() - never),
        TwiceOrMore => (twice + more, reuse.objects()),
        _ => return None,
    };
    Some(count as f64 / of.max(1) as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(engine: &'static str, repetition: u32, ns: f64, unflushed: bool) -> Sample {
        let cell = Cell {
            place: Place::Native,
            workload: "ycsb-a".to_owned(),
            threads: 1,
            engine: Some(engine.to_owned()),
            setting: None,
        };
        let counters = Counters {
            commits: 10,
            write_backs_log: 30,
            write_backs_data: if engine == "undo" { 20 } else { 10 },
            dirty_bytes: 320,
            dirtied: [5, 0, 0, 0, 0, 0, 0, 5],
            ..Counters::default()
        };
        Sample {
            cell,
            repetition,
            seed: 1,
            unflushed,
            operations: 20,
            per_second: 1e9 / ns,
            ns_per_operation: ns,
            p50_ns: None,
            p99_ns: Some(ns as u64 * 2),
            timed: 20,
            counters,
            reuse: None,
            checksums: None,
            losses: None,
            memory_writes: None,
            device_writes: None,
            dram: None,
            loaded_bytes: None,
            memory_bytes: None,
            stored_bytes: None,
            most_worn: None,
            fence_share: None,
            checkpoint_share: None,
            checkpoints: None,
            counted_epochs: None,
            mechanism: Default::default(),
            memory: String::new(),
        }
    }

    fn found(kind: Kind, base: &str, samples: &[Sample], quantity: Quantity) -> Vec<f64> {
        let (base, server_baseline) = (Some(base), Some("redis-aof"));
        let figures = figures(
            kind,
            |_| ComparedEngines { base, workload_base: base, server_baseline, base_threads: None },
            samples,
        );
        let wanted = figures.iter().filter(|figure| figure.quantity == quantity);
        wanted.map(|figure| figure.spread.median.round()).collect()
    }

    #[test]
    fn changes_are_against_the_base_of_the_same_repetition() {
        // The second repetition is on a slower machine.
        let samples =
            [("undo", 0, 200.0), ("redo", 0, 100.0), ("undo", 1, 600.0), ("redo", 1, 300.0)]
                .map(|(engine, repetition, ns)| sample(engine, repetition, ns, false));
        assert_eq!(found(Kind::Throughput, "undo", &samples, ThroughputChange), [100.0]);
        assert_eq!(found(Kind::Latency, "undo", &samples, P99Change), [-50.0]);
        assert_eq!(found(Kind::Throughput, "undo", &samples, PerSecond).len(), 2);
    }

    /// Shares are relative to the base, gains and ratios to the engine that `bases` names.
    #[test]
    fn shares_are_of_the_base_and_gains_beside_another() {
        let run = |engine, ns, bytes| Sample {
            memory_writes: Some(bytes / 64),
            memory_bytes: Some(bytes),
            stored_bytes: Some(1_000),
            ..sample(engine, 0, ns, false)
        };
        let samples =
            [run("plain", 100.0, 640), run("undo", 400.0, 1_280), run("redo", 200.0, 320)];
        let compared_engines = |cell: &Cell| {
            let redo = cell.engine.as_deref() == Some("redo");
            let base = if redo { "undo" } else { "plain" };
            ComparedEngines {
                base: Some(base),
                workload_base: Some("plain"),
                server_baseline: None,
                base_threads: None,
            }
        };
        let of = |kind, quantity| -> Vec<f64> {
            let figures = figures(kind, compared_engines, &samples);
            let wanted = figures.iter().filter(|figure| figure.quantity == quantity);
            wanted.map(|figure| figure.spread.median).collect()
        };
        assert_eq!(of(Kind::Share, Share), [0.25, 0.5]);
        assert_eq!(of(Kind::Share, Gain), [100.0]);
        assert_eq!(of(Kind::Traffic, Traffic), [0.64, 1.28, 0.32]);
        assert_eq!(of(Kind::Traffic, TrafficRatio), [0.25]);
        assert_eq!(of(Kind::Traffic, LinesWritten), [0.5, 1.0, 0.25]);
        assert_eq!(of(Kind::Traffic, LinesRatio), [0.25]);
    }

    /// A base on one thread is that of every number of threads, and its own runs on more are compared with it.
    #[test]
    fn base_on_one_thread() {
        let run = |engine, threads, ns| {
            let mut sample = sample(engine, 0, ns, false);
            sample.cell.threads = threads;
            sample
        };
        let samples = [
            run("plain", 1, 100.0),
            run("undo", 1, 200.0),
            run("plain", 8, 400.0),
            run("undo", 8, 50.0),
        ];
        let base = Some("plain");
        let compared = ComparedEngines {
            base,
            workload_base: base,
            server_baseline: None,
            base_threads: Some(1),
        };
        let figures = figures(Kind::Share, |_| compared, &samples);
        let shares = figures.iter().filter(|figure| figure.quantity == Share);
        let shares: Vec<_> = shares.map(|figure| figure.spread.median).collect();
        assert_eq!(shares, [0.5, 0.25, 2.0]);
    }

    #[test]
    fn a_mean_is_over_all_of_its_workloads_or_none() {
        let at = |workload: &str, ns| {
            let mut sample = sample("undo", 0, ns, false);
            sample.cell.workload = workload.to_owned();
            sample
        };
        let samples = [at("a", 1e9), at("b", 5e8), at("c", 1e8)];
        let found = figures(Kind::Throughput, |_| ComparedEngines::default(), &samples);
        let over = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let means = means(&found, &names, MEAN);
            means.iter().map(|mean| mean.spread.median).collect::<Vec<_>>()
        };
        assert_eq!(over(&["a", "b"]), [1.5]);
        assert_eq!(over(&["a", "b", "d"]), [0.0; 0]);
    }

    #[test]
    fn a_server_baseline_is_compared_within_a_repetition() {
        let samples = [
            ("redis-aof", 0, 200.0),
            ("undo", 0, 160.0),
            ("redis-aof", 1, 600.0),
            ("undo", 1, 400.0),
        ]
        .map(|(engine, repetition, ns)| {
            let mut sample = sample(engine, repetition, ns, false);
            sample.cell.place = Place::Served;
            sample
        });
        // The median of 25 and 50 %; nothing for the baseline server itself.
        assert_eq!(found(Kind::Throughput, "undo", &samples, BaselineChange), [38.0]);
        assert_eq!(found(Kind::Throughput, "undo", &samples, AnswerP99), [800.0, 560.0]);
        let native = sample("undo", 0, 100.0, false);
        assert!(found(Kind::Throughput, "undo", &[native], AnswerP99).is_empty());
    }

    #[test]
    fn a_breakdown_is_of_what_is_added() {
        let samples = [
            sample("volatile", 0, 100.0, false),
            sample("undo", 0, 300.0, false),
            sample("undo", 0, 150.0, true),
        ];
        assert_eq!(found(Kind::Breakdown, "volatile", &samples, PersistenceShare), [75.0]);
        assert_eq!(found(Kind::Breakdown, "volatile", &samples, Added), [200.0]);
        let little = [sample("volatile", 0, 100.0, false), sample("undo", 0, 101.0, false)];
        assert!(found(Kind::Breakdown, "volatile", &little, PersistenceShare).is_empty());
    }

    #[test]
    fn flushes_are_counted_with_and_without_the_log() {
        let samples = [sample("undo", 0, 1.0, false), sample("redo", 0, 1.0, false)];
        assert_eq!(found(Kind::Flushes, "undo", &samples, Flushes), [5.0, 4.0]);
        assert_eq!(found(Kind::Flushes, "undo", &samples, FlushChange), [-20.0]);
        assert_eq!(found(Kind::Flushes, "undo", &samples, FlushChangeWithoutLog), [-50.0]);
    }

    /// The write-backs asked for and those that reached memory may differ in sign.
    #[test]
    fn memory_writes_and_flushes_differ() {
        let wrote =
            |engine, lines| Sample { memory_writes: Some(lines), ..sample(engine, 0, 1.0, false) };
        let samples = [wrote("undo", 40), wrote("redo", 50)];
        assert_eq!(found(Kind::Flushes, "undo", &samples, MemoryWrites), [4.0, 5.0]);
        assert_eq!(found(Kind::Flushes, "undo", &samples, MemoryWriteChange), [25.0]);
        assert_eq!(found(Kind::Flushes, "undo", &samples, FlushChange), [-20.0]);
        let native = [sample("undo", 0, 1.0, false), sample("redo", 0, 1.0, false)];
        assert!(found(Kind::Flushes, "undo", &native, MemoryWrites).is_empty());
    }

    #[test]
    fn losses_are_found_where_the_power_was_cut() {
        let losses = Losses { cuts: 3, inconsistent: 7, ..Losses::default() };
        let cut = Sample { losses: Some(losses), ..sample("undo", 0, 1.0, false) };
        assert_eq!(found(Kind::Crash, "", std::slice::from_ref(&cut), Inconsistent), [7.0]);
        assert_eq!(found(Kind::Crash, "", &[cut], Uncorrected), [0.0]);
        assert!(found(Kind::Crash, "", &[sample("undo", 0, 1.0, false)], Detected).is_empty());
    }

    #[test]
    fn a_distribution_is_shown_only_where_it_is_of_all_lines() {
        let samples = [sample("undo", 0, 1.0, false), sample("redo", 0, 1.0, false)];
        assert_eq!(found(Kind::Dirtiness, "undo", &samples, Dirtiness), [25.0, 50.0]);
        assert_eq!(found(Kind::Dirtiness, "undo", &samples, Eighths(8)), [50.0]);
    }
}
