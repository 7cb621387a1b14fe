//! PageRank, communities and connected components, as GraphChi runs them (Kyrola, Blelloch and Guestrin, OSDI 2012):
//! values live on edges, and a vertex is updated from those of its own edges.
//!
//! A transaction updates some vertices in a row: it reads the values on their edges, and writes the vertices and the
//! values that they give to their edges. Threads go round over vertices of their own, sweep after sweep, and see the
//! latest committed values; none waits for another.
//!
//! The graph is an R-MAT graph, or read from a file. Every edge is compared at the end with both of its vertices, and
//! the vertices with a reference.
//!
//! Reading order: `programs`, `heap`, `update`; `rmat`, `file`, `edges`; `sweeps`, `reference`, `check`.

mod check;
mod edges;
mod file;
mod heap;
mod programs;
mod record;
mod reference;
mod rmat;
mod sweeps;
#[cfg(test)]
mod tests;
mod update;

pub use check::{Answers, Done as RunDone, verify};
pub use edges::{Edge, Edges, MOST_EDGES, MOST_VERTICES};
pub use file::{FileError, read};
pub use heap::{Arrays, BLOCK, Graph, Layout, OnHeap, Snapshot};
pub(crate) use heap::{KIND, check_blocks};
pub use programs::{Communities, Components, End, PageRank, Program};
pub use record::Record;
pub use reference::Reference;
pub use rmat::Shape;
pub use update::{Done, Limit, Scratch, batch};

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use edges::mark;
use perdura::Tx;
use std::fs::File;
use std::io::BufReader;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sweeps::Sweeps;

const DEGREE: &str = "degree";
const NUMBERING: &str = "numbering";
const GRAPH: &str = "graph";
const SHARDS: &str = "shards";
/// Edges that a transaction may write for each of its vertices.
const EDGES_PER_VERTEX: u64 = 64;

/// Where a graph comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// It is made when it is loaded.
    Rmat(Shape),
    /// It is there.
    Edges(Arc<Edges>),
}

impl Source {
    /// The graph in a file.
    ///
    /// # Errors
    /// `Parameters`, with the line that is wrong.
    pub fn file(path: &Path) -> Outcome<Self> {
        let refused = |error: FileError| {
            Failure::Parameters(format!("the graph '{}': {error}", path.display()))
        };
        let file = File::open(path).map_err(|error| refused(error.into()))?;
        let edges = read(BufReader::with_capacity(1 << 20, file)).map_err(refused)?;
        Ok(Source::Edges(Arc::new(edges)))
    }

    fn layout(&self, block: u64) -> Layout {
        let (vertices, edges) = match self {
            Source::Rmat(shape) => (shape.vertices(), shape.edge_count()),
            Source::Edges(edges) => (edges.vertices, edges.edges.len() as u64),
        };
        Layout { vertices, edges: edges as u32, block }
    }

    fn edges(&self) -> Edges {
        match self {
            Source::Rmat(shape) => shape.edges(),
            Source::Edges(edges) => Edges::clone(edges),
        }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Analytics<P> {
    source: Source,
    layout: Layout,
    shards: u32,
    limit: Limit,
    sweeps: Mutex<Sweeps>,
    /// The sum of the marks of all edges.
    marks: AtomicU64,
    bytes: AtomicU64,
    updates: AtomicU64,
    changes: AtomicU64,
    edges: AtomicU64,
    splits: AtomicU64,
    program: PhantomData<fn() -> P>,
}

impl<P: Answers> Analytics<P> {
    /// On the graph, with transactions of at most `vertices` vertices, and values in this many shards or a few less,
    /// in blocks of `block` words.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(source: Source, vertices: u64, shards: u64, block: u64) -> Outcome<Self> {
        let is_block = (8..=BLOCK).contains(&block) && block.is_power_of_two();
        if vertices == 0 || shards == 0 || !is_block {
            let what = format!(
                "a transaction updates at least one vertex, there is a shard at least, and blocks have 8 to {BLOCK} \
                 words, a power of two"
            );
            return Err(Failure::Parameters(what));
        }
        let limit = Limit { vertices, edges: vertices.saturating_mul(EDGES_PER_VERTEX) };
        let count = || AtomicU64::new(0);
        Ok(Analytics {
            layout: source.layout(block),
            shards: u32::try_from(shards).unwrap_or(u32::MAX),
            source,
            limit,
            sweeps: Mutex::default(),
            marks: count(),
            bytes: count(),
            updates: count(),
            changes: count(),
            edges: count(),
            splits: count(),
            program: PhantomData,
        })
    }

    /// The graph's size.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    fn graph<S: Session>(session: &mut S) -> Outcome<Graph> {
        let graph = session.read(|tx| Graph::find::<P, _>(tx))?;
        graph.ok_or_else(|| Failure::wrong(format!("the graph of {} is gone", P::NAME)))
    }

    fn sweeps(&self) -> MutexGuard<'_, Sweeps> {
        self.sweeps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, done: &Done) {
        self.updates.fetch_add(done.updates, Relaxed);
        self.changes.fetch_add(done.changes, Relaxed);
        self.edges.fetch_add(done.edges, Relaxed);
        self.splits.fetch_add(u64::from(done.is_split), Relaxed);
    }

    /// What has been done so far.
    fn done(&self) -> RunDone {
        let sweeps = self.sweeps();
        RunDone {
            marks: self.marks.load(Relaxed),
            changes: self.changes.load(Relaxed),
            updates: sweeps.is_in_order().then(|| self.updates.load(Relaxed)),
            epochs: sweeps.epochs(),
            quiet: sweeps.quiet(),
        }
    }
}

impl<P: Answers> Listed for Analytics<P> {
    const ROW: Row = Row {
        name: P::NAME,
        line: P::LINE,
        parameters: &[
            list::entries("vertices of an R-MAT graph, up to the next power of two", 16_384),
            list::ops_per_tx("vertices updated in a transaction", 64),
            Parameter {
                name: DEGREE,
                line: "edges of an R-MAT graph for each vertex",
                usual: Usual::Number(16),
            },
            Parameter {
                name: NUMBERING,
                line: "whether numbers of vertices are shuffled, or low where there are many edges",
                usual: Usual::OneOf(&["shuffled", "drawn"]),
            },
            Parameter {
                name: SHARDS,
                line: "intervals of vertices, whose edges in have their values by source",
                usual: Usual::Number(3),
            },
            Parameter {
                name: GRAPH,
                line: "file of a graph instead: a list of edges, or Matrix Market's coordinates",
                usual: Usual::File("none"),
            },
        ],
        operations: |values| (4 * values.entries() / values.number(list::OPS_PER_TX)).max(1),
        rolls_back: |_| false,
        roots: &[],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let source = match given.values.file(GRAPH) {
            Some(path) => Source::file(Path::new(path))?,
            None => {
                let is_shuffled = given.values.name(NUMBERING) == "shuffled";
                let degree = given.values.number(DEGREE);
                Source::Rmat(Shape::new(given.entries(), degree, is_shuffled, given.seed)?)
            }
        };
        let (together, shards) = (given.ops_per_tx() as u64, given.values.number(SHARDS));
        let workload = Analytics::<P>::new(source, together, shards, BLOCK)?;
        if u64::from(workload.layout.vertices) < given.threads as u64 {
            let what = "each thread needs a vertex of its own: choose a larger graph";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let bytes = workload.layout.bytes() + (1 << 20);
        Ok(code.run(workload, bytes))
    }
}

impl<P: Answers> Workload for Analytics<P> {
    const KINDS: &'static [&'static str] = &["update"];

    fn load_size(&self) -> u64 {
        self.layout.blocks()
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let edges = self.source.edges();
        let marks = edges.edges.iter().map(|(source, target)| mark(*source, *target));
        self.marks.store(marks.fold(0, u64::wrapping_add), Relaxed);
        let snapshot = Snapshot::of::<P>(edges, self.shards);
        let at = session.transaction(|tx| Snapshot::create::<P, _>(tx, &self.layout))?;
        let mut bytes = session.read(|tx| tx.usable(at))?;
        for block in 0..self.layout.blocks() {
            bytes += session.transaction(|tx| snapshot.load(tx, at, &self.layout, block))?;
            progress.loaded(1)?;
        }
        self.bytes.store(bytes, Relaxed);
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let graph = Self::graph(session)?;
        let computation = session.computation();
        let own = share.part_of(self.layout.vertices.into());
        let (first, end) = (own.start as u32, own.end as u32);
        if first == end {
            let what =
                "each thread needs a vertex of its own: choose a larger graph, or fewer threads";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let mut next = self.sweeps().join(share.thread, share.threads, first);
        let mut scratch = Scratch::default();
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            let done = recorder.operation(0, || {
                session.transaction(|tx| {
                    let mut arrays = OnHeap { graph: &graph, tx };
                    batch::<P>(&mut arrays, next, end, self.limit, &mut scratch, &computation)
                })
            })?;
            self.note(&done);
            next = done.next;
            if next == end {
                self.sweeps().swept(share.thread, self.changes.load(Relaxed));
                next = first;
            }
            // Also of a thread that fails after this: its transactions are committed.
            self.sweeps().leave(share.thread, next);
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let graph = Self::graph(session)?;
        if graph.layout != self.layout {
            let what = format!("the graph is one of {:?}, not {:?}", graph.layout, self.layout);
            return Err(Failure::Wrong(what));
        }
        verify::<P>(&check::copy(session, &graph)?, &self.done())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        [
            ("updates", &self.updates),
            ("vertices written", &self.changes),
            ("edges written", &self.edges),
            ("transactions of split vertices", &self.splits),
        ]
        .map(|(name, count)| (name, count.load(Relaxed)))
        .to_vec()
    }

    fn sizes(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("vertices", self.layout.vertices.into()),
            ("edges", self.layout.edges.into()),
            ("bytes", self.bytes.load(Relaxed)),
        ]
    }
}
