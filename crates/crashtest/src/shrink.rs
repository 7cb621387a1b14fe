//! Makes a failing case smaller: fewer operations and cores, a plainer machine and schedule, the earliest crash point.
//!
//! A smaller case is accepted if it fails at all: the failure may change on the way. The remaining operations are the
//! same as before, since leaving operations out changes no random draw.

use crate::{Answers, Budget, Case, Failure, Points, Runner, Start, Watcher};
use perdura_machine::Schedule;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

/// The approximate number of crash points of a smaller case; if it has half as many events, all of them are crash
/// points.
const POINTS: u64 = 400;
/// A case with this few operations is small enough; if more are left, this many other seeds are tried.
const FEW: usize = 2;
const SEEDS: u64 = 4;
/// The lengths of turns of the schedules that are tried, in accesses.
const TURNS: [u32; 3] = [400, 100, 25];

/// How much work to spend on shrinking. The same number of runs gives the same result; if the time limit ends it, the
/// result depends on the speed of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Cases to try.
    pub runs: u64,
    /// When to stop even if there is more to try.
    pub time: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { runs: 400, time: Duration::from_secs(60) }
    }
}

/// How large a failing case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Cores that have something to do.
    pub cores: usize,
    /// Operations in all.
    pub operations: usize,
    /// Events up to the crash point, or 0 if it went wrong without one.
    pub events: u64,
}

impl Size {
    /// The size of a failure.
    pub fn of(failure: &Failure) -> Self {
        let kept = kept(&failure.case);
        let cores: BTreeSet<usize> = kept.iter().map(|(core, _)| *core).collect();
        let events = failure.cut.as_ref().map_or(0, |(event, ..)| *event);
        Size { cores: cores.len(), operations: kept.len(), events }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { cores, operations, events } = self;
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        write!(
            f,
            "{operations} operation{} on {cores} core{}",
            plural(*operations),
            plural(*cores)
        )?;
        if *events > 0 { write!(f, ", cut after event {events}") } else { Ok(()) }
    }
}

/// The result of shrinking.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest failure.
    pub failure: Box<Failure>,
    /// The size before.
    pub from: Size,
    /// The size after.
    pub to: Size,
    /// Cases tried.
    pub runs: u64,
    /// Whether nothing smaller was left to try.
    pub complete: bool,
}

/// Shrinks a failure of `runner` that was found within `budget`. `progress` is called with the number of cases tried so
/// far, and the size of the smallest failing one, whenever one is found; it ends when the watcher stops.
pub fn shrink(
    runner: &dyn Runner,
    failure: &Failure,
    budget: Budget,
    effort: Effort,
    watcher: &Watcher,
    progress: &mut dyn FnMut(u64, Size),
) -> Shrunk {
    let from = Size::of(failure);
    let mut shrinker = Shrinker {
        runner,
        full: budget,
        budget,
        end: (effort.runs, Instant::now() + effort.time),
        watcher,
        progress,
        best: Box::new(failure.clone()),
        runs: 0,
        ended: false,
    };
    shrinker.all();
    let Shrinker { best, runs, ended, .. } = shrinker;
    Shrunk { from, to: Size::of(&best), failure: best, runs, complete: !ended }
}

struct Shrinker<'a> {
    runner: &'a dyn Runner,
    full: Budget,
    /// The budget that suffices to see the failure.
    budget: Budget,
    end: (u64, Instant),
    watcher: &'a Watcher,
    progress: &'a mut dyn FnMut(u64, Size),
    best: Box<Failure>,
    runs: u64,
    ended: bool,
}

/// The operations that a case carries out.
pub(crate) fn kept(case: &Case) -> Vec<(usize, usize)> {
    let all = (0..case.cores).flat_map(|core| (0..case.operations).map(move |op| (core, op)));
    all.filter(|(core, op)| case.keeps(*core, *op)).collect()
}

impl Shrinker<'_> {
    fn all(&mut self) {
        self.cheaper();
        // At the same crash point, hardly any operation but later ones can be left out; but each run has one crash
        // point instead of many.
        if let Some((event, ..)) = self.best.cut {
            self.fewer(Points::One(event));
        }
        let mut before = None;
        while before != Some(Size::of(&self.best)) {
            before = Some(Size::of(&self.best));
            self.plainer();
            self.fewer(Points::Random(POINTS));
        }
        self.afresh();
        self.try_case(|case| case.points = Points::All);
        self.trim();
        self.replayed();
    }

    /// Tries whether the failure shows without lives after recovery, or with one: that is much faster.
    fn cheaper(&mut self) {
        let full = self.full;
        let point = self.best.cut.as_ref().map(|(event, ..)| Points::One(*event));
        let same = move |case: &mut Case| case.points = point.unwrap_or(case.points);
        for depth in 0..full.depth {
            let again_every = if depth == 0 { 0 } else { full.again_every };
            self.budget = Budget { again_every, depth, ..full };
            if self.try_case(same) {
                return;
            }
        }
        self.budget = full;
    }

    /// Tries one core, the schedule by time, the plainest policy, a closed pool.
    fn plainer(&mut self) {
        let points = Points::Random(POINTS);
        let first = kept(&self.best.case).iter().map(|(core, _)| core + 1).min().unwrap_or(1);
        for cores in first..self.best.case.cores {
            let fewer = |case: &mut Case| {
                (case.cores, case.points) = (cores, points);
                if let Some(keep) = &mut case.keep {
                    keep.retain(|(core, _)| *core < cores);
                }
            };
            if self.try_case(fewer) {
                break;
            }
        }
        if let Schedule::Seeded { every } = self.best.case.schedule {
            let slower = TURNS.into_iter().filter(|turn| *turn > every);
            let seeded = slower.map(|every| Schedule::Seeded { every });
            for schedule in std::iter::once(Schedule::Clock).chain(seeded) {
                if self.try_case(|case| (case.schedule, case.points) = (schedule, points)) {
                    break;
                }
            }
        }
        let usual = Some(Answers::default());
        if self.best.case.answers.is_some() && self.best.case.answers != usual {
            self.try_case(|case| (case.answers, case.points) = (usual, points));
        }
        let lru = "lru".parse().expect("a policy");
        if self.best.case.policy != lru {
            self.try_case(|case| (case.policy, case.points) = (lru, points));
        }
        if self.best.case.start != Start::Closed {
            self.try_case(|case| (case.start, case.points) = (Start::Closed, points));
        }
    }

    /// Leaves operations out: large parts first, then smaller ones, finally one at a time. One is always left.
    fn fewer(&mut self, points: Points) {
        let mut parts = 2;
        loop {
            let all = kept(&self.best.case);
            if all.len() < 2 {
                return;
            }
            let size = all.len().div_ceil(parts);
            // The last part first: an image does not depend on operations after the crash point.
            let without = all.chunks(size).rev().find(|part| {
                let keep = all.iter().filter(|op| !part.contains(op)).copied().collect();
                self.try_case(|case| (case.keep, case.points) = (Some(keep), points))
            });
            match without {
                Some(_) => parts = (parts - 1).max(2),
                None if size == 1 => return,
                None => parts = (parts * 2).min(all.len()),
            }
        }
    }

    /// A failure that shows only in some images of a life after recovery does not survive every change: perhaps it
    /// shows in a small case of another seed.
    fn afresh(&mut self) {
        let (most, seed) = (Size::of(&self.best).operations, self.best.case.seed);
        for operations in 1..most.min(FEW + 1) {
            for seed in (0..SEEDS).map(|more| seed.wrapping_add(more)) {
                let new = |case: &mut Case| {
                    let (cores, points) = (1, Points::Random(POINTS));
                    *case = Case { cores, operations, seed, points, keep: None, ..case.clone() };
                };
                if most > FEW && self.try_case(new) {
                    return;
                }
            }
        }
    }

    /// Reduces the numbers of operations and cores to those needed.
    fn trim(&mut self) {
        let kept = kept(&self.best.case);
        let operations = kept.iter().map(|(_, op)| op + 1).max().unwrap_or(1);
        self.try_case(|case| case.operations = operations);
        let Case { cores, operations, .. } = self.best.case;
        if kept.len() == cores * operations {
            self.try_case(|case| case.keep = None);
        }
    }

    /// The failure as a replay shows it.
    fn replayed(&mut self) {
        self.budget = self.full;
        if let Some((event, ..)) = self.best.cut {
            // Whatever the effort: a failure that cannot be reproduced is worth nothing.
            self.end = (u64::MAX, Instant::now() + Duration::from_secs(3600));
            self.try_case(|case| case.points = Points::One(event));
        }
    }

    /// Tries the smallest case so far with a change; accepts it if it fails.
    fn try_case(&mut self, change: impl FnOnce(&mut Case)) -> bool {
        let (runs, time) = self.end;
        let stopped = self.watcher.is_stopped();
        if self.runs >= runs || Instant::now() >= time || stopped {
            self.ended = true;
            return false;
        }
        self.runs += 1;
        let mut case = self.best.case.clone();
        change(&mut case);
        match self.runner.explore(&case, self.budget, self.watcher) {
            Err(failure) if !failure.what.contains("the tester is at fault") => {
                self.best = failure;
                (self.progress)(self.runs, Size::of(&self.best));
                true
            }
            _ => false,
        }
    }
}
