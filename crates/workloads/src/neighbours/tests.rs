use super::forest::{Forest, Shape, check_blocks, divide};
use super::node::Node;
use super::points::{Nearest, Points, Rule, distance};
use super::{CHECKS, Kind, NEIGHBOURS, Neighbours, Walk};
use crate::random::Random;
use perdura::Tx;
use perdura::testing::TestHeap;
use std::collections::BTreeSet;

const NAME: &str = "test";

fn shape(points: &Points, trees: usize, in_leaf: usize, rule: Rule) -> Shape {
    let (slots, dimensions) = (points.slots(), points.dimensions());
    Shape { slots, dimensions, trees, in_leaf, rule, in_a_row: 2 }
}

fn loaded(heap: &mut TestHeap, shape: &Shape, points: &Points) -> Forest {
    let run = |body: &mut dyn FnMut(&mut dyn Tx) -> perdura::Result<Vec<u64>>| heap.run(body);
    super::load::<perdura::Error>(shape, points, NAME, 3, run).expect("room");
    Forest::find(heap, NAME, shape).expect("a forest").expect("it was made")
}

fn verify(heap: &mut TestHeap, forest: &Forest) -> perdura::Result<()> {
    for tree in 0..forest.shape.trees {
        let mut walk = Walk::new(heap, forest, tree)?;
        while walk.go_on(heap, forest, 3)? {}
    }
    Ok(())
}

fn blocks(heap: &mut TestHeap, forest: &Forest) -> Vec<u64> {
    let mut reached = Vec::new();
    check_blocks(heap, forest.root, &mut |at| {
        reached.push(at);
        Ok(())
    })
    .expect("sound blocks");
    reached.sort_unstable();
    reached
}

/// Points of all slots come and go, in any order: trees stay sound, and nothing leaks.
#[test]
fn trees_stay_sound() {
    for (rule, trees, in_leaf, slots) in [
        (Rule::Widest, 1, 10, 300),
        (Rule::Varied, 4, 10, 300),
        (Rule::Widest, 1, 1, 40),
        (Rule::Varied, 3, 2, 40),
        (Rule::Varied, 7, 1, 1),
        (Rule::Widest, 1, 3, 2),
    ] {
        let (mut heap, points) = (TestHeap::new(), Points::drawn(slots, 12, 5));
        let shape = shape(&points, trees, in_leaf, rule);
        let forest = loaded(&mut heap, &shape, &points);
        verify(&mut heap, &forest).expect("as it was loaded");
        assert_eq!(blocks(&mut heap, &forest), heap.live_blocks());
        let mut random = Random::new(9, slots);
        let mut versions = vec![0; slots as usize];
        for turn in 0..600 {
            let slot = random.below(slots);
            versions[slot as usize] += 1;
            let new = |version| points.point(slot, version);
            forest.replace(&mut heap, slot, new).expect("a sound forest");
            heap.commit();
            if turn % 20 == 0 {
                verify(&mut heap, &forest).unwrap_or_else(|error| panic!("{turn}: {error}"));
                assert_eq!(blocks(&mut heap, &forest), heap.live_blocks(), "each once");
            }
        }
        for (slot, version) in (0..).zip(versions) {
            assert_eq!(forest.version(&mut heap, slot).expect("a read"), version);
            let found = forest.coordinates(&mut heap, slot).expect("a read");
            assert_eq!(found, points.point(slot, version));
        }
    }
}

/// Points that are all alike are divided too, also when they come one after the other.
#[test]
fn points_that_are_alike_do_not_make_a_tree_deep() {
    for rule in [Rule::Widest, Rule::Varied] {
        let (mut heap, points) = (TestHeap::new(), Points::drawn(500, 4, 5));
        let shape = shape(&points, 1, 3, rule);
        let forest = loaded(&mut heap, &shape, &points);
        for slot in 0..500 {
            forest.replace(&mut heap, slot, |_| vec![7.0; 4]).expect("room");
            heap.commit();
        }
        verify(&mut heap, &forest).expect("a sound tree");
        let mut deepest = 0;
        for slot in 0..500 {
            let (mut at, mut depth) = (forest.leaf(&mut heap, slot, 0).expect("a read"), 0);
            while at != 0 {
                at = Node::read(&mut heap, at).expect("a node").parent();
                depth += 1;
            }
            deepest = deepest.max(depth);
        }
        println!("{rule:?}: {deepest}");
        assert!(deepest < 60, "{deepest}");
    }
}

/// Every word of every node and of a point: what is changed is noticed, or makes no difference to a sound tree.
#[test]
fn damage_is_an_error() {
    for (rule, trees) in [(Rule::Widest, 1), (Rule::Varied, 2)] {
        let (mut heap, points) = (TestHeap::new(), Points::drawn(40, 6, 5));
        let shape = shape(&points, trees, 4, rule);
        let forest = loaded(&mut heap, &shape, &points);
        verify(&mut heap, &forest).expect("as it was loaded");
        let all = blocks(&mut heap, &forest);
        let nodes = all.into_iter().filter(|at| ![forest.root, forest.points].contains(at));
        let (mut inner, mut leaves) = (0, 0);
        for at in nodes {
            let node = Node::read(&mut heap, at).expect("a node");
            // All of an inner node but for what its line has no use for; of a leaf the slots in use.
            let words: Vec<u64> = match &node {
                Node::Inner(_) => (0..7).collect(),
                Node::Leaf(leaf) => (0..3 + leaf.slots.len() as u64 / 2).collect(),
            };
            for word in words {
                // The sign of the plane's place, and of the upper limit: smaller changes may leave a tree sound.
                let bit = match (&node, word) {
                    (Node::Inner(_), 3) => 31,
                    (Node::Inner(_), 4) => 63,
                    _ => 3,
                };
                let (place, old) = (at + word * 8, heap.peek(at + word * 8));
                heap.damage(place, old ^ 1 << bit);
                let verdict = verify(&mut heap, &forest);
                assert!(verdict.is_err(), "word {word} of {node:?}");
                heap.damage(place, old);
            }
            match node {
                Node::Inner(_) => inner += 1,
                Node::Leaf(_) => leaves += 1,
            }
        }
        assert!(inner >= 9 * trees && leaves >= 10 * trees, "{inner} {leaves}");
        verify(&mut heap, &forest).expect("it is as it was");
        // A point that does not know its leaf, and one that lies elsewhere.
        for offset in [8, 64] {
            let place = forest.point(3) + offset;
            let old = heap.peek(place);
            heap.damage(place, old ^ 1 << 30);
            assert!(verify(&mut heap, &forest).is_err(), "{offset}");
            heap.damage(place, old);
        }
    }
}

#[test]
fn leaves_of_fresh_trees_have_a_point_each_side() {
    for rule in [Rule::Widest, Rule::Varied] {
        let points = Points::drawn(50, 3, 1);
        let shape = shape(&points, 1, 4, rule);
        let mut random = Random::new(4, 0);
        for _ in 0..2_000 {
            let count = 2 + random.below(30) as usize;
            let few = random.chance(0.5);
            let mut draw = |_| {
                let coordinate = |random: &mut Random| match few {
                    true => random.below(2) as f32,
                    false => random.unit() as f32 * 1e-38 - 5e-39,
                };
                (0..3).map(|_| coordinate(&mut random)).collect::<Vec<f32>>()
            };
            let all: Vec<Vec<f32>> = (0..count).map(&mut draw).collect();
            let each = all.iter().map(Vec::as_slice);
            let (plane, is_below) = divide(&shape, each, count, random.word());
            let below = is_below.iter().filter(|own| **own).count();
            assert!(below > 0 && below < count, "{plane:?} {all:?}");
            for (point, is_below) in all.iter().zip(is_below) {
                let own = point[plane.dimension];
                assert!(plane.range.0 <= own && own <= plane.range.1);
                assert!(if is_below { own <= plane.at } else { own >= plane.at });
            }
        }
    }
}

/// FLANN's rule: five dimensions of the greatest variance, each of them sometimes, at the mean.
#[test]
fn varied_planes_are_at_the_mean_of_a_varied_dimension() {
    let mut random = Random::new(4, 0);
    let all: Vec<Vec<f32>> = (0..80)
        .map(|_| (0..20).map(|index| (random.unit() * f64::from(index + 1)) as f32).collect())
        .collect();
    let mut chosen = BTreeSet::new();
    for choice in 0..200 {
        let each = all.iter().map(Vec::as_slice);
        let plane = Rule::Varied.plane(each, 20, choice).expect("a plane");
        chosen.insert(plane.dimension);
        let mean = all.iter().map(|point| point[plane.dimension]).sum::<f32>() / 80.0;
        assert!((plane.at - mean).abs() < 1e-4, "{plane:?} {mean}");
    }
    assert!(chosen.len() == 5 && *chosen.first().expect("one") >= 12, "{chosen:?}");
    let each = all.iter().map(Vec::as_slice);
    let widest = Rule::Widest.plane(each, 20, 0).expect("a plane");
    assert!(widest.dimension >= 17, "{widest:?}");
}

#[test]
fn the_nearest_are_kept_in_order() {
    let mut random = Random::new(4, 0);
    let (mut nearest, mut all) = (Nearest::new(5), Vec::new());
    for slot in 0..200 {
        let distance = random.below(50) as f32;
        nearest.offer(distance, slot);
        all.push(distance);
        assert_eq!(nearest.is_full(), slot >= 4);
    }
    all.sort_by(f32::total_cmp);
    let found: Vec<f32> = nearest.found().iter().map(|own| own.0).collect();
    assert_eq!(found, all[..5]);
}

#[test]
fn distances_are_sums_of_squares() {
    let mut random = Random::new(4, 0);
    for dimensions in [1, 7, 8, 9, 128] {
        let mut point = || (0..dimensions).map(|_| random.below(9) as f32).collect::<Vec<_>>();
        let (a, b) = (point(), point());
        let expected: f32 = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum();
        assert_eq!(distance(&a, &b), expected);
    }
}

/// A query that looks at all points finds the nearest; one that looks at few finds many of them, and looks at few.
#[test]
fn queries_find_the_nearest() {
    for kind in [Kind::Tree, Kind::Forest] {
        let (mut heap, points) = (TestHeap::new(), Points::drawn(2_000, 16, 5));
        let shape = kind.shape(&points);
        let forest = loaded(&mut heap, &shape, &points);
        let (mut random, mut found) = (Random::new(1, 1), 0);
        for _ in 0..50 {
            let to = points.query(&mut random);
            let mut nearest = Nearest::new(NEIGHBOURS);
            for slot in 0..2_000 {
                nearest.offer(distance(&to, &points.point(slot, 0)), slot as u32);
            }
            let all = forest.nearest(&mut heap, &to, NEIGHBOURS, 2_000).expect("a sound forest");
            assert_eq!(all.nearest, nearest);
            let few = forest.nearest(&mut heap, &to, NEIGHBOURS, CHECKS).expect("a sound forest");
            let looked_at = few.steps / 16;
            assert!((CHECKS as u64..CHECKS as u64 + 30).contains(&looked_at), "{looked_at}");
            let last = nearest.found()[NEIGHBOURS - 1].0;
            found += few.nearest.found().iter().filter(|own| own.0 <= last).count();
        }
        println!("{kind:?}: {found} of 500");
        assert!(found > 250, "{kind:?}: {found}");
    }
}

/// Whatever the number of slots, each is replaced once in a round.
#[test]
fn rounds_are_of_all_slots() {
    for slots in (1..200).chain([1_000, 4_096]) {
        let workload = Neighbours::new(Kind::Tree, slots, 1, 0, 1).expect("valid parameters");
        let round: BTreeSet<u64> = (0..slots).map(|number| workload.slot(number)).collect();
        assert_eq!(round.len() as u64, slots);
        workload.replaced.store(2 * slots + 1, std::sync::atomic::Ordering::Relaxed);
        let versions = workload.versions();
        assert_eq!(versions.iter().sum::<u64>(), 2 * slots + 1);
        assert_eq!(versions[workload.slot(0) as usize], 3);
    }
}

#[test]
fn refuses_what_it_cannot_run_on() {
    for (slots, together, queries) in
        [(0, 1, 0), (5, 0, 0), (5, 6, 0), (5, 1, 101), (1 << 32, 1, 0)]
    {
        let refused = Neighbours::new(Kind::Tree, slots, together, queries, 1);
        assert!(refused.is_err(), "{slots} {together} {queries}");
    }
    assert!(Neighbours::new(Kind::Forest, 5, 5, 100, 1).is_ok());
}
