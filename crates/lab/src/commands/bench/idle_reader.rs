//! `perdura-lab bench idle-reader`: writers and other readers beside a transaction that has read one value and is idle.
//!
//! Two phases take turns: a writer, which commits all the time, and short readers, one after the other with pauses, once
//! without the idle reader and once with it. The longest commit alone shows the cost of the system's scheduling.

use crate::bench::options::{Common, Folder, require};
use crate::bench::spread::Spread;
use crate::bench::stage::Stage;
use crate::bench::watch;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::machine::Machine;
use crate::output::{print, print_json, table};
use crate::quantity::{show_count, show_ns};
use perdura::collections::HashMap;
use perdura::{EngineKind, Error, Handle, Options, Pool, Transaction, Tx, TxExt};
use perdura_workloads::Progress;
use perdura_workloads::random::Random;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pairs of keys with equal values.
const PAIRS: u64 = 10_000;
/// Between two short readers.
const PAUSE: Duration = Duration::from_micros(100);
/// The time that counts as long.
const LONG: Duration = Duration::from_millis(1);
const ROOT: &str = "pairs";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Seconds for which the reader is idle, and as long without it
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,

    #[command(flatten)]
    folder: Folder,

    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Report {
    machine: Machine,
    place: String,
    memory: String,
    seed: u64,
    seconds: f64,
    engines: Vec<EngineFigures>,
}

#[derive(Serialize)]
struct EngineFigures {
    engine: String,
    alone: Figures,
    beside: Figures,
    /// Commits beside the idle reader over those without it, of the same repetition.
    throughput: Spread,
}

/// Over all repetitions of a phase.
#[derive(Serialize)]
struct Figures {
    commits_per_second: Spread,
    longest_commit_ns: Spread,
    longest_read_ns: Spread,
    /// Commits and short reads that took more than a millisecond, in all repetitions.
    long_commits: u64,
    long_reads: u64,
}

/// One phase.
struct Phase {
    commits: Series,
    reads: Series,
    seconds: f64,
}

/// Calls of one kind.
#[derive(Default)]
struct Series {
    count: u64,
    longest: Duration,
    long: u64,
}

impl Series {
    fn time<R>(&mut self, call: impl FnOnce() -> Outcome<R>) -> Outcome<R> {
        let begin = Instant::now();
        let result = call()?;
        let took = begin.elapsed();
        self.count += 1;
        self.longest = self.longest.max(took);
        self.long += u64::from(took > LONG);
        Ok(result)
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { seconds, folder, common } = arguments;
    let sane = (0.001..=86_400.0).contains(seconds);
    require(sane, "the seconds of a phase are between 0.001 and 86400")?;
    let common = Common { seed: Some(common.seed()), ..common.clone() };
    require(!common.csv, "this benchmark prints no comma-separated values; use --json")?;
    let stage = Stage::within(folder)?;
    let engines = common.engines();
    let bar = watch::steps("engines and repetitions", engines.len() * common.repeat as usize);
    let mut memory = String::new();
    let mut runs: Vec<Vec<[Phase; 2]>> = engines.iter().map(|_| Vec::new()).collect();
    for repetition in 0..common.repeat {
        for (engine, runs) in engines.iter().zip(&mut runs) {
            interrupt::check(&stage.progress)?;
            let seed = common.seed() ^ u64::from(repetition);
            runs.push(phases(*engine, seed, *seconds, &common, &stage, &mut memory)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let engines = engines.into_iter().zip(&runs).map(|(engine, runs)| EngineFigures {
        engine: engine.to_string(),
        alone: Figures::of(runs, 0),
        beside: Figures::of(runs, 1),
        throughput: Spread::of(runs.iter().map(|[alone, beside]| beside.rate() / alone.rate())),
    });
    let report = Report {
        machine: Machine::here(),
        place: stage.site.describe(),
        memory,
        seed: common.seed(),
        seconds: *seconds,
        engines: engines.collect(),
    };
    if common.json { print_json(&report) } else { print(report.text()) }
}

/// Both phases on a new pool.
fn phases(
    engine: EngineKind,
    seed: u64,
    seconds: f64,
    common: &Common,
    stage: &Stage,
    memory: &mut String,
) -> Outcome<[Phase; 2]> {
    let path = stage.site.fresh_pool()?;
    let size = common.size.unwrap_or(256 << 20);
    let options = Options::new().engine(engine).domain(common.domain.0).size(size);
    let pool =
        options.accept_weaker(true).create(&path).map_err(|error| Failure::at(&path, error))?;
    *memory = pool.memory().describe();
    let mut first = pool.session().map_err(failed)?;
    first
        .transaction(|tx| {
            let pairs = tx.open_or_create::<HashMap<u64, u64>>(ROOT)?;
            (0..2 * PAIRS).try_for_each(|key| pairs.insert(tx, key, 0).map(drop))
        })
        .map_err(failed)?;
    drop(first);
    let phase = |seconds, idle| phase(&pool, seed, seconds, idle, &stage.progress);
    // Touches the pool's pages.
    phase((seconds / 10.0).min(0.1), false)?;
    let idle_first = seed.is_multiple_of(2);
    let (one, other) = (phase(seconds, idle_first)?, phase(seconds, !idle_first)?);
    pool.close().map_err(failed)?;
    Ok(if idle_first { [other, one] } else { [one, other] })
}

/// A writer and short readers, beside an idle reader if asked for.
fn phase(pool: &Pool, seed: u64, seconds: f64, idle: bool, progress: &Progress) -> Outcome<Phase> {
    let over = AtomicBool::new(false);
    let session = || pool.session().map_err(failed);
    let [mut idler, mut writer, mut reader] = [session()?, session()?, session()?];
    let begin = Instant::now();
    let ended = std::thread::scope(|scope| {
        let idles = if idle { Some(begin_idle(&mut idler)?) } else { None };
        let commits = scope.spawn(|| write(&mut writer, seed, &over));
        let reads = scope.spawn(|| read(&mut reader, seed, &over));
        while begin.elapsed().as_secs_f64() < seconds && !progress.is_stopped() {
            std::thread::sleep(Duration::from_millis(1).min(Duration::from_secs_f64(seconds)));
        }
        over.store(true, Ordering::Relaxed);
        let seconds = begin.elapsed().as_secs_f64();
        let ended = idles.map_or(Ok(()), end_idle);
        let commits = commits.join().map_err(|_| Failure::new("the writer has panicked"))?;
        let reads = reads.join().map_err(|_| Failure::new("the reader has panicked"))?;
        ended.and(Ok(Phase { commits: commits?, reads: reads?, seconds }))
    });
    interrupt::check(progress)?;
    ended
}

fn failed(error: Error) -> Failure {
    Failure::new(error.to_string())
}

fn pairs(tx: &mut (impl Tx + ?Sized)) -> perdura::Result<HashMap<u64, u64>> {
    tx.open_or_create(ROOT)
}

/// Begins a transaction that reads one value; returns it with the value.
fn begin_idle(session: &mut Handle) -> Outcome<(Transaction<'_>, u64)> {
    let mut tx = session.begin_read().map_err(failed)?;
    let value = pairs(&mut tx).and_then(|pairs| pairs.get(&mut tx, 0)).map_err(failed)?;
    Ok((tx, value.unwrap_or_default()))
}

/// Checks that the transaction still sees the state in which it began, and ends it.
fn end_idle((mut tx, first): (Transaction<'_>, u64)) -> Outcome {
    let pairs = pairs(&mut tx).map_err(failed)?;
    for key in 0..PAIRS {
        let values = [key, key + PAIRS].map(|key| pairs.get(&mut tx, key));
        let [one, other] = values;
        let (one, other) = (one.map_err(failed)?, other.map_err(failed)?);
        if one != other || one.is_none() || key == 0 && one != Some(first) {
            return Err(Failure::new(format!(
                "the idle reader sees {one:?} and {other:?} for key {key}, and had seen {first} for key 0"
            )));
        }
    }
    tx.commit().map_err(failed)
}

/// Commits until `over`.
fn write(session: &mut Handle, seed: u64, over: &AtomicBool) -> Outcome<Series> {
    let (mut commits, mut random) = (Series::default(), Random::new(seed, 1));
    while !over.load(Ordering::Relaxed) {
        let (key, value) = (random.below(PAIRS), random.word());
        commits.time(|| {
            let body = |tx: &mut dyn Tx| {
                let pairs = pairs(tx)?;
                pairs.insert(tx, key, value)?;
                pairs.insert(tx, key + PAIRS, value).map(drop)
            };
            session.transaction(|tx| body(tx)).map_err(failed)
        })?;
    }
    Ok(commits)
}

/// Reads a pair now and then, until `over`.
fn read(session: &mut Handle, seed: u64, over: &AtomicBool) -> Outcome<Series> {
    let (mut reads, mut random) = (Series::default(), Random::new(seed, 2));
    while !over.load(Ordering::Relaxed) {
        let key = random.below(PAIRS);
        let [one, other] = reads.time(|| {
            let body = |tx: &mut dyn Tx| {
                let pairs = pairs(tx)?;
                Ok([pairs.get(tx, key)?, pairs.get(tx, key + PAIRS)?])
            };
            // Does not wait until the commits that it has seen are durable.
            session.submit_read(|tx| body(tx)).map(|(values, _)| values).map_err(failed)
        })?;
        if one != other {
            return Err(Failure::new(format!("a reader sees {one:?} and {other:?} for key {key}")));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(reads)
}

impl Phase {
    fn rate(&self) -> f64 {
        self.commits.count as f64 / self.seconds
    }
}

impl Figures {
    fn of(runs: &[[Phase; 2]], phase: usize) -> Self {
        let all = || runs.iter().map(|phases| &phases[phase]);
        let longest = |of: fn(&Phase) -> &Series| {
            Spread::of(all().map(|phase| of(phase).longest.as_nanos() as f64))
        };
        Figures {
            commits_per_second: Spread::of(all().map(Phase::rate)),
            longest_commit_ns: longest(|phase| &phase.commits),
            longest_read_ns: longest(|phase| &phase.reads),
            long_commits: all().map(|phase| phase.commits.long).sum(),
            long_reads: all().map(|phase| phase.reads.long).sum(),
        }
    }
}

impl Report {
    fn text(&self) -> String {
        let both = |engine: &EngineFigures, show: &dyn Fn(&Figures) -> String| {
            [&engine.alone, &engine.beside].map(show)
        };
        let rows = self.engines.iter().map(|engine| {
            let rate = |figures: &Figures| show_count(figures.commits_per_second.median as u64);
            let commit = |figures: &Figures| {
                let Figures { longest_commit_ns, long_commits, .. } = figures;
                format!("{}; {long_commits}", show_ns(longest_commit_ns.median))
            };
            let read = |figures: &Figures| {
                let Figures { longest_read_ns, long_reads, .. } = figures;
                format!("{}; {long_reads}", show_ns(longest_read_ns.median))
            };
            let [[rate, beside_rate], [commit, beside_commit], [read, beside_read]] =
                [both(engine, &rate), both(engine, &commit), both(engine, &read)];
            let share = engine.throughput.show(|share| format!("{share:.2}"));
            let name = engine.engine.clone();
            [name, rate, beside_rate, share, commit, beside_commit, read, beside_read]
        });
        let figures = table(
            [
                "engine",
                "commits/s",
                "beside",
                "share",
                "longest commit; > 1 ms",
                "beside",
                "longest read; > 1 ms",
                "beside",
            ],
            rows,
        );
        format!(
            "a writer and short readers, without and beside a transaction that has read one value and is idle for \
             {} s; seed {}\n{}\n{}; {}\n\n{figures}\n\n\
             medians, and the share's range, of all repetitions; answers checked",
            self.seconds, self.seed, self.machine, self.memory, self.place
        )
    }
}
