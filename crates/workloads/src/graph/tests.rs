use super::heap::edge_of;
use super::record::{high, low, pack};
use super::sweeps::Sweeps;
use super::*;
use crate::Computation;
use perdura::testing::TestHeap;

/// Words in a block: a list of edges lies in several.
const SMALL: u64 = 8;
const SHARDS: u32 = 3;

fn rmat(vertices: u64, degree: u64) -> Edges {
    Shape::new(vertices, degree, true, 5).expect("valid parameters").edges()
}

/// A run by one thread, on a heap and on its model.
struct Run {
    heap: TestHeap,
    graph: Graph,
    model: Snapshot,
    sweeps: Sweeps,
    next: u32,
    done: RunDone,
    splits: u64,
}

impl Run {
    fn new<P: Answers>(edges: &Edges) -> Self {
        let model = Snapshot::of::<P>(edges.clone(), SHARDS);
        let (mut heap, layout) = (TestHeap::new(), model.layout(SMALL));
        let at = Snapshot::create::<P, _>(&mut heap, &layout).expect("an empty heap");
        heap.commit();
        for block in 0..layout.blocks() {
            assert!(Graph::find::<P, _>(&mut heap).expect("a root").is_none(), "not loaded yet");
            model.load(&mut heap, at, &layout, block).expect("room");
            heap.commit();
        }
        let graph = Graph::find::<P, _>(&mut heap).expect("a root").expect("a graph");
        let marks = edges.edges.iter().map(|(source, target)| mark(*source, *target));
        let marks = marks.fold(0, u64::wrapping_add);
        let done = RunDone { marks, updates: Some(0), ..RunDone::default() };
        let mut sweeps = Sweeps::default();
        let next = sweeps.join(0, 1, 0);
        Run { heap, graph, model, sweeps, next, done, splits: 0 }
    }

    /// One transaction, on both.
    fn step<P: Answers>(&mut self, limit: Limit) {
        let (end, nothing) = (self.graph.layout.vertices, Computation::default());
        let mut scratch = Scratch::default();
        let mut arrays = OnHeap { graph: &self.graph, tx: &mut self.heap };
        let done = batch::<P>(&mut arrays, self.next, end, limit, &mut scratch, &nothing);
        let done = done.expect("a sound graph");
        self.heap.commit();
        let again = batch::<P>(&mut self.model, self.next, end, limit, &mut scratch, &nothing);
        assert_eq!(again.expect("the model"), done);
        assert!(done.edges <= limit.edges && done.updates <= limit.vertices);
        *self.done.updates.as_mut().expect("in order") += done.updates;
        self.done.changes += done.changes;
        self.splits += u64::from(done.is_split);
        self.next = done.next;
        if self.next == end {
            self.sweeps.swept(0, self.done.changes);
            self.next = 0;
        }
        self.done.epochs = self.sweeps.epochs();
        self.done.quiet = self.sweeps.quiet();
    }

    fn snapshot(&mut self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for block in 0..self.graph.layout.blocks() {
            self.graph.copy(&mut self.heap, block, &mut snapshot).expect("a sound graph");
        }
        snapshot
    }
}

const LIMITS: [Limit; 3] = [
    Limit { vertices: 64, edges: 64 * 64 },
    Limit { vertices: 3, edges: 12 },
    Limit { vertices: 1, edges: 1 },
];

fn is_right_after_each_transaction<P: Answers>(most_epochs: u64) {
    for limit in LIMITS {
        let edges = rmat(32, 4);
        let mut run = Run::new::<P>(&edges);
        verify::<P>(&run.model, &run.done).expect("as it was loaded");
        while run.done.epochs < most_epochs && run.done.quiet.is_none() {
            run.step::<P>(limit);
            let snapshot = run.snapshot();
            assert_eq!(snapshot, run.model);
            verify::<P>(&snapshot, &run.done).expect("right answers");
            // The same, as if several threads had done it.
            let done = RunDone { updates: None, ..run.done };
            verify::<P>(&snapshot, &done).expect("right answers");
        }
        assert_eq!(run.splits > 0, limit.edges < 100, "{limit:?}");
        assert_eq!(run.done.quiet.is_some(), P::BOTH_WAYS, "{limit:?}: {:?}", run.done);
    }
}

#[test]
fn ranks_are_right_after_each_transaction() {
    is_right_after_each_transaction::<PageRank>(12);
}

#[test]
fn communities_are_right_after_each_transaction() {
    is_right_after_each_transaction::<Communities>(40);
}

#[test]
fn components_are_right_after_each_transaction() {
    is_right_after_each_transaction::<Components>(40);
}

type Change = fn(&mut Record);

/// Any bit of an edge, and of a vertex but for the rounding of a rank and for the value before.
fn notices_each_flipped_word<P: Answers>() {
    let edges = rmat(32, 4);
    for transactions in [0, 3, 40, 400] {
        let mut run = Run::new::<P>(&edges);
        (0..transactions).for_each(|_| run.step::<P>(LIMITS[1]));
        // Without the updates' order, too.
        for updates in [run.done.updates, None] {
            let (done, sound) = (RunDone { updates, ..run.done }, run.snapshot());
            verify::<P>(&sound, &done).expect("right answers");
            let refused = |wrong: &Snapshot, what: &str| {
                let verdict = verify::<P>(wrong, &done);
                assert!(matches!(verdict, Err(Failure::Wrong(_))), "{transactions} {what}");
            };
            for bit in 0..64 {
                for index in 0..sound.words.len() {
                    let mut wrong = sound.clone();
                    wrong.words[index] ^= 1 << bit;
                    refused(&wrong, "an edge's value");
                    let mut wrong = sound.clone();
                    wrong.out[index] ^= 1 << bit;
                    refused(&wrong, "an edge out");
                    let mut wrong = sound.clone();
                    wrong.into[index] ^= 1 << (bit % 32);
                    refused(&wrong, "an edge in");
                }
            }
            for vertex in 0..sound.records.len() {
                let changes: [(&str, Change); 6] = [
                    ("a value", |record| record.value ^= 1 << 20),
                    ("a count of changes", |record| record.changes += 1),
                    ("pending edges", |record| record.pending = u32::MAX),
                    ("a degree", |record| record.in_degree ^= 1),
                    ("edges of another vertex", |record| record.first_out += 1),
                    ("edges into another vertex", |record| record.first_in ^= 1),
                ];
                for (what, change) in changes {
                    let mut wrong = sound.clone();
                    change(&mut wrong.records[vertex]);
                    // Several threads' rank that no edge has may be anything within its bounds.
                    let record = &sound.records[vertex];
                    let is_shown = u64::from(record.pending) < P::written(record);
                    if what != "a value" || P::BOTH_WAYS || is_shown || updates.is_some() {
                        refused(&wrong, what);
                    }
                }
            }
        }
    }
}

#[test]
fn flipped_words_of_ranks_are_noticed() {
    notices_each_flipped_word::<PageRank>();
}

#[test]
fn flipped_words_of_communities_are_noticed() {
    notices_each_flipped_word::<Communities>();
}

#[test]
fn flipped_words_of_components_are_noticed() {
    notices_each_flipped_word::<Components>();
}

/// A vertex's value that its edges agree with: lost updates, which only the answer shows.
fn set_value<P: Program>(snapshot: &mut Snapshot, vertex: u32, value: u32) {
    snapshot.records[vertex as usize].value = value;
    let record = snapshot.records[vertex as usize];
    for edge in &snapshot.out[record.first_out as usize..][..record.out_degree as usize] {
        let word = &mut snapshot.words[edge_of(*edge).1 as usize];
        *word = P::rewritten(*word, End::Source, vertex, value, record.out_degree).unwrap_or(*word);
    }
    if P::BOTH_WAYS {
        for place in &snapshot.into[record.first_in as usize..][..record.in_degree as usize] {
            let word = &mut snapshot.words[*place as usize];
            *word = P::rewritten(*word, End::Target, vertex, value, 1).unwrap_or(*word);
        }
    }
}

fn refuses<P: Answers>(snapshot: &Snapshot, done: &RunDone, text: &str) {
    let verdict = verify::<P>(snapshot, done).expect_err(text).to_string();
    assert!(verdict.contains(text), "{verdict}");
}

#[test]
fn wrong_answers_are_noticed() {
    let edges = rmat(32, 4);
    // Many more epochs than ranks need: the bounds are close.
    let mut run = Run::new::<PageRank>(&edges);
    while run.done.epochs < 60 {
        run.step::<PageRank>(LIMITS[0]);
    }
    let done = RunDone { updates: None, ..run.done };
    for vertex in 0..32 {
        for factor in [0.999, 1.001] {
            let (mut wrong, rank) = (run.model.clone(), run.model.records[vertex as usize].value);
            let rank = (f32::from_bits(rank) * factor).to_bits();
            set_value::<PageRank>(&mut wrong, vertex, rank);
            refuses::<PageRank>(&wrong, &run.done, "has rank");
            refuses::<PageRank>(&wrong, &done, "has rank");
        }
    }
    let mut run = Run::new::<Components>(&edges);
    while run.done.quiet.is_none() {
        run.step::<Components>(LIMITS[0]);
    }
    let done = RunDone { updates: None, ..run.done };
    let hub = run
        .model
        .records
        .iter()
        .position(|record| record.value as usize + 3 < 32 && record.in_degree > 0);
    let hub = hub.expect("a vertex in a component") as u32;
    let mut wrong = run.model.clone();
    set_value::<Components>(&mut wrong, hub, 31);
    assert!(verify::<Components>(&wrong, &done).is_err(), "a label that got larger");
    // A program that never passes a label on finds nothing to change.
    let mut idle = Snapshot::of::<Components>(edges.clone(), SHARDS);
    for vertex in 0..32 {
        idle.records[vertex as usize].changes = 1;
        set_value::<Components>(&mut idle, vertex, vertex);
    }
    let done = RunDone { changes: 32, epochs: 2, quiet: None, ..done };
    refuses::<Components>(&idle, &done, "more than");
    let done = RunDone { epochs: 1, quiet: Some(32), ..done };
    refuses::<Components>(&idle, &done, "has label");
    let mut run = Run::new::<Communities>(&edges);
    while run.done.quiet.is_none() {
        run.step::<Communities>(LIMITS[0]);
    }
    let done = RunDone { updates: None, ..run.done };
    let mut wrong = run.model.clone();
    let other = run.model.records[hub as usize].value ^ 1;
    set_value::<Communities>(&mut wrong, hub, other);
    assert!(verify::<Communities>(&wrong, &done).is_err(), "a label that no neighbour has");
    set_value::<Communities>(&mut wrong, hub, 99);
    refuses::<Communities>(&wrong, &done, "of no vertex that it reaches");
    let late = RunDone { quiet: Some(done.changes - 1), ..done };
    refuses::<Communities>(&run.model, &late, "but none after");
}

#[test]
fn another_graph_is_noticed() {
    let edges = rmat(32, 4);
    let run = Run::new::<PageRank>(&edges);
    // The ends of two edges exchanged: each vertex has as many as before, and all lists agree.
    let mut other = edges.clone();
    let exchange = (1..other.edges.len()).find(|index| {
        let ((a, b), (c, d)) = (other.edges[0], other.edges[*index]);
        a != c && b != d && a != d && c != b
    });
    let exchange = exchange.expect("edges of other vertices");
    let target = other.edges[exchange].1;
    other.edges[exchange].1 = std::mem::replace(&mut other.edges[0].1, target);
    let other = Snapshot::of::<PageRank>(other, SHARDS);
    refuses::<PageRank>(&other, &run.done, "not those that were loaded");
    let mut fewer = edges;
    fewer.edges.pop();
    let fewer = Snapshot::of::<PageRank>(fewer, SHARDS);
    refuses::<PageRank>(&fewer, &run.done, "not those that were loaded");
}

/// The ranks of a graph that a person can compute: a path into a vertex that leads back to its begin.
#[test]
fn ranks_of_a_small_graph() {
    let edges = Edges { vertices: 3, edges: vec![(0, 1), (0, 2), (1, 2)] };
    let mut run = Run::new::<PageRank>(&edges);
    run.step::<PageRank>(LIMITS[0]);
    let ranks = [0.15, 0.15 + 0.85 * 0.075, 0.15 + 0.85 * (0.075 + 0.15 + 0.85 * 0.075)];
    for (record, rank) in run.model.records.iter().zip(ranks) {
        let found = f64::from(f32::from_bits(record.value));
        assert!((found - rank).abs() < 1e-6, "{found} instead of {rank}");
    }
}

#[test]
fn ties_go_to_the_larger_label() {
    let record = Record { value: 9, in_degree: 3, ..Record::default() };
    let words = [pack(4, 0), pack(6, 0), pack(4, 0), pack(0, 6), pack(0, 2)];
    assert_eq!(Communities::update(&record, &words), 6);
    assert_eq!(Communities::update(&record, &words[..3]), 4);
    assert_eq!(Communities::update(&Record { value: 9, ..Record::default() }, &[]), 9);
    assert_eq!((low(words[3]), high(words[3])), (0, 6));
}

/// Damage in the heap is an error or a wrong answer, never a panic.
#[test]
fn damage_is_an_error() {
    let mut run = Run::new::<Communities>(&rmat(32, 4));
    (0..9).for_each(|_| run.step::<Communities>(LIMITS[1]));
    let root = Tx::root(&mut run.heap, heap::ROOT).expect("a read").expect("the root");
    let mut blocks = Vec::new();
    let mut note = |at| {
        blocks.push(at);
        Ok(())
    };
    check_blocks(&mut run.heap, root.at, &mut note).expect("sound blocks");
    blocks.sort_unstable();
    assert_eq!(blocks, run.heap.live_blocks(), "each block is reached, once");
    let mut refused = 0;
    for word in 0..4 + run.graph.layout.blocks() {
        let at = root.at + word * 8;
        for bit in [0, 3, 17, 40, 63] {
            let old = run.heap.peek(at);
            run.heap.damage(at, old ^ 1 << bit);
            let checked = check_blocks(&mut run.heap, root.at, &mut |at| run_visit(at));
            let found = Graph::find::<Communities, _>(&mut run.heap);
            refused += u64::from(checked.is_err() || !matches!(found, Ok(Some(_))));
            run.heap.damage(at, old);
        }
    }
    // A block elsewhere is a leak, which the visitor of all roots notices.
    assert!(refused >= 12, "{refused}");
    let record = run.graph.vertex_at(3);
    for (word, value) in [(2, u64::MAX), (3, u64::MAX), (1, pack(u32::MAX, 1))] {
        let old = run.heap.peek(record + word * 8);
        run.heap.damage(record + word * 8, value);
        let mut arrays = OnHeap { graph: &run.graph, tx: &mut run.heap };
        let (mut scratch, nothing) = (Scratch::default(), Computation::default());
        let done = batch::<Communities>(&mut arrays, 3, 4, LIMITS[0], &mut scratch, &nothing);
        assert!(done.is_err(), "word {word}");
        run.heap.damage(record + word * 8, old);
    }
}

/// A visitor that knows nothing.
fn run_visit(_: u64) -> perdura::Result<()> {
    Ok(())
}

#[test]
fn refuses_what_it_cannot_run_on() {
    let source = || Source::Rmat(Shape::new(16, 2, true, 1).expect("valid parameters"));
    for (vertices, shards, block) in [(0, 1, 8), (1, 0, 8), (1, 1, 4), (1, 1, 9), (1, 1, 2 * BLOCK)]
    {
        let refused = Analytics::<PageRank>::new(source(), vertices, shards, block);
        assert!(matches!(refused, Err(Failure::Parameters(_))), "{vertices} {shards} {block}");
    }
}

/// The footprint of a graph of scale 22 is among those of *Dual-Page Checkpointing*.
#[test]
fn bytes_of_large_graphs() {
    let shape = Shape::new(1 << 22, 16, true, 1).expect("valid parameters");
    let bytes = Source::Rmat(shape).layout(BLOCK).bytes();
    assert!((1_476_000_000..1_477_000_000).contains(&bytes), "{bytes}");
}
