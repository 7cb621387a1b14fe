//! Failures, described so that the cause can be found.

use crate::life::numbered;
use crate::root_cause::RootCause;
use crate::subjects::SUBJECTS;
use crate::{Budget, Case, Place, Subject};
use perdura::{Counters, EngineKind};
use perdura_machine::mechanism::list;
use perdura_machine::{CallSite, Ps};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failed check, and its place.
pub(crate) struct Problem {
    pub(crate) what: String,
    pub(crate) cut: Option<(u64, u64, String)>,
    pub(crate) root_cause: RootCause,
    /// With a mechanism in hardware: which image of that crash point.
    pub(crate) place: Option<Box<Place>>,
}

impl Problem {
    pub(crate) fn plain(what: String) -> Self {
        Problem { what, cut: None, root_cause: RootCause::default(), place: None }
    }
}

/// Runs code under test, whose panics are problems.
pub(crate) fn without_panic<R>(run: impl FnOnce() -> R) -> Result<R, Problem> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Problem::plain(format!("a panic: {}", text.unwrap_or("without words")))
    })
}

/// A failure of a case.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The case, shrunk or not.
    pub case: Case,
    /// The engine's name.
    pub engine: &'static str,
    /// The subject's name.
    pub subject: String,
    /// The name of the mechanism in hardware under test, if any.
    pub mechanism: Option<String>,
    /// With such a mechanism: which image of that crash point.
    pub place: Option<Place>,
    /// The event after which the power was cut, out of how many, and a description of it; `None` if the run went wrong
    /// without a power cut.
    pub cut: Option<(u64, u64, String)>,
    /// The fault.
    pub what: String,
    /// The stores whose absence each matters: their lines, places in the source, and how far their durability was
    /// requested.
    pub missing: Vec<String>,
    /// The durable stores whose presence each matters.
    pub early: Vec<String>,
    /// The operations that were carried out, each with its core and number.
    pub operations: Vec<String>,
    /// How much was explored.
    pub budget: Budget,
    /// Images that had been checked before, and the engine's counts of these runs.
    pub images: u64,
    /// See there.
    pub counters: Counters,
}

impl Failure {
    /// A problem of a structure on an engine, or of a mechanism under them.
    pub(crate) fn new<S: Subject>(
        (subject, engine, mechanism): (&S, &'static str, Option<&str>),
        case: &Case,
        budget: Budget,
        problem: Problem,
    ) -> Self {
        let operations = numbered(subject, case)
            .map(|(core, index, op)| format!("{core}.{index}: {op:?}"))
            .collect();
        Failure {
            case: case.clone(),
            engine,
            subject: subject.name().to_owned(),
            mechanism: mechanism.map(str::to_owned),
            place: problem.place.map(|place| *place),
            cut: problem.cut,
            what: problem.what,
            missing: problem.root_cause.missing,
            early: problem.root_cause.early,
            operations,
            budget,
            images: 0,
            counters: Counters::default(),
        }
    }

    /// How to reproduce it: a command, or for a structure unknown to the command, a call of
    /// [`replay`](crate::check::replay).
    pub fn replay(&self) -> String {
        let options = self.options();
        if let Some(name) = self.mechanism.as_ref().filter(|name| list::find(name).is_err()) {
            return format!("perdura_crashtest::mechanisms::replay(/* {name} */, \"{options}\")");
        }
        if SUBJECTS.contains(&self.subject.as_str()) {
            format!("perdura-lab crash {options}")
        } else {
            format!("perdura_crashtest::check::replay(&{}, \"{options}\")", self.subject)
        }
    }

    /// The options that describe the case and the crash point: see [`Choice`](crate::replay::Choice).
    pub fn options(&self) -> String {
        let case = &self.case;
        let mut command = String::new();
        let promises = |kind: EngineKind| kind.is_crash_consistent();
        let is_unsafe = !self.engine.parse().map_or(true, promises);
        if self.mechanism.is_none() && is_unsafe {
            command += "--unsafe ";
        }
        if let Some(mechanism) = &self.mechanism {
            command += &format!("--mechanism {mechanism} ");
        }
        if let Some(mutant) = &case.mutant {
            command += &format!("--mutant {mutant} ");
        }
        command += &format!(
            "--engine {} --workload {} --machine {} --policy {} --domain {} \
             --cores {} --schedule {} --operations {} --seed {}",
            self.engine,
            self.subject,
            case.machine.name,
            case.policy,
            case.domain,
            case.cores,
            crate::case::schedule_name(case.schedule),
            case.operations,
            case.seed,
        );
        if let Some(name) = &case.transactions {
            command += &format!(" --transactions {name}");
        }
        if let Some(epoch) = case.epoch {
            command += &format!(" --epoch-us {}", microseconds(epoch));
        }
        command += &format!(" --start {}", crate::case::start_name(case.start));
        if let Some(answers) = &case.answers {
            command += &format!(" --answers {answers}");
        }
        if let Some(keep) = &case.keep {
            let kept: Vec<_> = keep.iter().map(|(core, op)| format!("{core}.{op}")).collect();
            command += &format!(" --keep {}", kept.join(","));
        }
        if let Some(omit) = &case.omit {
            command += &format!(" --omit '{}'", CallSite::of(omit.kind, omit.site));
        }
        if self.mechanism.is_none() && self.budget.images != Budget::default().images {
            command += &format!(" --each {}", self.budget.images);
        }
        if self.budget.deaths_every != Budget::default().deaths_every {
            command += &format!(" --deaths-every {}", self.budget.deaths_every);
        }
        match (self.place, &self.cut) {
            (Some(place), _) => command += &format!(" --points {place}"),
            (None, Some((event, ..))) => command += &format!(" --points {event}"),
            (None, None) => {}
        }
        command
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        if let Some((event, events, name)) = &self.cut {
            let arrival = self.place.map_or(0, |place| place.arrival);
            match arrival {
                0 => writeln!(f, "  cut after event {event} of {events}: {name}")?,
                _ => writeln!(
                    f,
                    "  cut at arrival {arrival} before event {event} of {events}: {name}"
                )?,
            }
        }
        for (stores, again) in self.place.iter().flat_map(Place::recoveries).zip(["", " again"]) {
            writeln!(f, "  recovery cut{again} after {stores} of its stores")?;
        }
        for missing in &self.missing {
            writeln!(f, "  not durable: {missing}")?;
        }
        for early in &self.early {
            writeln!(f, "  durable already: {early}")?;
        }
        for operation in &self.operations {
            writeln!(f, "  {operation}")?;
        }
        write!(f, "  again: {}", self.replay())
    }
}

/// The length of an epoch in the unit of the command line.
pub(crate) fn microseconds(epoch: Ps) -> f64 {
    epoch.as_ns() / 1_000.0
}
