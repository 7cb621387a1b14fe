//! Files of graphs: read, or refused with a line and a reason, and loaded into a heap.

use crate::Target;
use perdura::testing::TestHeap;
use perdura_workloads::Computation;
use perdura_workloads::graph::{
    Communities, Edges, Graph, Limit, OnHeap, Scratch, Snapshot, batch, read,
};

pub(crate) const GRAPH: Target = Target { name: "graph", run: load, seeds, words: WORDS };

const BLOCK: u64 = 64;

fn load(bytes: &[u8]) {
    match read(bytes) {
        Ok(edges) => run(edges),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A sweep over the graph.
fn run(edges: Edges) {
    let count = edges.edges.len();
    // Two numbers take four bytes at the least, and an entry of a symmetric matrix is two edges.
    assert!(
        count > 0
            && edges.edges.iter().all(|own| own.0.max(own.1) < edges.vertices && own.0 != own.1)
    );
    let vertices = edges.vertices;
    let (mut heap, snapshot) = (TestHeap::new(), Snapshot::of::<Communities>(edges, 3));
    let layout = snapshot.layout(BLOCK);
    let at = Snapshot::create::<Communities, _>(&mut heap, &layout).expect("room");
    for block in 0..layout.blocks() {
        snapshot.load(&mut heap, at, &layout, block).expect("room");
    }
    let graph = Graph::find::<Communities, _>(&mut heap).expect("a root").expect("a graph");
    let (mut next, mut scratch, nothing) = (0, Scratch::default(), Computation::default());
    while next < vertices {
        let mut arrays = OnHeap { graph: &graph, tx: &mut heap };
        let limit = Limit { vertices: 16, edges: 64 };
        let done = batch::<Communities>(&mut arrays, next, vertices, limit, &mut scratch, &nothing);
        next = done.expect("a sound graph").next;
    }
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "# Directed graph: 4 nodes\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n2\t0\n3\t0\n",
        "4294967296 7\n7 4294967296\n\n7 7\n8 7\n8 9\n9 8\n",
        "%%MatrixMarket matrix coordinate pattern general\n% a comment\n5 5 4\n1 2\n2 3\n5 1\n4 4\n",
        "%%MatrixMarket matrix coordinate real symmetric\n4 4 3\n2 1 0.5\n3 1 -1e9\n4 2 1\n",
        "%%MatrixMarket matrix coordinate integer general\n3 3 2\n1 2 7\n3 1 -7\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

const WORDS: &[&str] = &[
    "%%MatrixMarket matrix coordinate ",
    "pattern",
    "real",
    "integer",
    "complex",
    "general",
    "symmetric",
    "skew-symmetric",
    "array",
    "# ",
    "% ",
    "\n",
    "\r\n",
    "\t",
    " ",
    "nan",
];
