//! `perdura-lab bench versus`: against libpmemobj, embedded stores and Redis, on the same work in the same run.

mod stores;

use crate::bench::clients::{self, RoundResult};
use crate::bench::embedded::{self, Contest, Ours, Round};
use crate::bench::options::{Common, Folder, require, usual_warm_up};
use crate::bench::servers::{self, Demand, Race, ServerFigures};
use crate::bench::stage::Stage;
use crate::bench::stores::StoreContest;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::machine::Machine;
use crate::output::{print, print_json, table};
use crate::quantity::{self, plural, show_bytes, show_count, show_ns};
use perdura::EngineKind;
use perdura_baselines::pmemobj::Pmemobj;
use perdura_baselines::server::Launch;
use perdura_baselines::{Baseline, Error, Size, Work};
use perdura_workloads::ycsb::Letter;
use serde::Serialize;

/// Bytes that the pool under redis-benchmark may grow to.
const POOL_BYTES: u64 = 4 << 30;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    folder: Folder,

    /// Only this baseline
    #[arg(long, value_enum)]
    only: Option<Opponent>,

    /// YCSB's core workloads that clients run against servers: ycsb-a to ycsb-f, or a to f
    #[arg(long, value_name = "LETTERS", value_delimiter = ',', default_value = "a")]
    workload: Vec<Letter>,

    /// Operations of each piece of work against libpmemobj
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
    ops: u64,

    /// Words, keys or values: of the latter a tenth
    #[arg(long, value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
    entries: u64,

    /// Requests of 10 clients and more without pipelining; a quarter for one client, four
    /// times as many with pipelining
    #[arg(long, value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    requests: u64,

    /// Different keys that clients send, or that are put into embedded stores; of YCSB, records loaded
    #[arg(long, value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    keys: u64,

    /// Bytes in the values that clients send, or that are put into embedded stores
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value_bytes: usize,

    /// Numbers of clients
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,10,50", value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: Vec<u32>,

    /// Threads of ours under YCSB's clients, each number a server of its own [default: as `serve`
    /// chooses]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    server_threads: Vec<u16>,

    /// Requests sent before an answer is awaited
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,16", value_parser = clap::value_parser!(u32).range(1..))]
    pipeline: Vec<u32>,

    #[command(flatten)]
    stores: stores::StoreOptions,

    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Opponent {
    /// libpmemobj, by the same work in this process
    Pmemobj,
    /// redb, LMDB, fjall and SQLite, by durable puts in this process, of a program built with
    /// `--features stores`; ours are `redo` and `archapt-redo` unless engines are named
    Stores,
    /// Redis, by redis-benchmark; ours is `redo`
    Redis,
    /// Redis, by YCSB's clients over TCP: records of 1 KB, each request waited for, all answers verified
    Ycsb,
}

#[derive(Serialize)]
struct Versus {
    machine: Machine,
    place: String,
    seed: u64,
    repeat: u32,
    /// Baselines that could not be run, with the reason.
    unavailable: Vec<String>,
    embedded: Option<Contest>,
    stores: Option<StoreContest>,
    servers: Option<Race>,
    ycsb: Option<YcsbRace>,
}

/// YCSB's rounds; the first server is Redis.
#[derive(Serialize)]
struct YcsbRace {
    servers: Vec<String>,
    records: u64,
    results: Vec<RoundResult>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let common = &arguments.common;
    let least = arguments.ops.min(arguments.requests).min(arguments.keys);
    require(least > 0, "there is nothing to compare in 0 operations, requests or keys")?;
    let stage = Stage::within(&arguments.folder)?;
    let mut versus = Versus {
        machine: Machine::here(),
        place: stage.site.describe(),
        seed: common.seed(),
        repeat: common.repeat,
        unavailable: Vec::new(),
        embedded: None,
        stores: None,
        servers: None,
        ycsb: None,
    };
    let measured = measure(arguments, &mut versus, &stage);
    // Ctrl-C ends our children too: after it, their failure is no error.
    interrupt::check(&stage.progress)?;
    measured?;
    if let (true, Some(why)) = (versus.is_empty(), versus.unavailable.first()) {
        if common.json {
            print_json(&versus)?;
        }
        return Err(Failure::new(why));
    }
    if common.json { print_json(&versus) } else { print(versus.text()) }
}

fn measure(arguments: &Arguments, versus: &mut Versus, stage: &Stage) -> Outcome {
    let asked = |opponent| arguments.only.is_none_or(|only| only == opponent);
    if asked(Opponent::Pmemobj) {
        versus.embedded = against_pmemobj(arguments, versus, stage)?;
    }
    if asked(Opponent::Stores) {
        versus.stores = against_stores(arguments, versus, stage)?;
    }
    if asked(Opponent::Redis) {
        versus.servers = against_redis(arguments, versus, stage)?;
    }
    if asked(Opponent::Ycsb) {
        versus.ycsb = by_ycsb(arguments, versus, stage)?;
    }
    Ok(())
}

/// Keeps the reason if a baseline is not installed, so that the others are still run.
fn available<T>(
    result: perdura_baselines::Result<T>,
    name: &str,
    versus: &mut Versus,
) -> Outcome<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ Error::Unavailable(_)) => {
            let why = format!("{name}: {error}");
            if !versus.unavailable.contains(&why) {
                versus.unavailable.push(why);
            }
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn rounds(arguments: &Arguments, seed: u64) -> Vec<Round> {
    let Arguments { ops, entries, .. } = *arguments;
    let round = |work, entries, width, operations| {
        let size = Size { entries, width, operations, warm_up: usual_warm_up(operations), seed };
        Round { work, size }
    };
    vec![
        round(Work::Sps, entries, 1, ops),
        round(Work::Sps, entries, 16, ops / 8),
        round(Work::Map, entries, 0, ops),
        round(Work::Ordered, entries, 0, ops),
        round(Work::Overwrite, entries / 10, 1024, ops / 2),
    ]
}

fn against_pmemobj(
    arguments: &Arguments,
    versus: &mut Versus,
    stage: &Stage,
) -> Outcome<Option<Contest>> {
    let Some(pmemobj) = available(Pmemobj::new(), "libpmemobj", versus)? else { return Ok(None) };
    let domain = arguments.common.domain.0;
    let mut competitors: Vec<Box<dyn Baseline + '_>> = vec![Box::new(pmemobj)];
    for engine in arguments.common.engines() {
        competitors.push(Box::new(Ours::new(engine, domain, &stage.progress)));
    }
    let rounds = rounds(arguments, versus.seed);
    let repeat = arguments.common.repeat;
    embedded::contest(&mut competitors, &rounds, repeat, domain, stage).map(Some)
}

fn against_stores(
    arguments: &Arguments,
    versus: &mut Versus,
    stage: &Stage,
) -> Outcome<Option<StoreContest>> {
    let stores = perdura_baselines::stores::all();
    // A build without the stores skips them silently, unless `--only` asks for them.
    if stores.is_err() && arguments.only != Some(Opponent::Stores) {
        return Ok(None);
    }
    let Some(stores) = available(stores, "stores", versus)? else { return Ok(None) };
    stores::against(arguments, stores, versus.seed, stage).map(Some)
}

fn against_redis(
    arguments: &Arguments,
    versus: &mut Versus,
    stage: &Stage,
) -> Outcome<Option<Race>> {
    let domain = arguments.common.domain.0;
    let launches = [Launch::redis(), servers::ours(EngineKind::Redo, domain, POOL_BYTES, None)?];
    let demand = Demand {
        clients: arguments.clients.clone(),
        pipelines: arguments.pipeline.clone(),
        requests: arguments.requests,
        keys: arguments.keys,
        bytes: arguments.value_bytes,
        repeat: arguments.common.repeat,
    };
    let servers = servers::start(&launches, stage.site.folder());
    let Some(servers) = available(servers, "Redis", versus)? else { return Ok(None) };
    servers::race(&servers, &demand, &stage.progress).map(Some)
}

/// Every letter by every number of clients: of one client a quarter of the operations, of E,
/// whose scans read 50 records, a twentieth.
fn ycsb_rounds(arguments: &Arguments) -> Vec<clients::Round> {
    let round = |letter: Letter, clients: u32| {
        let operations = arguments.requests / if clients == 1 { 4 } else { 1 };
        let operations = operations / if letter == Letter::E { 20 } else { 1 };
        let operations = operations.max(u64::from(clients));
        clients::Round { letter, clients, operations, warm_up: usual_warm_up(operations) }
    };
    let each = |letter| arguments.clients.iter().map(move |&clients| round(letter, clients));
    arguments.workload.iter().copied().flat_map(each).collect()
}

fn by_ycsb(arguments: &Arguments, versus: &mut Versus, stage: &Stage) -> Outcome<Option<YcsbRace>> {
    let demand = clients::Demand {
        rounds: ycsb_rounds(arguments),
        records: arguments.keys,
        repeat: arguments.common.repeat,
        seed: versus.seed,
    };
    let domain = arguments.common.domain.0;
    let mut launches = vec![Launch::redis()];
    let mut threads: Vec<_> = arguments.server_threads.iter().copied().map(Some).collect();
    if threads.is_empty() {
        threads.push(None);
    }
    for engine in arguments.common.engines() {
        for &threads in &threads {
            launches.push(servers::ours(engine, domain, demand.pool_bytes(), threads)?);
        }
    }
    let turns = clients::race(&launches, &demand, stage)?;
    let Some(turns) = available(turns, "Redis", versus)? else { return Ok(None) };
    let results = clients::results(&demand, &turns, launches.len());
    let servers = launches.into_iter().map(|launch| launch.name).collect();
    Ok(Some(YcsbRace { servers, records: demand.records, results }))
}

impl Versus {
    fn is_empty(&self) -> bool {
        let Versus { embedded, stores, servers, ycsb, .. } = self;
        embedded.is_none() && stores.is_none() && servers.is_none() && ycsb.is_none()
    }

    fn text(&self) -> String {
        let Versus { machine, place, seed, repeat, .. } = self;
        let mut parts = vec![format!(
            "against baselines: {}, interleaved; seed {seed}\n{machine}\n{place}",
            plural(u64::from(*repeat), "repetition")
        )];
        parts.extend(self.embedded.as_ref().map(contest_text));
        parts.extend(self.stores.as_ref().map(stores::text));
        parts.extend(self.servers.as_ref().map(race_text));
        parts.extend(self.ycsb.as_ref().map(ycsb_text));
        parts.extend(self.unavailable.iter().cloned());
        parts.push("all answers were checked".to_owned());
        parts.join("\n\n")
    }
}

fn contest_text(contest: &Contest) -> String {
    let [baseline, ours @ ..] = &contest.competitors[..] else { return String::new() };
    let rows = contest.rounds.iter().flat_map(|result| {
        let [theirs, figures @ ..] = &result.ns_per_operation[..] else { return Vec::new() };
        let work = work_name(&result.round);
        let row =
            |name: &String, time: String, ratio: String| [work.clone(), name.clone(), time, ratio];
        let mut rows = vec![row(baseline, theirs.show(show_ns), String::new())];
        rows.extend(ours.iter().zip(figures).map(|(name, time)| {
            row(name, time.show(show_ns), format!("{:.2}", theirs.median / time.median))
        }));
        rows
    });
    format!(
        "one line written back and a fence, in this run: {}\n\n{}",
        contest.line_and_fence_ns.show(show_ns),
        table(["work", "program", "time per operation", "times as fast"], rows)
    )
}

fn work_name(round: &Round) -> String {
    let Round { work, size } = round;
    match work {
        Work::Sps => format!("SPS, {}", plural(size.width, "swap")),
        Work::Map => "hash map".to_owned(),
        Work::Ordered => "ordered map".to_owned(),
        Work::Overwrite => format!("overwrite {}", show_bytes(size.width)),
    }
}

fn race_text(race: &Race) -> String {
    let [theirs, ours] = &race.servers[..] else { return String::new() };
    let header =
        ["request", "clients", "pipeline", theirs, ours, "times as fast", "p99 theirs", "p99 ours"];
    let rate = |rate: f64| show_count(rate as u64);
    let rows = race.loads.iter().filter_map(|result| {
        let [them, us] = &result.servers[..] else { return None };
        Some([
            result.load.request.name().to_owned(),
            result.load.clients.to_string(),
            result.load.pipeline.to_string(),
            them.per_second.show(rate),
            us.per_second.show(rate),
            format!("{:.2}", us.per_second.median / them.per_second.median),
            format!("{:.2} ms", them.p99_ms.median),
            format!("{:.2} ms", us.p99_ms.median),
        ])
    });
    format!("requests answered in a second, by redis-benchmark:\n\n{}", table(header, rows))
}

fn ycsb_text(race: &YcsbRace) -> String {
    let header = ["workload", "clients", "server", "operations/s", "p50", "p99", "times as fast"];
    let rows = race.results.iter().flat_map(|result| {
        let Some(theirs) = result.servers.first() else { return Vec::new() };
        let row = |(name, figures): (&String, &ServerFigures)| {
            [
                format!("YCSB-{}", result.round.letter.to_string().to_uppercase()),
                result.round.clients.to_string(),
                name.clone(),
                figures.per_second.show(|rate| show_count(rate as u64)),
                format!("{:.2} ms", figures.p50_ms.median),
                figures.p99_ms.show(|ms| format!("{ms:.2}")) + " ms",
                format!("{:.2}", figures.per_second.median / theirs.per_second.median),
            ]
        };
        race.servers.iter().zip(&result.servers).map(row).collect()
    });
    format!(
        "YCSB by clients over TCP, each operation waited for, on {} of ten fields of 100 bytes:\n\n{}",
        plural(race.records, "record"),
        table(header, rows)
    )
}
