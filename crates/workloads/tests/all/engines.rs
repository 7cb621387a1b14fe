//! Every workload, small, on every engine: it runs, and its check passes.

use crate::heap;
use perdura::alloc::walk::walk;
use perdura::roots;
use perdura::{AnyHeap, EngineKind};
use perdura_memory::{Domain, Reference};
use perdura_workloads::bptree::BpTree;
use perdura_workloads::churn::Churn;
use perdura_workloads::echo::Echo;
use perdura_workloads::graph::{self, Analytics, Communities, Components, PageRank};
use perdura_workloads::hash::Hash;
use perdura_workloads::map::{OnHashMap, OnOrderedMap};
use perdura_workloads::neighbours::{Kind, Neighbours};
use perdura_workloads::nstore::{Layout, NStore, Storage};
use perdura_workloads::overwrite::Overwrite;
use perdura_workloads::pages::Pages;
use perdura_workloads::rbtree::RbTree;
use perdura_workloads::records::Plain;
use perdura_workloads::sdg::{self, Graph};
use perdura_workloads::sps::Sps;
use perdura_workloads::streams::{self, Mix, Streams};
use perdura_workloads::tatp::{self, Tatp};
use perdura_workloads::toggle::{KeySet, Toggles};
use perdura_workloads::tpcc::{Scale, Tpcc};
use perdura_workloads::ycsb::{
    Distribution, Letter, Options, Order, Shape, Table, Ycsb, YcsbOn, YcsbOver,
};
use perdura_workloads::{Failure, Measured, Outcome, Plan, Progress, Store, Workload};
use std::collections::BTreeSet;
use std::sync::Arc;

const SEED: u64 = 20_240_607;

fn plan(threads: usize, operations: u64) -> Plan {
    Plan {
        threads,
        operations,
        warm_up: operations / 10,
        seed: SEED,
        sample_every: 4,
        per_second: None,
        pinned: false,
        window: 1,
    }
}

/// Compiled once for each workload, and not for each engine too.
fn run_on(heap: &dyn AnyHeap, workload: &impl Workload, plan: &Plan) -> Outcome<Measured> {
    let progress = Progress::default();
    perdura_workloads::load(workload, heap, &progress)?;
    assert_eq!(progress.done(), workload.load_size());
    let measured = perdura_workloads::measure(workload, heap, plan, &progress)?;
    assert_eq!(progress.done(), plan.operations + plan.warm_up);
    workload.check(&mut heap.session()?)?;
    Ok(measured)
}

/// Runs a workload whose blocks are known on every engine: nothing may have leaked.
fn run_and_account<W: Workload>(plan: &Plan, make: impl Fn() -> W) {
    run_everywhere(plan, &make);
    let heap = heap::in_ram(EngineKind::Redo);
    let (workload, progress) = (make(), Progress::default());
    perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
    perdura_workloads::measure(&workload, &*heap, plan, &progress).expect("it runs");
    let mut session = Store::session(&*heap).expect("a session");
    let reached = session.read(|tx| {
        let mut reached = BTreeSet::new();
        for named in roots::all(tx)? {
            reached.insert(named.entry);
            let mut visit = |at| {
                assert!(reached.insert(at), "the block at {at:#x} is there twice");
                Ok(())
            };
            assert!(perdura_workloads::check_root(tx, named.root, &mut visit)?);
        }
        Ok(reached)
    });
    let (blocks, problems) = walk(heap.memory(), heap.space().layout());
    assert!(problems.is_empty());
    let allocated: BTreeSet<u64> = blocks.iter().map(|block| block.at).collect();
    assert_eq!(reached.expect("sound roots"), allocated, "a leak");
}

/// Runs a workload on every engine; `make` makes it anew for each.
fn run_everywhere<W: Workload>(plan: &Plan, make: impl Fn() -> W) {
    let able =
        |engine: &EngineKind| engine.isolates() && (engine.rolls_back() || !make().rolls_back());
    for engine in EngineKind::ALL.into_iter().filter(able) {
        let measured = run_on(&*heap::in_ram(engine), &make(), plan);
        let measured = measured.unwrap_or_else(|failure| panic!("{engine}: {failure}"));
        assert_eq!(measured.operations, plan.operations, "{engine}");
        assert!(measured.latencies.iter().all(|kind| kind.p50_ns <= kind.max_ns));
        assert!(!measured.latencies.is_empty());
    }
}

#[test]
fn swaps() {
    for (threads, disjoint) in [(1, false), (2, false), (2, true)] {
        for swaps in [1, 16] {
            let plan = plan(threads, 4_000);
            run_everywhere(&plan, || Sps { entries: 1_001, swaps, disjoint, within: None });
            let within = Some(16);
            run_everywhere(&plan, || Sps { entries: 1_001, swaps, disjoint, within });
        }
    }
}

#[test]
fn overwrites() {
    for (threads, disjoint) in [(1, false), (2, true), (3, false)] {
        let make = || Overwrite::new(101, 1024, disjoint).expect("valid parameters");
        run_everywhere(&plan(threads, 3_000), make);
    }
}

#[test]
fn maps() {
    for (threads, maps) in [(1, 1), (2, 1), (2, 2)] {
        let plan = plan(threads, 4_000);
        run_everywhere(&plan, || OnHashMap::new(1_000, maps).expect("valid parameters"));
        run_everywhere(&plan, || OnOrderedMap::new(1_000, maps).expect("valid parameters"));
    }
}

fn toggles<K: KeySet>() {
    for (threads, together) in [(1, 1), (1, 7), (3, 2)] {
        let make = || Toggles::<K>::new(900, together).expect("valid parameters");
        run_and_account(&plan(threads, 1_500), make);
    }
}

#[test]
fn a_hash_table() {
    toggles::<Hash>();
}

#[test]
fn a_red_black_tree() {
    toggles::<RbTree>();
}

#[test]
fn a_b_plus_tree() {
    toggles::<BpTree>();
}

#[test]
fn a_graph() {
    for (threads, together) in [(1, 1), (1, 7), (3, 2)] {
        let make = || sdg::workload(100, together, SEED).expect("valid parameters");
        run_and_account(&plan(threads, 1_500), make);
    }
}

#[test]
fn pages() {
    for (threads, together) in [(1, 1), (1, 8), (3, 2)] {
        let make = || Pages::new(300, together).expect("valid parameters");
        run_and_account(&plan(threads, 1_500), make);
    }
}

#[test]
fn churning_blocks() {
    for (threads, together) in [(1, 1), (1, 7), (3, 2)] {
        let make = || Churn::new(100, together).expect("valid parameters");
        run_and_account(&plan(threads, 1_500), make);
    }
}

fn ycsb(letter: Letter, change: impl Fn(&mut Options)) -> Ycsb {
    ycsb_on(letter, change)
}

fn ycsb_on<T: Table>(letter: Letter, change: impl Fn(&mut Options)) -> YcsbOn<T> {
    let mut options = Options::new(letter, 500, 1_650);
    change(&mut options);
    YcsbOn::new(options).expect("valid parameters")
}

#[test]
fn every_letter_of_ycsb() {
    for letter in Letter::ALL {
        for threads in [1, 3] {
            run_everywhere(&plan(threads, 1_500), || ycsb(letter, |_| {}));
        }
    }
}

#[test]
fn ycsb_in_other_ways() {
    let plan = plan(2, 1_500);
    for several in [4, 16] {
        let change = |options: &mut Options| options.operations_per_transaction = several;
        run_everywhere(&plan, || ycsb(Letter::F, change));
        run_everywhere(&plan, || ycsb(Letter::E, change));
    }
    run_everywhere(&plan, || {
        ycsb(Letter::E, |options| {
            options.order = Order::Ordered;
            options.distribution = Distribution::Uniform;
        })
    });
}

/// Two warehouses of a few items and customers.
fn tpcc() -> Tpcc<Plain> {
    let scale = Scale { customers: 30, items: 100, new_orders: 9, ..Scale::small(2) };
    Tpcc::new(scale, SEED).expect("valid parameters")
}

#[test]
fn tpc_c() {
    for threads in [1, 3] {
        run_and_account(&plan(threads, 600), tpcc);
    }
}

#[test]
fn tpc_c_counts_what_it_did() {
    let (heap, workload, progress) = (heap::in_ram(EngineKind::Redo), tpcc(), Progress::default());
    perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
    let mut session = Store::session(&*heap).expect("a session");
    workload.check_loaded(&mut session).expect("as it was loaded");
    workload.check(&mut session).expect("nothing has been done");
    let plan = plan(2, 2_000);
    let measured = perdura_workloads::measure(&workload, &*heap, &plan, &progress);
    let measured = measured.expect("it runs");
    let counts: std::collections::BTreeMap<_, _> = measured.counts.into_iter().collect();
    assert_eq!(counts.values().sum::<u64>(), plan.operations, "without the warm-up: {counts:?}");
    assert_eq!(counts["rolled back"], measured.counters.aborts_user);
    assert!(counts["rolled back"] > 0 && counts["new-order"] > 800, "{counts:?}");
    workload.check(&mut session).expect("what was done");
    assert!(workload.check_loaded(&mut session).is_err(), "orders have come and gone");
    // Another order than was counted.
    let again = tpcc();
    assert!(matches!(again.check(&mut session), Err(Failure::Wrong(_))));
}

#[test]
fn tpc_c_refuses_what_it_cannot_run_on() {
    let small = Scale::small(1);
    for scale in [
        Scale { warehouses: 0, ..small },
        Scale { districts: 11, ..small },
        Scale { new_orders: 61, ..small },
        Scale { items: 14, ..small },
        Scale { lines: (0, 3), ..small },
        Scale { lines: (5, 16), ..small },
    ] {
        let refused = Tpcc::<Plain>::new(scale, SEED).map(drop);
        assert!(matches!(refused, Err(Failure::Parameters(_))), "{scale:?}");
    }
}

#[test]
fn tatp_on_every_engine() {
    for (threads, distribution) in
        [(1, tatp::Distribution::NonUniform), (3, tatp::Distribution::Uniform)]
    {
        let make = || Tatp::new(200, distribution, SEED).expect("valid parameters");
        run_everywhere(&plan(threads, 1_500), make);
    }
}

#[test]
fn echo_on_every_engine() {
    for threads in [1, 3] {
        let make = || Echo::new(100, 120, 8).expect("valid parameters");
        run_and_account(&plan(threads, 400), make);
    }
}

#[test]
fn n_store_on_every_engine() {
    for storage in Storage::ALL {
        for (threads, together) in [(1, 1), (3, 2)] {
            let layout = Layout { storage, tuples: 200, fields: 5, field_bytes: 100, fanout: 16 };
            let make = || NStore::new(layout, 50, together).expect("valid parameters");
            run_and_account(&plan(threads, 600), make);
        }
    }
}

/// Vertices with so many edges that they are split, and blocks that lists of edges end in.
fn graph_on_every_engine<P: graph::Answers>() {
    for (threads, together) in [(1, 16), (3, 1), (3, 16)] {
        let shape = graph::Shape::new(128, 6, true, SEED).expect("valid parameters");
        let source = graph::Source::Rmat(shape);
        let make =
            || Analytics::<P>::new(source.clone(), together, 3, 64).expect("valid parameters");
        run_and_account(&plan(threads, 600), make);
    }
}

#[test]
fn page_rank_on_every_engine() {
    graph_on_every_engine::<PageRank>();
}

#[test]
fn communities_on_every_engine() {
    graph_on_every_engine::<Communities>();
}

#[test]
fn components_on_every_engine() {
    graph_on_every_engine::<Components>();
}

#[test]
fn streams_on_every_engine() {
    for (threads, programs) in [(1, &streams::FIRST), (3, &streams::SECOND)] {
        let mix = || Mix::new("test", programs, 256 << 10, 100, threads, SEED);
        let make = || Streams::new(mix().expect("valid parameters"));
        run_and_account(&plan(threads as usize, 300), make);
    }
}

#[test]
fn neighbours_on_every_engine() {
    for (kind, threads, together) in [(Kind::Tree, 1, 1), (Kind::Forest, 3, 2)] {
        let make = || Neighbours::new(kind, 150, together, 20, SEED).expect("valid parameters");
        run_and_account(&plan(threads, 400), make);
    }
}

#[test]
fn every_letter_of_ycsb_on_records() {
    for letter in Letter::ALL {
        let make = || -> YcsbOver<Plain> { ycsb_on(letter, |_| {}) };
        run_and_account(&plan(2, 1_000), make);
    }
    let make = || -> YcsbOver<Plain> {
        ycsb_on(Letter::E, |options| {
            options.operations_per_transaction = 4;
            options.shape = Shape { fields: 3, field_bytes: 8 };
        })
    };
    run_everywhere(&plan(3, 1_000), make);
}

/// A field that was lost, and a key that the index does not have.
#[test]
fn the_check_of_ycsb_on_records_notices() {
    use perdura_workloads::records::{Records, Rooted};
    use perdura_workloads::ycsb::Name;
    let heap = heap::in_ram(EngineKind::Redo);
    let workload: YcsbOver<Plain> = ycsb_on(Letter::C, |_| {});
    perdura_workloads::load(&workload, &*heap, &Progress::default()).expect("it loads");
    let mut session = Store::session(&*heap).expect("a session");
    workload.check(&mut session).expect("as it was loaded");
    let records = session.read(|tx| Plain::find(tx)).expect("a read").expect("the records");
    let name = Name::new(Order::Hashed.identity(0));
    let score = perdura_workloads::ycsb::score(name.as_bytes());
    let is_wrong = |verdict| assert!(matches!(verdict, Err(Failure::Wrong(_))), "{verdict:?}");
    let taken = session.transaction(|tx| records.take(tx, b"_indices", name.as_bytes()));
    assert!(taken.expect("a change"));
    is_wrong(workload.check(&mut session));
    session.transaction(|tx| records.add(tx, b"_indices", score, name.as_bytes())).expect("a fix");
    workload.check(&mut session).expect("as it was loaded");
    let replaced = session.transaction(|tx| {
        records.remove(tx, name.as_bytes())?;
        records.set_fields(tx, name.as_bytes(), &[(b"field0", &[b'x'; 100])])
    });
    replaced.expect("a change");
    is_wrong(workload.check(&mut session));
}

#[test]
fn the_checks_notice_a_wrong_word() {
    let workload = Sps { entries: 100, swaps: 1, disjoint: false, within: None };
    let heap = heap::in_ram(EngineKind::Redo);
    perdura_workloads::load(&workload, &*heap, &Progress::default()).expect("it loads");
    let mut session = Store::session(&*heap).expect("a session");
    let root = session.read(|tx| perdura::Tx::root(tx, "bench.sps")).expect("a read");
    let at = root.expect("the array's root").at;
    session.transaction(|tx| perdura::Access::write_word(tx, at + 8, 0)).expect("a write");
    let verdict = workload.check(&mut session);
    assert!(matches!(verdict, Err(Failure::Wrong(_))), "{verdict:?}");
}

/// As docs/workloads.md says: the dirty lines of a transaction, near those of LOC's table 2.
#[test]
fn transactions_are_as_large_as_those_of_loc() {
    fn dirty_lines(workload: &impl Workload) -> f64 {
        let memory = Arc::new(Reference::new(32 << 20, Domain::Transient));
        let (heap, progress) = (heap::create(EngineKind::SWal, memory, None), Progress::default());
        perdura_workloads::load(workload, &*heap, &progress).expect("it loads");
        let measured = perdura_workloads::measure(workload, &*heap, &plan(1, 2_000), &progress);
        let measured = measured.expect("it runs");
        measured.counters.write_backs_data as f64 / measured.counters.commits as f64
    }
    fn toggles<K: KeySet>(keys: usize) -> f64 {
        dirty_lines(&Toggles::<K>::new(65_536, keys).expect("valid parameters"))
    }
    let sps = |entries, within| dirty_lines(&Sps { entries, swaps: 1, disjoint: false, within });
    for (lines, documented) in [
        (toggles::<Hash>(4), 10.90),
        (toggles::<RbTree>(8), 36.06),
        (toggles::<BpTree>(6), 89.94),
        (dirty_lines(&sdg::workload(4_096, 12, SEED).expect("valid parameters")), 52.85),
        (dirty_lines(&Pages::new(16_384, 8).expect("valid parameters")), 309.34),
        (sps(16, None), 1.53),
        (sps(65_536, Some(16)), 1.53),
        (sps(65_536, None), 2.00),
    ] {
        println!("{lines:.2}, documented {documented}");
        assert!((lines / documented - 1.0).abs() < 0.05, "{lines}, not {documented}");
    }
}

/// A key that was not toggled, and one that was lost: both against the model.
#[test]
fn the_model_of_toggles_notices() {
    fn notices<K: KeySet>() {
        let workload = Toggles::<K>::new(100, 1).expect("valid parameters");
        let heap = heap::in_ram(EngineKind::Redo);
        perdura_workloads::load(&workload, &*heap, &Progress::default()).expect("it loads");
        let mut session = Store::session(&*heap).expect("a session");
        workload.check(&mut session).expect("as it was loaded");
        let name = format!("bench.{}", K::NAME);
        let root = session.read(|tx| perdura::Tx::root(tx, &name)).expect("a read");
        let set = K::open(root.expect("the set's root").at);
        for (key, inserted) in [(1, true), (2, false)] {
            let toggled = session.transaction(|tx| set.toggle(tx, key)).expect("a toggle");
            assert_eq!(toggled, inserted);
            let verdict = workload.check(&mut session);
            assert!(matches!(verdict, Err(Failure::Wrong(_))), "{key}: {verdict:?}");
            session.transaction(|tx| set.toggle(tx, key)).expect("a toggle");
        }
        workload.check(&mut session).expect("as it was loaded");
    }
    notices::<Hash>();
    notices::<RbTree>();
    notices::<BpTree>();
}

/// An edge that should not be there, and one that was lost; a page of a change that no thread made.
#[test]
fn the_models_of_graphs_and_pages_notice() {
    let heap = heap::in_ram(EngineKind::Redo);
    let (progress, mut session) = (Progress::default(), Store::session(&*heap).expect("a session"));
    let is_wrong = |verdict| assert!(matches!(verdict, Err(Failure::Wrong(_))), "{verdict:?}");
    let graph = sdg::workload(64, 1, SEED).expect("valid parameters");
    perdura_workloads::load(&graph, &*heap, &progress).expect("it loads");
    let root = session.read(|tx| perdura::Tx::root(tx, "bench.sdg")).expect("a read");
    let set = Graph::open(root.expect("the graph's root").at);
    for key in (0..64 * 64).step_by(37) {
        session.transaction(|tx| set.toggle(tx, key)).expect("a toggle");
        is_wrong(graph.check(&mut session));
        session.transaction(|tx| set.toggle(tx, key)).expect("a toggle");
    }
    graph.check(&mut session).expect("as it was loaded");

    let pages = Pages::new(100, 1).expect("valid parameters");
    perdura_workloads::load(&pages, &*heap, &progress).expect("it loads");
    pages.check(&mut session).expect("as it was loaded");
    let root = session.read(|tx| perdura::Tx::root(tx, "bench.sqlite-pages")).expect("a read");
    let file = root.expect("the pages' root").at;
    session.transaction(|tx| perdura_workloads::pages::replace(tx, file, &[3])).expect("a change");
    is_wrong(pages.check(&mut session));
}

#[test]
fn stopping_ends_early_and_the_check_still_passes() {
    let heap = heap::in_ram(EngineKind::Redo);
    let workload = Overwrite::new(10, 64, false).expect("valid parameters");
    let progress = Progress::default();
    perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
    progress.stop();
    let endless = Plan { warm_up: 0, ..plan(2, u64::MAX / 2) };
    let measured = perdura_workloads::measure(&workload, &*heap, &endless, &progress);
    assert!(measured.expect("a short run").operations < 10_000);
    workload.check(&mut Store::session(&*heap).expect("a session")).expect("the sum is right");
}
