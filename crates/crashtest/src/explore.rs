//! Explores a case: runs it, runs it again with the power cut, checks what is left.

use crate::candidates::Candidates;
use crate::case::{BYTES, Points};
use crate::engines::Family;
use crate::failure::Failure;
use crate::history::States;
use crate::life::{Life, Lived, Stopped, draw, first_image, recover_alone};
use crate::verify::{Expect, Found, verify};
use crate::{Case, Report, Start, Subject, Trial};
use perdura_machine::{CallSite, Event, Machine};
use perdura_memory::Memory;
use perdura_memory::image::{Image, LineWords};
use perdura_memory::random::SplitMix64;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How much of a case is explored.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Images of each cut that are checked, at most.
    pub images: u64,
    /// Of so many images one is lived on, and cut again; 0: none.
    pub again_every: u64,
    /// Cuts of a life after recovery, and images of each.
    pub again: (u64, u64),
    /// How often lives follow one another.
    pub depth: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { images: 24, again_every: 40, again: (24, 3), depth: 2 }
    }
}

/// Combinations of line states that are all tried, as a multiple of the images of a cut.
const EXHAUSTIVE: u64 = 4;
/// Candidates looked at for each image that is checked, at most.
const LOOKED_AT: u64 = 4;
/// Operations of each core in a life after recovery.
const OPERATIONS_AGAIN: usize = 2;

/// How far an exploration is, for whoever watches from another thread; and whether it should end.
#[derive(Debug, Default)]
pub struct Watcher {
    /// Images checked.
    pub images: AtomicU64,
    /// Cuts.
    pub points: AtomicU64,
    /// End early.
    pub stop: AtomicBool,
}

/// Explores a case: what was explored, or the first failure.
///
/// # Errors
/// The failure, as it was found.
pub fn explore<F: Family, S: Subject>(
    subject: &S,
    case: &Case,
    budget: Budget,
    watcher: &Watcher,
) -> Result<Report, Box<Failure>> {
    let mut explorer = Explorer {
        subject,
        case,
        budget,
        watcher,
        report: Report::default(),
        benches: Vec::new(),
        engine: F::NAME,
    };
    let explored = explorer.case_from_start::<F>();
    match explored {
        Ok(()) => Ok(explorer.report),
        Err(problem) => Err(Box::new(explorer.failure(problem))),
    }
}

/// What went wrong, and where.
struct Problem {
    what: String,
    cut: Option<(u64, u64, String)>,
    missing: Vec<String>,
}

impl Problem {
    fn plain(what: String) -> Self {
        Problem { what, cut: None, missing: Vec::new() }
    }
}

/// The memory that images of one depth are checked on.
struct Bench {
    trial: Arc<Trial>,
    /// What it holds between images, with a sum over all lines.
    base: Vec<u64>,
    sum: u64,
    seen: HashSet<u64>,
}

struct Explorer<'a, S: Subject> {
    subject: &'a S,
    case: &'a Case,
    budget: Budget,
    watcher: &'a Watcher,
    report: Report,
    benches: Vec<Bench>,
    engine: &'static str,
}

/// One life, explored.
struct Exploration<'l, 'a, S: Subject> {
    life: &'l Life<'a, S>,
    states: States<S::Model>,
    events: u64,
    depth: usize,
    points: Points,
    images: u64,
}

impl<S: Subject> Explorer<'_, S> {
    fn failure(&self, problem: Problem) -> Failure {
        let ops = draw(self.subject, self.case);
        let operations = ops
            .iter()
            .enumerate()
            .flat_map(|(core, ops)| ops.iter().map(move |op| format!("core {core}: {op:?}")))
            .collect();
        Failure {
            case: self.case.clone(),
            engine: self.engine,
            subject: self.subject.name().to_owned(),
            cut: problem.cut,
            what: problem.what,
            missing: problem.missing,
            operations,
        }
    }

    fn case_from_start<F: Family>(&mut self) -> Result<(), Problem> {
        let case = self.case;
        let image = first_image::<F, S>(self.subject, case, BYTES).map_err(Problem::plain)?;
        let life = Life {
            subject: self.subject,
            case,
            start: case.start,
            image,
            ops: draw(self.subject, case),
            seed: case.seed,
            limit: BYTES,
        };
        let first = (case.start != Start::New).then(|| self.subject.prepared());
        self.life::<F>(&life, first, 0, case.points, self.budget.images)
    }

    /// Lives a life without a cut.
    fn record<F: Family>(&self, life: &Life<'_, S>) -> Result<Lived<S::Op>, Problem> {
        let mut watch = |_: &Machine, _| ControlFlow::Continue(());
        let lived = without_panic(|| life.live::<F>(Some(&mut watch), self.case.omit))?;
        match lived {
            Ok(lived) => Ok(lived),
            Err(Stopped::Problem(what)) => Err(Problem::plain(what)),
            Err(Stopped::Watched) => unreachable!("nobody has stopped it"),
        }
    }

    /// Explores a life that begins in the state `first`.
    fn life<F: Family>(
        &mut self,
        life: &Life<'_, S>,
        first: Option<S::Model>,
        depth: usize,
        points: Points,
        images: u64,
    ) -> Result<(), Problem> {
        let Lived { history, machine } = self.record::<F>(life)?;
        self.report.meet(&machine.sites());
        self.report.events += history.events;
        self.report.lives += 1;
        drop(machine);
        let states = States::of(self.subject, first, &history).map_err(Problem::plain)?;
        let exploration =
            Exploration { life, states, events: history.events, depth, points, images };
        if self.benches.len() <= depth {
            self.benches.push(Bench::new(life.limit, self.case));
        }
        let mut problem = None;
        let (chosen, omit) = (exploration.chosen(), self.case.omit);
        let mut watch = |machine: &Machine, event: Event| {
            if !chosen(event.number) {
                return ControlFlow::Continue(());
            }
            if self.watcher.stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            match self.point::<F>(&exploration, machine, &event) {
                Ok(()) => ControlFlow::Continue(()),
                Err(found) => {
                    problem = Some(found);
                    ControlFlow::Break(())
                }
            }
        };
        let lived = without_panic(|| life.live::<F>(Some(&mut watch), omit))?;
        match (problem, lived) {
            (Some(problem), _) => Err(problem),
            (None, Ok(lived)) if lived.history.events != history.events => Err(Problem::plain(
                "two runs of one seed differ: the tester is at fault".to_owned(),
            )),
            (None, Err(Stopped::Problem(what))) => Err(Problem::plain(what)),
            (None, _) => Ok(()),
        }
    }

    /// Cuts the power here, and checks some of what that may leave.
    fn point<F: Family>(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        machine: &Machine,
        event: &Event,
    ) -> Result<(), Problem> {
        let depth = exploration.depth;
        let expect = Expect {
            states: &exploration.states,
            allowed: exploration.states.allowed(event.number),
            refusal: event.number <= exploration.states.made,
        };
        let seed = mix(exploration.life.seed, event.number);
        let (trial_len, budget) = (machine.len(), exploration.images);
        let explored = machine.model(|image, real| {
            self.benches[depth].update(image, trial_len);
            let mut candidates = Candidates::new(image, real, seed, budget * EXHAUSTIVE);
            self.report.possible += candidates.possible();
            let here = std::ptr::from_ref(event.site) as u64;
            let state = candidates.lines.iter().fold(self.benches[depth].sum, |sum, line| {
                mix(sum ^ line.at, line.states.len() as u64)
            });
            self.report.distinct.insert(mix(here, state));
            let explored = self.images::<F>(exploration, &expect, &mut candidates, seed);
            explored.map_err(|(what, states)| {
                let missing = match &states {
                    Some(states) => {
                        self.missing::<F>(depth, &expect, &candidates, states, seed, image)
                    }
                    None => Vec::new(),
                };
                (what, missing)
            })
        });
        match explored {
            Ok(images) => {
                self.report.cut(event, images);
                self.watcher.points.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err((what, missing)) => {
                let name =
                    format!("{} on core {}", CallSite::of(event.kind, event.site), event.core);
                let cut = Some((event.number, exploration.events, name));
                Err(Problem { what, cut, missing })
            }
        }
    }

    /// Checks images of one cut. The failing one's states come with what is wrong, if it was one
    /// of this cut's own images.
    fn images<F: Family>(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        expect: &Expect<'_, S::Model>,
        candidates: &mut Candidates,
        seed: u64,
    ) -> Result<u64, (String, Option<Vec<u16>>)> {
        let depth = exploration.depth;
        let promised = mix(*expect.allowed.start() as u64, *expect.allowed.end() as u64);
        let mut verified: Vec<Verified> = Vec::new();
        let (mut images, mut looked_at) = (0, 0);
        while images < exploration.images && looked_at < exploration.images * LOOKED_AT {
            let Some(states) = candidates.next() else { break };
            looked_at += 1;
            if verified.iter().any(|known| known.covers(&states)) {
                self.report.unread += 1;
                continue;
            }
            let bench = &mut self.benches[depth];
            if !bench.seen.insert(bench.sum_with(candidates, &states) ^ promised) {
                self.report.seen += 1;
                continue;
            }
            bench.trial.begin(candidates.changes(&states));
            let found = verify::<F, S>(self.subject, &bench.trial, expect, seed);
            let read = candidates.lines.iter().enumerate();
            let read = read.filter(|(_, line)| bench.trial.was_read(line.at));
            let read = read.map(|(index, _)| index as u32).collect();
            bench.trial.end();
            let found = found.map_err(|what| (what, Some(states.clone())))?;
            images += 1;
            self.count(depth);
            if let Found::State(index) = found {
                let wanted = self.budget.again_every;
                let lives = wanted > 0
                    && depth < self.budget.depth
                    && mix(seed, images).is_multiple_of(wanted);
                if lives && let Some(state) = &expect.states.states[index] {
                    let image = self.benches[depth].whole(candidates, &states);
                    self.again::<F>(exploration, image, state.clone(), mix(seed, images))
                        .map_err(|what| (what, None))?;
                }
            }
            verified.push(Verified { states, read });
        }
        self.report.exhausted += u64::from(candidates.is_exhausted());
        Ok(images)
    }

    fn count(&mut self, depth: usize) {
        self.report.images += 1;
        self.report.again += u64::from(depth > 0);
        self.watcher.images.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens the image on a machine, goes on with it, and cuts again, recovery included.
    fn again<F: Family>(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        image: Vec<u64>,
        state: S::Model,
        seed: u64,
    ) -> Result<(), String> {
        let met = without_panic(|| recover_alone::<F>(self.case, image.clone()));
        self.report.meet(&met.map_err(|problem| problem.what)??);
        let cores = exploration.life.ops.len();
        let mut random = SplitMix64::new(seed);
        let mut ops = |core| {
            (0..OPERATIONS_AGAIN).map(|_| self.subject.draw(&mut random, core, cores)).collect()
        };
        let ops = (0..cores).map(&mut ops).collect();
        let life = Life {
            subject: self.subject,
            case: self.case,
            start: Start::Closed,
            image,
            ops,
            seed,
            limit: exploration.life.limit,
        };
        let (points, images) = self.budget.again;
        self.life::<F>(&life, Some(state), exploration.depth + 1, Points::Random(points), images)
            .map_err(|problem| {
                let mut text = format!("of a pool that was cut and opened again: {}", problem.what);
                if let Some((event, events, name)) = problem.cut {
                    text += &format!("; cut again after event {event} of {events}: {name}");
                }
                for missing in problem.missing {
                    text += &format!("; not durable: {missing}");
                }
                text
            })
    }

    /// The stores whose absence matters: as many lines as possible are made durable.
    fn missing<F: Family>(
        &self,
        depth: usize,
        expect: &Expect<'_, S::Model>,
        candidates: &Candidates,
        failing: &[u16],
        seed: u64,
        image: &Image,
    ) -> Vec<String> {
        let trial = &self.benches[depth].trial;
        let fails = |states: &[u16]| {
            trial.begin(candidates.changes(states));
            let found = verify::<F, S>(self.subject, trial, expect, seed);
            trial.end();
            found.is_err()
        };
        let mut states = failing.to_vec();
        for (index, line) in candidates.lines.iter().enumerate() {
            let before = std::mem::replace(&mut states[index], line.most());
            if before != line.most() && !fails(&states) {
                states[index] = before;
            }
        }
        let lacking = candidates.lines.iter().zip(&states).filter(|(line, s)| !line.is_most(**s));
        lacking
            .map(|(line, state)| {
                let step = line.steps.get(usize::from(*state)).copied().unwrap_or(0);
                match image.site(line.at, step) {
                    Some((site, asked)) => format!(
                        "the line at {:#x}, stored at {}:{}, {}",
                        line.at,
                        site.file(),
                        site.line(),
                        if asked { "asked for, not yet fenced" } else { "not asked for" },
                    ),
                    None => format!("the line at {:#x}", line.at),
                }
            })
            .collect()
    }
}

/// An image that was checked, and the lines that mattered to the checks.
struct Verified {
    states: Vec<u16>,
    read: Vec<u32>,
}

impl Verified {
    /// Whether an image looks the same to the checks.
    fn covers(&self, states: &[u16]) -> bool {
        self.read.iter().all(|index| self.states[*index as usize] == states[*index as usize])
    }
}

impl Bench {
    fn new(limit: u64, case: &Case) -> Self {
        let trial = Arc::new(Trial::new(0, limit, case.domain));
        Bench { trial, base: vec![0; limit as usize / 8], sum: 0, seen: HashSet::new() }
    }

    /// Makes what is certain the base.
    fn update(&mut self, image: &Image, len: u64) {
        self.trial.set_len(len);
        let certain = image.certain();
        let lines = self.base.chunks_exact_mut(8).zip(certain.chunks_exact(8));
        for ((old, new), at) in lines.zip((0..).step_by(64)) {
            if old != new {
                let words: LineWords = new.try_into().expect("a line");
                self.sum =
                    self.sum.wrapping_sub(line_hash(at, old)).wrapping_add(line_hash(at, new));
                old.copy_from_slice(new);
                self.trial.set_line(at, &words);
            }
        }
    }

    /// The sum of an image.
    fn sum_with(&self, candidates: &Candidates, states: &[u16]) -> u64 {
        candidates.changes(states).fold(self.sum, |sum, (at, words)| {
            let old = &self.base[at as usize / 8..at as usize / 8 + 8];
            sum.wrapping_sub(line_hash(at, old)).wrapping_add(line_hash(at, &words))
        })
    }

    /// All words of an image.
    fn whole(&self, candidates: &Candidates, states: &[u16]) -> Vec<u64> {
        let mut words = self.base[..self.trial.len() as usize / 8].to_vec();
        for (at, line) in candidates.changes(states) {
            words[at as usize / 8..at as usize / 8 + 8].copy_from_slice(&line);
        }
        words
    }
}

impl<S: Subject> Exploration<'_, '_, S> {
    /// Whether the power is cut after an event.
    fn chosen(&self) -> impl Fn(u64) -> bool + use<S> {
        let (points, events, seed) = (self.points, self.events, self.life.seed);
        move |event| match points {
            Points::All => true,
            Points::One(one) => event == one,
            Points::Random(count) => mix(seed ^ 0x706f_696e_7473, event) % events.max(1) < count,
        }
    }
}

fn line_hash(at: u64, words: &[u64]) -> u64 {
    if words.iter().all(|word| *word == 0) {
        return 0;
    }
    xxh3_64_with_seed(bytemuck::cast_slice(words), at)
}

fn mix(left: u64, right: u64) -> u64 {
    SplitMix64::new(left.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ right).next()
}

fn without_panic<R>(run: impl FnOnce() -> R) -> Result<R, Problem> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Problem::plain(format!("the run panicked: {}", text.unwrap_or("without words")))
    })
}
