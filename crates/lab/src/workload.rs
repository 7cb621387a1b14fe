//! Workloads on the command line and in experiments: `--workload` with the options of all workloads, from their one
//! list, and the chosen one, to be run natively or simulated.

use crate::bench::engine::{self, PoolPlan};
use crate::bench::keyspace::Served;
use crate::bench::site::Site;
use crate::failure::Outcome;
use crate::{quantity, simulate};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use perdura::{AnySession, EngineKind};
use perdura_workloads::list::{
    self, Asked, Given, OnWorkload, Row, Usual, Value, Values, WORKLOADS,
};
use perdura_workloads::reuse::Reuse;
use perdura_workloads::{self as workloads, Plan, Progress, Workload};
use serde_json::json;
use std::collections::BTreeMap;

/// A workload with the values that are given for it.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) row: &'static Row,
    pub(crate) asked: Asked,
}

impl std::fmt::Debug for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.row.name, self.asked)
    }
}

impl Choice {
    /// The workload of this row, as it is.
    pub(crate) fn of(row: &'static Row) -> Self {
        Choice { row, asked: Asked::new() }
    }

    /// The workload of this name, as it is.
    pub(crate) fn named(name: &str) -> workloads::Outcome<Self> {
        Ok(Choice::of(Row::named(name)?))
    }

    /// Values of all its parameters, for this number of threads.
    pub(crate) fn values(&self, threads: usize) -> workloads::Outcome<Values> {
        self.row.values(&self.asked, threads)
    }

    /// Whether some of its transactions are rolled back.
    pub(crate) fn rolls_back(&self) -> bool {
        self.values(1).is_ok_and(|values| (self.row.rolls_back)(&values))
    }

    /// The workload, to be loaded: its data follows from `seed`, and `operations` will follow, warm-up included.
    pub(crate) fn make(
        &self,
        threads: usize,
        seed: u64,
        operations: u64,
    ) -> workloads::Outcome<Made> {
        let values = &self.values(threads)?;
        let given = Given { values, threads, seed, operations };
        list::run(self.row.name, &given, Making)
    }
}

/// All values as JSON.
pub(crate) fn values_as_json(values: &Values) -> serde_json::Value {
    let all = values.iter().map(|(name, value)| (name.replace('-', "_"), json!(value)));
    serde_json::Value::Object(all.collect())
}

/// How large loaded data is, in a line.
pub(crate) fn show_sizes(sizes: impl Iterator<Item = (&'static str, u64)>) -> String {
    let sizes = sizes.map(|(name, size)| format!("{} {name}", quantity::show_count(size)));
    format!("loaded: {}", sizes.collect::<Vec<_>>().join(", "))
}

/// A workload that has not been loaded.
pub(crate) struct Made {
    workload: Box<dyn AnyWorkload>,
    /// About how many bytes its data takes.
    pub(crate) bytes: u64,
}

impl Made {
    pub(crate) fn of<W: Workload + 'static>(workload: W, bytes: u64) -> Self {
        Made { workload: Box::new(workload), bytes }
    }
}

impl std::ops::Deref for Made {
    type Target = dyn AnyWorkload;

    fn deref(&self) -> &Self::Target {
        &*self.workload
    }
}

struct Making;

impl OnWorkload for Making {
    type Store = Served;
    type Output = Made;

    fn run<W: Workload + 'static>(self, workload: W, bytes: u64) -> Made {
        Made::of(workload, bytes)
    }
}

/// The runs of a workload: so that each is compiled once.
pub(crate) trait AnyWorkload {
    /// As [`Workload::ENDS`].
    fn ends(&self) -> bool;

    /// As [`Workload::rolls_back`].
    fn rolls_back(&self) -> bool;

    /// As [`engine::run`].
    fn natively(
        &self,
        label: &str,
        engine: EngineKind,
        site: &Site,
        pool: PoolPlan,
        plan: &Plan,
        progress: &Progress,
    ) -> Outcome<engine::Run>;

    /// As [`Workload::reuse`].
    fn reuse(
        &self,
        session: &mut AnySession,
        operations: u64,
        seed: u64,
        progress: &Progress,
    ) -> Option<workloads::Outcome<Reuse>>;

    /// As [`simulate::run`].
    fn simulated(
        &self,
        plan: &simulate::Plan,
        bytes: u64,
        progress: &Progress,
    ) -> Outcome<simulate::Run>;
}

impl<W: Workload> AnyWorkload for W {
    fn ends(&self) -> bool {
        W::ENDS
    }

    fn rolls_back(&self) -> bool {
        Workload::rolls_back(self)
    }

    fn natively(
        &self,
        label: &str,
        engine: EngineKind,
        site: &Site,
        pool: PoolPlan,
        plan: &Plan,
        progress: &Progress,
    ) -> Outcome<engine::Run> {
        engine::run(label, engine, site, pool, self, plan, progress)
    }

    fn reuse(
        &self,
        session: &mut AnySession,
        operations: u64,
        seed: u64,
        progress: &Progress,
    ) -> Option<workloads::Outcome<Reuse>> {
        Workload::reuse(self, session, operations, seed, progress)
    }

    fn simulated(
        &self,
        plan: &simulate::Plan,
        bytes: u64,
        progress: &Progress,
    ) -> Outcome<simulate::Run> {
        simulate::run(plan, self, bytes, progress)
    }
}

const WORKLOAD: &str = "workload";

impl clap::Args for Choice {
    fn augment_args(command: Command) -> Command {
        let names = PossibleValuesParser::new(WORKLOADS.iter().map(|row| row.name));
        let help = format!(
            "Workload: {}; `perdura-lab list workloads` tells what they are and which options each has",
            list::names()
        );
        let workload = Arg::new(WORKLOAD).long(WORKLOAD).value_name("NAME").value_parser(names);
        let workload = workload.default_value(WORKLOADS[0].name).hide_possible_values(true);
        let mut command = command.arg(workload.help(help));
        for (name, uses) in options() {
            command = command.arg(option(name, &uses));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Choice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let name = matches.get_one::<String>(WORKLOAD).map_or(WORKLOADS[0].name, String::as_str);
        let wrong = |error: String| clap::Error::raw(clap::error::ErrorKind::InvalidValue, error);
        let row = Row::named(name).map_err(|error| wrong(error.to_string()))?;
        let given = options().into_iter().filter_map(|(name, uses)| {
            let value = match uses[0].1 {
                Usual::Number(_) | Usual::Bytes(_) | Usual::Follows(..) => {
                    matches.get_one::<u64>(name).map(|number| Value::Number(*number))
                }
                Usual::OneOf(_) | Usual::File(_) => {
                    matches.get_one::<String>(name).cloned().map(Value::Name)
                }
                Usual::Off => matches.get_flag(name).then_some(Value::Switch(true)),
            };
            Some((name.to_owned(), value?))
        });
        Ok(Choice { row, asked: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A use of an option: its line and usual value, and the workloads.
type Use = (&'static str, Usual, Vec<&'static str>);

/// The options of all workloads, by name, each with its uses.
fn options() -> BTreeMap<&'static str, Vec<Use>> {
    let mut options: BTreeMap<_, Vec<Use>> = BTreeMap::new();
    for row in WORKLOADS {
        for own in row.parameters {
            let uses = options.entry(own.name).or_default();
            let (line, usual) = (own.line, own.usual.to_string());
            match uses.iter_mut().find(|other| other.0 == line && other.1.to_string() == usual) {
                Some(same) => same.2.push(row.name),
                None => uses.push((line, own.usual, vec![row.name])),
            }
        }
    }
    options
}

fn option(name: &'static str, uses: &[Use]) -> Arg {
    let arg = Arg::new(name).long(name).help_heading("Options of workloads");
    let arg = match uses[0].1 {
        Usual::Number(_) | Usual::Follows(..) => {
            arg.value_name("NUMBER").value_parser(quantity::count)
        }
        Usual::Bytes(_) => arg.value_name("BYTES").value_parser(quantity::bytes),
        Usual::OneOf(_) => {
            let mut names: Vec<&str> = Vec::new();
            for (_, usual, _) in uses {
                if let Usual::OneOf(more) = usual {
                    names.extend(*more);
                }
            }
            names.sort_unstable();
            names.dedup();
            arg.value_name("NAME").value_parser(PossibleValuesParser::new(names))
        }
        Usual::File(_) => arg.value_name("FILE").value_hint(ValueHint::FilePath),
        Usual::Off => arg.action(ArgAction::SetTrue),
    };
    let lines = uses.iter().map(|(line, usual, workloads)| {
        let usual = match usual {
            Usual::Off => String::new(),
            usual => format!(" [default: {usual}]"),
        };
        format!("{}: {line}{usual}", workloads.join(", "))
    });
    arg.help(lines.collect::<Vec<_>>().join("; "))
}
