//! Explores a case: runs it, runs it again with power cuts, and checks the images left.

use crate::bench::Bench;
use crate::case::Points;
use crate::engine::{AnyFamily, Family, World, recover_alone};
use crate::failure::{Failure, Problem, without_panic};
use crate::history::{History, States};
use crate::life::{Life, LifeOutcome, Stopped, draw};
use crate::readers::agree;
use crate::starts::first_image;
use crate::{Budget, Case, Report, Start, Subject, Watcher};
use perdura_machine::{CallSite, Event, Machine};
use perdura_memory::random::SplitMix64;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Operations of each core in a life after recovery.
pub(crate) const OPERATIONS_AGAIN: usize = 2;

/// Explores a case. Returns the report, or the first failure.
///
/// # Errors
/// The failure, not shrunk.
pub fn explore<F: Family, S: Subject>(
    subject: &S,
    case: &Case,
    budget: Budget,
    watcher: &Watcher,
) -> Result<Report, Box<Failure>> {
    explore_on(F::value(), subject, case, budget, watcher)
}

/// As [`explore`], on an engine that is known at run time.
pub(crate) fn explore_on<S: Subject>(
    engine: &'static dyn AnyFamily,
    subject: &S,
    case: &Case,
    budget: Budget,
    watcher: &Watcher,
) -> Result<Report, Box<Failure>> {
    // Drawn here, so that a failure shows the values.
    let case = &Case { answers: Some(case.answers(engine.groups())), ..case.clone() };
    let mut explorer = Explorer {
        subject,
        case,
        budget,
        watcher,
        report: Report::default(),
        benches: Vec::new(),
        engine,
    };
    let explored = explorer.case_from_start();
    match explored {
        Ok(()) => Ok(explorer.report),
        Err(problem) => Err(Box::new(explorer.failure(problem))),
    }
}

pub(crate) struct Explorer<'a, S: Subject> {
    pub(crate) subject: &'a S,
    pub(crate) case: &'a Case,
    pub(crate) budget: Budget,
    pub(crate) watcher: &'a Watcher,
    pub(crate) report: Report,
    pub(crate) benches: Vec<Bench>,
    pub(crate) engine: &'a dyn AnyFamily,
}

/// The exploration of one life.
pub(crate) struct Exploration<'l, 'a, S: Subject> {
    pub(crate) life: &'l Life<'a, S>,
    pub(crate) states: States<S::Model>,
    pub(crate) history: History<S::Op>,
    /// How often each call site was met.
    met: BTreeMap<CallSite, u64>,
    pub(crate) depth: usize,
    pub(crate) points: Points,
    pub(crate) images: u64,
}

impl<S: Subject> Explorer<'_, S> {
    fn failure(&self, problem: Problem) -> Failure {
        let names = (self.subject, self.engine.name(), None);
        let Report { images, counters, .. } = self.report;
        Failure { images, counters, ..Failure::new(names, self.case, self.budget, problem) }
    }

    fn case_from_start(&mut self) -> Result<(), Problem> {
        let case = self.case;
        let limit = self.subject.pool_bytes();
        let begins = first_image(self.engine, self.subject, case, limit);
        let (image, first) = begins.map_err(Problem::plain)?;
        let life = Life {
            subject: self.subject,
            case,
            start: case.start,
            world: World::durable(image),
            ops: draw(self.subject, case),
            seed: case.seed,
            limit,
            fitted: None,
        };
        self.life(&life, vec![first], 0, case.points, self.budget.images)
    }

    /// Runs a life without a power cut.
    fn record(&self, life: &Life<'_, S>) -> Result<LifeOutcome<S::Op, S::Model>, Problem> {
        let mut watch = |_: &Machine, _| ControlFlow::Continue(());
        let lived = without_panic(|| life.live(self.engine, Some(&mut watch), self.case.omit))?;
        match lived {
            Ok(lived) => Ok(lived),
            Err(Stopped::Problem(what)) => Err(Problem::plain(what)),
            Err(Stopped::Watched) => unreachable!("nobody has stopped it"),
        }
    }

    /// Explores a life that begins in the state `first`.
    fn life(
        &mut self,
        life: &Life<'_, S>,
        first: Vec<Option<S::Model>>,
        depth: usize,
        points: Points,
        images: u64,
    ) -> Result<(), Problem> {
        let LifeOutcome { history, reads, machine, counters } = self.record(life)?;
        let sites = machine.sites();
        self.report.meet(&sites);
        let met = sites.all().into_iter().map(|(site, (_, count))| (site, count)).collect();
        self.report.events += history.events;
        self.report.lives += 1;
        self.report.counters += counters;
        drop(machine);
        let survivors = self.engine.survivors(self.case.domain);
        let mut states =
            States::of(self.subject, first, &history, survivors).map_err(Problem::plain)?;
        let mut history = history;
        agree::<S>(&mut states, &mut history, &reads).map_err(Problem::plain)?;
        let exploration = Exploration { life, states, history, met, depth, points, images };
        if self.benches.len() <= depth {
            self.benches.push(Bench::new(life.limit, self.case));
        }
        let mut problem = None;
        let Exploration { history, met, .. } = &exploration;
        let chosen = points.chosen(met.clone(), history.events, life.seed);
        let (omit, engine) = (self.case.omit, self.engine);
        if self.cuts_machine(depth) {
            self.machine_images(&exploration)?;
        }
        let mut watch = |machine: &Machine, event: Event| {
            if !chosen(&event) {
                return ControlFlow::Continue(());
            }
            if self.watcher.is_stopped() {
                return ControlFlow::Break(());
            }
            match self.point(&exploration, machine, &event) {
                Ok(()) => ControlFlow::Continue(()),
                Err(found) => {
                    problem = Some(found);
                    ControlFlow::Break(())
                }
            }
        };
        let lived = without_panic(|| life.live(engine, Some(&mut watch), omit))?;
        match (problem, lived) {
            (Some(problem), _) => Err(problem),
            (None, Ok(lived)) if lived.history.events != exploration.history.events => Err(
                Problem::plain("two runs of one seed differ: the tester is at fault".to_owned()),
            ),
            (None, Err(Stopped::Problem(what))) => Err(Problem::plain(what)),
            (None, _) => Ok(()),
        }
    }

    /// Opens an image on a machine, continues, and cuts the power again, also during recovery. The pool shows the
    /// last of `states`; any of the earlier ones may be the durable one.
    pub(crate) fn again(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        world: World,
        states: Vec<Option<S::Model>>,
        seed: u64,
    ) -> Result<(), String> {
        let met = without_panic(|| recover_alone(self.engine, self.case, world.clone()));
        self.report.meet(&met.map_err(|problem| problem.what)??);
        let cores = exploration.life.ops.len();
        let mut random = SplitMix64::new(seed);
        let mut ops =
            |core| (0..OPERATIONS_AGAIN).map(|_| self.subject.draw(&mut random, core)).collect();
        let ops = (0..cores).map(&mut ops).collect();
        let life = Life {
            subject: self.subject,
            case: self.case,
            start: Start::Closed,
            world,
            ops,
            seed,
            limit: exploration.life.limit,
            fitted: None,
        };
        let (points, images) = self.budget.again;
        self.life(&life, states, exploration.depth + 1, Points::Random(points), images).map_err(
            |problem| {
                let mut text = format!("of a pool that was cut and opened again: {}", problem.what);
                if let Some((event, events, name)) = problem.cut {
                    text += &format!("; cut again after event {event} of {events}: {name}");
                }
                for missing in problem.root_cause.missing {
                    text += &format!("; not durable: {missing}");
                }
                for early in problem.root_cause.early {
                    text += &format!("; durable: {early}");
                }
                text
            },
        )
    }
}
