//! Programs on a small graph: some vertices in a row are updated, with the values on their edges, or none is.
//!
//! A transaction may have room for few edges: it then writes a part of a vertex's, and another one goes on.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::{Result, Root, Tx};
use perdura_memory::random::SplitMix64;
use perdura_workloads::graph::{
    self, Done, Graph, Limit, OnHeap, Program, Scratch, Shape, Snapshot,
};
use perdura_workloads::{Computation, check_root};
use std::marker::PhantomData;

const VERTICES: u32 = 8;
const DEGREE: u64 = 3;
const SHARDS: u32 = 2;
/// Words in a block, so that a list of edges lies in several.
const BLOCK: u64 = 8;

/// A program on the graph.
pub struct OnGraph<P>(PhantomData<fn() -> P>);

/// Ranks.
pub type PageRank = OnGraph<graph::PageRank>;
/// Communities.
pub type Communities = OnGraph<graph::Communities>;
/// Connected components.
pub type Components = OnGraph<graph::Components>;

impl<P> Default for OnGraph<P> {
    fn default() -> Self {
        OnGraph(PhantomData)
    }
}

impl<P: Program> std::fmt::Debug for OnGraph<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(P::NAME)
    }
}

/// Updates from a vertex on.
#[derive(Clone, Copy, Debug)]
pub struct Updates {
    from: u32,
    limit: Limit,
}

impl<P: Program> OnGraph<P> {
    fn first() -> Snapshot {
        let shape = Shape::new(VERTICES.into(), DEGREE, true, 3).expect("valid parameters");
        Snapshot::of::<P>(shape.edges(), SHARDS)
    }

    fn update(arrays: &mut impl graph::Arrays, Updates { from, limit }: Updates) -> Result<Done> {
        let (mut scratch, nothing) = (Scratch::default(), Computation::default());
        graph::batch::<P>(arrays, from, VERTICES, limit, &mut scratch, &nothing)
    }
}

impl<P: Program> Listed for OnGraph<P> {
    const ROW: Structure = Structure {
        name: P::NAME,
        line: "one of GraphChi's programs, on a graph of eight vertices, which are updated in groups",
    };
}

impl<P: Program> Subject for OnGraph<P> {
    type Op = Updates;
    type Model = Snapshot;

    fn name(&self) -> &str {
        P::NAME
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let first = Self::first();
        let layout = first.layout(BLOCK);
        let at = Snapshot::create::<P, _>(tx, &layout)?;
        (0..layout.blocks()).try_for_each(|block| first.load(tx, at, &layout, block).map(drop))
    }

    fn prepared(&self) -> Snapshot {
        Self::first()
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Updates {
        let limit = Limit { vertices: 1 + random.below(4), edges: 1 + random.below(24) };
        Updates { from: random.below(VERTICES.into()) as u32, limit }
    }

    fn apply(&self, tx: &mut dyn Tx, op: &Updates) -> Result<()> {
        let graph = Graph::find::<P, _>(tx)?.expect("it was prepared");
        Self::update(&mut OnHeap { graph: &graph, tx }, *op).map(drop)
    }

    fn step(&self, model: &mut Snapshot, op: &Updates) -> bool {
        Self::update(model, *op).is_ok()
    }

    fn aborts(&self) -> bool {
        false
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Snapshot>> {
        let Some(graph) = Graph::find::<P, _>(tx)? else { return Ok(None) };
        let mut snapshot = Snapshot::default();
        (0..graph.layout.blocks()).try_for_each(|block| graph.copy(tx, block, &mut snapshot))?;
        Ok(Some(snapshot))
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        check_root(tx, root, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;

    fn the_model_is_that_of_the_updates<P: Program>() -> u64 {
        let (subject, mut heap) = (OnGraph::<P>::default(), TestHeap::new());
        assert!(subject.read(&mut heap).expect("an empty heap").is_none());
        subject.prepare(&mut heap).expect("it is made");
        heap.commit();
        let (mut model, mut random, mut changes) = (subject.prepared(), SplitMix64::new(1), 0);
        for _ in 0..300 {
            assert_eq!(subject.read(&mut heap).expect("a graph").as_ref(), Some(&model));
            let (op, before) = (subject.draw(&mut random, 0), model.clone());
            assert!(subject.step(&mut model, &op));
            subject.apply(&mut heap, &op).expect("updates");
            heap.commit();
            changes += u64::from(model != before);
        }
        changes
    }

    #[test]
    fn models_are_those_of_the_updates() {
        assert_eq!(the_model_is_that_of_the_updates::<graph::PageRank>(), 300);
        let labels = the_model_is_that_of_the_updates::<graph::Communities>();
        println!("{labels} of 300 updates change labels");
        let labels = the_model_is_that_of_the_updates::<graph::Components>();
        println!("{labels} of 300 updates change labels");
    }
}
