//! SDG: edges inserted into and deleted from a large directed graph (NV-Heaps, Kiln, LOC).
//!
//! ```text
//! header  number of vertices; from byte 32 on, of each vertex:
//!         first edge out, edges out, first edge in, edges in
//! edge    next one out of the same source, next one into the same target, source << 32 | target, weight
//! ```
//!
//! An edge is one node in two lists, its source's and its target's; a vertex counts both of its lists. A key is
//! `source * vertices + target`, and an edge's weight follows from it. The graph is that of SSCA#2
//! ([`generator`]); toggled are its edges, and as many pairs of vertices that have none.

pub mod generator;

use crate::Outcome;
use crate::list::{self, Given, Listed, OnWorkload, Row};
use crate::toggle::{KeySet, Pairs, Toggles, check_blocks, value_of};
use crate::zeroed;
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Tx};
use std::collections::{BTreeMap, BTreeSet};

const WORD: u64 = 8;
const VERTEX: u64 = 4 * WORD;
const EDGE: u64 = 4 * WORD;
/// In an edge: where its ends and its weight are.
const ENDS: u64 = 2 * WORD;
const WEIGHT: u64 = 3 * WORD;

/// The graph whose header is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graph(u64);

/// One of a vertex's lists, and of an edge's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Out,
    In,
}

impl Side {
    /// In an edge, where its link is.
    const fn link(self) -> u64 {
        self as u64 * WORD
    }

    /// The end of an edge that the list belongs to.
    const fn end(self, (source, target): (u64, u64)) -> u64 {
        match self {
            Side::Out => source,
            Side::In => target,
        }
    }
}

/// A vertex's list: where its head is; its count is the word after that.
#[derive(Clone, Copy)]
struct List {
    head: u64,
    side: Side,
}

impl List {
    fn count<T: Tx + ?Sized>(self, tx: &mut T, vertices: u64) -> Result<u64> {
        let count = tx.read_word(self.head.wrapping_add(WORD))?;
        // At most one edge to each vertex, itself included.
        if count > vertices {
            return Err(Error::corrupt("a vertex of too many edges", self.head));
        }
        Ok(count)
    }

    /// The link to the first of `count` edges that `is_it` accepts, and that edge.
    fn find<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        count: u64,
        mut is_it: impl FnMut(&mut T, u64) -> Result<bool>,
    ) -> Result<Option<(u64, u64)>> {
        let mut link = self.head;
        for _ in 0..count {
            let edge = tx.read_word(link)?;
            if edge == 0 {
                return Err(Error::corrupt("a list that ends too early", self.head));
            }
            if is_it(tx, edge)? {
                return Ok(Some((link, edge)));
            }
            link = edge.wrapping_add(self.side.link());
        }
        match tx.read_word(link)? {
            0 => Ok(None),
            more => Err(Error::corrupt("an edge that its vertex does not count", more)),
        }
    }

    fn unlink<T: Tx + ?Sized>(self, tx: &mut T, count: u64, link: u64, edge: u64) -> Result<()> {
        let next = tx.read_word(edge.wrapping_add(self.side.link()))?;
        tx.write_word(link, next)?;
        tx.write_word(self.head.wrapping_add(WORD), count - 1)
    }
}

fn ends_of(word: u64) -> (u64, u64) {
    (word >> 32, word & 0xFFFF_FFFF)
}

impl Graph {
    fn vertices<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
        match tx.read_word(self.0)? {
            vertices @ 1..=0xFFFF_FFFF => Ok(vertices),
            _ => Err(Error::corrupt("a graph of no vertices or too many", self.0)),
        }
    }

    fn list(self, vertex: u64, side: Side) -> List {
        let at = self.0.wrapping_add(VERTEX).wrapping_add(vertex.wrapping_mul(VERTEX));
        List { head: at.wrapping_add(side as u64 * 2 * WORD), side }
    }

    /// The edges of a list, which it reads to its end.
    fn edges<T: Tx + ?Sized>(self, tx: &mut T, vertices: u64, list: List) -> Result<Vec<u64>> {
        let mut edges = Vec::new();
        let count = list.count(tx, vertices)?;
        list.find(tx, count, |_, edge| {
            edges.push(edge);
            Ok(false)
        })?;
        Ok(edges)
    }
}

impl KeySet for Graph {
    const NAME: &'static str = "sdg";
    const KIND: u32 = 2_008;
    /// Vertices included: there are several edges for each.
    const BYTES_PER_ENTRY: u64 = 48;

    /// As many vertices as all keys below `below` need.
    fn create<T: Tx + ?Sized>(tx: &mut T, _entries: u64, below: u64) -> Result<Self> {
        let vertices = below.isqrt() + u64::from(below.isqrt().pow(2) < below);
        let at = zeroed::allocate(tx, VERTEX + vertices.max(1) * VERTEX)?;
        tx.write_word(at, vertices.max(1))?;
        Ok(Graph(at))
    }

    fn open(at: u64) -> Self {
        Graph(at)
    }

    fn at(self) -> u64 {
        self.0
    }

    fn toggle<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<bool> {
        let vertices = self.vertices(tx)?;
        let (source, target) = (key / vertices, key % vertices);
        if source >= vertices {
            return Err(Error::corrupt("a graph without the edge's vertices", self.0));
        }
        let (out, into) = (self.list(source, Side::Out), self.list(target, Side::In));
        let counts = (out.count(tx, vertices)?, into.count(tx, vertices)?);
        let ends = source << 32 | target;
        let is_it = |tx: &mut T, edge: u64| Ok(tx.read_word(edge.wrapping_add(ENDS))? == ends);
        if let Some((link, edge)) = out.find(tx, counts.0, is_it)? {
            let Some((back, _)) = into.find(tx, counts.1, |_, other| Ok(other == edge))? else {
                return Err(Error::corrupt("an edge that its target does not know", edge));
            };
            out.unlink(tx, counts.0, link, edge)?;
            into.unlink(tx, counts.1, back, edge)?;
            tx.free(edge)?;
            return Ok(false);
        }
        let new = tx.allocate(Purpose::General, EDGE)?;
        let words = [tx.read_word(out.head)?, tx.read_word(into.head)?, ends, value_of(key)];
        tx.write_fresh(new, 0, words.map(u64::to_ne_bytes).as_flattened())?;
        for (list, count) in [(out, counts.0), (into, counts.1)] {
            tx.write_word(list.head, new.at())?;
            tx.write_word(list.head.wrapping_add(WORD), count + 1)?;
        }
        Ok(true)
    }

    /// Each list is as long as its vertex says, its edges are its vertex's, and the edges out of all vertices are
    /// those into all vertices.
    fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut Pairs<'_>,
    ) -> Result<()> {
        visit(self.0)?;
        let vertices = self.vertices(tx)?;
        if vertices >= tx.usable(self.0)? / VERTEX {
            return Err(Error::corrupt("a graph of more vertices than it has room for", self.0));
        }
        let mut out = BTreeMap::new();
        for vertex in 0..vertices {
            let (list, mut targets) = (self.list(vertex, Side::Out), BTreeSet::new());
            for edge in self.edges(tx, vertices, list)? {
                let ends = ends_of(tx.read_word(edge.wrapping_add(ENDS))?);
                if Side::Out.end(ends) != vertex || ends.1 >= vertices || !targets.insert(ends.1) {
                    return Err(Error::corrupt("an edge of another vertex, or one twice", edge));
                }
                if out.insert(edge, ends).is_some() {
                    return Err(Error::corrupt("an edge in two lists", edge));
                }
                visit(edge)?;
                pair(vertex * vertices + ends.1, tx.read_word(edge.wrapping_add(WEIGHT))?)?;
            }
        }
        for vertex in 0..vertices {
            for edge in self.edges(tx, vertices, self.list(vertex, Side::In))? {
                if out.remove(&edge).map(|ends| Side::In.end(ends)) != Some(vertex) {
                    return Err(Error::corrupt("an edge that its source does not know", edge));
                }
            }
        }
        match out.first_key_value() {
            None => Ok(()),
            Some((&edge, _)) => Err(Error::corrupt("an edge that its target does not know", edge)),
        }
    }
}

/// The workload: `per_transaction` toggles in a transaction on the graph of at least `vertices` vertices (the next
/// power of two) that follows from `seed`.
///
/// # Errors
/// `Parameters`.
pub fn workload(vertices: u64, per_transaction: usize, seed: u64) -> Outcome<Toggles<Graph>> {
    let scale = generator::scale_of(vertices)?;
    let below = 1 << (2 * scale);
    Toggles::among(generator::candidates(scale, seed), below, per_transaction)
}

impl Listed for Graph {
    const ROW: Row = Row {
        name: Self::NAME,
        line: "edges toggled in the graph of SSCA#2",
        parameters: &[
            list::entries("vertices, up to the next power of two", 16_384),
            list::ops_per_tx("edges toggled in a transaction", 12),
        ],
        operations: |_| 500_000,
        rolls_back: |_| false,
        roots: &[(Self::KIND, check_blocks::<Self>)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let workload = workload(given.entries(), given.ops_per_tx(), given.seed)?;
        let bytes = workload.bytes();
        Ok(code.run(workload, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::Graph;
    use crate::toggle::tests;

    #[test]
    fn as_the_model() {
        tests::as_the_model::<Graph>(1, 300, 6_000);
        tests::as_the_model::<Graph>(2, 2, 200);
    }

    #[test]
    fn fills_and_empties() {
        tests::fills_and_empties::<Graph>(4, 2_000);
    }

    #[test]
    fn damage_is_an_error() {
        tests::damage_is_an_error::<Graph>(3, 60, 1_000);
    }
}
