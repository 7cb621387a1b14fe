//! What was found wrong, so that somebody can find out why.

use crate::subjects::SUBJECTS;
use crate::{Budget, Case};
use perdura_machine::CallSite;
use std::fmt;

/// A failure of a case.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The case, shrunk or not.
    pub case: Case,
    /// The engine's name.
    pub engine: &'static str,
    /// The subject's name.
    pub subject: String,
    /// After which event the power was cut, of how many, and what the event was; `None` if the
    /// run went wrong without a cut.
    pub cut: Option<(u64, u64, String)>,
    /// What is wrong.
    pub what: String,
    /// The stores that were not durable, where each of them matters: their lines, places in the
    /// source, and how far they were asked for.
    pub missing: Vec<String>,
    /// The stores that were durable already, where each of them matters.
    pub early: Vec<String>,
    /// The operations that were carried out, each with its core and number.
    pub operations: Vec<String>,
    /// How much was explored.
    pub budget: Budget,
}

impl Failure {
    /// What shows it again: a command, or for a structure that it does not know, a call of
    /// [`replay`](crate::check::replay).
    pub fn replay(&self) -> String {
        let options = self.options();
        if SUBJECTS.contains(&self.subject.as_str()) {
            format!("perdura crash {options}")
        } else {
            format!("perdura_crashtest::check::replay(&{}, \"{options}\")", self.subject)
        }
    }

    /// The options that stand for the case and the cut: see [`Choice`](crate::replay::Choice).
    pub fn options(&self) -> String {
        let case = &self.case;
        let mut command = format!(
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
        if self.budget.images != Budget::default().images {
            command += &format!(" --each {}", self.budget.images);
        }
        if self.budget.deaths_every != Budget::default().deaths_every {
            command += &format!(" --deaths-every {}", self.budget.deaths_every);
        }
        if let Some((event, ..)) = self.cut {
            command += &format!(" --points {event}");
        }
        command
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        if let Some((event, events, name)) = &self.cut {
            writeln!(f, "  cut after event {event} of {events}: {name}")?;
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
