//! Nearest neighbours: trees over points that come and go, and queries (`ann`, Mount and Arya's kd-tree; `kd-forest`,
//! FLANN's randomised trees).
//!
//! Points are in slots. An operation replaces the oldest points by new ones: it takes
//! them out of each tree and puts them in again, with all that nodes on the way know about their points, in one
//! transaction. Or it is a query for the ten nearest points, which only reads.
//!
//! At the end every point is the one that was put into its slot last, the trees are sound (`forest`), and queries find
//! enough of the points that are really nearest.

mod build;
mod forest;
mod node;
mod points;
mod search;
#[cfg(test)]
mod tests;
mod vectors;
mod verify;

pub use forest::{Forest, MOST_DIMENSIONS, MOST_TREES, Shape};
pub use node::MOST_IN_LEAF;
pub use points::{Nearest, Plane, Points, Rule, distance};
pub use search::Answer;
pub use vectors::Vectors;
pub use verify::Walk;

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::random::Random;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use build::Coordinates;
use perdura::{Result, Tx};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Coordinates of drawn points.
const DIMENSIONS: usize = 128;
/// Points that a query asks for.
pub const NEIGHBOURS: usize = 10;
/// Points that a query looks at.
pub const CHECKS: usize = 32;
/// The share of the really nearest points that queries find at the least, if points are drawn: they find 0.95.
const LEAST_RECALL: f64 = 0.6;
/// Queries of the check.
const SAMPLE: usize = 50;
/// Nodes, or points, that one transaction of the check looks at.
const CHECKED_AT_ONCE: usize = 256;
const QUERIES: &str = "queries";
const VECTORS: &str = "vectors";

/// The workload.
#[derive(Debug)]
pub struct Neighbours {
    name: &'static str,
    shape: Shape,
    points: Points,
    /// From one replaced slot to the next.
    step: u64,
    /// Slots that a transaction replaces.
    together: u64,
    /// Of 100 operations, those that are queries.
    queries: u64,
    seed: u64,
    /// The share of the really nearest points that queries find at the least.
    least_recall: f64,
    /// Slots that have been replaced.
    replaced: AtomicU64,
    looked_at: AtomicU64,
}

/// Makes a forest of the points as they are at first; `run` runs each transaction.
///
/// # Errors
/// As the transactions.
pub fn load<E: From<perdura::Error>>(
    shape: &Shape,
    points: &Points,
    name: &str,
    seed: u64,
    run: impl FnMut(&mut dyn FnMut(&mut dyn Tx) -> Result<Vec<u64>>) -> std::result::Result<Vec<u64>, E>,
) -> std::result::Result<(), E> {
    let all = (0..points.slots()).flat_map(|slot| points.point(slot, 0)).collect();
    let coordinates = Coordinates { dimensions: shape.dimensions, all };
    build::load(shape, &coordinates, name, seed, run)
}

impl Neighbours {
    /// A tree or a forest, over `slots` points that follow from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(kind: Kind, slots: u64, together: usize, queries: u64, seed: u64) -> Outcome<Self> {
        Self::over(kind, Points::drawn(slots, DIMENSIONS, seed), together, queries, seed)
    }

    /// The same over these points.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn over(
        kind: Kind,
        points: Points,
        together: usize,
        queries: u64,
        seed: u64,
    ) -> Outcome<Self> {
        let slots = points.slots();
        let shape = kind.shape(&points);
        let together = together as u64;
        // Other points may be of any kind.
        let least_recall = if points.are_drawn() { LEAST_RECALL } else { 0.0 };
        if !shape.is_sound() || together == 0 || together > slots || queries > 100 {
            let what = "points in trees: 1 to 2^32 - 1 of them, as many as a transaction replaces at \
                        the least, and at most 100 queries of 100 operations";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(Neighbours {
            name: kind.root(),
            shape,
            step: step(slots),
            points,
            together,
            queries,
            seed,
            least_recall,
            replaced: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
        })
    }

    /// What its forest is like.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The name of its root.
    pub fn root(&self) -> &'static str {
        self.name
    }

    /// Upper bound of its bytes: leaves are at least a third full.
    pub fn bytes(&self) -> u64 {
        let leaves = (self.shape.slots * 3 / self.shape.in_leaf as u64 + 1).min(self.shape.slots);
        let trees = leaves * 2 * node::LINE * self.shape.trees as u64;
        self.shape.slots * self.shape.point_bytes() + trees + (1 << 20)
    }

    fn open<S: Session>(&self, session: &mut S) -> Outcome<Forest> {
        let found = session.read(|tx| Forest::find(tx, self.name, &self.shape))?;
        found.ok_or_else(|| Failure::wrong("the forest's root is gone"))
    }

    /// The slot that replacement `number` is of: each once in a round, one far from the one before.
    fn slot(&self, number: u64) -> u64 {
        let slot = u128::from(number % self.shape.slots) * u128::from(self.step);
        (slot % u128::from(self.shape.slots)) as u64
    }

    /// How often each slot has been replaced, if all replacements are committed.
    fn versions(&self) -> Vec<u64> {
        let (replaced, slots) = (self.replaced.load(Relaxed), self.shape.slots);
        let mut versions = vec![0; slots as usize];
        for number in 0..slots {
            let version = replaced / slots + u64::from(number < replaced % slots);
            versions[self.slot(number) as usize] = version;
        }
        versions
    }

    /// Compares all points with those that were put there last, and finds out which are nearest to each of these.
    fn compare<S: Session>(
        &self,
        session: &mut S,
        forest: &Forest,
        queries: &[Vec<f32>],
    ) -> Outcome<Vec<Nearest>> {
        let versions = self.versions();
        let mut nearest = vec![Nearest::new(NEIGHBOURS); queries.len()];
        for first in (0..self.shape.slots).step_by(CHECKED_AT_ONCE) {
            let slots = first..self.shape.slots.min(first + CHECKED_AT_ONCE as u64);
            let found = session.read(|tx| {
                let point = |slot| Ok((forest.version(tx, slot)?, forest.coordinates(tx, slot)?));
                slots.clone().map(point).collect::<Result<Vec<_>>>()
            })?;
            for (slot, (version, found)) in slots.zip(found) {
                let expected = versions[slot as usize];
                if version != expected {
                    let what = format!("slot {slot} was replaced {version} times, not {expected}");
                    return Err(Failure::Wrong(what));
                }
                if found != self.points.point(slot, version) {
                    let what = format!("slot {slot} has another point than was put there");
                    return Err(Failure::Wrong(what));
                }
                for (query, nearest) in queries.iter().zip(&mut nearest) {
                    nearest.offer(distance(query, &found), slot as u32);
                }
            }
        }
        Ok(nearest)
    }

    /// Compares all points with those that were put there last. Returns how many of the really nearest points queries
    /// find, as a share.
    ///
    /// # Errors
    /// `Wrong` where there is another point.
    pub fn recall<S: Session>(&self, session: &mut S) -> Outcome<f64> {
        let forest = self.open(session)?;
        let mut random = Random::new(self.seed, 1 << 34);
        let queries: Vec<_> = (0..SAMPLE).map(|_| self.points.query(&mut random)).collect();
        let nearest = self.compare(session, &forest, &queries)?;
        let (mut there, mut found) = (0, 0);
        for (query, nearest) in queries.iter().zip(&nearest) {
            let answer = session.read(|tx| forest.nearest(tx, query, NEIGHBOURS, CHECKS))?;
            let last = nearest.found().last().map_or(0.0, |own| own.0);
            there += nearest.found().len();
            found += answer.nearest.found().iter().filter(|own| own.0 <= last).count();
        }
        Ok(found as f64 / there as f64)
    }
}

/// A step with which all of so many slots are visited: nearest to their golden section.
fn step(slots: u64) -> u64 {
    let is_prime_to = |step: &u64| {
        let (mut a, mut b) = (slots, *step);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    (slots * 618 / 1000..=slots).find(is_prime_to).unwrap_or(1)
}

/// What kind of trees there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One.
    Tree,
    /// Four, which differ by chance.
    Forest,
}

impl Kind {
    fn root(self) -> &'static str {
        match self {
            Kind::Tree => "bench.ann",
            Kind::Forest => "bench.kd-forest",
        }
    }

    fn shape(self, points: &Points) -> Shape {
        let (trees, rule, in_a_row) = match self {
            Kind::Tree => (1, Rule::Widest, 1),
            Kind::Forest => (4, Rule::Varied, 5),
        };
        let (slots, dimensions) = (points.slots(), points.dimensions());
        Shape { slots, dimensions, trees, in_leaf: 1, rule, in_a_row }
    }
}

impl Workload for Neighbours {
    const KINDS: &'static [&'static str] = &["replace", "query"];

    fn load_size(&self) -> u64 {
        self.shape.slots
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        load(&self.shape, &self.points, self.name, self.seed, |body| {
            if progress.is_stopped() {
                return Err(Failure::Stopped);
            }
            Ok(session.transaction(|tx| body(tx))?)
        })?;
        progress.loaded(self.shape.slots)
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let (forest, computation) = (self.open(session)?, session.computation());
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            if share.random.below(100) < self.queries {
                let to = self.points.query(&mut share.random);
                let answer = recorder.operation(1, || {
                    session.read(|tx| forest.nearest(tx, &to, NEIGHBOURS, CHECKS))
                })?;
                computation.charge(answer.steps);
                self.looked_at.fetch_add(answer.steps / to.len() as u64, Relaxed);
                if answer.nearest.found().len() < NEIGHBOURS.min(self.shape.slots as usize) {
                    return Err(Failure::wrong("a query has found too few points"));
                }
                continue;
            }
            let first = self.replaced.fetch_add(self.together, Relaxed);
            let steps = recorder.operation(0, || {
                session.transaction(|tx| {
                    let mut steps = 0;
                    for number in first..first + self.together {
                        let slot = self.slot(number);
                        let new = |version| self.points.point(slot, version);
                        steps += forest.replace(tx, slot, new)?;
                    }
                    Ok(steps)
                })
            })?;
            computation.charge(steps);
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let forest = self.open(session)?;
        for tree in 0..self.shape.trees {
            let mut walk = session.read(|tx| Walk::new(tx, &forest, tree))?;
            loop {
                // A body may run again, so that it must not go on where it was.
                let (next, more) = session.read(|tx| {
                    let mut next = walk.clone();
                    let more = next.go_on(tx, &forest, CHECKED_AT_ONCE)?;
                    Ok((next, more))
                })?;
                if !more {
                    break;
                }
                walk = next;
            }
        }
        let recall = self.recall(session)?;
        if recall < self.least_recall {
            let what = format!(
                "queries find {recall:.3} of the nearest points, less than {}",
                self.least_recall
            );
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("points replaced", self.replaced.load(Relaxed)),
            ("points looked at", self.looked_at.load(Relaxed)),
        ]
    }
}

/// The workload on one tree.
pub struct Ann;

/// The workload on four trees.
pub struct KdForest;

const fn parameters(queries: u64) -> [Parameter; 4] {
    [
        list::entries("points", 10_000),
        list::ops_per_tx("points replaced in a transaction", 1),
        Parameter {
            name: QUERIES,
            line: "of 100 operations, those that are queries",
            usual: Usual::Number(queries),
        },
        Parameter {
            name: VECTORS,
            line: "fvecs file of at least as many points",
            usual: Usual::File("drawn from the seed"),
        },
    ]
}

const fn row(name: &'static str, line: &'static str, parameters: &'static [Parameter]) -> Row {
    Row {
        name,
        line,
        parameters,
        operations: |_| 20_000,
        rolls_back: |_| false,
        roots: &[(forest::KIND, forest::check_blocks)],
    }
}

const OF_ANN: &[Parameter] = &parameters(7);
const OF_FOREST: &[Parameter] = &parameters(6);

fn run<C: OnWorkload>(kind: Kind, given: &Given<'_>, code: C) -> Outcome<C::Output> {
    let queries = given.values.number(QUERIES);
    let slots = given.entries();
    let points = match given.values.file(VECTORS) {
        None => Points::drawn(slots, DIMENSIONS, given.seed),
        Some(path) => {
            let vectors = Vectors::read(Path::new(path))?;
            if vectors.len() < slots {
                let most = vectors.len();
                let what = format!("{path} has {most} vectors: choose at most as many entries");
                return Err(Failure::Parameters(what));
            }
            Points::of_file(slots, vectors)
        }
    };
    let workload = Neighbours::over(kind, points, given.ops_per_tx(), queries, given.seed)?;
    let bytes = workload.bytes();
    Ok(code.run(workload, bytes))
}

impl Listed for Ann {
    const ROW: Row = row("ann", "points replaced and looked for in a kd-tree", OF_ANN);

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        run(Kind::Tree, given, code)
    }
}

impl Listed for KdForest {
    const ROW: Row =
        row("kd-forest", "points replaced and looked for in four randomised kd-trees", OF_FOREST);

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        run(Kind::Forest, given, code)
    }
}
