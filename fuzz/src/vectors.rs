//! Files of vectors: read, or refused with a reason, and put into trees.

use crate::Target;
use perdura::testing::TestHeap;
use perdura::{Error, Tx};
use perdura_workloads::neighbours::{self, Forest, Points, Rule, Shape, Vectors, Walk};

pub(crate) const VECTORS: Target = Target { name: "vectors", run: load, seeds, words: &[] };

/// The maximum number of points of a forest.
const MOST: u64 = 60;
const NAME: &str = "fuzz";

fn load(bytes: &[u8]) {
    match Vectors::parse(bytes) {
        Err(why) => assert!(!why.is_empty()),
        Ok(vectors) => {
            [(1, Rule::Widest), (2, Rule::Varied)].into_iter().for_each(|(trees, rule)| {
                assert!(vectors.len() * vectors.dimensions() as u64 * 4 <= bytes.len() as u64);
                run(vectors.clone(), trees, rule);
            })
        }
    }
}

/// A forest over half of the vectors, which the other half replaces.
fn run(vectors: Vectors, trees: usize, rule: Rule) {
    let slots = vectors.len().div_ceil(2).min(MOST);
    let dimensions = vectors.dimensions();
    let shape = Shape { slots, dimensions, trees, in_leaf: 2, rule, in_a_row: 1 };
    let (mut heap, points) = (TestHeap::new(), Points::of_file(slots, vectors));
    let run = |body: &mut dyn FnMut(&mut dyn Tx) -> perdura::Result<Vec<u64>>| heap.run(body);
    neighbours::load::<Error>(&shape, &points, NAME, 1, run).expect("room");
    let forest = Forest::find(&mut heap, NAME, &shape).expect("a root").expect("a forest");
    for slot in 0..slots {
        let replaced = forest.replace(&mut heap, slot, |version| points.point(slot, version));
        replaced.expect("a sound forest");
        heap.commit();
    }
    for tree in 0..trees {
        let mut walk = Walk::new(&mut heap, &forest, tree).expect("a tree");
        while walk.go_on(&mut heap, &forest, 100).expect("a sound tree") {}
    }
    let answer = forest.nearest(&mut heap, &points.point(0, 1), 3, 8).expect("a sound forest");
    assert_eq!(answer.nearest.found().len() as u64, slots.min(3));
}

fn seeds() -> Vec<Vec<u8>> {
    let file = |vectors: u32, dimensions: u32, coordinate: fn(u32) -> f32| {
        let each = (0..vectors).flat_map(move |vector| {
            let coordinates = (0..dimensions).map(move |own| coordinate(vector * dimensions + own));
            let words = std::iter::once(dimensions).chain(coordinates.map(f32::to_bits));
            words.flat_map(u32::to_le_bytes)
        });
        each.collect()
    };
    vec![
        file(40, 4, |number| (number.wrapping_mul(2_654_435_761) >> 24) as f32),
        file(9, 128, |number| number as f32 / 7.0),
        file(30, 1, |number| 2_f32.powi(number as i32 * 8 - 120)),
        file(20, 3, |_| -1.5),
    ]
}
