//! The nodes of a tree in the heap.
//!
//! ```text
//! inner  tag and dimension, parent, points below; plane, range; the child below the plane, the child above it
//! leaf   tag, parent, points; ten slots of 32 bits
//! ```
//!
//! A node is a line.

use perdura::{Error, Purpose, Result, Tx};

/// Bytes of a word.
pub(super) const WORD: u64 = 8;
/// Bytes of a line.
pub(super) const LINE: u64 = 64;
/// The maximum number of points of a leaf.
pub const MOST_IN_LEAF: usize = 10;
/// In each node.
const PARENT: u64 = WORD;
const COUNT: u64 = 2 * WORD;
/// In an inner node: its range, and its children.
const RANGE: u64 = 4 * WORD;
const CHILDREN: u64 = 5 * WORD;
/// High half of the first word.
const INNER: u64 = 0x494E_4E52;
const LEAF: u64 = 0x4C45_4146;

/// A side of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Below,
    Above,
}

/// An inner node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Inner {
    pub(super) dimension: u32,
    pub(super) parent: u64,
    /// Points of all leaves below it.
    pub(super) count: u64,
    /// Where the plane is.
    pub(super) at: f32,
    /// Limits of the coordinates that its points have had in this dimension.
    pub(super) range: (f32, f32),
    /// Below the plane, and above it.
    pub(super) children: [u64; 2],
}

/// A leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) parent: u64,
    pub(super) slots: Vec<u32>,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Inner(Inner),
    Leaf(Leaf),
}

fn pair(low: f32, high: f32) -> u64 {
    u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
}

fn unpaired(word: u64) -> (f32, f32) {
    (f32::from_bits(word as u32), f32::from_bits((word >> 32) as u32))
}

impl Inner {
    /// Which child a point belongs to that has this coordinate. Points on the plane take turns, so that many points that
    /// are alike do not make a tree deep.
    #[inline]
    pub(super) fn side(&self, coordinate: f32, slot: u32) -> Side {
        let is_below = coordinate < self.at
            || coordinate == self.at
                && crate::random::splitmix64(u64::from(slot) ^ self.parent) & 1 == 0;
        if is_below { Side::Below } else { Side::Above }
    }

    pub(super) fn words(&self) -> [u64; 8] {
        let tag = INNER << 32 | u64::from(self.dimension);
        let [below, above] = self.children;
        let (low, high) = self.range;
        [tag, self.parent, self.count, pair(self.at, 0.0), pair(low, high), below, above, 0]
    }
}

impl Leaf {
    pub(super) fn words(&self) -> [u64; 8] {
        let mut words = [LEAF << 32, self.parent, self.slots.len() as u64, 0, 0, 0, 0, 0];
        for (index, slot) in self.slots.iter().enumerate() {
            words[3 + index / 2] |= u64::from(*slot) << (index % 2 * 32);
        }
        words
    }
}

impl Node {
    pub(super) fn read<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Node> {
        let mut words = [0_u64; 8];
        tx.read_bytes(at, bytemuck::bytes_of_mut(&mut words))?;
        let [tag, parent, count, ..] = words;
        match tag >> 32 {
            INNER => Ok(Node::Inner(Inner {
                dimension: tag as u32,
                parent,
                count,
                at: unpaired(words[3]).0,
                range: unpaired(words[4]),
                children: [words[5], words[6]],
            })),
            LEAF if tag as u32 == 0 && count <= MOST_IN_LEAF as u64 => {
                let slot = |index: usize| (words[3 + index / 2] >> (index % 2 * 32)) as u32;
                Ok(Node::Leaf(Leaf { parent, slots: (0..count as usize).map(slot).collect() }))
            }
            _ => Err(Error::corrupt("no node of a tree of points", at)),
        }
    }

    /// The inner node at `at`.
    pub(super) fn inner<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Inner> {
        match Node::read(tx, at)? {
            Node::Inner(inner) => Ok(inner),
            Node::Leaf(_) => Err(Error::corrupt("a leaf with children", at)),
        }
    }

    pub(super) fn parent(&self) -> u64 {
        match self {
            Node::Inner(inner) => inner.parent,
            Node::Leaf(leaf) => leaf.parent,
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Node::Inner(inner) => inner.count,
            Node::Leaf(leaf) => leaf.slots.len() as u64,
        }
    }
}

/// Allocates an inner node.
pub(super) fn new_inner<T: Tx + ?Sized>(tx: &mut T, inner: &Inner) -> Result<u64> {
    let new = tx.allocate(Purpose::General, LINE)?;
    tx.write_fresh(new, 0, bytemuck::bytes_of(&inner.words()))?;
    Ok(new.at())
}

/// Allocates a leaf.
pub(super) fn new_leaf<T: Tx + ?Sized>(tx: &mut T, leaf: &Leaf) -> Result<u64> {
    let new = tx.allocate(Purpose::General, LINE)?;
    tx.write_fresh(new, 0, bytemuck::bytes_of(&leaf.words()))?;
    Ok(new.at())
}

/// Writes a leaf's line.
pub(super) fn write_leaf<T: Tx + ?Sized>(tx: &mut T, at: u64, leaf: &Leaf) -> Result<()> {
    tx.write_bytes(at, bytemuck::bytes_of(&leaf.words()))
}

pub(super) fn write_parent<T: Tx + ?Sized>(tx: &mut T, at: u64, parent: u64) -> Result<()> {
    tx.write_word(at.wrapping_add(PARENT), parent)
}

/// Writes an inner node's count.
pub(super) fn write_count<T: Tx + ?Sized>(tx: &mut T, at: u64, count: u64) -> Result<()> {
    tx.write_word(at.wrapping_add(COUNT), count)
}

/// Writes an inner node's range.
pub(super) fn write_range<T: Tx + ?Sized>(
    tx: &mut T,
    at: u64,
    (low, high): (f32, f32),
) -> Result<()> {
    tx.write_word(at.wrapping_add(RANGE), pair(low, high))
}

/// Where an inner node has its pointer to a child.
pub(super) const fn child(at: u64, side: Side) -> u64 {
    at.wrapping_add(CHILDREN).wrapping_add(side as u64 * WORD)
}
