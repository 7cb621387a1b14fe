//! Explores a case of a mechanism: runs it, runs it again with power cuts, and compares what is left with what was
//! promised.

use super::maker::{Fitted, Maker};
use super::program::{Program, Stores};
use crate::case::{Points, mix};
use crate::engine::{AnyFamily, World};
use crate::explore::OPERATIONS_AGAIN;
use crate::failure::{Problem, without_panic};
use crate::life::{Life, Stopped, Watch, draw};
use crate::root_cause::RootCause;
use crate::starts::first_image;
use crate::{Budget, Case, Failure, Place, Report, Start, Subject, Watcher};
use perdura::EngineKind;
use perdura_machine::{AfterCut, CallSite, Event, Kind, Machine};
use perdura_memory::random::SplitMix64;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::xxh3_64;

/// The subject of the test: a structure on an engine, and the mechanism.
type Tested<'a, S> = (&'a S, &'static dyn AnyFamily, &'a Maker);

/// Explores a case. Returns the report, or the first failure.
pub(super) fn explore<S: Subject>(
    tested: Tested<'_, S>,
    case: &Case,
    budget: Budget,
    watcher: &Watcher,
) -> Result<Report, Box<Failure>> {
    let mut explorer = Explorer { tested, case, budget, watcher, report: Report::default() };
    match explorer.first_life() {
        Ok(()) => Ok(explorer.report),
        Err(problem) => {
            let (subject, engine, maker) = tested;
            let names = (subject, engine.name(), Some(maker.name()));
            Err(Box::new(Failure::new(names, case, budget, problem)))
        }
    }
}

struct Explorer<'a, S> {
    tested: Tested<'a, S>,
    case: &'a Case,
    budget: Budget,
    watcher: &'a Watcher,
    report: Report,
}

/// The exploration of one life of a machine.
struct Exploration<'l, 'a, S: Subject> {
    program: &'l Program<'a, S>,
    /// Events, not counting arrivals.
    events: u64,
    depth: usize,
    points: Points,
    images: u64,
}

impl<'a, S: Subject> Explorer<'a, S> {
    fn first_life(&mut self) -> Result<(), Problem> {
        let ((subject, engine, maker), case) = (self.tested, self.case);
        // Checked here, so that a wrong name is not mistaken for a failing run.
        maker.design(case).map_err(Problem::plain)?;
        let begins =
            first_image(engine, subject, case, subject.pool_bytes()).map_err(Problem::plain)?;
        let ops = draw(subject, case);
        let own = Fitted { maker, own: Vec::new() };
        let program = self.pool(case.start, begins.0, own, (ops, case.seed));
        self.life(&program, 0, case.points, self.budget.images)
    }

    fn pool(
        &self,
        start: Start,
        words: Vec<u64>,
        fitted: Fitted<'a>,
        (ops, seed): (Vec<Vec<S::Op>>, u64),
    ) -> Program<'a, S> {
        let (subject, _, _) = self.tested;
        let (world, fitted) = (World::durable(words), Some(fitted));
        Program::Pool(Life {
            subject,
            case: self.case,
            start,
            world,
            ops,
            seed,
            limit: subject.pool_bytes(),
            fitted,
        })
    }

    /// Explores a life of a machine.
    fn life(
        &mut self,
        program: &Program<'_, S>,
        depth: usize,
        points: Points,
        images: u64,
    ) -> Result<(), Problem> {
        let engine = self.tested.1;
        let mut met: BTreeMap<CallSite, u64> = BTreeMap::new();
        let (mut all, mut events) = (0, 0);
        let mut count = |_: &Machine, event: Event| {
            *met.entry(CallSite::of(event.kind, event.site)).or_default() += 1;
            (all, events) = (all + 1, event.number);
            ControlFlow::Continue(())
        };
        run(engine, program, &mut count)?;
        for (site, count) in &met {
            self.report.coverage.entry(site.clone()).or_default().met += count;
        }
        self.report.events += all;
        self.report.lives += 1;
        let chosen = points.chosen(met, all, program.seed());
        let exploration = Exploration { program, events, depth, points, images };
        let (mut problem, mut shown) = (None, 0);
        let mut watch = |machine: &Machine, event: Event| {
            shown += 1;
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
        let ended = run(engine, program, &mut watch)?;
        match problem {
            Some(problem) => Err(problem),
            None if ended && shown != all => Err(Problem::plain(
                "two runs of one seed differ: the tester is at fault".to_owned(),
            )),
            None => Ok(()),
        }
    }

    /// Cuts the power at an event or arrival: with recovery complete, and cut short after some of its stores.
    fn point(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        machine: &Machine,
        event: &Event,
    ) -> Result<(), Problem> {
        let mut place = Place::of(event);
        if let Points::At(one) = exploration.points {
            place = one;
        }
        let before = self.report.images;
        let left = self.image(exploration, machine, (event, place))?;
        let exact = matches!(exploration.points, Points::At(_));
        let more = if left.stores == 0 || exact { 1 } else { exploration.images };
        let mut random = SplitMix64::new(mix(exploration.program.seed(), place.number()));
        for number in 1..more {
            // Recovery may be cut short before its first store, and before its last one.
            let mut stores = || Some(random.below(left.stores));
            let recoveries = [stores(), if number % 2 == 0 { stores() } else { None }];
            self.image(exploration, machine, (event, Place { recoveries, ..place }))?;
        }
        self.report.cut(event, self.report.images - before);
        self.watcher.points.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// One image: it must be as promised; perhaps a machine goes on with it.
    fn image(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        machine: &Machine,
        (event, place): (&Event, Place),
    ) -> Result<AfterCut, Problem> {
        let left = machine.cut(&place.recoveries());
        self.count(exploration, event, place, &left);
        let wrong = match machine.broken_promise(&left.words) {
            Some(word) => Err(format!(
                "the word at {:#x} is not as {} promises: it is {:#x}",
                word * 8,
                self.tested.2.name(),
                left.words[word]
            )),
            None => self.again(exploration, place, &left),
        };
        wrong.map_err(|what| {
            let cut = (event.number, exploration.events, CallSite::of(event.kind, event.site));
            let cut = Some((cut.0, cut.1, cut.2.to_string()));
            Problem { what, cut, root_cause: RootCause::default(), place: Some(Box::new(place)) }
        })?;
        Ok(left)
    }

    fn count(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        event: &Event,
        place: Place,
        left: &AfterCut,
    ) {
        let report = &mut self.report;
        report.images += 1;
        report.again += u64::from(exploration.depth > 0);
        report.at_arrivals += u64::from(matches!(event.kind, Kind::Arrival(_)));
        report.in_recovery += u64::from(place.recoveries[0].is_some());
        let begun = exploration.program.words();
        let moved = left.words.iter().zip(begun).any(|(now, then)| now != then);
        report.moved_on += u64::from(moved);
        report.distinct.insert(xxh3_64(bytemuck::cast_slice(&left.words)));
        self.watcher.images.fetch_add(1, Ordering::Relaxed);
    }

    /// Now and then a new machine goes on with the image, including the mechanism's own lines, and its power is cut
    /// again.
    fn again(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        place: Place,
        left: &AfterCut,
    ) -> Result<(), String> {
        let (every, depth) = (self.budget.again_every, exploration.depth);
        let seed = mix(exploration.program.seed(), place.number() ^ 0x6167_6169_6e00);
        if every == 0 || depth >= self.budget.depth || !seed.is_multiple_of(every) {
            return Ok(());
        }
        let ((subject, engine, maker), case) = (self.tested, self.case);
        let (words, fitted) = (left.words.clone(), Fitted { maker, own: left.own.clone() });
        let consistent =
            engine.name().parse().is_ok_and(|kind: EngineKind| kind.is_crash_consistent());
        // A pool whose creation was cut short is no pool, not even in later lives.
        let pool = matches!(exploration.program, Program::Pool(life) if life.start != Start::New);
        let program = if consistent && pool {
            let mut random = SplitMix64::new(seed);
            let mut ops =
                |core| (0..OPERATIONS_AGAIN).map(|_| subject.draw(&mut random, core)).collect();
            let ops = (0..case.cores).map(&mut ops).collect();
            self.pool(Start::Closed, words, fitted, (ops, seed))
        } else {
            let limit = subject.pool_bytes();
            Program::Stores(Stores { case, words, seed, limit, fitted })
        };
        let (points, images) = self.budget.again;
        self.life(&program, depth + 1, Points::Random(points), images).map_err(|problem| {
            let mut text = format!("of a machine that was switched on again: {}", problem.what);
            if let (Some(place), Some((_, _, name))) = (problem.place, problem.cut) {
                text += &format!("; cut again at {place}: {name}");
            }
            text
        })
    }
}

/// Runs a program on a new machine, showing each event to `watch`; false if that has stopped it.
fn run<S: Subject>(
    engine: &dyn AnyFamily,
    program: &Program<'_, S>,
    watch: Watch<'_>,
) -> Result<bool, Problem> {
    match without_panic(|| program.run(engine, watch))? {
        Ok(()) => Ok(true),
        Err(Stopped::Watched) => Ok(false),
        Err(Stopped::Problem(what)) => Err(Problem::plain(what)),
    }
}
