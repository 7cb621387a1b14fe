//! `perdura-lab stress`: real threads on real pools, killed and opened again.

use crate::bench::options::Folder;
use crate::bench::site::Site;
use crate::bench::watch;
use crate::domain::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output::{print, print_json, table};
use crate::quantity::show_count;
use perdura_crashtest::runner::ENGINES;
use perdura_crashtest::stress::{self, PipeWitness, Plan, Round, StressFailure, StressReport};
use serde_json::json;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds of a round that is not cut short.
const ROUND: u64 = 1_200;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(long, help = crate::engines::help(), value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    engine: Vec<String>,

    /// Persistence domain of the pools: auto (that of the folder's backing), transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    #[command(flatten)]
    folder: Folder,

    /// Minutes that it takes
    #[arg(long, value_name = "NUMBER", conflicts_with = "seconds")]
    minutes: Option<u64>,

    /// Seconds that it takes; each engine has at least one round of a second [default: 60]
    #[arg(long, value_name = "NUMBER")]
    seconds: Option<u64>,

    /// Threads of each process that write or read; one more does checkpoints, gives space back and compacts
    /// [default: three for each processor, so that they interrupt one another]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(2..=24))]
    threads: Option<u32>,

    /// Root of everything random, but not of the threads' interleaving [default: from the clock; it is printed]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Milliseconds of a round that is not cut short
    #[arg(long, value_name = "NUMBER", default_value_t = ROUND, hide = true)]
    round: u64,

    /// A round, by this process
    #[arg(long, value_name = "JSON", hide = true)]
    child: Option<String>,

    /// Plants a bug, in a build with the feature `planted`
    #[arg(long, value_name = "NAME", hide = true)]
    planted: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if let Some(bug) = &arguments.planted {
        perdura_engine::planted::plant(bug).map_err(Failure::new)?;
    }
    if let Some(round) = &arguments.child {
        return child(round);
    }
    let names = |name: &&'static str| *name;
    let engines = super::crash::several(&arguments.engine, "engine", &ENGINES, names)?;
    let seed = arguments.seed.unwrap_or_else(from_clock);
    let (site, progress) = (Site::within(arguments.folder.dir.as_deref())?, interrupt::progress()?);
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let seconds = match (arguments.minutes, arguments.seconds) {
        (Some(minutes), _) => minutes.saturating_mul(60),
        (None, seconds) => seconds.unwrap_or(60),
    };
    let plan = Plan {
        engines: engines.into_iter().map(str::to_owned).collect(),
        domain: arguments.domain.0.map(|domain| domain.to_string()),
        folder: site.folder().to_owned(),
        seed,
        threads: arguments.threads.map_or((3 * processors).clamp(4, 24), |count| count as usize),
        time: Duration::from_secs(seconds),
        round_millis: arguments.round,
    };
    let begun = Instant::now();
    let start = |round: &Round| start(round, arguments.planted.as_deref());
    let rounds = (seconds * 1_000 / arguments.round.max(1)).max(plan.engines.len() as u64);
    let report =
        watch::with_bar("rounds", rounds, &progress, || stress::run(&plan, &start, &progress))?;
    let kept = report.failure.as_ref().map(|failure| keep(arguments, failure));
    show(arguments, &plan, &report, begun.elapsed(), &site)?;
    match (&report.failure, kept) {
        (Some(failure), Some(kept)) => Err(Failure::new(format!(
            "{}, round {}: {}; {kept}; the same rounds again, though threads interleave differently each time: {}",
            failure.round.engine,
            failure.number,
            failure.what.trim(),
            again(&plan),
        ))),
        _ => interrupt::check(&progress),
    }
}

/// One process: a round.
fn child(round: &str) -> Outcome {
    let round = serde_json::from_str(round).map_err(|error| Failure::new(error.to_string()))?;
    stress::live(&round, &PipeWitness::new(std::io::stdout())).map_err(Failure::new)
}

fn start(round: &Round, planted: Option<&str>) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["stress", "--child", &serde_json::to_string(round)?]);
    if let Some(bug) = planted {
        command.args(["--planted", bug]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Moves the failure's pool out of the temporary folder; says where it is.
fn keep(arguments: &Arguments, failure: &StressFailure) -> String {
    let name = format!("perdura-stress-{}-{}.pool", failure.round.engine, failure.round.seed);
    let place = arguments.folder.dir.clone().unwrap_or_else(std::env::temp_dir).join(name);
    match std::fs::copy(&failure.round.pool, &place) {
        Ok(_) => format!("its pool is kept at {}", place.display()),
        Err(error) => format!("its pool could not be kept ({error})"),
    }
}

/// The command that has the same rounds.
fn again(plan: &Plan) -> String {
    let Plan { engines, domain, seed, threads, time, round_millis, .. } = plan;
    let domain = domain.as_deref().unwrap_or("auto");
    format!(
        "perdura-lab stress --engine {} --domain {domain} --threads {threads} --round {round_millis} --seconds {} --seed {seed}",
        engines.join(","),
        time.as_secs()
    )
}

fn show(
    arguments: &Arguments,
    plan: &Plan,
    report: &StressReport,
    took: Duration,
    site: &Site,
) -> Outcome {
    let bad = u64::from(report.failure.is_some());
    if arguments.json {
        return print_json(&json!({
            "seed": plan.seed,
            "threads": plan.threads,
            "domain": plan.domain,
            "seconds": took.as_secs_f64(),
            "engines": report.engines,
            "bad": bad,
            "failure": report.failure,
            "again": again(plan),
        }));
    }
    let rows = report.engines.iter().map(|row| {
        let counts = [row.rounds, row.killed, row.operations, row.acknowledged, row.reads];
        let [rounds, killed, operations, acknowledged, reads] = counts.map(show_count);
        [row.engine.clone(), rounds, killed, operations, acknowledged, reads]
    });
    let header = ["engine", "processes", "killed", "commits", "acknowledgements", "reads"];
    print(table(header, rows))?;
    let rounds: u64 = report.engines.iter().map(|row| row.rounds).sum();
    print(format!(
        "verdict: {bad} bad in {} processes, {:.1} s, {} threads each, seed {}; {}",
        show_count(rounds),
        took.as_secs_f64(),
        plan.threads + 1,
        plan.seed,
        site.describe()
    ))
}

fn from_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64 % 1_000_000)
}
