//! Triangles in the heap, and points put between them.
//!
//! Invariants: the triangles cover the square, no point is within another triangle's circle (they are a Delaunay
//! triangulation), and each one knows its neighbours, which know it.

use super::geometry::{Bound, SIDE};
use super::geometry::{Point, centre, encroaches, is_in_circle, middle, turn, turn_far};
use crate::stamp::block::{self, word};
use perdura::{Error, Purpose, Result, Tx};

const LINE: u64 = 64;
const NEIGHBOURS: u64 = 3;
const STATE: u64 = 6;
/// The maximum number of steps of a walk, and that of triangles of a hole.
const MOST: usize = 1 << 20;

/// It is in the mesh.
pub(super) const ALIVE: u64 = 1;
/// It is in the queue, or about to be.
pub(super) const QUEUED: u64 = 2;
/// The mesh's root leads to it.
pub(super) const ROOT: u64 = 4;
/// It cannot be made better: there is no room for a point.
pub(super) const STUCK: u64 = 8;

/// A triangle as it is read: corners that turn to the left, the neighbour across each edge (0: there is none), state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Triangle {
    pub(super) at: u64,
    pub(super) corners: [Point; 3],
    pub(super) neighbours: [u64; 3],
    pub(super) state: u64,
}

impl Triangle {
    pub(super) fn read<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Self> {
        let mut words = [0; 7];
        block::read(tx, at, &mut words)?;
        let [a, b, c, ab, bc, ca, state] = words;
        let corners = [a, b, c].map(Point::of_word);
        // Computations on corners rely on this.
        let within = corners.iter().all(|corner| corner.x <= SIDE && corner.y <= SIDE);
        if !within || turn(corners[0], corners[1], corners[2]) == 0 {
            return Err(Error::corrupt("a triangle that is none", at));
        }
        Ok(Triangle { at, corners, neighbours: [ab, bc, ca], state })
    }

    /// The ends of an edge.
    pub(super) const fn edge(&self, index: usize) -> (Point, Point) {
        (self.corners[index], self.corners[(index + 1) % 3])
    }

    /// The edge that begins at a corner.
    pub(super) fn edge_from(&self, corner: Point) -> Result<usize> {
        let found = self.corners.iter().position(|here| *here == corner);
        found.ok_or_else(|| Error::corrupt("a triangle that its neighbour does not know", self.at))
    }
}

/// Where a point is.
enum PointPlace {
    /// In a triangle, or on an edge of it that has another one behind.
    In(Triangle),
    /// Behind an edge of a triangle that has nothing behind.
    Behind(Triangle, usize),
}

/// A step to make a triangle better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefineStep {
    /// A point was inserted. Whether the triangle is gone.
    Inserted(bool),
    Stuck,
}

/// An edge of a hole: its ends, and the triangle outside.
type Border = (Point, Point, u64);

/// A hole: the triangles that a point has in their circles, and its edges.
struct Hole {
    inside: Vec<Triangle>,
    border: Vec<Border>,
}

/// The mesh; `root` is the word that leads to one of its triangles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mesh {
    pub(super) root: u64,
}

/// Where to add bad triangles that are made, if wanted.
pub(super) type Made<'m> = Option<(Bound, &'m mut Vec<u64>)>;

impl Mesh {
    /// The square in two triangles; `root` is a word for the mesh.
    pub(super) fn create<T: Tx + ?Sized>(tx: &mut T, root: u64) -> Result<Self> {
        let corner = |x, y| Point { x: x * SIDE, y: y * SIDE };
        let [a, b, c, d] = [corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)];
        let (one, other) =
            (tx.allocate(Purpose::General, LINE)?, tx.allocate(Purpose::General, LINE)?);
        for (new, corners, neighbours, state) in [
            (one, [a, b, c], [0, 0, other.at()], ALIVE | ROOT),
            (other, [a, c, d], [one.at(), 0, 0], ALIVE),
        ] {
            write(tx, new, corners, neighbours, state)?;
        }
        tx.write_word(root, one.at())?;
        Ok(Mesh { root })
    }

    /// Inserts a point of the square that is not a corner of a triangle, searching its place from `from` on. Returns
    /// one of the new triangles.
    pub(super) fn insert<T: Tx + ?Sized>(self, tx: &mut T, from: u64, point: Point) -> Result<u64> {
        let start = Triangle::read(tx, from)?;
        let (triangle, edge) = match find(tx, start, (point.x.into(), point.y.into()))? {
            PointPlace::In(triangle) => {
                // A point on the square's side is on an edge, not between two triangles.
                let on = (0..3).find(|edge| {
                    let (a, b) = triangle.edge(*edge);
                    triangle.neighbours[*edge] == 0 && turn(a, b, point) == 0
                });
                (triangle, on)
            }
            PointPlace::Behind(..) => {
                return Err(Error::corrupt("a mesh that does not cover it all", from));
            }
        };
        let hole = Hole::around(tx, triangle, edge, point)?;
        self.fill(tx, &hole, point, &mut None)
    }

    /// Makes a triangle better until it is gone; bad triangles that are made meanwhile are added to `bad`, as
    /// queued. It must be in the mesh.
    pub(super) fn refine<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        at: u64,
        bound: Bound,
        bad: &mut Vec<u64>,
    ) -> Result<()> {
        loop {
            let triangle = Triangle::read(tx, at)?;
            match self.step(tx, triangle, &mut Some((bound, &mut *bad)))? {
                RefineStep::Inserted(true) => return Ok(()),
                RefineStep::Inserted(false) => {}
                RefineStep::Stuck => {
                    let state = tx.read_word(word(at, STATE))?;
                    return tx.write_word(word(at, STATE), state | STUCK);
                }
            }
        }
    }

    fn step<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        triangle: Triangle,
        made: &mut Made<'_>,
    ) -> Result<RefineStep> {
        let far = centre(triangle.corners);
        let inside = match find(tx, triangle, far)? {
            PointPlace::Behind(last, edge) => return self.split(tx, triangle.at, last, edge, made),
            PointPlace::In(inside) => inside,
        };
        let point = Point { x: far.0 as i64, y: far.1 as i64 };
        if !is_in_circle(triangle.corners, point) || inside.corners.contains(&point) {
            return Ok(RefineStep::Stuck);
        }
        let hole = Hole::around(tx, inside, None, point)?;
        let too_near = |(a, b, outside): &&Border| *outside == 0 && encroaches(point, *a, *b);
        if let Some((a, _, _)) = hole.border.iter().find(too_near).copied() {
            let with = |triangle: &&Triangle| {
                let edge = triangle.corners.iter().position(|corner| *corner == a);
                edge.is_some_and(|edge| triangle.neighbours[edge] == 0)
            };
            if let Some(beside) = hole.inside.iter().find(with) {
                let edge = beside.edge_from(a)?;
                return self.split(tx, triangle.at, *beside, edge, made);
            }
        }
        self.fill(tx, &hole, point, made)?;
        Ok(RefineStep::Inserted(hole.has(triangle.at)))
    }

    /// Puts a point into the middle of an edge that has nothing behind.
    fn split<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        of: u64,
        triangle: Triangle,
        edge: usize,
        made: &mut Made<'_>,
    ) -> Result<RefineStep> {
        let (a, b) = triangle.edge(edge);
        let point = middle(a, b);
        if point == a || point == b {
            return Ok(RefineStep::Stuck);
        }
        let hole = Hole::around(tx, triangle, Some(edge), point)?;
        self.fill(tx, &hole, point, made)?;
        Ok(RefineStep::Inserted(hole.has(of)))
    }

    /// Fills a hole with triangles from its edges to the point, in place of those inside. Returns one of them.
    fn fill<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        hole: &Hole,
        point: Point,
        made: &mut Made<'_>,
    ) -> Result<u64> {
        let mut new = Vec::with_capacity(hole.border.len());
        for _ in &hole.border {
            new.push(tx.allocate(Purpose::General, LINE)?);
        }
        let had_root = hole.inside.iter().any(|triangle| triangle.state & ROOT != 0);
        let beside = |is_it: &dyn Fn(&Border) -> bool| {
            hole.border.iter().position(is_it).map_or(0, |index| new[index].at())
        };
        for (index, &(a, b, outside)) in hole.border.iter().enumerate() {
            let neighbours =
                [outside, beside(&|other| other.0 == b), beside(&|other| other.1 == a)];
            let root = if had_root && index == 0 { ROOT } else { 0 };
            let corners = [a, b, point];
            let mut state = ALIVE | root;
            if let Some((bound, bad)) = made
                && bound.is_bad(corners)
            {
                bad.push(new[index].at());
                state |= QUEUED;
            }
            write(tx, new[index], corners, neighbours, state)?;
            if outside != 0 {
                let edge = Triangle::read(tx, outside)?.edge_from(b)?;
                tx.write_word(word(outside, NEIGHBOURS + edge as u64), new[index].at())?;
            }
        }
        if had_root {
            tx.write_word(self.root, new[0].at())?;
        }
        for triangle in &hole.inside {
            // A queued triangle is freed by the thread that takes it from the queue.
            match triangle.state & QUEUED {
                0 => tx.free(triangle.at)?,
                queued => tx.write_word(word(triangle.at, STATE), queued)?,
            }
        }
        Ok(new[0].at())
    }
}

impl Hole {
    /// The hole for a point in `first`, or on its edge `on`, which has nothing behind.
    fn around<T: Tx + ?Sized>(
        tx: &mut T,
        first: Triangle,
        on: Option<usize>,
        point: Point,
    ) -> Result<Self> {
        let mut hole = Hole { inside: vec![first], border: Vec::new() };
        let mut next = 0;
        while let Some(&triangle) = hole.inside.get(next) {
            for (edge, &beside) in triangle.neighbours.iter().enumerate() {
                if hole.has(beside) || (next == 0 && on == Some(edge)) {
                    continue;
                }
                let (a, b) = triangle.edge(edge);
                if beside != 0 {
                    let other = Triangle::read(tx, beside)?;
                    if is_in_circle(other.corners, point) {
                        hole.inside.push(other);
                        continue;
                    }
                }
                hole.border.push((a, b, beside));
            }
            next += 1;
            if next > MOST {
                return Err(Error::corrupt("a hole without an end", first.at));
            }
        }
        Ok(hole)
    }

    fn has(&self, at: u64) -> bool {
        self.inside.iter().any(|triangle| triangle.at == at)
    }
}

fn write<T: Tx + ?Sized>(
    tx: &mut T,
    new: perdura::Fresh,
    corners: [Point; 3],
    neighbours: [u64; 3],
    state: u64,
) -> Result<()> {
    let [a, b, c] = corners.map(Point::word);
    let [ab, bc, ca] = neighbours;
    let words = [a, b, c, ab, bc, ca, state, 0];
    tx.write_fresh(new, 0, words.map(u64::to_ne_bytes).as_flattened())
}

/// Walks from a triangle to where a point is, over edges that it is behind.
fn find<T: Tx + ?Sized>(tx: &mut T, from: Triangle, point: (i128, i128)) -> Result<PointPlace> {
    let mut triangle = from;
    for _ in 0..MOST {
        let behind = (0..3).find(|edge| {
            let (a, b) = triangle.edge(*edge);
            turn_far(a, b, point) < 0
        });
        let Some(edge) = behind else { return Ok(PointPlace::In(triangle)) };
        match triangle.neighbours[edge] {
            0 => return Ok(PointPlace::Behind(triangle, edge)),
            beside => triangle = Triangle::read(tx, beside)?,
        }
    }
    Err(Error::corrupt("a walk through triangles that does not end", from.at))
}
