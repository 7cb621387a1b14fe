//! Checks a custom structure in one call.

use crate::case::STARTS;
use crate::replay::Choice;
use crate::runner::{ENGINES, on_engine};
use crate::shrink::{Effort, shrink};
use crate::{Budget, Case, Failure, Points, Report, Runner, Subject, Watcher};
use perdura_machine::cache::Policy;
use perdura_memory::Domain;

/// How much is tried.
#[derive(Clone, Debug)]
pub struct Check {
    /// Supplies the machine, the first seed, the schedule and the operations.
    pub case: Case,
    /// Seeds for each combination of engine, domain, cores and start; each with another policy.
    pub seeds: u64,
    /// Numbers of cores.
    pub cores: Vec<usize>,
    /// How much of each case is explored.
    pub budget: Budget,
    /// How much work to spend on shrinking.
    pub effort: Effort,
}

impl Default for Check {
    fn default() -> Self {
        let case = Case { points: Points::Random(40), ..Case::default() };
        let (budget, effort) = (Budget::default(), Effort::default());
        Check { case, seeds: 2, cores: vec![1, 3], budget, effort }
    }
}

/// Cuts the power of machines that run the structure, with every engine, on one core and on several, with caches that
/// are lost and caches that are not.
///
/// # Errors
/// The first failure, shrunk.
pub fn check<S: Subject + Clone + Send>(subject: &S) -> Result<Report, Box<Failure>> {
    Check::default().run(subject)
}

/// Replays the options in a failure's [`replay`](Failure::replay).
///
/// # Errors
/// The failure.
///
/// # Panics
/// If the options are not those of a printed failure.
pub fn replay<S: Subject + Clone + Send>(
    subject: &S,
    options: &str,
) -> Result<Report, Box<Failure>> {
    let choice = Choice::parse(options).unwrap_or_else(|error| panic!("{error}"));
    let runner = on_engine(&choice.engine, subject.clone());
    choice.run(&*runner.expect("a known engine"))
}

fn runners<'a, S: Subject + Clone + Send + 'a>(
    subject: &S,
) -> impl Iterator<Item = Box<dyn Runner + 'a>> {
    ENGINES.into_iter().filter_map(|engine| on_engine(engine, subject.clone()))
}

impl Check {
    /// Checks a structure.
    ///
    /// # Errors
    /// The first failure, shrunk.
    pub fn run<S: Subject + Clone + Send>(&self, subject: &S) -> Result<Report, Box<Failure>> {
        let mut all = Report::default();
        for runner in runners(subject) {
            for case in self.cases() {
                match runner.explore(&case, self.budget, &Watcher::default()) {
                    Ok(report) => all.add(&report),
                    Err(failure) => return Err(self.shrunk(&*runner, &failure)),
                }
            }
        }
        Ok(all)
    }

    fn shrunk(&self, runner: &dyn Runner, failure: &Failure) -> Box<Failure> {
        let (watcher, budget) = (Watcher::default(), self.budget);
        shrink(runner, failure, budget, self.effort, &watcher, &mut |_, _| {}).failure
    }

    fn cases(&self) -> impl Iterator<Item = Case> {
        let combinations = [Domain::Transient, Domain::Persistent].into_iter().flat_map(|domain| {
            let cores = self.cores.iter();
            cores.flat_map(move |cores| STARTS.map(|start| (domain, *cores, start)))
        });
        let all = (0..self.seeds).flat_map(move |_| combinations.clone());
        all.zip(0..).map(|((domain, cores, start), number)| {
            let policy = Policy::NAMED[number as usize % Policy::NAMED.len()].policy;
            let seed = self.case.seed.wrapping_add(number);
            Case { domain, cores, start, policy, seed, ..self.case.clone() }
        })
    }
}
