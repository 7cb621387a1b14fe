//! Trees over a few points that are replaced, at random: a point is new in all trees or in none.
//!
//! The model has how often each has been replaced; whatever else there is must be as these trees always are.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::{Error, Result, Root, Tx};
use perdura_memory::random::SplitMix64;
use perdura_workloads::check_root;
use perdura_workloads::neighbours::{self, Forest, Points, Rule, Shape, Walk};

const SLOTS: u64 = 14;
const DIMENSIONS: usize = 6;
const SEED: u64 = 1;

/// One tree, or several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neighbours<const TREES: usize>;

/// A kd-tree.
pub type Ann = Neighbours<1>;

/// Three randomised trees.
pub type KdForest = Neighbours<3>;

fn points() -> Points {
    Points::drawn(SLOTS, DIMENSIONS, SEED)
}

impl<const TREES: usize> Neighbours<TREES> {
    fn shape() -> Shape {
        let rule = if TREES == 1 { Rule::Widest } else { Rule::Varied };
        Shape { slots: SLOTS, dimensions: DIMENSIONS, trees: TREES, in_leaf: 2, rule, in_a_row: 1 }
    }

    fn find(tx: &mut dyn Tx) -> Result<Option<Forest>> {
        Forest::find(tx, Self::ROW.name, &Self::shape())
    }
}

impl<const TREES: usize> Listed for Neighbours<TREES> {
    const ROW: Structure = if TREES == 1 {
        Structure { name: "ann", line: "points replaced in a kd-tree" }
    } else {
        Structure { name: "kd-forest", line: "points replaced in several randomised kd-trees" }
    };
}

impl<const TREES: usize> Subject for Neighbours<TREES> {
    /// The slots whose points are replaced, one after the other.
    type Op = Vec<u64>;
    /// How often each point has been replaced.
    type Model = Vec<u64>;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        neighbours::load::<Error>(&Self::shape(), &points(), Self::ROW.name, SEED, |body| body(tx))
    }

    fn prepared(&self) -> Vec<u64> {
        vec![0; SLOTS as usize]
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Vec<u64> {
        (0..1 + random.below(2)).map(|_| random.below(SLOTS)).collect()
    }

    fn apply(&self, tx: &mut dyn Tx, slots: &Vec<u64>) -> Result<()> {
        let (forest, points) = (Self::find(tx)?.expect("it was prepared"), points());
        for slot in slots {
            forest.replace(tx, *slot, |version| points.point(*slot, version))?;
        }
        Ok(())
    }

    fn step(&self, versions: &mut Vec<u64>, slots: &Vec<u64>) -> bool {
        slots.iter().for_each(|slot| versions[*slot as usize] += 1);
        true
    }

    fn aborts(&self) -> bool {
        false
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Vec<u64>>> {
        let Some(forest) = Self::find(tx)? else { return Ok(None) };
        for tree in 0..TREES {
            let mut walk = Walk::new(tx, &forest, tree)?;
            while walk.go_on(tx, &forest, usize::MAX)? {}
        }
        let points = points();
        let version = |slot| {
            let version = forest.version(tx, slot)?;
            if forest.coordinates(tx, slot)? != points.point(slot, version) {
                return Err(Error::corrupt("a point that was never put there", forest.point(slot)));
            }
            Ok(version)
        };
        (0..SLOTS).map(version).collect::<Result<_>>().map(Some)
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        check_root(tx, root, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;

    fn the_model_is_that_of_the_replacements<const TREES: usize>() {
        let (subject, mut heap) = (Neighbours::<TREES>, TestHeap::new());
        assert!(subject.read(&mut heap).expect("an empty heap").is_none());
        subject.prepare(&mut heap).expect("it is made");
        heap.commit();
        let (mut model, mut random) = (subject.prepared(), SplitMix64::new(1));
        let mut blocks = Vec::new();
        for _ in 0..300 {
            assert_eq!(subject.read(&mut heap).expect("a forest").as_ref(), Some(&model));
            let op = subject.draw(&mut random, 0);
            subject.apply(&mut heap, &op).expect("room");
            heap.commit();
            assert!(subject.step(&mut model, &op));
            blocks.push(heap.live());
        }
        // Leaves are divided, and go.
        blocks.sort_unstable();
        assert!(blocks[0] < blocks[blocks.len() - 1]);
    }

    #[test]
    fn models_are_those_of_the_replacements() {
        the_model_is_that_of_the_replacements::<1>();
        the_model_is_that_of_the_replacements::<3>();
    }
}
