use super::points::{Points, nearest};
use super::reference;

#[test]
fn the_nearest_centre_is_the_first_of_the_nearest() {
    let centres = [0, 0, 10, 0, 5, 5, 10, 0];
    assert_eq!(nearest(&[9, 1], &centres), 1);
    assert_eq!(nearest(&[5, 0], &centres), 0);
    assert_eq!(nearest(&[5, 4], &centres), 2);
}

#[test]
fn points_are_gathered_around_the_centres_that_they_were_drawn_from() {
    let points = Points::drawn(500, 3, 4, 7);
    let answer = reference::run(&points, 12, 0.0);
    assert!(answer.rounds > 1 && answer.rounds < 100, "{}", answer.rounds);
    // A spread of 1/64 of the cube: nothing is far from its own centre.
    for (index, cluster) in (0..).zip(&answer.nearest) {
        let centre = &answer.centres[*cluster as usize * 3..][..3];
        let far = points.get(index).iter().zip(centre).any(|(a, b)| a.abs_diff(*b) > 1 << 18);
        assert!(!far, "point {index}");
    }
}
