//! Checks of a whole mesh, with exact arithmetic.

use super::geometry::{Bound, Point, SIDE, is_in_circle, turn};
use super::mesh::{ALIVE, QUEUED, ROOT, STUCK, Triangle};
use crate::{Failure, Outcome};
use perdura::collections::Visit;
use perdura::{Error, Result, Tx};
use std::collections::{BTreeMap, BTreeSet};

/// All triangles, from the one that `root` leads to; reports their blocks.
pub(super) fn triangles<T: Tx + ?Sized>(
    tx: &mut T,
    root: u64,
    visit: &mut Visit<'_>,
) -> Result<BTreeMap<u64, Triangle>> {
    let (mut all, mut next) = (BTreeMap::new(), vec![tx.read_word(root)?]);
    while let Some(at) = next.pop() {
        if all.contains_key(&at) {
            continue;
        }
        let triangle = Triangle::read(tx, at)?;
        if triangle.state & ALIVE == 0 {
            return Err(Error::corrupt("a mesh with a triangle that is gone", at));
        }
        visit(at)?;
        next.extend(triangle.neighbours.iter().filter(|beside| **beside != 0));
        all.insert(at, triangle);
    }
    Ok(all)
}

/// Whether both ends of an edge are on the same side of the square.
fn is_on_a_side((a, b): (Point, Point)) -> bool {
    [0, SIDE].iter().any(|side| (a.x == *side && b.x == *side) || (a.y == *side && b.y == *side))
}

/// The triangles must cover the square once, be a Delaunay triangulation, and have the points as corners.
pub(super) fn mesh(all: &BTreeMap<u64, Triangle>, points: &[Point]) -> Outcome {
    let wrong = |what: &str, of: &Triangle| Err(Failure::Wrong(format!("{what}: {of:?}")));
    let (mut area, mut corners, mut roots) = (0, BTreeSet::new(), 0);
    for triangle in all.values() {
        let [a, b, c] = triangle.corners;
        let its = turn(a, b, c);
        if its <= 0 {
            return wrong("a triangle that turns to the right", triangle);
        }
        area += its;
        corners.extend([a, b, c]);
        roots += u64::from(triangle.state & ROOT != 0);
        for (edge, beside) in triangle.neighbours.iter().enumerate() {
            let (from, to) = triangle.edge(edge);
            let Some(other) = all.get(beside) else {
                if !is_on_a_side((from, to)) {
                    return wrong("a triangle without a neighbour within the square", triangle);
                }
                continue;
            };
            let back = (0..3).find(|edge| other.edge(*edge) == (to, from));
            let Some(back) = back.filter(|back| other.neighbours[*back] == triangle.at) else {
                return wrong("a triangle that its neighbour does not know", triangle);
            };
            if is_in_circle(triangle.corners, other.corners[(back + 2) % 3]) {
                return wrong("a triangle with a point in its circle", triangle);
            }
        }
    }
    let square = 2 * i128::from(SIDE) * i128::from(SIDE);
    if area != square || roots != 1 {
        return Err(Failure::wrong("the triangles do not cover the square once"));
    }
    match points.iter().find(|point| !corners.contains(point)) {
        None => Ok(()),
        Some(point) => Err(Failure::Wrong(format!("{point:?} is in no triangle any more"))),
    }
}

/// No triangle may be too sharp or wait to be refined. Returns how many cannot be refined.
pub(super) fn refined(all: &BTreeMap<u64, Triangle>, bound: Bound) -> Outcome<u64> {
    let mut stuck = 0;
    for triangle in all.values() {
        let is_stuck = triangle.state & STUCK != 0;
        if triangle.state & QUEUED != 0 || (bound.is_bad(triangle.corners) && !is_stuck) {
            return Err(Failure::Wrong(format!("a triangle that was forgotten: {triangle:?}")));
        }
        stuck += u64::from(is_stuck);
    }
    Ok(stuck)
}
