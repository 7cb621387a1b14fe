//! Checks of a whole mesh, with exact arithmetic.

use super::geometry::{Bound, Point, SIDE, is_in_circle, turn};
use super::mesh::{ALIVE, QUEUED, ROOT, STUCK, Triangle};
use crate::{Failure, Outcome};
use perdura::collections::Visit;
use perdura::{Error, Result, Tx};
use std::collections::{BTreeMap, BTreeSet};

/// Reads all triangles of the mesh, by their places, and reports their blocks to `visit`. The word at `root` leads to
/// the first; each leads to its neighbours.
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
            return Err(Error::corrupt("a mesh with a triangle that was removed", at));
        }
        visit(at)?;
        next.extend(triangle.neighbours.iter().filter(|beside| **beside != 0));
        all.insert(at, triangle);
    }
    Ok(all)
}

/// Whether an edge lies on a side of the square.
fn is_on_a_side((a, b): (Point, Point)) -> bool {
    [0, SIDE].iter().any(|side| (a.x == *side && b.x == *side) || (a.y == *side && b.y == *side))
}

/// Checks that the triangles cover the square once, are a Delaunay triangulation (no circle through a triangle's corners
/// has another corner inside), know their neighbours, and have all `points` as corners.
pub(super) fn mesh(all: &BTreeMap<u64, Triangle>, points: &[Point]) -> Outcome {
    let wrong = |what: &str, of: &Triangle| Err(Failure::Wrong(format!("{what}: {of:?}")));
    let (mut twice_area, mut corners, mut roots) = (0, BTreeSet::new(), 0);
    for triangle in all.values() {
        let [a, b, c] = triangle.corners;
        let twice = turn(a, b, c);
        if twice <= 0 {
            return wrong("a triangle whose corners turn to the right", triangle);
        }
        twice_area += twice;
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
                return wrong("a triangle with a corner in its circle", triangle);
            }
        }
    }
    if twice_area != 2 * i128::from(SIDE) * i128::from(SIDE) {
        return Err(Failure::wrong("the triangles do not cover the square once"));
    }
    if roots != 1 {
        return Err(Failure::Wrong(format!("{roots} triangles are marked as the root's")));
    }
    match points.iter().find(|point| !corners.contains(point)) {
        None => Ok(()),
        Some(point) => Err(Failure::Wrong(format!("{point:?} is no triangle's corner"))),
    }
}

/// Checks that no triangle waits to be refined, and none is too sharp except those that cannot be refined. Returns how
/// many these are.
pub(super) fn refined(all: &BTreeMap<u64, Triangle>, bound: Bound) -> Outcome<u64> {
    let mut stuck = 0;
    for triangle in all.values() {
        let is_stuck = triangle.state & STUCK != 0;
        if triangle.state & QUEUED != 0 || (bound.is_bad(triangle.corners) && !is_stuck) {
            return Err(Failure::Wrong(format!("a triangle that was not refined: {triangle:?}")));
        }
        stuck += u64::from(is_stuck);
    }
    Ok(stuck)
}
