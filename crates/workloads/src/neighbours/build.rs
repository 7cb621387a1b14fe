//! A tree over all points, in ordinary memory: the load makes its nodes in the heap, in places that are anywhere among
//! those of the tree, as after many points have come and gone.

use super::forest::{Forest, Shape, divide, point_bytes};
use super::node::{Inner, LINE, Leaf};
use crate::random::{Random, splitmix64};
use perdura::{Purpose, Result, Tx};

/// Nodes that one transaction makes.
pub(super) const BATCH: usize = 128;
/// Points written at once.
const PIECE: usize = 1 << 20;
/// Below this many planes, points are divided by their order, in half: also where a few of them are far away, a tree is
/// not deep.
const DEEP: usize = 48;

/// A node, its children by their numbers.
#[derive(Debug)]
enum Made {
    Inner { inner: Inner, children: [usize; 2] },
    Leaf(Vec<u32>),
}

/// The nodes of a tree, children first.
#[derive(Debug, Default)]
pub(super) struct Tree(Vec<Made>);

/// All points' coordinates, in the order of their slots.
pub(super) struct Coordinates {
    pub(super) dimensions: usize,
    pub(super) all: Vec<f32>,
}

impl Coordinates {
    pub(super) fn get(&self, slot: u32) -> &[f32] {
        let first = slot as usize * self.dimensions;
        &self.all[first..first + self.dimensions]
    }
}

impl Tree {
    pub(super) fn new(shape: &Shape, points: &Coordinates, random: u64) -> Self {
        let mut slots: Vec<u32> = (0..shape.slots as u32).collect();
        // Samples are the first points of each part.
        Random::new(random, 0).shuffle(&mut slots);
        let mut tree = Tree::default();
        tree.add(shape, points, &mut slots, random, 0);
        tree
    }

    /// Adds the nodes for these slots. Returns the number of the one above the others.
    fn add(
        &mut self,
        shape: &Shape,
        points: &Coordinates,
        slots: &mut [u32],
        random: u64,
        depth: usize,
    ) -> usize {
        if slots.len() <= shape.in_leaf {
            self.0.push(Made::Leaf(slots.to_vec()));
            return self.0.len() - 1;
        }
        let each = slots.iter().map(|slot| points.get(*slot));
        let (mut plane, is_below) = divide(shape, each, slots.len(), random);
        let mut below: Vec<u32> = Vec::with_capacity(slots.len());
        below.extend(slots.iter().zip(&is_below).filter(|own| *own.1).map(|own| *own.0));
        let above: Vec<u32> =
            slots.iter().zip(&is_below).filter(|own| !*own.1).map(|own| *own.0).collect();
        let mut first = below.len();
        below.extend(above);
        slots.copy_from_slice(&below);
        if depth >= DEEP {
            let own = |slot: &u32| points.get(*slot)[plane.dimension];
            slots.sort_unstable_by(|a, b| own(a).total_cmp(&own(b)));
            first = slots.len() / 2;
            plane.at = own(&slots[first]);
        }
        let (below, above) = slots.split_at_mut(first);
        let below = self.add(shape, points, below, splitmix64(random ^ 1), depth + 1);
        let above = self.add(shape, points, above, splitmix64(random ^ 2), depth + 1);
        let inner = Inner {
            dimension: plane.dimension as u32,
            parent: 0,
            count: slots.len() as u64,
            at: plane.at,
            range: plane.range,
            children: [0, 0],
        };
        self.0.push(Made::Inner { inner, children: [below, above] });
        self.0.len() - 1
    }

    /// How many nodes it has.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Where each node goes, if these places are in a row: nodes of a few subtrees are together, as those that are made
    /// one after the other, and the few anywhere.
    fn places(&self, row: &[u64], in_a_row: usize, random: u64) -> Vec<u64> {
        let mut groups: Vec<usize> = (0..self.0.len()).step_by(in_a_row).collect();
        Random::new(random, 1).shuffle(&mut groups);
        let mut places = vec![0; self.0.len()];
        let order = groups.iter().flat_map(|first| *first..self.0.len().min(first + in_a_row));
        for (node, at) in order.zip(row) {
            places[node] = *at;
        }
        places
    }

    /// The parent of each node, where they are `at`.
    fn parents(&self, at: &[u64]) -> Vec<u64> {
        let mut parents = vec![0; self.0.len()];
        for (made, at) in self.0.iter().zip(at) {
            if let Made::Inner { children, .. } = made {
                children.iter().for_each(|child| parents[*child] = *at);
            }
        }
        parents
    }

    /// The words of a node.
    fn words(&self, node: usize, at: &[u64], parent: u64) -> [u64; 8] {
        match &self.0[node] {
            Made::Inner { inner, children } => {
                Inner { parent, children: children.map(|child| at[child]), ..*inner }.words()
            }
            Made::Leaf(slots) => Leaf { parent, slots: slots.clone() }.words(),
        }
    }

    /// Notes the leaf of each slot, where nodes are `at`.
    pub(super) fn leaves(&self, at: &[u64], mut note: impl FnMut(u32, u64)) {
        for (made, at) in self.0.iter().zip(at) {
            if let Made::Leaf(slots) = made {
                slots.iter().for_each(|slot| note(*slot, *at));
            }
        }
    }
}

/// Makes the points in the heap; `leaves` has those of each slot, one for each tree.
pub(super) fn write_points<T: Tx + ?Sized>(
    tx: &mut T,
    shape: &Shape,
    points: &Coordinates,
    leaves: &[u64],
) -> Result<u64> {
    let new = tx.allocate(Purpose::General, shape.point_bytes() * shape.slots)?;
    let (mut piece, mut from) = (Vec::with_capacity(PIECE), 0);
    for (slot, leaves) in (0..shape.slots as u32).zip(leaves.chunks_exact(shape.trees)) {
        piece.extend_from_slice(&point_bytes(shape, leaves, points.get(slot)));
        if piece.len() >= PIECE || u64::from(slot) + 1 == shape.slots {
            tx.write_fresh(new, from, &piece)?;
            from += piece.len() as u64;
            piece.clear();
        }
    }
    Ok(new.at())
}

/// Makes a forest of these points in one transaction, or in several: `run` runs each.
pub(super) fn load<E: From<perdura::Error>>(
    shape: &Shape,
    points: &Coordinates,
    name: &str,
    seed: u64,
    mut run: impl FnMut(
        &mut dyn FnMut(&mut dyn Tx) -> Result<Vec<u64>>,
    ) -> std::result::Result<Vec<u64>, E>,
) -> std::result::Result<(), E> {
    let mut leaves = vec![0; shape.slots as usize * shape.trees];
    let mut roots = Vec::with_capacity(shape.trees);
    for number in 0..shape.trees {
        let tree = Tree::new(shape, points, splitmix64(seed ^ number as u64));
        let mut row: Vec<u64> = Vec::with_capacity(tree.len());
        while row.len() < tree.len() {
            let count = BATCH.min(tree.len() - row.len());
            row.extend(run(&mut |tx| {
                (0..count).map(|_| Ok(tx.allocate(Purpose::General, LINE)?.at())).collect()
            })?);
        }
        let at = tree.places(&row, shape.in_a_row, splitmix64(seed ^ number as u64));
        let parents = tree.parents(&at);
        for first in (0..tree.len()).step_by(BATCH) {
            run(&mut |tx| {
                for node in first..tree.len().min(first + BATCH) {
                    let words = tree.words(node, &at, parents[node]);
                    tx.write_bytes(at[node], bytemuck::bytes_of(&words))?;
                }
                Ok(Vec::new())
            })?;
        }
        tree.leaves(&at, |slot, at| leaves[slot as usize * shape.trees + number] = at);
        roots.extend(at.last());
    }
    run(&mut |tx| {
        let points = write_points(tx, shape, points, &leaves)?;
        Forest::create(tx, name, shape, points, &roots)?;
        Ok(Vec::new())
    })?;
    Ok(())
}
