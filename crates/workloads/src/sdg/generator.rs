//! The graph of SSCA#2, whose own name for its input is SDG: the Scalable Data Generator (Bader and Madduri,
//! HiPC 2005; reimplemented from the behaviour of STAMP's `ssca2`, see its paper, IISWC 2008).
//!
//! `2^scale` vertices are cut into cliques of up to `2^(scale / 3)`. Within a clique two vertices have edges both
//! ways, or now and then one, and some of them several; between cliques edges go to vertices at distances
//! that are powers of two, the rarer the farther. Labels are permuted.

use crate::random::Random;
use crate::{Failure, Outcome};
use std::collections::BTreeSet;

/// Parameters of a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The maximum number of parallel edges of two vertices.
    pub parallel: u64,
    /// The share of pairs in a clique that have an edge one way only.
    pub one_way: f64,
    /// The probability of an edge out of a clique to the next vertex; to one at distance `d`, divided by `d`.
    pub between: f64,
}

impl Shape {
    /// The generator's defaults.
    pub const USUAL: Shape = Shape { parallel: 3, one_way: 0.1, between: 0.5 };
}

const SCALES: std::ops::RangeInclusive<u32> = 4..=24;

/// The scale of a graph of this many vertices: they are as many as the next power of two.
///
/// # Errors
/// `Parameters` if that is not among those that can be.
pub fn scale_of(vertices: u64) -> Outcome<u32> {
    let scale = vertices.checked_next_power_of_two().map(u64::trailing_zeros);
    scale.filter(|scale| SCALES.contains(scale)).ok_or_else(|| {
        let (least, most) = (SCALES.start(), SCALES.end());
        let what = format!("a graph has 2^{least} to 2^{most} vertices (entries), not {vertices}");
        Failure::Parameters(what)
    })
}

/// An edge's source and target.
pub type Edge = (u32, u32);

/// The edges of the graph of this scale, parallel ones too, in the order in which they are made.
///
/// # Panics
/// If it has 2^32 vertices or more.
pub fn edges(scale: u32, seed: u64) -> Vec<Edge> {
    edges_of(Shape::USUAL, scale, seed)
}

/// The same of a graph of this shape.
///
/// # Panics
/// If it has 2^32 vertices or more.
pub fn edges_of(shape: Shape, scale: u32, seed: u64) -> Vec<Edge> {
    let mut generator = Generator {
        shape,
        random: Random::new(seed, u64::from(scale)),
        vertices: u32::try_from(1u64 << scale).expect("at most 2^31 vertices"),
        edges: Vec::new(),
    };
    let largest = 1 << (scale / 3);
    let mut clique_of = vec![0; generator.vertices as usize];
    let (mut first, mut number) = (0, 0);
    while first < generator.vertices {
        let size = generator.random.between(1, largest).min(u64::from(generator.vertices - first));
        let clique = first..first + size as u32;
        clique_of[clique.start as usize..clique.end as usize].fill(number);
        generator.within(clique);
        (first, number) = (first + size as u32, number + 1);
    }
    generator.between(&clique_of);
    generator.labelled()
}

struct Generator {
    shape: Shape,
    random: Random,
    vertices: u32,
    edges: Vec<Edge>,
}

impl Generator {
    fn within(&mut self, clique: std::ops::Range<u32>) {
        let (first, size) = (clique.start, clique.len());
        let Shape { parallel, one_way, .. } = self.shape;
        let mut copies = vec![0; size * size];
        let mut add = |edges: &mut Vec<Edge>, from: usize, to: usize| {
            let copies = &mut copies[from * size + to];
            if *copies < parallel {
                *copies += 1;
                edges.push((first + from as u32, first + to as u32));
            }
        };
        for from in 0..size {
            for to in 0..from {
                // One draw decides whether there are two edges, and if not, which one.
                let drawn = self.random.unit();
                if drawn >= one_way || drawn < 0.5 {
                    add(&mut self.edges, to, from);
                }
                if drawn >= one_way || drawn >= 0.5 {
                    add(&mut self.edges, from, to);
                }
            }
        }
        for _ in 0..self.random.below(2 * size as u64 * parallel) {
            let from = self.random.below(size as u64) as usize;
            let to = self.random.below(size as u64) as usize;
            if from != to && self.random.unit() >= one_way {
                add(&mut self.edges, from, to);
            }
        }
    }

    fn between(&mut self, clique_of: &[u32]) {
        let vertices = self.vertices;
        for from in 0..vertices {
            let mut likely = self.shape.between;
            for distance in (0..).map(|power| 1u32 << power).take_while(|far| *far < vertices) {
                let ahead = (from + distance) % vertices;
                for to in [Some(ahead), from.checked_sub(distance)] {
                    let drawn = self.random.unit();
                    let Some(to) = to.filter(|_| drawn < likely) else { continue };
                    if clique_of[from as usize] != clique_of[to as usize] {
                        let copies = self.random.between(1, self.shape.parallel) as usize;
                        self.edges.extend(std::iter::repeat_n((from, to), copies));
                    }
                }
                likely /= 2.0;
            }
        }
    }

    fn labelled(mut self) -> Vec<Edge> {
        let mut labels: Vec<u32> = (0..self.vertices).collect();
        shuffle(&mut labels, &mut self.random);
        let label = |vertex: u32| labels[vertex as usize];
        self.edges.into_iter().map(|(from, to)| (label(from), label(to))).collect()
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// The keys that the workload toggles: at even places the graph's edges, parallel ones once; at odd places as many
/// pairs that have no edge. These have the sources and targets of edges, so that degrees stay alike.
pub(super) fn candidates(scale: u32, seed: u64) -> Vec<u64> {
    let (vertices, mut random) = (1u64 << scale, Random::new(seed, 1 << 32));
    let key = |from: u64, to: u64| from * vertices + to;
    let mut taken: BTreeSet<u64> = BTreeSet::new();
    for (from, to) in edges(scale, seed) {
        taken.insert(key(from.into(), to.into()));
    }
    let mut there: Vec<u64> = taken.iter().copied().collect();
    shuffle(&mut there, &mut random);
    // A small graph may be so dense that there are not as many other pairs.
    let most = vertices * (vertices - 1) / 2;
    there.drain(there.len().min(most as usize)..).for_each(|edge| {
        taken.remove(&edge);
    });
    let count = there.len() as u64;
    let mut keys = Vec::with_capacity(2 * there.len());
    for &edge in &there {
        keys.push(edge);
        // And after a while any pair will do, so that this ends.
        let mut tries = 0;
        let absent = loop {
            let (from, to) = match tries {
                0..64 => {
                    let [a, b] = [(); 2].map(|()| there[random.below(count) as usize]);
                    (a / vertices, b % vertices)
                }
                _ => (random.below(vertices), random.below(vertices)),
            };
            tries += 1;
            if from != to && taken.insert(key(from, to)) {
                break key(from, to);
            }
        };
        keys.push(absent);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_graph_is_as_the_generator_says() {
        let (scale, vertices) = (12, 1 << 12);
        let made = edges(scale, 1);
        assert_eq!(made, edges(scale, 1), "it follows from the seed");
        assert_ne!(made, edges(scale, 2));
        let mut copies = BTreeMap::new();
        for edge in &made {
            assert!(edge.0 != edge.1 && edge.0 < vertices && edge.1 < vertices);
            *copies.entry(*edge).or_insert(0u64) += 1;
        }
        // Ahead and back may meet: half the way round it is the same vertex.
        assert!(
            copies.values().all(|copies| *copies <= 2 * Shape::USUAL.parallel),
            "parallel edges"
        );
        assert!(copies.values().any(|copies| *copies == Shape::USUAL.parallel));
        // Cliques of 1 to 16 vertices: one of a size-weighted draw has (1,496 / 136 - 1) others, with 1.9 edges a pair;
        // 2 * 0.5 * (1 + 1/2 + ...) leave the clique at most.
        let each = copies.len() as f64 / f64::from(vertices);
        assert!((9.5..11.8).contains(&each), "{each} edges of a vertex");
        let both = copies.keys().filter(|(from, to)| copies.contains_key(&(*to, *from))).count();
        let share = both as f64 / copies.len() as f64;
        assert!((0.75..0.95).contains(&share), "{share} of the edges go both ways");
    }

    #[test]
    fn candidates_are_edges_and_other_pairs() {
        for scale in [4, 5, 10] {
            let (keys, vertices) = (candidates(scale, 3), 1u64 << scale);
            let edges: BTreeSet<u64> = edges(scale, 3)
                .into_iter()
                .map(|(from, to)| u64::from(from) * vertices + u64::from(to))
                .collect();
            for (index, key) in keys.iter().enumerate() {
                assert_eq!(edges.contains(key), index % 2 == 0, "{index}");
                assert!(key / vertices < vertices && key / vertices != key % vertices);
            }
            assert_eq!(keys.len(), 2 * edges.len());
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        }
    }

    #[test]
    fn sizes_are_powers_of_two_within_bounds() {
        assert_eq!(scale_of(16).ok(), Some(4));
        assert_eq!(scale_of(5_000).ok(), Some(13));
        for wrong in [0, 1, 8, (1 << 24) + 1, u64::MAX] {
            assert!(matches!(scale_of(wrong), Err(Failure::Parameters(_))), "{wrong}");
        }
    }
}
