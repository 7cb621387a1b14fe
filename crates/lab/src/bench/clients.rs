//! YCSB through servers: clients over TCP that wait for each answer, and verify it. The servers take turns, each with
//! fresh records in every repetition.

use super::knobs::Knobs;
use super::options::plenty;
use super::series::SEED_STEP;
use super::servers::{self, ServerFigures};
use super::stage::Stage;
use super::watch;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use perdura_baselines::Error;
use perdura_baselines::redis_benchmark::Answer;
use perdura_baselines::server::{Launch, Server};
use perdura_baselines::ycsb::Client;
use perdura_workloads::ycsb::remote::Records;
use perdura_workloads::ycsb::{Letter, Shape, bytes_of};
use perdura_workloads::{Measured, Plan, Progress};
use serde::{Serialize, Serializer};
use tempfile::TempDir;

/// Connections that load the records, and read all of them in the end.
const CONNECTIONS: usize = 8;

/// One load: a letter's operations by this many clients.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    #[serde(serialize_with = "in_words")]
    pub(crate) letter: Letter,
    pub(crate) clients: u32,
    /// Measured operations, all clients together.
    pub(crate) operations: u64,
    /// Warm-up operations before those.
    pub(crate) warm_up: u64,
}

fn in_words<S: Serializer>(letter: &Letter, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(letter)
}

/// How the servers are loaded: all rounds one after the other, on the same records.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    pub(crate) rounds: Vec<Round>,
    /// Records loaded, of ten fields of 100 bytes.
    pub(crate) records: u64,
    pub(crate) repeat: u32,
    pub(crate) seed: u64,
}

/// The result of one server in one round.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// The round's index.
    pub(crate) round: usize,
    /// The server's index.
    pub(crate) server: usize,
    pub(crate) repetition: u32,
    pub(crate) seed: u64,
    pub(crate) measured: Measured,
}

/// The results of all servers in one round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RoundResult {
    #[serde(flatten)]
    pub(crate) round: Round,
    pub(crate) servers: Vec<ServerFigures>,
}

impl Demand {
    /// Bytes for a pool that is to hold all records, inserted ones included.
    pub(crate) fn pool_bytes(&self) -> u64 {
        let inserts = self.rounds.iter().map(|round| {
            let operations = round.operations.saturating_add(round.warm_up);
            (operations as f64 * round.letter.mix().insert * 1.1) as u64 + 1_000
        });
        let records = inserts.fold(self.records, u64::saturating_add);
        plenty(bytes_of(Letter::C, records, 0, Shape::default()), &Knobs::default())
    }

    /// All servers' runs of a repetition have the same seed. Rounds on the same records have different ones: a value
    /// to be written must not be there already.
    fn seed(&self, repetition: u32, round: usize) -> u64 {
        self.seed.wrapping_add(u64::from(repetition) * SEED_STEP).wrapping_add(round as u64)
    }
}

/// Loads the servers in turn. The inner error is of a server that did not start.
pub(crate) fn race(
    launches: &[Launch],
    demand: &Demand,
    stage: &Stage,
) -> Outcome<perdura_baselines::Result<Vec<Turn>>> {
    let mut turns = Vec::new();
    for repetition in 0..demand.repeat {
        // Removed after the servers have ended.
        let folder = TempDir::new_in(stage.site.folder())?;
        let servers = match servers::start(launches, folder.path()) {
            Ok(servers) => servers,
            Err(error) => return Ok(Err(error)),
        };
        turns.extend(heat(&servers, demand, repetition, &stage.progress)?);
    }
    Ok(Ok(turns))
}

/// One repetition.
fn heat(
    servers: &[Server],
    demand: &Demand,
    repetition: u32,
    progress: &Progress,
) -> Outcome<Vec<Turn>> {
    let label = |what: &str, server: &Server| {
        format!("{}/{} {what} {}", repetition + 1, demand.repeat, server.name())
    };
    let mut tracks = Vec::with_capacity(servers.len());
    for server in servers {
        let label = label("load", server);
        tracks.push(watch::with_bar(&label, demand.records, progress, || {
            Track::load(server, demand.records, progress)
        })?);
    }
    let mut turns = Vec::new();
    for (index, round) in demand.rounds.iter().enumerate() {
        let seed = demand.seed(repetition, index);
        for (server, track) in tracks.iter().enumerate() {
            let what = format!("ycsb-{} x{}", round.letter, round.clients);
            let total = round.operations.saturating_add(round.warm_up);
            let label = label(&what, track.server);
            let measured =
                watch::with_bar(&label, total, progress, || track.run(*round, seed, progress))?;
            turns.push(Turn { round: index, server, repetition, seed, measured });
        }
    }
    for track in &tracks {
        let label = label("check", track.server);
        watch::with_bar(&label, track.records.count(), progress, || track.check(progress))?;
    }
    Ok(turns)
}

/// A server, and the expected contents.
struct Track<'a> {
    server: &'a Server,
    records: Records,
}

impl<'a> Track<'a> {
    fn load(server: &'a Server, records: u64, progress: &Progress) -> Outcome<Self> {
        let records = Records::new(records, Shape::default())?;
        let track = Track { server, records };
        let loaded = track.records.load(|| track.connect(), CONNECTIONS, progress);
        track.checked(loaded, progress)?;
        // A rewrite that the load has triggered must not count for the rounds.
        let settled = Client::connect(server).and_then(|mut client| client.settle());
        interrupt::check(progress)?;
        settled?;
        Ok(track)
    }

    fn connect(&self) -> perdura_workloads::Outcome<Client> {
        let remote = |error: Error| perdura_workloads::Failure::Remote(error.to_string());
        Client::connect(self.server).map_err(remote)
    }

    fn run(&self, round: Round, seed: u64, progress: &Progress) -> Outcome<Measured> {
        let plan = Plan {
            threads: round.clients as usize,
            operations: round.operations,
            warm_up: round.warm_up,
            seed,
            sample_every: 1,
            per_second: None,
            pinned: false,
            window: 1,
        };
        let run = self.records.run(round.letter, || self.connect(), &plan, progress);
        self.checked(run, progress)
    }

    fn check(&self, progress: &Progress) -> Outcome {
        self.checked(self.records.check(|| self.connect(), CONNECTIONS, progress), progress)
    }

    /// Names the server whose answer was wrong. Ctrl-C ends servers too: after it, a missing answer is no error.
    fn checked<T>(&self, result: perdura_workloads::Outcome<T>, progress: &Progress) -> Outcome<T> {
        interrupt::check(progress)?;
        result.map_err(|failure| match failure {
            perdura_workloads::Failure::Wrong(what) => {
                Failure::new(format!("wrong answer: {}: {what}", self.server.name()))
            }
            other => other.into(),
        })
    }
}

/// Medians over the repetitions of each round, for this many servers.
pub(crate) fn results(demand: &Demand, turns: &[Turn], servers: usize) -> Vec<RoundResult> {
    let of = |round: usize, server: usize| {
        let own = turns.iter().filter(|turn| turn.round == round && turn.server == server);
        servers::figures(&own.map(|turn| answer(&turn.measured)).collect::<Vec<_>>())
    };
    let rounds = demand.rounds.iter().enumerate();
    rounds
        .map(|(index, round)| RoundResult {
            round: *round,
            servers: (0..servers).map(|server| of(index, server)).collect(),
        })
        .collect()
}

fn answer(measured: &Measured) -> Answer {
    let ms = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / 1e6);
    let overall = measured.overall.as_ref();
    Answer {
        per_second: measured.per_second(),
        p50_ms: ms(overall.map(|all| all.p50_ns)),
        p99_ms: ms(overall.map(|all| all.p99_ns)),
        max_ms: ms(overall.map(|all| all.max_ns)),
    }
}
