//! The cases that the options select.

use super::Arguments;
use crate::engines::nothing_to_test;
use crate::failure::{Failure, Outcome};
use perdura::EngineKind;
use perdura_crashtest::case::{usual_operations, usual_schedule};
use perdura_crashtest::runner::{self, ENGINES};
use perdura_crashtest::subjects::SUBJECTS;
use perdura_crashtest::{Case, Points, Runner, Start};
use perdura_machine::cache::Policy;
use perdura_machine::{MachineConfig, Schedule};
use perdura_memory::Domain;
use perdura_workloads::list::Row;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Crash points of a run, unless given.
const POINTS: u64 = 100;

/// The help of `--workload`.
pub(super) fn structures() -> String {
    format!(
        "Workloads on small pools, and other structures: {}, or all; `perdura-lab list structures` tells what they are",
        SUBJECTS.join(", ")
    )
}

/// The structures that are named.
pub(super) fn chosen_structures(names: &[String]) -> Outcome<Vec<&'static str>> {
    // A workload that is known elsewhere is no typing error.
    let untested = |name: &&String| Row::named(name).is_ok() && !SUBJECTS.contains(&name.as_str());
    if let Some(name) = names.iter().find(untested) {
        return Err(Failure::new(format!(
            "the workload {name} has no structure for crash tests: these have: {}",
            SUBJECTS.join(", ")
        )));
    }
    several(names, "workload", &SUBJECTS, |name| *name)
}

/// The help of `--policy`.
pub(super) fn known_policies() -> String {
    format!("Replacement policies of all caches: {}, or all", Policy::names())
}

/// `--points`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PointsChoice(pub(super) Points);

impl FromStr for PointsChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is neither 'all', 'random', 'random:NUMBER' nor an event's number")
        };
        Ok(PointsChoice(match text {
            "all" => Points::All,
            "random" => Points::Random(POINTS),
            _ if text.contains('.') => Points::At(text.parse()?),
            _ => match text.strip_prefix("random:") {
                Some(count) => Points::Random(count.parse().map_err(|_| wrong())?),
                None => Points::One(text.parse().map_err(|_| wrong())?),
            },
        }))
    }
}

/// `--schedule`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleChoice(pub(super) Schedule);

impl FromStr for ScheduleChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "clock" {
            return Ok(ScheduleChoice(Schedule::Clock));
        }
        match text.parse() {
            Ok(every @ 1..) => Ok(ScheduleChoice(Schedule::Seeded { every })),
            _ => Err(format!("'{text}' is neither 'clock' nor a number of accesses from 1 on")),
        }
    }
}

/// One operation that `--keep` retains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept(usize, usize);

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once('.')
            .and_then(|(core, op)| Some((core.parse().ok()?, op.parse().ok()?)));
        parts
            .map(|(core, op)| Kept(core, op))
            .ok_or_else(|| format!("'{text}' is no operation: write CORE.NUMBER, as 0.3"))
    }
}

impl Kept {
    pub(super) fn is_among(&self, cores: usize, operations: usize) -> bool {
        self.0 < cores && self.1 < operations
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The members of `all` that are named; `all` selects all.
pub(in crate::commands) fn several<T: Copy, N: ToString>(
    chosen: &[String],
    what: &str,
    all: &[T],
    name: impl Fn(&T) -> N,
) -> Outcome<Vec<T>> {
    let mut found = Vec::new();
    for wanted in chosen {
        match all.iter().find(|one| name(one).to_string() == *wanted) {
            Some(one) => found.push(*one),
            None if wanted == "all" => found.extend(all),
            None => {
                let known: Vec<_> = all.iter().map(|one| name(one).to_string()).collect();
                return Err(Failure::new(format!(
                    "unknown {what} '{wanted}': it is one of {}, all",
                    known.join(", ")
                )));
            }
        }
    }
    Ok(found)
}

/// The seeds of cases have fewer bits, unless the first one has more.
const SEEDS_OF_CASES: u32 = 32;

/// All cases of one seed.
pub(super) struct Cases {
    /// Engines combined with structures.
    pub(super) runners: Vec<Box<dyn Runner>>,
    /// Which of these each case is for.
    pub(super) cases: Vec<(usize, Case)>,
    /// Number of cases that are, in order, every combination with one of the policies.
    pub(super) round: usize,
    /// Whether the seed decides the number of operations of each case.
    pub(super) operations_drawn: bool,
    /// Whether the seed decides how long a core's turns are.
    pub(super) schedule_drawn: bool,
}

impl Cases {
    pub(super) fn new(
        arguments: &Arguments,
        machine: MachineConfig,
        starts: &[Start],
        domains: &[Domain],
    ) -> Outcome<Self> {
        let name = |name: &&'static str| *name;
        let undefined =
            |name: &&String| name.parse().is_ok_and(|kind: EngineKind| !kind.is_crash_consistent());
        if let Some(name) = arguments.engine.iter().find(undefined).filter(|_| !arguments.r#unsafe)
        {
            return Err(Failure::new(nothing_to_test(name)));
        }
        let engines = match arguments.r#unsafe {
            true => {
                let all = EngineKind::ALL.map(EngineKind::name);
                several(&arguments.engine, "engine", &all, name)?
            }
            false => several(&arguments.engine, "engine", &ENGINES, name)?,
        };
        let structures = chosen_structures(&arguments.workload)?;
        let policies = policies(&arguments.policy)?;
        let mut runners = Vec::new();
        // Engines in turn, then structures: so that all of them come early.
        for structure in structures {
            for engine in &engines {
                let runner = match arguments.r#unsafe {
                    true => runner::find_any(engine, structure),
                    false => runner::find(engine, structure),
                };
                runners.push(runner.ok_or_else(|| {
                    Failure::new(format!("{structure} aborts transactions, and {engine} cannot"))
                })?);
            }
        }
        let (every, mut round) = (arguments.cores(&[1, 3]), Vec::new());
        for (domain, cores, start) in domains.iter().flat_map(|domain| {
            let cores = every.iter();
            cores.flat_map(move |cores| starts.iter().map(move |start| (domain, cores, start)))
        }) {
            let case = Case {
                domain: *domain,
                cores: *cores,
                start: *start,
                schedule: arguments.schedule.map_or(Schedule::Clock, |it| it.0),
                ..arguments.case(machine.clone())
            };
            round.extend((0..runners.len()).map(|runner| (runner, case.clone())));
        }
        // The policies take turns, until each combination has been run with each.
        let cases = (0..policies.len()).flat_map(|turn| {
            let policies = policies.iter().cycle().skip(turn);
            let with = |(case, policy): (&(usize, Case), &Policy)| {
                (case.0, Case { policy: *policy, ..case.1.clone() })
            };
            round.iter().zip(policies).map(with)
        });
        let cases = cases.collect();
        let operations_drawn = arguments.operations.is_none();
        let schedule_drawn = arguments.schedule.is_none();
        Ok(Cases { runners, cases, round: round.len(), operations_drawn, schedule_drawn })
    }

    /// Case number `index`: the same cases repeatedly, each time with another seed.
    pub(super) fn number(&self, index: u64) -> (usize, Case) {
        let (runner, case) = &self.cases[(index % self.cases.len() as u64) as usize];
        (*runner, self.with_seed(*runner, case, case.seed.wrapping_add(index)))
    }

    /// Brief lives with other seeds, besides this case: cut at two points, for one image each. Failures that depend on
    /// how cores meet needs many lives, and few images of each.
    pub(super) fn brief(
        &self,
        runner: usize,
        case: &Case,
        count: u64,
    ) -> impl Iterator<Item = Case> {
        let count = if case.cores > 1 { count } else { 0 };
        (1..=count).map(move |number| {
            let case =
                self.with_seed(runner, case, case.seed.wrapping_add(number << SEEDS_OF_CASES));
            Case { points: Points::Random(2), ..case }
        })
    }

    /// This case with another seed, and all that the seed decides.
    fn with_seed(&self, runner: usize, case: &Case, seed: u64) -> Case {
        let runner_of_it = &self.runners[runner];
        let most = runner_of_it.most_operations();
        let drawn = || usual_operations(seed, runner_of_it.skips());
        let operations = if self.operations_drawn { drawn() } else { case.operations }.min(most);
        let schedule = if self.schedule_drawn { usual_schedule(seed) } else { case.schedule };
        Case { seed, operations, schedule, ..case.clone() }
    }
}

impl Arguments {
    /// Common to all cases.
    pub(super) fn case(&self, machine: MachineConfig) -> Case {
        let keep: BTreeSet<_> = self.keep.iter().map(|Kept(core, op)| (*core, *op)).collect();
        Case {
            operations: self.operations.unwrap_or(0),
            answers: self.answers,
            points: self.points.0,
            keep: (!keep.is_empty()).then_some(keep),
            transactions: self.transactions.map(|own| own.name().to_owned()),
            ..Case::new(machine, self.seed)
        }
    }
}

/// Policies of other names are in quad-age's notation.
pub(super) fn policies(chosen: &[String]) -> Outcome<Vec<Policy>> {
    let mut policies = Vec::new();
    for name in chosen {
        match name.as_str() {
            "all" => policies.extend(Policy::NAMED.map(|own| own.policy)),
            name => policies
                .push(name.parse::<Policy>().map_err(|error| Failure::new(error.to_string()))?),
        }
    }
    Ok(policies)
}
