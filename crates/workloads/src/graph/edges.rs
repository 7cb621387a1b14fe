//! Directed edges, and the two lists of each vertex that are made of them.

use crate::random::splitmix64;

/// The maximum number of vertices.
pub const MOST_VERTICES: u64 = 1 << 28;
/// The maximum number of edges: an edge's place is a number of 32 bits.
pub const MOST_EDGES: u64 = u32::MAX as u64;

/// An edge's source and target.
pub type Edge = (u32, u32);

/// A graph as its edges: parallel ones are kept, and none begins where it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Vertices are the numbers below this one.
    pub vertices: u32,
    /// The edges, in no order.
    pub edges: Vec<Edge>,
}

/// The share of an edge in a graph's mark.
pub(super) fn mark(source: u32, target: u32) -> u64 {
    splitmix64(splitmix64(u64::from(source)) ^ u64::from(target))
}

/// The lists of all vertices, one after the other: edges out by target, edges in by source. The edge at position `i` of
/// `sources` has *place* `i`.
#[derive(Debug)]
pub(super) struct Lists {
    /// The first edge out of each vertex, and the end.
    pub(super) first_out: Vec<u32>,
    pub(super) targets: Vec<u32>,
    /// The place of each edge out.
    pub(super) places: Vec<u32>,
    /// The first edge into each vertex, and the end.
    pub(super) first_in: Vec<u32>,
    pub(super) sources: Vec<u32>,
}

/// Turns counts into the positions before them, with the sum at the end.
fn firsts(mut counts: Vec<u32>) -> Vec<u32> {
    let mut sum = 0;
    for count in &mut counts {
        sum += std::mem::replace(count, sum);
    }
    counts.push(sum);
    counts
}

impl Lists {
    /// The lists of a graph of at most [`MOST_EDGES`] edges.
    pub(super) fn of(Edges { vertices, edges }: Edges) -> Self {
        let (mut out, mut into) = (vec![0; vertices as usize], vec![0; vertices as usize]);
        for &(source, target) in &edges {
            out[source as usize] += 1;
            into[target as usize] += 1;
        }
        let (first_out, first_in) = (firsts(out), firsts(into));
        let (mut next, mut targets) = (first_out.clone(), vec![0; edges.len()]);
        for &(source, target) in &edges {
            let place = &mut next[source as usize];
            targets[*place as usize] = target;
            *place += 1;
        }
        drop(edges);
        for pair in first_out.windows(2) {
            targets[pair[0] as usize..pair[1] as usize].sort_unstable();
        }
        let mut next = first_in.clone();
        let (mut places, mut sources) = (vec![0; targets.len()], vec![0; targets.len()]);
        for source in 0..vertices {
            let range =
                first_out[source as usize] as usize..first_out[source as usize + 1] as usize;
            for index in range {
                let place = &mut next[targets[index] as usize];
                places[index] = *place;
                sources[*place as usize] = source;
                *place += 1;
            }
        }
        Lists { first_out, targets, places, first_in, sources }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_have_each_edge() {
        let edges = vec![(2, 0), (0, 1), (2, 1), (0, 1), (3, 2), (0, 3)];
        let lists = Lists::of(Edges { vertices: 5, edges });
        assert_eq!(lists.first_out, [0, 3, 3, 5, 6, 6]);
        assert_eq!(lists.targets, [1, 1, 3, 0, 1, 2]);
        assert_eq!(lists.first_in, [0, 1, 4, 5, 6, 6]);
        assert_eq!(lists.sources, [2, 0, 0, 2, 3, 0]);
        assert_eq!(lists.places, [1, 2, 5, 0, 3, 4]);
    }
}
