//! yada: refines a triangulation until no angle is too sharp, by Ruppert's algorithm (STAMP).
//!
//! ```text
//! root      one of the triangles, queue of bad ones
//! triangle  three corners (x << 32 | y), the neighbour across each edge, state
//! ```
//!
//! A thread takes a bad triangle from the queue, and in one transaction inserts the middle of its circle: all
//! triangles that have it in their circles are replaced by others. Where that is too near to the square's side the
//! side is cut in two instead, until the bad triangle is gone. Bad ones among the new are queued then. STAMP has a
//! heap in place of the queue, and segments as elements, which come first; its mesh is read from a file, ours is
//! the Delaunay triangulation of random points in a square. Invariants: the mesh is one at any time.

mod check;
mod geometry;
mod mesh;
#[cfg(test)]
mod tests;

use super::Input;
use super::block::{self, word};
use super::party::{Meeting, Party};
use super::queue::Queue;
use crate::random::Random;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use geometry::{Bound, Point, SIDE};
use mesh::{ALIVE, Mesh, QUEUED, Triangle};
use perdura::collections::Visit;
use perdura::{Access, Result, Root, Tx};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

const ROOT: &str = "bench.yada";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_017;
const QUEUE: u64 = 1;
/// In a triangle.
const STATE: u64 = 6;
/// Triangles that are marked by one transaction of the load.
const TOGETHER: usize = 64;
/// Points in a cell of those that are inserted one after the other.
const IN_A_CELL: u64 = 4;

/// The mesh, and how good it is to be: STAMP's options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// `-a`: the sharpest angle, in degrees: up to 20.7, with which it is known to end.
    pub degrees: f64,
    /// Points besides the square's corners.
    pub points: u64,
}

impl Parameters {
    /// Those of the input.
    pub const fn of(input: Input) -> Self {
        let (degrees, points) = match input {
            Input::Small => (20.0, 60),
            Input::Plain => (20.0, 633),
            Input::Plus => (10.0, 10_000),
            Input::Native => (15.0, 1_000_000),
        };
        Parameters { degrees, points }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Yada {
    points: Vec<Point>,
    bound: Bound,
    refined: AtomicU64,
    gone: AtomicU64,
    meeting: Meeting,
}

/// Where things are in the heap.
#[derive(Clone, Copy, Debug)]
struct Places {
    mesh: Mesh,
    bad: Queue,
}

impl Yada {
    /// With the mesh of points that follow from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(parameters: Parameters, seed: u64) -> Outcome<Self> {
        let Parameters { degrees, points } = parameters;
        if points == 0 || points > 1 << 26 || !(0.0..=20.7).contains(&degrees) {
            let what = "yada needs a point (2^26 at most), and angles of up to 20.7 degrees";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(Yada {
            points: draw(points, seed),
            bound: Bound::degrees(degrees),
            refined: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            meeting: Meeting::default(),
        })
    }

    /// Upper bound of its bytes.
    pub fn bytes(&self) -> u64 {
        self.points.len() as u64 * 1_024
    }

    fn open<S: Session>(session: &mut S) -> Outcome<Places> {
        let (root, [_, queue]) = block::of_root::<S, 2>(session, ROOT)?;
        Ok(Places { mesh: Mesh { root }, bad: Queue(queue) })
    }

    /// Makes a triangle better, if it is still there. Returns the bad ones that this has made; `None` if it was gone.
    fn refine<T: Tx + ?Sized>(&self, tx: &mut T, at: Places, bad: u64) -> Result<Option<Vec<u64>>> {
        let state = tx.read_word(word(bad, STATE))?;
        if state & ALIVE == 0 {
            tx.free(bad)?;
            return Ok(None);
        }
        tx.write_word(word(bad, STATE), state & !QUEUED)?;
        let mut made = Vec::new();
        at.mesh.refine(tx, bad, self.bound, &mut made)?;
        Ok(Some(made))
    }

    fn triangles<S: Session>(
        &self,
        session: &mut S,
        party: Party<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let at = Self::open(session)?;
        while recorder.go_on() {
            let pop = || session.transaction(|tx| at.bad.pop(tx));
            let Some(bad) = recorder.operations(1, 0, pop)? else {
                party.end();
                return Ok(());
            };
            let refine = || session.transaction(|tx| self.refine(tx, at, bad));
            let Some(made) = recorder.operation(0, refine)? else {
                self.gone.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            self.refined.fetch_add(1, Ordering::Relaxed);
            if !made.is_empty() {
                let push = || {
                    session.transaction(|tx| made.iter().try_for_each(|bad| at.bad.push(tx, *bad)))
                };
                recorder.operations(2, 0, push)?;
            }
        }
        Ok(())
    }

    /// Queues the bad triangles of a mesh.
    fn queue<S: Session>(&self, session: &mut S, root: u64) -> Outcome {
        let all = session.read(|tx| check::triangles(tx, root, &mut |_| Ok(())))?;
        let bad: Vec<&Triangle> =
            all.values().filter(|triangle| self.bound.is_bad(triangle.corners)).collect();
        for triangles in bad.chunks(TOGETHER) {
            session.transaction(|tx| {
                triangles.iter().try_for_each(|triangle| {
                    tx.write_word(word(triangle.at, STATE), triangle.state | QUEUED)
                })
            })?;
        }
        let places: Vec<u64> = bad.iter().map(|triangle| triangle.at).collect();
        session.transaction(|tx| {
            let queue = Queue::create(tx, &places)?;
            tx.write_word(word(root, QUEUE), queue.0)
        })?;
        Ok(())
    }
}

/// Draws points of the square, different ones, in an order in which each is near the one before.
fn draw(count: u64, seed: u64) -> Vec<Point> {
    let (mut random, mut points) = (Random::new(seed, 1 << 33), BTreeSet::new());
    while (points.len() as u64) < count {
        let [x, y] = [(); 2].map(|()| 1 + random.below(SIDE as u64 - 1) as i64);
        points.insert(Point { x, y });
    }
    let rows = (count / IN_A_CELL).isqrt().max(1) as i64;
    let mut points: Vec<Point> = points.into_iter().collect();
    points.sort_by_key(|point| {
        let row = point.y * rows / SIDE;
        (row, if row % 2 == 0 { point.x } else { -point.x })
    });
    points
}

super::listed! {
    Yada: "yada", "STAMP: a mesh of triangles made better, to the end", "points" points, Parameters::of,
    Yada, |values| values.entries()
}

impl Workload for Yada {
    const KINDS: &'static [&'static str] = &["refine", "pop", "push"];
    const ENDS: bool = true;

    fn load_size(&self) -> u64 {
        self.points.len() as u64
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let mesh = session.transaction(|tx| {
            let at = block::new(tx, [0, 0])?;
            tx.set_root(ROOT, Root { at, kind: KIND })?;
            Mesh::create(tx, at)
        })?;
        let mut near = session.read(|tx| tx.read_word(mesh.root))?;
        for point in &self.points {
            near = session.transaction(|tx| mesh.insert(tx, near, *point))?;
            progress.loaded(1)?;
        }
        self.queue(session, mesh.root)
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        self.triangles(session, self.meeting.join(share.threads), recorder)
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let at = Self::open(session)?;
        let (all, left, queued) = session.read(|tx| {
            let all = check::triangles(tx, at.mesh.root, &mut |_| Ok(()))?;
            Ok((all, at.bad.len(tx)?, at.bad.total(tx)?))
        })?;
        check::mesh(&all, &self.points)?;
        if self.meeting.was_left() {
            return Ok(());
        }
        let taken = self.refined.load(Ordering::Relaxed) + self.gone.load(Ordering::Relaxed);
        if left != 0 || taken != queued {
            let what = format!("of {queued} triangles {taken} were taken, and {left} are queued");
            return Err(Failure::Wrong(what));
        }
        check::refined(&all, self.bound).map(drop)
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        vec![("refined", count(&self.refined)), ("gone before", count(&self.gone))]
    }
}

/// Checks the structure at the root, and reports its blocks.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    check::triangles(tx, at, visit)?;
    let queue = tx.read_word(word(at, QUEUE))?;
    Queue(queue).check(tx, visit, |tx, visit, bad| {
        // Those in the mesh have been reported.
        if tx.read_word(word(bad, STATE))? & ALIVE == 0 { visit(bad) } else { Ok(()) }
    })
}
