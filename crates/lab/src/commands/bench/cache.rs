//! `perdura-lab bench cache`: `perdura serve` as a cache, beside Redis.
//!
//! Clients look keys up and set those that are not there, many times what the pool has room for. Half way through our
//! server is killed, and started again on its pool.

use crate::bench::options::{Folder, require};
use crate::bench::servers::{self, Trouble};
use crate::bench::stage::Stage;
use crate::domain::DomainChoice;
use crate::failure::Outcome;
use crate::interrupt;
use crate::machine::Machine;
use crate::output::{print, print_json, table};
use crate::quantity::{self, show_bytes, show_count};
use perdura::EngineKind;
use perdura_baselines::Error;
use perdura_baselines::cache::{self, Answered, Demand, State};
use perdura_baselines::server::{Launch, Server};
use perdura_server::EvictionPolicy;
use serde::Serialize;
use std::fs;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    folder: Folder,

    /// Policies of eviction, one after the other
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "allkeys-lru,volatile-ttl"
    )]
    policy: Vec<EvictionPolicy>,

    /// Bytes that each server may use
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = quantity::bytes)]
    size: u64,

    /// Bytes of values that are set
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = quantity::bytes)]
    traffic: u64,

    /// Keys that are looked up [default: as many as take four times the size]
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    keys: Option<u64>,

    /// Bytes of a value at most; they have between 100 and this many
    #[arg(long, value_name = "BYTES", default_value = "4000", value_parser = quantity::bytes)]
    value_bytes: u64,

    /// Connections
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,

    /// Our engine
    #[arg(long, value_name = "ENGINE", default_value_t = EngineKind::Redo)]
    engine: EngineKind,

    /// Persistence domain of our pool: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Only our own server
    #[arg(long)]
    ours: bool,

    /// Keys and values
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Bytes of a value at least.
const LEAST: u64 = 100;
/// Keys that never expire, where only others may go.
const LASTING: u64 = 10_000;

#[derive(Serialize)]
struct Report {
    machine: Machine,
    place: String,
    size: u64,
    demand: Demand,
    /// Why Redis could not be measured.
    unavailable: Option<String>,
    runs: Vec<CacheRun>,
}

#[derive(Serialize)]
struct CacheRun {
    policy: String,
    server: String,
    #[serde(flatten)]
    answered: Answered,
    hit_rate: f64,
    state: State,
    /// Keys that were there after the kill, if there was one.
    after_kill: Option<u64>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let most = arguments.value_bytes;
    require(
        (LEAST..=64 << 20).contains(&most),
        "a value has at least 100 bytes here, and 64 MiB at most",
    )?;
    require(arguments.size >= 8 << 20, "a cache needs 8 MiB at least")?;
    let keys = arguments.keys.unwrap_or(4 * arguments.size / ((LEAST + most) / 2));
    require(keys > 0, "a cache needs keys")?;
    let stage = Stage::within(&arguments.folder)?;
    let demand = Demand {
        keys,
        value_bytes: (LEAST, most),
        expires: false,
        lasting: 0,
        traffic: arguments.traffic,
        clients: arguments.clients,
        seed: arguments.seed,
    };
    let mut report = Report {
        machine: Machine::here(),
        place: stage.site.describe(),
        size: arguments.size,
        demand,
        unavailable: None,
        runs: Vec::new(),
    };
    for &policy in &arguments.policy {
        let spares = policy.to_string().starts_with("volatile");
        let lasting = if spares { LASTING.min(arguments.size / 8 / most) } else { 0 };
        let demand = Demand { expires: spares, lasting, ..demand };
        let done = policy_run(arguments, policy, &demand, &mut report, &stage);
        // Ctrl-C ends our children too: after it, their failure is no error.
        interrupt::check(&stage.progress)?;
        done?;
    }
    if arguments.json { print_json(&report) } else { print(report.text()) }
}

/// Both servers under one policy.
fn policy_run(
    arguments: &Arguments,
    policy: EvictionPolicy,
    demand: &Demand,
    report: &mut Report,
    stage: &Stage,
) -> Outcome {
    let mut ours = servers::ours(arguments.engine, arguments.domain.0, arguments.size, None)?;
    ours.arguments.extend(["--maxmemory-policy".into(), policy.to_string()]);
    report.runs.push(measure(&ours, policy, demand, true, stage)?);
    if arguments.ours || report.unavailable.is_some() {
        return Ok(());
    }
    let mut redis = Launch::redis();
    redis.name = format!("{}, no file", redis.name);
    // Of an option that is given twice the last value counts.
    let options = ["--appendonly", "no", "--maxmemory-policy"].map(str::to_owned);
    redis.arguments.extend(options);
    redis.arguments.extend([policy.to_string(), "--maxmemory".into(), arguments.size.to_string()]);
    match measure(&redis, policy, demand, false, stage) {
        Ok(run) => report.runs.push(run),
        Err(Trouble::Baseline(error @ Error::Unavailable(_))) => {
            report.unavailable = Some(format!("Redis: {error}"));
        }
        Err(trouble) => return Err(trouble.into()),
    }
    Ok(())
}

fn measure(
    launch: &Launch,
    policy: EvictionPolicy,
    demand: &Demand,
    is_durable: bool,
    stage: &Stage,
) -> Result<CacheRun, Trouble> {
    let folder = stage.site.folder().join("cache");
    fs::create_dir_all(&folder)?;
    let mut server = launch.start(&folder)?;
    cache::load(&server, demand)?;
    let half = Demand { traffic: demand.traffic / 2, ..*demand };
    let goes_on = || !stage.progress.is_stopped();
    let (mut answered, mut evicted, mut after_kill) = (Answered::default(), 0, None);
    for part in 0..2 {
        answered += cache::run(&server, &half, part, &goes_on)?;
        evicted += cache::state(&server)?.evicted;
        if part == 0 && is_durable {
            server = killed(server, launch, &folder)?;
            after_kill = Some(cache::check(&server, demand)?);
        } else if part == 0 {
            evicted = 0;
        }
    }
    cache::check(&server, demand)?;
    let state = State { evicted, ..cache::state(&server)? };
    drop(server);
    fs::remove_dir_all(&folder)?;
    let hit_rate = answered.hit_rate();
    let (policy, server) = (policy.to_string(), launch.name.clone());
    Ok(CacheRun { policy, server, answered, hit_rate, state, after_kill })
}

/// Kills the server, and starts it again on the same files.
fn killed(server: Server, launch: &Launch, folder: &std::path::Path) -> Result<Server, Trouble> {
    // By SIGKILL.
    drop(server);
    Ok(launch.start(folder)?)
}

impl Report {
    fn text(&self) -> String {
        let header = [
            "policy",
            "server",
            "found",
            "keys/s",
            "set",
            "evicted",
            "keys at the end",
            "memory",
            "after the kill",
        ];
        let rows = self.runs.iter().map(|run| {
            let asked = (run.answered.hits + run.answered.misses) as f64;
            [
                run.policy.clone(),
                run.server.clone(),
                format!("{:.2} %", 100.0 * run.hit_rate),
                show_count((asked / run.answered.seconds) as u64),
                show_bytes(run.answered.bytes),
                show_count(run.state.evicted),
                show_count(run.state.keys),
                format!("{} of {}", show_bytes(run.state.used), show_bytes(run.state.limit)),
                run.after_kill.map_or(String::new(), show_count),
            ]
        });
        let why = self.unavailable.iter().map(|why| format!("\n\n{why}"));
        format!(
            "a cache of {} for {} keys with values of {} to {} bytes, skew 0.99: {} clients look 16 keys up and set those that \
             are not there; seed {}\n{}\n{}\n\nafter the kill: keys that are there when our server has been killed half way and \
             started again{}\n\nevery value that was found was checked, and so was that of each key that never expires; no write was refused\n\n{}",
            show_bytes(self.size),
            show_count(self.demand.keys),
            self.demand.value_bytes.0,
            self.demand.value_bytes.1,
            self.demand.clients,
            self.demand.seed,
            self.machine,
            self.place,
            why.collect::<String>(),
            table(header, rows),
        )
    }
}
