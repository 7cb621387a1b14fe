//! A rival beside: Redis with its append-only file against `perdura serve`, under one client.

use super::experiment::RivalName;
use super::plan::{Place, Plan};
use crate::bench::servers::{self, Demand, Race};
use crate::bench::stage::Stage;
use crate::failure::Outcome;
use perdura_rivals::Error;
use perdura_rivals::server::Launch;
use serde::Serialize;

/// Keys and bytes of a value: the paper's records of 1 KB.
const KEYS: u64 = 100_000;
const BYTES: usize = 1_000;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outdone {
    /// Why it was not run.
    NotInstalled(String),
    /// The first server is the rival.
    Ran(Race),
}

/// Runs the experiment's rival, if it names one and anything is run natively.
pub(crate) fn run(plan: &Plan, stage: &Stage) -> Outcome<Option<Outdone>> {
    let native = plan.parts.iter().find(|part| part.place == Place::Native);
    let (Some(RivalName::RedisAof), Some(part)) = (plan.rival, native) else { return Ok(None) };
    let mut launches = vec![Launch::redis()];
    for engine in &plan.engines {
        launches.push(servers::ours(engine.name(), None)?);
    }
    let demand = Demand {
        clients: part.threads.clone(),
        pipelines: vec![1],
        requests: part.operations,
        keys: part.extent.records.min(KEYS),
        bytes: BYTES,
        repeat: part.repetitions,
    };
    match servers::start(&launches, stage.site.folder()) {
        Ok(servers) => {
            servers::race(&servers, &demand, &stage.progress).map(|race| Some(Outdone::Ran(race)))
        }
        Err(Error::Unavailable(why)) => Ok(Some(Outdone::NotInstalled(why))),
        Err(error) => Err(error.into()),
    }
}
