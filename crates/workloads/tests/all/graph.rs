//! Programs on graphs in a heap: planted errors, which the check notices; graphs from files; several phases.

use crate::heap;
use perdura::{AnySession, EngineKind};
use perdura_workloads::graph::{
    Analytics, Answers, Communities, Components, Edges, Graph, PageRank, Shape, Source,
};
use perdura_workloads::list::{self, Asked, Given, OnWorkload, Row, Value};
use perdura_workloads::records::Plain;
use perdura_workloads::{Failure, Outcome, Plan, Progress, Store, Workload};
use std::sync::Arc;

fn plan(threads: usize, warm_up: u64, operations: u64) -> Plan {
    Plan {
        threads,
        operations,
        warm_up,
        seed: 3,
        sample_every: 0,
        per_second: None,
        pinned: false,
        window: 1,
    }
}

fn workload<P: Answers>(vertices: u64, together: u64) -> Analytics<P> {
    let shape = Shape::new(vertices, 6, true, 11).expect("valid parameters");
    Analytics::new(Source::Rmat(shape), together, 4, 64).expect("valid parameters")
}

/// Loads, and runs two phases, each of which ends in the middle of a sweep.
fn run<P: Answers>(
    engine: EngineKind,
    threads: usize,
    operations: u64,
) -> (Box<dyn perdura::AnyHeap>, Analytics<P>) {
    let (heap, progress) = (heap::in_ram(engine), Progress::default());
    let workload = workload::<P>(300, 7);
    perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
    let plan = plan(threads, operations / 3, operations);
    let measured =
        perdura_workloads::measure(&workload, &*heap, &plan, &progress).expect("it runs");
    assert_eq!(measured.operations, operations);
    assert_eq!(measured.sizes[..2], [("vertices", 512), ("edges", 512 * 6)]);
    assert!(measured.sizes[2].1 >= workload.layout().bytes(), "{:?}", measured.sizes);
    assert!(measured.counts.iter().any(|own| own.0 == "updates" && own.1 > 0));
    let mut session = Store::session(&*heap).expect("a session");
    workload.check(&mut session).expect("what was done");
    (heap, workload)
}

/// Lost updates of any of the arrays, on one and on several threads, before the end of the first sweep and after many.
fn planted_errors_are_noticed<P: Answers>() {
    type Place = fn(&Graph) -> u64;
    let places: [(&str, Place); 6] = [
        ("an edge's value", |graph| graph.value_at(1_000)),
        ("an edge out", |graph| graph.edge_at(2_000)),
        ("an edge in", |graph| graph.place_at(1_500)),
        ("a vertex's value", |graph| graph.vertex_at(5)),
        ("a vertex's count of changes", |graph| graph.vertex_at(400) + 8),
        ("a vertex's degrees", |graph| graph.vertex_at(100) + 16),
    ];
    for (threads, operations) in [(1, 30), (1, 2_000), (3, 30), (3, 2_000)] {
        let (heap, workload) = run::<P>(EngineKind::Redo, threads, operations);
        let mut session = Store::session(&*heap).expect("a session");
        let graph = session.read(|tx| Graph::find::<P, _>(tx)).expect("a read").expect("a graph");
        let flip = |session: &mut AnySession, at: u64, bit: u64| {
            let flipped = session.transaction(|tx| {
                let word = tx.read_word(at)?;
                tx.write_word(at, word ^ 1 << bit)
            });
            flipped.expect("a change");
        };
        for (what, place) in places {
            let bit = if what.contains("changes") { 33 } else { 21 };
            flip(&mut session, place(&graph), bit);
            let verdict = workload.check(&mut session);
            assert!(matches!(verdict, Err(Failure::Wrong(_))), "{what}: {verdict:?}");
            flip(&mut session, place(&graph), bit);
        }
        workload.check(&mut session).expect("as it was");
    }
}

#[test]
fn planted_errors_of_ranks_are_noticed() {
    planted_errors_are_noticed::<PageRank>();
}

#[test]
fn planted_errors_of_communities_are_noticed() {
    planted_errors_are_noticed::<Communities>();
}

#[test]
fn planted_errors_of_components_are_noticed() {
    planted_errors_are_noticed::<Components>();
}

/// A transaction that another program's vertices would commit: counted by nobody.
#[test]
fn updates_of_others_are_noticed() {
    let (heap, workload) = run::<PageRank>(EngineKind::Redo, 2, 100);
    let mut session = Store::session(&*heap).expect("a session");
    let other = self::workload::<PageRank>(300, 7);
    assert!(other.check(&mut session).is_err(), "a workload that has done nothing");
    assert!(self::workload::<Components>(300, 7).check(&mut session).is_err(), "another program");
    workload.check(&mut session).expect("what was done");
}

/// Threads join and leave, and each other number of them begins anew.
#[test]
fn phases_of_other_threads() {
    let (heap, progress) = (heap::in_ram(EngineKind::Redo), Progress::default());
    let workload = workload::<Components>(300, 1);
    perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
    for (threads, operations) in [(1, 90), (2, 301), (3, 2_000), (1, 3), (2, 8_000)] {
        let plan = plan(threads, 0, operations);
        perdura_workloads::measure(&workload, &*heap, &plan, &progress).expect("it runs");
        workload.check(&mut Store::session(&*heap).expect("a session")).expect("what was done");
    }
}

struct Loaded<'h>(&'h dyn perdura::AnyHeap);

impl OnWorkload for Loaded<'_> {
    type Store = Plain;
    type Output = u64;

    fn run<W: Workload + 'static>(self, workload: W, bytes: u64) -> u64 {
        let progress = Progress::default();
        perdura_workloads::load(&workload, self.0, &progress).expect("it loads");
        assert!(heap::allocated(self.0) <= bytes);
        perdura_workloads::measure(&workload, self.0, &plan(1, 0, 40), &progress).expect("it runs");
        workload.check(&mut Store::session(self.0).expect("a session")).expect("what was done");
        workload.sizes().iter().find(|own| own.0 == "edges").expect("a size").1
    }
}

fn from_file(name: &str, path: &std::path::Path, threads: usize) -> Outcome<u64> {
    let asked: Asked = [("graph".to_owned(), Value::Name(path.display().to_string()))].into();
    let values = Row::named(name)?.values(&asked, threads)?;
    let given = Given { values: &values, threads, seed: 1, operations: 40 };
    list::run(name, &given, Loaded(&*heap::in_ram(EngineKind::Redo)))
}

#[test]
fn graphs_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("graph.txt");
    for name in ["pagerank", "communities", "components"] {
        std::fs::write(&path, "# web\n5 7\n7\t900\n900 5\n5 900\n").expect("a file");
        assert_eq!(from_file(name, &path, 1).expect("a graph"), 4);
        let market = "%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n2 1 4\n3 2 5\n";
        std::fs::write(&path, market).expect("a file");
        assert_eq!(from_file(name, &path, 1).expect("a graph"), 4);
    }
    let refused =
        |threads| from_file("pagerank", &path, threads).expect_err("a refusal").to_string();
    assert!(refused(4).contains("each thread needs a vertex"));
    std::fs::write(&path, "1 2\n3 x\n").expect("a file");
    let error = refused(1);
    assert!(
        error.contains("graph.txt': line 2: 'x' is not a number of a vertex: write "),
        "{error}"
    );
    std::fs::remove_file(&path).expect("it is removed");
    assert!(refused(1).contains("cannot be read"));
}

/// As many bytes as a pool is made for.
#[test]
fn bytes_of_a_graph() {
    let heap = heap::of_bytes(EngineKind::Volatile, 64 << 20);
    let edges = Shape::new(1 << 14, 16, true, 1).expect("valid parameters").edges();
    let workload = Analytics::<PageRank>::new(
        Source::Edges(Arc::new(Edges { vertices: edges.vertices, edges: edges.edges })),
        64,
        16,
        perdura_workloads::graph::BLOCK,
    );
    let workload = workload.expect("valid parameters");
    let before = heap::allocated(&*heap);
    perdura_workloads::load(&workload, &*heap, &Progress::default()).expect("it loads");
    let grown = heap::allocated(&*heap) - before;
    let told = workload.sizes().iter().find(|own| own.0 == "bytes").expect("a size").1;
    println!("{grown} bytes, {told} told, {} by the layout", workload.layout().bytes());
    // The catalogue of roots takes a little, too.
    assert!(told <= grown && grown - told < 4096 && grown < workload.layout().bytes() + (1 << 20));
}
