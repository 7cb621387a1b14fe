//! YCSB through the server, compared with a baseline: `perdura serve` on each engine, and Redis with its append-only
//! file, under the same clients.

use super::experiment::ServerBaseline;
use super::plan::{Part, Place, Plan};
use super::runs::{Cell, Sample};
use super::work;
use crate::bench::clients::{self, Demand, Round, Turn};
use crate::bench::servers;
use crate::bench::stage::Stage;
use crate::failure::Outcome;
use perdura_baselines::Error;
use perdura_baselines::server::Launch;
use serde::Serialize;

/// The baseline server.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BaselineOutcome {
    /// Why it was not run, nor any other run through a server.
    NotInstalled(String),
    /// Its name and version.
    Ran(String),
}

/// Runs the served part, if there is one, and adds it to `samples`.
pub(crate) fn run(
    plan: &Plan,
    stage: &Stage,
    samples: &mut Vec<Sample>,
) -> Outcome<Option<BaselineOutcome>> {
    let part = plan.parts.iter().find(|part| part.place == Place::Served);
    let (Some(server_baseline), Some(part)) = (plan.server_baseline, part) else { return Ok(None) };
    let demand = Demand {
        rounds: rounds(plan, part),
        records: part.extent.records,
        repeat: part.repetitions,
        seed: plan.seed,
    };
    if demand.rounds.is_empty() {
        return Ok(None);
    }
    let mut names = vec![server_baseline.name()];
    let mut launches = vec![match server_baseline {
        ServerBaseline::RedisAof => Launch::redis(),
    }];
    for engine in &plan.engines {
        names.push(engine.name.as_str());
        launches.push(servers::ours(engine.engine, None, demand.pool_bytes(), None)?);
    }
    let turns = match clients::race(&launches, &demand, stage)? {
        Ok(turns) => turns,
        Err(Error::Unavailable(why)) => return Ok(Some(BaselineOutcome::NotInstalled(why))),
        Err(error) => return Err(error.into()),
    };
    let launched = |turn: &Turn| (names[turn.server], launches[turn.server].name.as_str());
    samples
        .extend(turns.iter().map(|turn| sample(turn, &demand.rounds[turn.round], launched(turn))));
    Ok(Some(BaselineOutcome::Ran(launches.swap_remove(0).name)))
}

/// All numbers of clients for each letter, in the plan's order.
fn rounds(plan: &Plan, part: &Part) -> Vec<Round> {
    let letters = plan.workloads.iter().filter_map(|name| Some((name, work::letter(name)?)));
    let each = letters.flat_map(|(name, letter)| {
        part.threads.iter().map(move |&clients| Round {
            letter,
            clients,
            operations: part.operations_of(name),
            warm_up: part.warm_up_of(name),
        })
    });
    each.collect()
}

fn sample(turn: &Turn, round: &Round, (engine, server): (&str, &str)) -> Sample {
    let cell = Cell {
        place: Place::Served,
        workload: format!("ycsb-{}", round.letter),
        threads: round.clients,
        engine: Some(engine.to_owned()),
        setting: None,
    };
    let measured = &turn.measured;
    let overall = measured.overall.as_ref();
    Sample {
        per_second: measured.per_second(),
        ns_per_operation: measured.ns_per_operation() * f64::from(round.clients),
        p50_ns: overall.map(|all| all.p50_ns),
        p99_ns: overall.map(|all| all.p99_ns),
        timed: overall.map_or(0, |all| all.samples),
        memory: server.to_owned(),
        cell,
        repetition: turn.repetition,
        seed: turn.seed,
        operations: measured.operations,
        ..Sample::default()
    }
}
