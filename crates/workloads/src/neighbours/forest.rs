//! Trees over points in the heap: a point is replaced in all of them by one transaction.
//!
//! ```text
//! root   slots, coordinates, trees and points in a leaf, rule; where the points are; each tree's root
//! point  times that it was replaced, its leaf in each tree; from byte 64 on its coordinates, 32 bits each
//! ```
//!
//! Invariants: each slot is in one leaf of each tree, and knows it. Below an inner node's plane are only points that are
//! not above it, and the reverse; it counts its points, and their coordinates are in its range. A leaf has a point, or is
//! a tree's root.

use super::node::{
    Inner, LINE, Leaf, MOST_IN_LEAF, Node, Side, WORD, child, new_inner, new_leaf, write_count,
    write_leaf, write_parent, write_range,
};
use super::points::{Plane, Rule};
use crate::random::splitmix64;
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Root, Tx};

/// The kind of a forest's root.
pub(crate) const KIND: u32 = 2_031;
/// The maximum number of trees: a point's first line has a pointer to a leaf in each.
pub const MOST_TREES: usize = 7;
/// The maximum number of coordinates.
pub const MOST_DIMENSIONS: usize = 1 << 16;
/// In the root's block: its words, and each tree's root.
const ROOT_WORDS: usize = 5;
const POINTS: u64 = 4 * WORD;
const TREES: u64 = 5 * WORD;
/// In a point.
const VERSION: u64 = 0;
const LEAVES: u64 = WORD;
const COORDINATES: u64 = LINE;

/// What a forest is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Points.
    pub slots: u64,
    /// Coordinates of each.
    pub dimensions: usize,
    /// Trees.
    pub trees: usize,
    /// The maximum number of points of a leaf.
    pub in_leaf: usize,
    /// How planes are chosen.
    pub rule: Rule,
    /// Nodes that lie in a row after the load; the next ones are anywhere.
    pub in_a_row: usize,
}

impl Shape {
    /// Bytes of a point.
    pub fn point_bytes(&self) -> u64 {
        (COORDINATES + self.dimensions as u64 * 4).next_multiple_of(LINE)
    }

    /// Whether there can be such a forest.
    pub fn is_sound(&self) -> bool {
        (1..1 << 32).contains(&self.slots)
            && (1..=MOST_DIMENSIONS).contains(&self.dimensions)
            && (1..=MOST_TREES).contains(&self.trees)
            && (1..=MOST_IN_LEAF).contains(&self.in_leaf)
            && self.in_a_row > 0
    }

    fn words(&self) -> [u64; ROOT_WORDS - 1] {
        let trees = (self.trees as u64) << 32 | self.in_leaf as u64;
        [self.slots, self.dimensions as u64, trees, self.rule as u64]
    }
}

/// The forest whose root is there.
#[derive(Clone, Copy, Debug)]
pub struct Forest {
    pub(super) shape: Shape,
    pub(super) root: u64,
    pub(super) points: u64,
}

impl Forest {
    /// Makes the root of a forest whose points and trees have been made.
    pub(super) fn create<T: Tx + ?Sized>(
        tx: &mut T,
        name: &str,
        shape: &Shape,
        points: u64,
        trees: &[u64],
    ) -> Result<()> {
        let words = [&shape.words(), &[points][..], trees].concat();
        let new = tx.allocate(Purpose::General, words.len() as u64 * WORD)?;
        tx.write_fresh(new, 0, bytemuck::cast_slice(&words))?;
        tx.set_root(name, Root { at: new.at(), kind: KIND })
    }

    /// The forest of this name; none before the load.
    ///
    /// # Errors
    /// `Corrupt` if it is of another shape.
    pub fn find<T: Tx + ?Sized>(tx: &mut T, name: &str, shape: &Shape) -> Result<Option<Self>> {
        let Some(root) = tx.root(name)? else { return Ok(None) };
        let mut words = [0_u64; ROOT_WORDS];
        tx.read_bytes(root.at, bytemuck::bytes_of_mut(&mut words))?;
        if words[..ROOT_WORDS - 1] != shape.words() {
            return Err(Error::corrupt("a forest of another shape", root.at));
        }
        Ok(Some(Forest { shape: *shape, root: root.at, points: words[ROOT_WORDS - 1] }))
    }

    /// Where the pointer to a tree's root is.
    pub(super) fn tree(&self, tree: usize) -> u64 {
        self.root.wrapping_add(TREES + tree as u64 * WORD)
    }

    /// Where a slot's point is.
    pub fn point(&self, slot: u64) -> u64 {
        self.points.wrapping_add(slot.wrapping_mul(self.shape.point_bytes()))
    }

    fn leaf_of(&self, slot: u64, tree: usize) -> u64 {
        self.point(slot).wrapping_add(LEAVES + tree as u64 * WORD)
    }

    /// How often a slot's point has been replaced.
    ///
    /// # Errors
    /// As the transaction's reads.
    pub fn version<T: Tx + ?Sized>(&self, tx: &mut T, slot: u64) -> Result<u64> {
        tx.read_word(self.point(slot) + VERSION)
    }

    /// A slot's leaf in a tree.
    pub(super) fn leaf<T: Tx + ?Sized>(&self, tx: &mut T, slot: u64, tree: usize) -> Result<u64> {
        tx.read_word(self.leaf_of(slot, tree))
    }

    /// A slot's coordinates.
    ///
    /// # Errors
    /// As the transaction's reads.
    pub fn coordinates<T: Tx + ?Sized>(&self, tx: &mut T, slot: u64) -> Result<Vec<f32>> {
        let mut coordinates = vec![0.0; self.shape.dimensions];
        self.read_coordinates(tx, slot, &mut coordinates)?;
        Ok(coordinates)
    }

    /// Reads a slot's coordinates.
    pub(super) fn read_coordinates<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        slot: u64,
        to: &mut [f32],
    ) -> Result<()> {
        let at = self.point(slot).wrapping_add(COORDINATES);
        tx.read_bytes(at, bytemuck::cast_slice_mut(to))
    }

    /// Replaces a slot's point in all trees. `new` makes its coordinates, from how often it has then been replaced.
    /// Returns the steps of computation.
    ///
    /// # Errors
    /// As the transaction; `Corrupt` if the slot is not where it should be.
    pub fn replace<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        slot: u64,
        new: impl FnOnce(u64) -> Vec<f32>,
    ) -> Result<u64> {
        let version = self.version(tx, slot)?.wrapping_add(1);
        for tree in 0..self.shape.trees {
            self.remove(tx, tree, slot)?;
        }
        let new = new(version);
        tx.write_bytes(self.point(slot) + COORDINATES, bytemuck::cast_slice(&new))?;
        tx.write_word(self.point(slot) + VERSION, version)?;
        let mut steps = 0;
        for tree in 0..self.shape.trees {
            steps += self.insert(tx, tree, slot, &new)?;
        }
        Ok(steps)
    }

    /// Takes a slot out of its leaf, and out of the counts above. A leaf that becomes empty goes, and its sibling takes
    /// their parent's place.
    fn remove<T: Tx + ?Sized>(&self, tx: &mut T, tree: usize, slot: u64) -> Result<()> {
        let at = self.leaf(tx, slot, tree)?;
        let Node::Leaf(mut leaf) = Node::read(tx, at)? else {
            return Err(Error::corrupt("a point in an inner node", at));
        };
        let Some(index) = leaf.slots.iter().position(|own| u64::from(*own) == slot) else {
            return Err(Error::corrupt("a leaf without its point", at));
        };
        leaf.slots.swap_remove(index);
        let (mut from, mut above) = (at, leaf.parent);
        if leaf.slots.is_empty() && above != 0 {
            let parent = Node::inner(tx, above)?;
            let sibling = match parent.children {
                [below, other] if below == at => other,
                [other, above] if above == at => other,
                _ => return Err(Error::corrupt("a leaf that its parent does not know", at)),
            };
            self.replace_child(tx, tree, parent.parent, above, sibling)?;
            write_parent(tx, sibling, parent.parent)?;
            tx.free(at)?;
            tx.free(above)?;
            (from, above) = (sibling, parent.parent);
        } else {
            write_leaf(tx, at, &leaf)?;
        }
        while above != 0 {
            let inner = Node::inner(tx, above)?;
            if !inner.children.contains(&from) || inner.count == 0 {
                return Err(Error::corrupt("a node that its parent does not know", above));
            }
            write_count(tx, above, inner.count - 1)?;
            (from, above) = (above, inner.parent);
        }
        Ok(())
    }

    /// In the node `parent`, or where the tree begins if that is 0, the child `old` becomes `new`.
    fn replace_child<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        tree: usize,
        parent: u64,
        old: u64,
        new: u64,
    ) -> Result<()> {
        if parent == 0 {
            return tx.write_word(self.tree(tree), new);
        }
        match Node::inner(tx, parent)?.children {
            [below, _] if below == old => tx.write_word(child(parent, Side::Below), new),
            [_, above] if above == old => tx.write_word(child(parent, Side::Above), new),
            _ => Err(Error::corrupt("a node that its parent does not know", old)),
        }
    }

    /// Puts a slot, which has its coordinates, into the leaf that they lead to. Returns the steps of computation.
    fn insert<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        tree: usize,
        slot: u64,
        new: &[f32],
    ) -> Result<u64> {
        let (mut at, mut steps) = (tx.read_word(self.tree(tree))?, 0);
        let mut leaf = loop {
            let inner = match Node::read(tx, at)? {
                Node::Leaf(leaf) => break leaf,
                Node::Inner(inner) => inner,
            };
            let Some(&own) = new.get(inner.dimension as usize) else {
                return Err(Error::corrupt("a plane in no dimension", at));
            };
            // The count also ends a descent in a damaged tree that is a circle.
            if inner.count >= self.shape.slots {
                return Err(Error::corrupt("a node of more points than there are", at));
            }
            write_count(tx, at, inner.count + 1)?;
            let (low, high) = inner.range;
            if own < low || own > high {
                write_range(tx, at, (low.min(own), high.max(own)))?;
            }
            at = inner.children[inner.side(own, slot as u32) as usize];
            steps += 1;
        };
        if leaf.slots.len() < self.shape.in_leaf {
            leaf.slots.push(slot as u32);
            write_leaf(tx, at, &leaf)?;
            tx.write_word(self.leaf_of(slot, tree), at)?;
            return Ok(steps);
        }
        self.split(tx, tree, at, leaf, slot)?;
        Ok(steps + (leaf_points(&self.shape) * self.shape.dimensions) as u64)
    }

    /// Divides a full leaf, and one more slot: those below the plane stay, the others get a new one.
    fn split<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        tree: usize,
        at: u64,
        mut leaf: Leaf,
        slot: u64,
    ) -> Result<()> {
        leaf.slots.push(slot as u32);
        let mut points = Vec::with_capacity(leaf.slots.len());
        for slot in &leaf.slots {
            points.push(self.coordinates(tx, u64::from(*slot))?);
        }
        let random = splitmix64(at ^ splitmix64(slot));
        let each = points.iter().map(Vec::as_slice);
        let (plane, is_below) = divide(&self.shape, each, leaf.slots.len(), random);
        let mut sides = [Vec::new(), Vec::new()];
        for (slot, is_below) in leaf.slots.iter().zip(&is_below) {
            sides[usize::from(!is_below)].push(*slot);
        }
        let [below, above] = sides;
        let other = Leaf { parent: 0, slots: above };
        let other_at = new_leaf(tx, &other)?;
        let inner = Inner {
            dimension: plane.dimension as u32,
            parent: leaf.parent,
            count: leaf.slots.len() as u64,
            at: plane.at,
            range: plane.range,
            children: [at, other_at],
        };
        let inner_at = new_inner(tx, &inner)?;
        self.replace_child(tx, tree, leaf.parent, at, inner_at)?;
        write_parent(tx, other_at, inner_at)?;
        write_leaf(tx, at, &Leaf { parent: inner_at, slots: below.clone() })?;
        for moved in &other.slots {
            tx.write_word(self.leaf_of(u64::from(*moved), tree), other_at)?;
        }
        if below.contains(&(slot as u32)) {
            tx.write_word(self.leaf_of(slot, tree), at)?;
        }
        Ok(())
    }
}

fn leaf_points(shape: &Shape) -> usize {
    shape.in_leaf + 1
}

/// A plane between `count` points, and which of them are below it: some, and not all. Points that are all alike are
/// divided in half.
pub(super) fn divide<'p>(
    shape: &Shape,
    points: impl Iterator<Item = &'p [f32]> + Clone,
    count: usize,
    random: u64,
) -> (Plane, Vec<bool>) {
    if let Some(plane) = shape.rule.plane(points.clone(), shape.dimensions, random) {
        return (plane, points.map(|point| point[plane.dimension] < plane.at).collect());
    }
    let at = points.clone().next().map_or(0.0, |point| point[0]);
    let plane = Plane { dimension: 0, at, range: (at, at) };
    (plane, (0..count).map(|index| index < count / 2).collect())
}

/// A slot's block of bytes, before it has its leaves.
pub(super) fn point_bytes(shape: &Shape, leaves: &[u64], coordinates: &[f32]) -> Vec<u8> {
    let mut bytes = 0_u64.to_ne_bytes().to_vec();
    bytes.extend_from_slice(bytemuck::cast_slice(leaves));
    bytes.resize(COORDINATES as usize, 0);
    bytes.extend_from_slice(bytemuck::cast_slice(coordinates));
    bytes.resize(shape.point_bytes() as usize, 0);
    bytes
}

/// Reports every block of a forest to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    visit(tx.read_word(at + POINTS)?)?;
    let trees = tx.read_word(at + 2 * WORD)? >> 32;
    if trees > MOST_TREES as u64 || TREES + trees * WORD > tx.usable(at)? {
        return Err(Error::corrupt("a forest of more trees than it has room for", at));
    }
    let mut nodes = Vec::new();
    for tree in 0..trees {
        nodes.push(tx.read_word(at + TREES + tree * WORD)?);
    }
    while let Some(at) = nodes.pop() {
        visit(at)?;
        if let Node::Inner(inner) = Node::read(tx, at)? {
            nodes.extend(inner.children);
        }
    }
    Ok(())
}
