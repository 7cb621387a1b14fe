//! Servers compared: Redis and `perdura serve` under the same client, taking turns.

use super::spread::Spread;
use super::watch;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::quantity::plural;
use perdura::{Domain, EngineKind};
use perdura_baselines::Error;
use perdura_baselines::redis_benchmark::{self, Answer, Load, Request};
use perdura_baselines::server::{Launch, Server};
use perdura_workloads::Progress;
use serde::Serialize;
use std::path::Path;

/// How the servers are loaded.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Demand {
    pub(crate) clients: Vec<u32>,
    pub(crate) pipelines: Vec<u32>,
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    pub(crate) bytes: usize,
    pub(crate) repeat: u32,
}

/// One load, and the result of each server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LoadResult {
    #[serde(flatten)]
    pub(crate) load: Load,
    pub(crate) servers: Vec<ServerFigures>,
}

/// The result of one server under one load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerFigures {
    pub(crate) per_second: Spread,
    pub(crate) p50_ms: Spread,
    pub(crate) p99_ms: Spread,
}

/// All loads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Race {
    pub(crate) servers: Vec<String>,
    pub(crate) loads: Vec<LoadResult>,
}

impl Demand {
    fn loads(&self) -> Vec<Load> {
        let mut loads = Vec::new();
        for request in Request::ALL {
            for &pipeline in &self.pipelines {
                for &clients in &self.clients {
                    loads.push(self.load(request, clients, pipeline));
                }
            }
        }
        loads
    }

    /// Fewer requests for loads of slow requests, more for pipelined ones, so that runs have about the same length.
    fn load(&self, request: Request, clients: u32, pipeline: u32) -> Load {
        let requests = if clients == 1 { self.requests / 4 } else { self.requests };
        let requests = if pipeline > 1 { requests * 4 } else { requests };
        let requests = requests.max(u64::from(clients * pipeline));
        Load { request, clients, pipeline, requests, keys: self.keys, bytes: self.bytes }
    }
}

/// `perdura serve` of this same program, with its pool of at most `bytes` in the server's folder; it chooses the
/// number of threads unless it is given.
pub(crate) fn ours(
    engine: EngineKind,
    domain: Option<Domain>,
    bytes: u64,
    threads: Option<u16>,
) -> Outcome<Launch> {
    let domain = domain.map_or("auto".to_owned(), |domain| domain.to_string());
    let mut arguments = format!(
        "serve --pool {{dir}}/server.pool --size {bytes} --listen 127.0.0.1:{{port}} \
         --engine {engine} --domain {domain}"
    );
    let mut name = format!("perdura {engine}");
    if let Some(threads) = threads {
        arguments += &format!(" --threads {threads}");
        name += &format!(", {}", plural(threads.into(), "thread"));
    }
    Ok(Launch {
        name,
        program: std::env::current_exe()?,
        advice: "it was here a moment ago",
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
    })
}

/// Why a server's figures are missing: perhaps it is not installed.
pub(crate) enum Trouble {
    Baseline(Error),
    Other(Failure),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Baseline(error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Trouble::Other(error.into())
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Baseline(error) => error.into(),
            Trouble::Other(failure) => failure,
        }
    }
}

/// Starts every server, each in a folder of its own.
pub(crate) fn start(launches: &[Launch], folder: &Path) -> perdura_baselines::Result<Vec<Server>> {
    let start = |(index, launch): (usize, &Launch)| {
        let own = folder.join(format!("server-{index}"));
        std::fs::create_dir_all(&own).map_err(Error::io("cannot make a server's folder"))?;
        launch.start(&own)
    };
    launches.iter().enumerate().map(start).collect()
}

/// Loads the servers in turn.
pub(crate) fn race(servers: &[Server], demand: &Demand, progress: &Progress) -> Outcome<Race> {
    let mut results = Vec::new();
    let loads = demand.loads();
    let bar = watch::steps("against Redis", loads.len() * servers.len() * demand.repeat as usize);
    for load in loads {
        let mut answers = vec![Vec::new(); servers.len()];
        for _ in 0..demand.repeat {
            for (server, answers) in servers.iter().zip(&mut answers) {
                let answer = redis_benchmark::run(server, &load);
                interrupt::check(progress)?;
                answers.push(answer?);
                bar.inc(1);
            }
        }
        let figures = answers.iter().map(|answers| figures(answers)).collect();
        results.push(LoadResult { load, servers: figures });
    }
    servers.iter().try_for_each(|server| check(server, demand))?;
    Ok(Race {
        servers: servers.iter().map(|server| server.name().to_owned()).collect(),
        loads: results,
    })
}

/// Medians over `answers`, of which there is at least one.
pub(crate) fn figures(answers: &[Answer]) -> ServerFigures {
    let of = |figure: fn(&Answer) -> f64| Spread::of(answers.iter().map(figure));
    ServerFigures {
        per_second: of(|answer| answer.per_second),
        p50_ms: of(|answer| answer.p50_ms),
        p99_ms: of(|answer| answer.p99_ms),
    }
}

/// Checks that the server has the clients' data: redis-benchmark itself only counts answers.
fn check(server: &Server, demand: &Demand) -> Outcome {
    let wrong = |what: String| Failure::new(format!("wrong answer: {} {what}", server.name()));
    let keys = integer(&server.ask("DBSIZE")?);
    let fields = integer(&server.ask("HLEN myhash")?);
    if !keys.is_some_and(|keys| keys > 1 && keys <= demand.keys + 1) {
        return Err(wrong(format!("has {keys:?} keys")));
    }
    if !fields.is_some_and(|fields| fields > 0 && fields <= demand.keys) {
        return Err(wrong(format!("has {fields:?} fields in its hash")));
    }
    for _ in 0..100 {
        let key = server.ask("RANDOMKEY")?;
        let is_set = key.starts_with("key:");
        if is_set && !redis_benchmark::is_value(&server.ask(&format!("GET {key}"))?, demand.bytes) {
            return Err(wrong(format!("has another value for {key}")));
        }
    }
    Ok(())
}

fn integer(answer: &str) -> Option<u64> {
    answer.strip_prefix(':')?.parse().ok()
}
