//! A failure's case, from the options that were printed with it.

use crate::case::STARTS;
use crate::mechanisms;
use crate::{Budget, Case, Failure, Points, Report, Runner, Watcher};
use perdura_machine::{Event, Ps, Schedule, presets};

/// A case as options describe it.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The engine's name.
    pub engine: String,
    /// The structure's name.
    pub subject: String,
    /// The name of the mechanism in hardware, if there is one.
    pub mechanism: Option<String>,
    /// The case; apart from the omission.
    pub case: Case,
    /// The call site that is left out.
    pub omit: Option<String>,
    /// How much is explored.
    pub budget: Budget,
}

impl Choice {
    /// Parses the options of [`Failure::options`].
    ///
    /// # Errors
    /// Names the option that it does not understand.
    pub fn parse(options: &str) -> Result<Self, String> {
        let machine = presets::load("tiny").map_err(|error| error.to_string())?;
        let (engine, subject) = (String::new(), String::new());
        let case = Case { points: Points::Random(100), ..Case::new(machine, 1) };
        let (mechanism, omit, budget) = (None, None, Budget::default());
        let mut choice = Choice { engine, subject, mechanism, case, omit, budget };
        let mut rest = options.trim();
        while let Some(option) = rest.strip_prefix("--") {
            if let Some(after) = option.strip_prefix("unsafe ") {
                rest = after.trim_start();
                continue;
            }
            let (name, after) = option.split_once(' ').ok_or("an option without a value")?;
            let (value, after) = match after.strip_prefix('\'') {
                Some(quoted) => quoted.split_once('\'').ok_or("a quote that does not end")?,
                None => after.split_once(' ').unwrap_or((after, "")),
            };
            choice.set(name, value).map_err(|error| format!("--{name} {value}: {error}"))?;
            rest = after.trim_start();
        }
        if rest.is_empty() { Ok(choice) } else { Err(format!("'{rest}' is no option")) }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Box<dyn std::error::Error>> {
        let case = &mut self.case;
        match name {
            "mechanism" => {
                (self.mechanism, self.budget) = (Some(value.to_owned()), mechanisms::budget());
            }
            "mutant" => case.mutant = Some(value.to_owned()),
            "transactions" => case.transactions = Some(value.to_owned()),
            "epoch-us" => case.epoch = Some(Ps::from_ns(value.parse::<f64>()? * 1_000.0)),
            "engine" => self.engine = value.to_owned(),
            "workload" => self.subject = value.to_owned(),
            "machine" => case.machine = presets::load(value)?,
            "policy" => case.policy = value.parse()?,
            "domain" => case.domain = value.parse()?,
            "cores" => case.cores = value.parse()?,
            "schedule" if value == "clock" => case.schedule = Schedule::Clock,
            "schedule" => case.schedule = Schedule::Seeded { every: value.parse()? },
            "operations" => case.operations = value.parse()?,
            "answers" => case.answers = Some(value.parse()?),
            "seed" => case.seed = value.parse()?,
            "start" => {
                let found = STARTS.into_iter().find(|s| crate::case::start_name(*s) == value);
                case.start = found.ok_or("no such start")?;
            }
            "keep" => {
                let operation = |text: &str| {
                    let (core, op) = text.split_once('.')?;
                    Some((core.parse().ok()?, op.parse().ok()?))
                };
                let kept: Option<_> = value.split(',').map(operation).collect();
                case.keep = Some(kept.ok_or("CORE.NUMBER, with commas")?);
            }
            "omit" => self.omit = Some(value.to_owned()),
            "each" => self.budget.images = value.parse()?,
            "deaths-every" => self.budget.deaths_every = value.parse()?,
            "points" if value.contains('.') => case.points = Points::At(value.parse()?),
            "points" => case.points = Points::One(value.parse()?),
            _ => return Err("no such option".into()),
        }
        Ok(())
    }

    /// Runs the case.
    ///
    /// # Errors
    /// The failure, if it is reproduced.
    ///
    /// # Panics
    /// If the call site to leave out is never met.
    pub fn run(&self, runner: &dyn Runner) -> Result<Report, Box<Failure>> {
        let find = |name: &String| {
            site(runner, &self.case, name)
                .unwrap_or_else(|| panic!("there is no call site '{name}' in these runs"))
        };
        let omit = self.omit.as_ref().map(find);
        runner.explore(&Case { omit, ..self.case.clone() }, self.budget, &Watcher::default())
    }
}

/// The call site with this name, if a case meets it: this one, or a larger one, since recovery's call sites are met
/// only if there is enough to recover.
pub fn site(runner: &dyn Runner, case: &Case, name: &str) -> Option<Event> {
    let (small, all) = (Points::Random(60), Points::All);
    let larger = Case { keep: None, operations: 10, points: Points::Random(200), ..case.clone() };
    let cases =
        [Case { points: small, ..case.clone() }, Case { points: all, ..case.clone() }, larger];
    cases.iter().find_map(|case| {
        let report = runner.explore(case, Budget::default(), &Watcher::default()).ok()?;
        let mut all = report.sites.all().into_iter();
        all.find(|(site, _)| site.to_string() == name).map(|(_, (event, _))| event)
    })
}
