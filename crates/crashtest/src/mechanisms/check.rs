//! Checks a custom mechanism in one call.

use super::{Maker, Settings, budget, find};
use crate::replay::Choice;
use crate::shrink::{Effort, shrink};
use crate::{Budget, Case, Failure, Points, Report, Runner, Watcher};
use perdura_machine::Design;

/// How much is tried.
#[derive(Clone, Debug)]
pub struct CheckMechanism {
    /// Supplies the first seed, the operations and the crash points of a run.
    pub case: Case,
    /// The settings that cases take in turn.
    pub settings: Settings,
    /// How many of the settings each combination of structure and cores gets, each with another seed.
    pub turns: usize,
    /// Structures, by name.
    pub subjects: Vec<&'static str>,
    /// Numbers of cores.
    pub cores: Vec<usize>,
    /// How much of each case is explored.
    pub budget: Budget,
    /// How much work to spend on shrinking.
    pub effort: Effort,
}

impl Default for CheckMechanism {
    fn default() -> Self {
        CheckMechanism {
            case: Case { points: Points::Random(40), ..Case::default() },
            settings: Settings::default(),
            turns: 2,
            subjects: vec!["sps", "hash-map", "churn"],
            cores: vec![1, 3],
            budget: budget(),
            effort: Effort::default(),
        }
    }
}

/// Cuts the power of machines with a custom mechanism, and checks that the images are as it promises.
///
/// # Errors
/// The first failure, shrunk; also if it promises nothing.
pub fn check_mechanism(
    make: impl Fn() -> Box<dyn Design> + Send + Sync + 'static,
) -> Result<Report, Box<Failure>> {
    CheckMechanism::default().run(&Maker::own(make))
}

/// Replays the options in the [`replay`](Failure::replay) of a mechanism's failure.
///
/// # Errors
/// The failure.
///
/// # Panics
/// If the options are not those of a printed failure.
pub fn replay(
    make: impl Fn() -> Box<dyn Design> + Send + Sync + 'static,
    options: &str,
) -> Result<Report, Box<Failure>> {
    let choice = Choice::parse(options).unwrap_or_else(|error| panic!("{error}"));
    let runner = find(Maker::own(make), Some(&choice.engine), &choice.subject);
    choice.run(&*runner.expect("a known engine and structure"))
}

impl CheckMechanism {
    /// Checks a mechanism.
    ///
    /// # Errors
    /// The first failure, shrunk.
    ///
    /// # Panics
    /// If there is no structure of a name.
    pub fn run(&self, maker: &Maker) -> Result<Report, Box<Failure>> {
        let mut all = Report::default();
        for (number, (runner, case)) in self.cases(maker).enumerate() {
            let case = Case { seed: self.case.seed.wrapping_add(number as u64), ..case };
            match runner.explore(&case, self.budget, &Watcher::default()) {
                Ok(report) => all.add(&report),
                Err(failure) => return Err(self.shrunk(&*runner, &failure)),
            }
        }
        Ok(all)
    }

    fn cases(&self, maker: &Maker) -> impl Iterator<Item = (Box<dyn Runner>, Case)> {
        let kinds = self
            .subjects
            .iter()
            .flat_map(|subject| self.cores.iter().map(move |cores| (*subject, *cores)));
        let turns =
            (0..self.turns).flat_map(move |turn| kinds.clone().map(move |kind| (turn, kind)));
        turns.enumerate().map(move |(number, (turn, (subject, cores)))| {
            let runner = find(maker.clone(), None, subject).expect("a structure");
            let case = Case { cores, ..self.case.clone() };
            (runner, self.settings.set(number + turn, &case))
        })
    }

    fn shrunk(&self, runner: &dyn Runner, failure: &Failure) -> Box<Failure> {
        let (watcher, budget) = (Watcher::default(), self.budget);
        shrink(runner, failure, budget, self.effort, &watcher, &mut |_, _| {}).failure
    }
}
