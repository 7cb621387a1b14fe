//! Properties of the solver that cannot be seen from outside.

use super::*;
use crate::matrix::{Coverage, Shape};

fn with_solver(shape: Shape, test: impl FnOnce(&mut Solver<'_>)) {
    let (all, none) = (Coverage::all(shape), Coverage::none(shape));
    let found = FoundLane {
        lane: 0,
        words: vec![0; shape.cells()],
        consistency: vec![1; shape.columns()],
        correlation: vec![1; shape.rows()],
        sides: [&all; 2],
        logged: &none,
        erased: &none,
    };
    let mut tries = MOST_TRIES;
    test(&mut Solver::new(found, &mut tries));
}

#[test]
fn of_two_answers_that_fit_neither_is_taken() {
    with_solver(Shape::new(2, 2), |solver| {
        // Cells 0 and 1 are in one column, 0 and 2 in one row.
        for other in [1, 2] {
            let both = BTreeSet::from([vec![(0, 7)], vec![(other, 8)]]);
            assert!(!solver.take(both));
            assert_eq!(solver.lane.found.words, [0; 4]);
        }
        let same = BTreeSet::from([vec![(0, 7)], vec![(0, 8)]]);
        assert!(!solver.take(same));
        assert!(solver.take(BTreeSet::from([vec![(0, 7)], vec![(3, 8)]])), "far apart");
        assert_eq!(solver.lane.found.words, [7, 0, 0, 8]);
    });
}

#[test]
fn a_search_that_leads_nowhere_leaves_everything_as_it_was() {
    with_solver(Shape::new(3, 3), |solver| {
        let residues: Vec<_> = solver.lane.vertices.iter().map(|vertex| vertex.residues).collect();
        assert!(!solver.try_to_solve());
        assert_eq!(solver.lane.found.words, [0; 9]);
        let after: Vec<_> = solver.lane.vertices.iter().map(|vertex| vertex.residues).collect();
        assert_eq!(after, residues);
    });
}
