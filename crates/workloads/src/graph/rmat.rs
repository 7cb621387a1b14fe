//! R-MAT graphs (Chakrabarti, Zhan and Faloutsos, SDM 2004), with the probabilities of Graph500: .57, .19, .19, .05.
//!
//! An edge is a cell of the matrix of all pairs, found by halving both sides: each time one of the four quarters is
//! drawn. So few vertices have very many edges. Edges that begin where they end are drawn again; parallel ones are
//! kept.

use super::edges::{Edge, Edges, MOST_EDGES, MOST_VERTICES};
use crate::random::Random;
use crate::{Failure, Outcome};

/// The probabilities of the first quarter, of the first two, and of the first three, in parts of 2^32.
const QUARTERS: [u32; 3] = [part(0.57), part(0.76), part(0.95)];

const fn part(probability: f64) -> u32 {
    (probability * 4_294_967_296.0) as u32
}

/// The parameters of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    scale: u32,
    degree: u64,
    is_shuffled: bool,
    seed: u64,
}

impl Shape {
    /// A graph of at least `vertices` vertices, up to the next power of two, with `degree` edges for each. Shuffled:
    /// numbers of vertices say nothing about their edges; otherwise lower ones have more.
    ///
    /// # Errors
    /// `Parameters` if it is too small or too large.
    pub fn new(vertices: u64, degree: u64, is_shuffled: bool, seed: u64) -> Outcome<Self> {
        let vertices = vertices.checked_next_power_of_two().filter(|it| *it <= MOST_VERTICES);
        let edges = vertices.and_then(|vertices| vertices.checked_mul(degree));
        match vertices.zip(edges) {
            Some((vertices @ 2.., 1..=MOST_EDGES)) => {
                Ok(Shape { scale: vertices.trailing_zeros(), degree, is_shuffled, seed })
            }
            _ => Err(Failure::Parameters(format!(
                "an R-MAT graph has 2 to {MOST_VERTICES} vertices (entries), and 1 to {MOST_EDGES} edges in all: \
                 choose others, or a smaller degree"
            ))),
        }
    }

    /// How many vertices it has.
    pub const fn vertices(&self) -> u32 {
        1 << self.scale
    }

    /// How many edges it has.
    pub const fn edge_count(&self) -> u64 {
        (1 << self.scale) * self.degree
    }

    /// The graph.
    pub fn edges(&self) -> Edges {
        let vertices = self.vertices();
        let mut random = Random::new(self.seed, u64::from(self.scale));
        let mut numbers: Vec<u32> = (0..vertices).collect();
        if self.is_shuffled {
            random.shuffle(&mut numbers);
        }
        let mut draw = || loop {
            let (source, target) = self.draw(&mut random);
            if source != target {
                return (numbers[source as usize], numbers[target as usize]);
            }
        };
        Edges { vertices, edges: (0..self.edge_count()).map(|_| draw()).collect() }
    }

    fn draw(&self, random: &mut Random) -> Edge {
        let (mut source, mut target, mut word) = (0, 0, 0);
        for level in 0..self.scale {
            word = if level % 2 == 0 { random.word() } else { word >> 32 };
            let quarter = QUARTERS.iter().filter(|part| word as u32 >= **part).count() as u32;
            source = source << 1 | quarter >> 1;
            target = target << 1 | quarter & 1;
        }
        (source, target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(vertices: u64, degree: u64, is_shuffled: bool) -> Shape {
        Shape::new(vertices, degree, is_shuffled, 7).expect("valid parameters")
    }

    #[test]
    fn quarters_are_drawn_by_their_probabilities() {
        let Edges { vertices, edges } = shape(1 << 10, 64, false).edges();
        assert_eq!((vertices, edges.len()), (1 << 10, 1 << 16));
        let mut quarters = [0; 4];
        for (source, target) in &edges {
            quarters[(source >> 9 << 1 | target >> 9) as usize] += 1;
        }
        for (count, expected) in quarters.into_iter().zip([0.57, 0.19, 0.19, 0.05]) {
            let share = f64::from(count) / edges.len() as f64;
            assert!((share - expected).abs() < 0.01, "{share} instead of {expected}");
        }
        assert!(edges.iter().all(|(source, target)| source != target));
    }

    /// The same seed gives the same graph, and shuffling only changes the numbers.
    #[test]
    fn shuffled_graphs_have_the_same_degrees() {
        let degrees = |is_shuffled| {
            let mut degrees = vec![0; 1 << 8];
            let edges = shape(200, 8, is_shuffled).edges();
            edges.edges.iter().for_each(|(source, _)| degrees[*source as usize] += 1);
            degrees
        };
        let (drawn, mut shuffled) = (degrees(false), degrees(true));
        assert!(drawn[0] > 8 * 8, "the first vertex is a hub: {}", drawn[0]);
        assert_ne!(drawn, shuffled);
        assert_eq!(shape(200, 8, true).edges(), shape(200, 8, true).edges());
        shuffled.sort_unstable();
        assert!(shuffled[255] > 8 * 8 && shuffled[0] <= 1, "{shuffled:?}");
    }

    #[test]
    fn refuses_impossible_sizes() {
        for (vertices, degree) in
            [(0, 1), (1, 1), (4, 0), (1 << 29, 1), (1 << 28, 17), (u64::MAX, 2), (2, u64::MAX)]
        {
            assert!(Shape::new(vertices, degree, true, 1).is_err(), "{vertices} {degree}");
        }
        assert_eq!(shape(5, 3, true).edge_count(), 24);
    }
}
