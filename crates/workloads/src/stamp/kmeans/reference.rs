//! The same computation by a single thread in ordinary memory.

use super::points::{Points, nearest};

/// The maximum number of rounds.
const MOST_ROUNDS: u64 = 501;

/// The result.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) centres: Vec<i64>,
    /// For each point, its centre.
    pub(super) nearest: Vec<u32>,
    pub(super) rounds: u64,
}

/// The centres to begin with: the first points, which are as random as any.
pub(super) fn first_centres(points: &Points, clusters: usize) -> &[i64] {
    points.first(clusters)
}

/// Whether it ends after `rounds` rounds, in the last of which `changed` points changed their centre.
pub(super) fn is_over(changed: u64, points: u64, rounds: u64, threshold: f64) -> bool {
    changed as f64 <= threshold * points as f64 || rounds >= MOST_ROUNDS
}

pub(super) fn run(points: &Points, clusters: usize, threshold: f64) -> Answer {
    let dimensions = points.dimensions();
    let mut centres = first_centres(points, clusters).to_vec();
    let mut nearests = vec![u32::MAX; points.len() as usize];
    let (mut rounds, mut over) = (0, false);
    while !over {
        let (mut counts, mut sums) = (vec![0i64; clusters], vec![0i64; centres.len()]);
        let mut changed = 0;
        for (index, before) in (0..).zip(&mut nearests) {
            let point = points.get(index);
            let cluster = nearest(point, &centres);
            changed += u64::from(*before != cluster as u32);
            *before = cluster as u32;
            counts[cluster] += 1;
            let sums = &mut sums[cluster * dimensions..][..dimensions];
            sums.iter_mut().zip(point).for_each(|(sum, coordinate)| *sum += coordinate);
        }
        for (cluster, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let of = cluster * dimensions..(cluster + 1) * dimensions;
            let middles = sums[of.clone()].iter().map(|sum| sum.div_euclid(count));
            centres[of].iter_mut().zip(middles).for_each(|(centre, middle)| *centre = middle);
        }
        rounds += 1;
        over = is_over(changed, points.len(), rounds, threshold);
    }
    Answer { centres, nearest: nearests, rounds }
}
