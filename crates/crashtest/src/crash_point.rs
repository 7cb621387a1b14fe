//! One crash point: which of its images are checked, lived on, or skipped because they cannot differ.

use crate::Subject;
use crate::bench::Verified;
use crate::candidates::Candidates;
use crate::case::mix;
use crate::engine::World;
use crate::explore::{Exploration, Explorer};
use crate::failure::Problem;
use crate::root_cause::{RootCause, is_named, root_cause};
use crate::verify::{Expect, Verdict, verify};
use perdura_machine::{CallSite, Event, Machine};
use perdura_memory::Memory;
use perdura_memory::image::Image;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::xxh3_64;

/// If there are at most this many times as many combinations of line states as images to check, all are tried.
const EXHAUSTIVE: u64 = 4;
/// The maximum number of candidates looked at for each image to check.
const LOOKED_AT: u64 = 4;
/// Images that look the same as a checked one are lived on this many times more rarely than others.
const COVERED: u64 = 4;
/// Up to this many lost lines are always restored, wherever they are: fewer than six lines of a batch never share all
/// of their sums (`groups/deferred/place.rs` in the engine).
const RESTORED: usize = 5;
/// The error when pruning skips an image that it must not.
const UNSOUND: &str = "the tester is at fault: an image that need not be checked differs";

impl<S: Subject> Explorer<'_, S> {
    /// Cuts the power here, and checks some of the images that may be left.
    pub(crate) fn point(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        machine: &Machine,
        event: &Event,
    ) -> Result<(), Problem> {
        let depth = exploration.depth;
        let expect = Expect {
            states: &exploration.states,
            allowed: exploration.states.allowed(self.subject, &exploration.history, event.number),
            refusal: event.number <= exploration.states.made,
        };
        let seed = mix(exploration.life.seed, event.number);
        let (trial_len, budget) = (machine.len(), exploration.images);
        let failed = machine.check_fence().is_err();
        let explored = machine.model(|image, real| {
            self.benches[depth].update(image, trial_len);
            let mut candidates = Candidates::new(image, real, seed, budget * EXHAUSTIVE);
            self.report.possible += candidates.possible();
            // By its name: a place in the source can have several addresses.
            let site = CallSite::of(event.kind, event.site).to_string();
            let here = xxh3_64(site.as_bytes());
            let state = candidates.lines.iter().fold(self.benches[depth].sum, |sum, line| {
                mix(sum ^ line.at, line.states.len() as u64)
            });
            self.report.distinct.insert(mix(here, state));
            let mut explored = self.images(exploration, &expect, &mut candidates, seed);
            if explored.is_ok() && self.dies(depth, seed) {
                let died = self.die(exploration, &expect, &candidates, (image, failed), seed);
                let wrong = |(what, states)| Failed { what, states, lived: None, died: true };
                explored = died.map_err(wrong).and(explored);
            }
            explored.map_err(|Failed { what, states, lived, died }| {
                if died {
                    return (what, RootCause::default());
                }
                let root_cause = match lived {
                    None => self.root_cause(depth, &expect, &candidates, &states, seed, image),
                    // This takes many lives: only for a replay, and if no store has been named yet.
                    Some(life) if self.case.points.is_replay() && !is_named(&what) => self
                        .root_cause_of_life(
                            exploration,
                            &expect,
                            &candidates,
                            &states,
                            (seed, life),
                            image,
                        ),
                    Some(_) => RootCause::default(),
                };
                (what, root_cause)
            })
        });
        match explored {
            Ok(images) => {
                self.report.cut(event, images);
                self.watcher.points.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err((what, root_cause)) => {
                let name =
                    format!("{} on core {}", CallSite::of(event.kind, event.site), event.core);
                let cut = Some((event.number, exploration.history.events, name));
                Err(Problem { what, cut, root_cause, place: None })
            }
        }
    }

    /// Checks images of one crash point. On failure the image's states are included if it was one of this crash point's
    /// own images.
    fn images(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        expect: &Expect<'_, S::Model>,
        candidates: &mut Candidates,
        seed: u64,
    ) -> Result<u64, Failed> {
        let depth = exploration.depth;
        let promised = self.promised(exploration, expect);
        // A replay looks at everything that an exploration of more crash points may have looked at here: there, images
        // seen at earlier crash points did not count.
        let replay = exploration.points.is_replay();
        let most = exploration.images * LOOKED_AT;
        let mut verified: Vec<Verified> = Vec::new();
        let (mut images, mut looked_at) = (0, 0);
        while looked_at < most && (replay || images < exploration.images) {
            let Some(states) = candidates.next() else { break };
            looked_at += 1;
            let covering = verified.iter().find(|known| known.covers(&states));
            let lives = self.lives(depth, covering.is_some() && !replay, mix(seed, looked_at));
            if let Some(known) = covering
                && !lives
            {
                self.report.unread += 1;
                self.pruned(depth, expect, candidates, &states, Some(known.found), seed)?;
                continue;
            }
            let bench = &mut self.benches[depth];
            if !bench.seen.insert(bench.sum_with(candidates, &states) ^ promised) {
                self.report.seen += 1;
                self.pruned(depth, expect, candidates, &states, None, seed)?;
                continue;
            }
            let found = self
                .verified(depth, expect, candidates, &states, seed)
                .map_err(|what| Failed::of(what, &states))?;
            images += 1;
            self.count(depth, found);
            if let Verdict::State { index, .. } = found
                && lives
                && let Some(state) = expect.state(index)
            {
                let image = self.benches[depth].whole(candidates, &states);
                let life = mix(seed, looked_at);
                let (world, state) = (World::durable(image), vec![Some(state.clone())]);
                self.again(exploration, world, state, life)
                    .map_err(|what| Failed { lived: Some(life), ..Failed::of(what, &states) })?;
            }
            verified.push(Verified::new(&self.benches[depth], candidates, states, found));
        }
        self.report.exhausted += u64::from(candidates.is_exhausted());
        Ok(images)
    }

    /// Recovers and checks an image. An image that has lost nothing must need no restoring, unless an earlier crash
    /// point has lost something.
    pub(crate) fn verified(
        &self,
        depth: usize,
        expect: &Expect<'_, S::Model>,
        candidates: &Candidates,
        states: &[u16],
        seed: u64,
    ) -> Result<Verdict, String> {
        let trial = &self.benches[depth].trial;
        trial.begin(candidates.changes(states));
        let found = verify(self.engine, self.subject, trial, expect, seed);
        trial.end();
        let found = found?;
        let whole = depth == 0 && candidates.is_whole(states);
        match found {
            Verdict::Lost if depth == 0 && candidates.lost(states) <= RESTORED => {
                let lost = candidates.lost(states);
                Err(format!("the pool is refused for lost lines, of which there are {lost}"))
            }
            Verdict::State { corrected: 1.., .. } if whole => {
                Err("lines were restored, and nothing was lost".to_owned())
            }
            _ => Ok(found),
        }
    }

    /// A hash of all, apart from the contents, that must be equal for an image to need no second check.
    fn promised(&self, exploration: &Exploration<'_, '_, S>, expect: &Expect<'_, S::Model>) -> u64 {
        let (first, last) = expect.range();
        let range = mix(first as u64, last as u64);
        let pool = mix(self.benches[exploration.depth].trial.len(), u64::from(expect.refusal));
        mix(mix(range, pool), exploration.life.seed)
    }

    /// Whether an image is lived on. Words that the checks do not read can matter to a life: so some of the images that
    /// look the same as checked ones are lived on too.
    fn lives(&self, depth: usize, covered: bool, chance: u64) -> bool {
        let every = self.budget.again_every * if covered { COVERED } else { 1 };
        every > 0 && depth < self.budget.depth && chance.is_multiple_of(every)
    }

    /// Checks an image that was pruned, if pruning itself is under test.
    fn pruned(
        &self,
        depth: usize,
        expect: &Expect<'_, S::Model>,
        candidates: &Candidates,
        states: &[u16],
        known: Option<Verdict>,
        seed: u64,
    ) -> Result<(), Failed> {
        if !self.budget.check_pruning {
            return Ok(());
        }
        let what = match self.verified(depth, expect, candidates, states, seed) {
            Ok(found) if known.is_none_or(|known| known == found) => return Ok(()),
            Ok(found) => format!("{UNSOUND}: {found:?} instead of {known:?}"),
            Err(what) => format!("{UNSOUND}: {what}"),
        };
        Err(Failed::of(what, states))
    }

    fn count(&mut self, depth: usize, found: Verdict) {
        self.report.images += 1;
        match found {
            Verdict::Lost => self.report.lost += 1,
            Verdict::State { corrected: 1.., .. } => self.report.corrected += 1,
            Verdict::State { .. } | Verdict::Refused => {}
        }
        self.report.again += u64::from(depth > 0);
        self.watcher.images.fetch_add(1, Ordering::Relaxed);
    }

    /// The root cause of an image's failure.
    fn root_cause(
        &self,
        depth: usize,
        expect: &Expect<'_, S::Model>,
        candidates: &Candidates,
        failing: &[u16],
        seed: u64,
        image: &Image,
    ) -> RootCause {
        root_cause(candidates, failing, image, |states| {
            self.verified(depth, expect, candidates, states, seed).is_err()
        })
    }

    /// The root cause of a failure in a life after this image.
    fn root_cause_of_life(
        &mut self,
        exploration: &Exploration<'_, '_, S>,
        expect: &Expect<'_, S::Model>,
        candidates: &Candidates,
        failing: &[u16],
        (seed, life): (u64, u64),
        image: &Image,
    ) -> RootCause {
        let depth = exploration.depth;
        root_cause(candidates, failing, image, |states| {
            let found = self.verified(depth, expect, candidates, states, seed);
            let Ok(Verdict::State { index, .. }) = found else { return false };
            let Some(state) = expect.state(index).clone() else { return false };
            self.benches[depth + 1..].iter_mut().for_each(|bench| bench.seen.clear());
            let image = self.benches[depth].whole(candidates, states);
            self.again(exploration, World::durable(image), vec![Some(state)], life).is_err()
        })
    }
}

/// A failure at an image.
struct Failed {
    what: String,
    states: Vec<u16>,
    /// The seed of the failing life after the image, if the image itself was right.
    lived: Option<u64>,
    /// Whether a process died there, rather than the power being cut.
    died: bool,
}

impl Failed {
    /// A failure of the image itself.
    fn of(what: String, states: &[u16]) -> Self {
        Failed { what, states: states.to_vec(), lived: None, died: false }
    }
}
