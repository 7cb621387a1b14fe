//! `perdura bench versus`: against libpmemobj and Redis, on the same work in the same run.

use crate::bench::embedded::{self, Contest, Ours, Round};
use crate::bench::options::{Common, DomainChoice, Folder, require};
use crate::bench::servers::{self, Demand, Race};
use crate::bench::stage::Stage;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::machine::Machine;
use crate::output::{print, print_json, table};
use crate::quantity::{self, plural, show_bytes, show_count, show_ns};
use perdura_rivals::pmemobj::Pmemobj;
use perdura_rivals::server::Launch;
use perdura_rivals::{Error, Rival, Size, Work};
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    folder: Folder,

    /// Only this rival
    #[arg(long, value_enum)]
    only: Option<Opponent>,

    /// Operations of each piece of work against libpmemobj
    #[arg(long, value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
    ops: u64,

    /// Words, keys or values: of the latter a tenth
    #[arg(long, value_name = "NUMBER", default_value = "1M", value_parser = quantity::count)]
    entries: u64,

    /// Requests of 10 clients and more without pipelining; a quarter for one client, four
    /// times as many with pipelining
    #[arg(long, value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    requests: u64,

    /// Different keys that clients send
    #[arg(long, value_name = "NUMBER", default_value = "100k", value_parser = quantity::count)]
    keys: u64,

    /// Bytes in the values that clients send
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value_bytes: usize,

    /// Numbers of clients
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,10,50", value_parser = clap::value_parser!(u32).range(1..))]
    clients: Vec<u32>,

    /// Requests sent before an answer is awaited
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,16", value_parser = clap::value_parser!(u32).range(1..))]
    pipeline: Vec<u32>,

    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Opponent {
    Pmemobj,
    Redis,
}

#[derive(Serialize)]
struct Versus {
    machine: Machine,
    place: String,
    seed: u64,
    repeat: u32,
    /// Rivals that could not be run, and why.
    unavailable: Vec<String>,
    embedded: Option<Contest>,
    servers: Option<Race>,
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
        servers: None,
    };
    let measured = measure(arguments, &mut versus, &stage);
    // Ctrl-C ends our children too: that they failed is no news then.
    interrupt::check(&stage.progress)?;
    measured?;
    if common.json {
        print_json(&versus)?
    } else {
        print(versus.text())?
    }
    match (versus.embedded.is_none() && versus.servers.is_none(), versus.unavailable.first()) {
        (true, Some(why)) => Err(Failure::new(why)),
        _ => Ok(()),
    }
}

fn measure(arguments: &Arguments, versus: &mut Versus, stage: &Stage) -> Outcome {
    if arguments.only != Some(Opponent::Redis) {
        versus.embedded = against_pmemobj(arguments, versus, stage)?;
    }
    if arguments.only != Some(Opponent::Pmemobj) {
        versus.servers = against_redis(arguments, versus, stage)?;
    }
    Ok(())
}

/// Keeps the reason if a rival is not here, so that the other still gets its turn.
fn available<T>(
    result: perdura_rivals::Result<T>,
    who: &str,
    versus: &mut Versus,
) -> Outcome<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ Error::Unavailable(_)) => {
            versus.unavailable.push(format!("{who}: {error}"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn rounds(arguments: &Arguments, seed: u64) -> Vec<Round> {
    let Arguments { ops, entries, .. } = *arguments;
    let round = |work, entries, width, operations| {
        let size = Size { entries, width, operations, warm_up: operations, seed };
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
    let mut competitors: Vec<Box<dyn Rival + '_>> = vec![Box::new(pmemobj)];
    for engine in arguments.common.engines() {
        competitors.push(Box::new(Ours::new(engine, domain, &stage.progress)));
    }
    let rounds = rounds(arguments, versus.seed);
    let repeat = arguments.common.repeat;
    embedded::contest(&mut competitors, &rounds, repeat, domain, stage).map(Some)
}

fn against_redis(
    arguments: &Arguments,
    versus: &mut Versus,
    stage: &Stage,
) -> Outcome<Option<Race>> {
    let DomainChoice(domain) = arguments.common.domain;
    let domain = domain.map(|domain| domain.to_string());
    let launches = [Launch::redis(), servers::ours("redo", domain.as_deref())?];
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

impl Versus {
    fn text(&self) -> String {
        let Versus { machine, place, seed, repeat, .. } = self;
        let mut parts = vec![format!(
            "against rivals: {}, interleaved; seed {seed}\n{machine}\n{place}",
            plural(u64::from(*repeat), "repetition")
        )];
        parts.extend(self.embedded.as_ref().map(contest_text));
        parts.extend(self.servers.as_ref().map(race_text));
        parts.extend(self.unavailable.iter().cloned());
        parts.push("everybody's answers were checked".to_owned());
        parts.join("\n\n")
    }
}

fn contest_text(contest: &Contest) -> String {
    let [rival, ours @ ..] = &contest.competitors[..] else { return String::new() };
    let rows = contest.rounds.iter().flat_map(|result| {
        let [theirs, figures @ ..] = &result.ns_per_operation[..] else { return Vec::new() };
        let work = work_name(&result.round);
        let row =
            |name: &String, time: String, ratio: String| [work.clone(), name.clone(), time, ratio];
        let mut rows = vec![row(rival, theirs.show(show_ns), String::new())];
        rows.extend(ours.iter().zip(figures).map(|(name, time)| {
            row(name, time.show(show_ns), format!("{:.2}", theirs.median / time.median))
        }));
        rows
    });
    format!(
        "one line written back and a fence, in this run: {}\n\n{}",
        contest.line_and_fence_ns.show(show_ns),
        table(["work", "who", "time per operation", "times as fast"], rows)
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
