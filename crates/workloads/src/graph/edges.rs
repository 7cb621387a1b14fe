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

/// The lists of all vertices, one after the other: edges out by target, edges in by source. Each edge has a *place*.
/// Vertices are cut into intervals, and the places of the edges into each, its *shard*, follow each other in the order
/// of the edges' sources: so those of the edges out of vertices in a row do so in each shard.
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
    /// The place of each edge in.
    pub(super) places_in: Vec<u32>,
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
    /// The lists of a graph of at most [`MOST_EDGES`] edges, in this many shards or a few less.
    pub(super) fn of(Edges { vertices, edges }: Edges, shards: u32) -> Self {
        let interval = vertices.div_ceil(shards.clamp(1, vertices));
        let shard = |target: u32| (target / interval) as usize;
        let (mut out, mut into) = (vec![0; vertices as usize], vec![0; vertices as usize]);
        let mut of_shard = vec![0; shard(vertices - 1) + 1];
        for &(source, target) in &edges {
            out[source as usize] += 1;
            into[target as usize] += 1;
            of_shard[shard(target)] += 1;
        }
        let (first_out, first_in) = (firsts(out), firsts(into));
        let (mut next, mut targets) = (first_out.clone(), vec![0; edges.len()]);
        for &(source, target) in &edges {
            targets[take(&mut next[source as usize])] = target;
        }
        drop(edges);
        for pair in first_out.windows(2) {
            targets[pair[0] as usize..pair[1] as usize].sort_unstable();
        }
        let (mut next, mut next_of_shard) = (first_in.clone(), firsts(of_shard));
        let mut places = vec![0; targets.len()];
        let (mut sources, mut places_in) = (places.clone(), places.clone());
        for source in 0..vertices {
            let first = first_out[source as usize] as usize;
            let end = first_out[source as usize + 1] as usize;
            for (target, place) in targets[first..end].iter().zip(&mut places[first..end]) {
                *place = take(&mut next_of_shard[shard(*target)]) as u32;
                let into = take(&mut next[*target as usize]);
                (sources[into], places_in[into]) = (source, *place);
            }
        }
        Lists { first_out, targets, places, first_in, sources, places_in }
    }
}

/// The next index.
fn take(next: &mut u32) -> usize {
    *next += 1;
    *next as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_have_each_edge() {
        let edges = vec![(2, 0), (0, 1), (2, 1), (0, 1), (3, 2), (0, 3)];
        let lists = |shards| Lists::of(Edges { vertices: 5, edges: edges.clone() }, shards);
        let one = lists(1);
        assert_eq!(one.first_out, [0, 3, 3, 5, 6, 6]);
        assert_eq!(one.targets, [1, 1, 3, 0, 1, 2]);
        assert_eq!(one.first_in, [0, 1, 4, 5, 6, 6]);
        assert_eq!(one.sources, [2, 0, 0, 2, 3, 0]);
        assert_eq!(one.places, [0, 1, 2, 3, 4, 5], "by source");
        assert_eq!(one.places_in, [3, 0, 1, 4, 5, 2]);
        let two = lists(2);
        assert_eq!(two.targets, one.targets);
        assert_eq!(two.places, [0, 1, 5, 2, 3, 4], "vertices 0 to 2, then 3 and 4");
        assert_eq!(two.places_in, [2, 0, 1, 3, 4, 5]);
        for shards in [5, 6, u32::MAX] {
            let all = lists(shards);
            assert_eq!(all.places, [1, 2, 5, 0, 3, 4], "by target");
            assert_eq!(all.places_in, [0, 1, 2, 3, 4, 5]);
        }
    }
}
