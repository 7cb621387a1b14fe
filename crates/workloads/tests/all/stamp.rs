//! STAMP's applications and PMDK's maps, small: on redo and on volatile, one thread and two, and faults that their
//! checks notice.

use crate::heap;
use perdura::{EngineKind, Tx};
use perdura_workloads::list::{self, Given, OnWorkload, Row, Value};
use perdura_workloads::pmembench::ctree::CTree;
use perdura_workloads::pmembench::hashmap_tx::HashmapTx;
use perdura_workloads::pmembench::{MapBench, Operation, PmdkMap};
use perdura_workloads::records::Plain;
use perdura_workloads::stamp::Input;
use perdura_workloads::{Failure, Outcome, Plan, Progress, Store, Workload};
use std::collections::BTreeSet;

const SEED: u64 = 20_081_001;

fn plan(threads: usize) -> Plan {
    Plan {
        threads,
        operations: 600,
        warm_up: 60,
        seed: SEED,
        sample_every: 4,
        per_second: None,
        pinned: false,
        window: 1,
    }
}

/// Runs an application with this number of threads, and checks its answer and the pool.
struct Run {
    engine: EngineKind,
    threads: usize,
}

impl OnWorkload for Run {
    type Store = Plain;
    type Output = Outcome<u64>;

    fn run<W: Workload>(self, workload: W, _: u64) -> Outcome<u64> {
        let (heap, progress) = (heap::in_ram(self.engine), Progress::default());
        perdura_workloads::load(&workload, &*heap, &progress)?;
        assert_eq!(progress.done(), workload.load_size());
        let measured =
            perdura_workloads::measure(&workload, &*heap, &plan(self.threads), &progress)?;
        assert!(!measured.latencies.is_empty());
        workload.check(&mut Store::session(&*heap)?)?;
        let report = heap.check(&perdura_workloads::check_root);
        assert!(report.is_whole(), "{:?}", report.problems);
        assert_eq!(report.unreachable, Some(0));
        Ok(measured.operations)
    }
}

fn runs(application: &str) -> BTreeSet<u64> {
    let row = Row::named(application).expect("an application");
    let small = [("input".to_owned(), Value::Name("small".to_owned()))].into();
    let mut operations = BTreeSet::new();
    for engine in [EngineKind::Redo, EngineKind::Volatile] {
        for threads in [1, 2] {
            let values = &row.values(&small, threads).expect("a small input");
            let given = Given { values, threads, seed: SEED, operations: 660 };
            let run = list::run(application, &given, Run { engine, threads });
            let done = run.expect("valid parameters");
            operations.insert(done.unwrap_or_else(|why| panic!("{engine}, {threads}: {why}")));
        }
    }
    operations
}

#[test]
fn vacation() {
    assert_eq!(runs("vacation-low"), [600].into());
    assert_eq!(runs("vacation-high"), [600].into());
}

/// The rounds, and so the points, are as many as a single thread needs.
#[test]
fn kmeans() {
    for application in ["kmeans-low", "kmeans-high"] {
        let operations = runs(application);
        assert!(operations.len() == 1 && operations.first() >= Some(&240), "{operations:?}");
    }
}

#[test]
fn ssca2() {
    let operations = runs("ssca2");
    assert!(operations.len() == 1 && operations.first() > Some(&200), "{operations:?}");
}

#[test]
fn intruder() {
    let operations = runs("intruder");
    assert!(operations.len() == 1 && operations.first() > Some(&200), "{operations:?}");
}

/// A workload's verdict after its loaded heap was damaged.
fn spoilt<W: Workload>(
    workload: &W,
    root: &str,
    spoil: impl Fn(&mut dyn Tx, u64) -> perdura::Result<()>,
) -> Failure {
    let (heap, progress) = (heap::in_ram(EngineKind::Redo), Progress::default());
    perdura_workloads::load(workload, &*heap, &progress).expect("it loads");
    let mut session = Store::session(&*heap).expect("a session");
    let spoilt = session.transaction(|tx| {
        let root = tx.root(root)?.expect("the root");
        spoil(tx, root.at)
    });
    spoilt.expect("a change");
    let measured = perdura_workloads::measure(workload, &*heap, &plan(2), &progress);
    match measured.and_then(|_| workload.check(&mut session)) {
        Ok(()) => panic!("nothing was noticed"),
        Err(failure) => failure,
    }
}

#[test]
fn a_lost_packet_and_one_twice_are_noticed() {
    use perdura_workloads::stamp::intruder::{Intruder, Parameters};
    let make = || Intruder::new(Parameters::of(Input::Small), SEED).expect("valid parameters");
    // In the root's first block, the queue, are the words taken out, those put in, the places and the ring.
    let lost = spoilt(&make(), "bench.intruder", |tx, root| {
        let queue = tx.read_word(root)?;
        tx.write_word(queue, 1)
    });
    assert!(matches!(lost, Failure::Wrong(_)), "{lost}");
    let twice = spoilt(&make(), "bench.intruder", |tx, root| {
        let queue = tx.read_word(root)?;
        let ring = tx.read_word(queue + 24)?;
        tx.write_word(ring, 5)
    });
    assert!(matches!(twice, Failure::Wrong(_) | Failure::Heap(_)), "{twice}");
}

#[test]
fn a_point_too_many_and_a_moved_centre_are_noticed() {
    use perdura_workloads::stamp::kmeans::{KMeans, Parameters};
    let make = || KMeans::new(Parameters::low(Input::Small), SEED).expect("valid parameters");
    // The root's first block has the accumulators, the second the centres.
    let counted = spoilt(&make(), "bench.kmeans", |tx, root| {
        let accumulators = tx.read_word(root)?;
        tx.write_word(accumulators, 1)
    });
    assert!(counted.to_string().contains("points"), "{counted}");
    let summed = spoilt(&make(), "bench.kmeans", |tx, root| {
        let accumulators = tx.read_word(root)?;
        tx.write_word(accumulators + 8, 1 << 30)
    });
    assert!(matches!(summed, Failure::Wrong(_)), "{summed}");
}

#[test]
fn an_edge_too_many_is_noticed() {
    use perdura_workloads::stamp::ssca2::{Parameters, Ssca2};
    let graph = Ssca2::new(Parameters::of(Input::Small), SEED).expect("valid parameters");
    let spoilt = spoilt(&graph, "bench.ssca2", |tx, root| {
        let degrees = tx.read_word(root + 8)?;
        tx.write_word(degrees + 24, 1)
    });
    assert!(matches!(spoilt, Failure::Wrong(_)), "{spoilt}");
}

#[test]
fn genome() {
    assert_eq!(runs("genome"), [602].into(), "the segments, and those at the gene's ends");
}

#[test]
fn labyrinth() {
    assert_eq!(runs("labyrinth"), [16].into());
    assert_eq!(runs("labyrinth-apart"), [16].into());
}

#[test]
fn a_lost_segment_is_noticed() {
    use perdura_workloads::stamp::genome::{Genome, Parameters};
    let make = || Genome::new(Parameters::of(Input::Small), SEED).expect("valid parameters");
    // An entry whose chain seems not to begin there: a chain appended to it is lost.
    let lost = spoilt(&make(), "bench.genome", |tx, root| {
        let entries = tx.read_word(root + 16)?;
        tx.write_word(entries + 8, 0)
    });
    assert!(matches!(lost, Failure::Wrong(_)), "{lost}");
}

#[test]
fn a_wire_across_another_is_noticed() {
    use perdura_workloads::stamp::labyrinth::{Labyrinth, Parameters};
    let make = || Labyrinth::new(Parameters::of(Input::Small), SEED).expect("valid parameters");
    let crossed = spoilt(&make(), "bench.labyrinth", |tx, root| {
        let grid = tx.read_word(root)?;
        let mut cell = grid;
        while tx.read_word(cell)? != 0 {
            cell += 8;
        }
        tx.write_word(cell, 7)
    });
    assert!(matches!(crossed, Failure::Wrong(_)), "{crossed}");
    let lost = spoilt(&make(), "bench.labyrinth", |tx, root| {
        let queue = tx.read_word(root + 32)?;
        tx.write_word(queue, 1)
    });
    assert!(lost.to_string().contains("lost"), "{lost}");
}

fn pmembench<M: PmdkMap>() {
    for (operation, bytes) in Operation::ALL.into_iter().flat_map(|of| [(of, 8), (of, 100)]) {
        for engine in [EngineKind::Redo, EngineKind::Volatile] {
            for threads in [1, 2] {
                let map = MapBench::<M>::new(operation, 2_000, SEED).expect("valid parameters");
                let map = map.with_values(bytes).expect("a valid length");
                let done = Run { engine, threads }.run(map, 0);
                let done = done.unwrap_or_else(|why| panic!("{engine}, {threads}: {why}"));
                assert_eq!(done, 2_000);
            }
        }
    }
}

#[test]
fn the_crit_bit_tree() {
    pmembench::<CTree>();
}

#[test]
fn the_hash_map_that_is_rebuilt() {
    pmembench::<HashmapTx>();
}

/// A key that was taken out behind the workload's back.
#[test]
fn a_lost_key_is_noticed() {
    fn notices<M: PmdkMap>(root: &str) {
        let map = MapBench::<M>::new(Operation::Get, 100, SEED).expect("valid parameters");
        let lost = spoilt(&map, root, |tx, root| {
            let (map, mut keys) = (M::open(root), Vec::new());
            map.check(tx, &mut |_| Ok(()), &mut |key, _| {
                keys.push(key);
                Ok(())
            })?;
            map.remove(tx, keys[40]).map(drop)
        });
        assert!(matches!(lost, Failure::Wrong(_)), "{lost}");
    }
    notices::<CTree>("bench.ctree");
    notices::<HashmapTx>("bench.hashmap-tx");
}

/// A byte of a value's block that was changed behind the workload's back.
#[test]
fn a_spoilt_value_is_noticed() {
    fn notices<M: PmdkMap>(root: &str) {
        let map = MapBench::<M>::new(Operation::Get, 100, SEED).expect("valid parameters");
        let map = map.with_values(128).expect("a valid length");
        let lost = spoilt(&map, root, |tx, root| {
            let mut values = Vec::new();
            M::open(root).check(tx, &mut |_| Ok(()), &mut |_, value| {
                values.push(value);
                Ok(())
            })?;
            tx.write_bytes(values[40] + 127, b"~")
        });
        assert!(matches!(lost, Failure::Wrong(_)), "{lost}");
    }
    notices::<CTree>("bench.ctree");
    notices::<HashmapTx>("bench.hashmap-tx");
    let none = MapBench::<CTree>::new(Operation::Get, 1, SEED).expect("valid parameters");
    assert!(matches!(none.with_values(7), Err(Failure::Parameters(_))));
}

#[test]
fn yada() {
    assert!(runs("yada").first() > Some(&20));
}

#[test]
fn a_triangle_that_is_forgotten_is_noticed() {
    use perdura_workloads::stamp::yada::{Parameters, Yada};
    let make = || Yada::new(Parameters::of(Input::Small), SEED).expect("valid parameters");
    let lost = spoilt(&make(), "bench.yada", |tx, root| {
        let queue = tx.read_word(root + 8)?;
        tx.write_word(queue, 1)
    });
    assert!(matches!(lost, Failure::Wrong(_)), "{lost}");
}

#[test]
fn bayes() {
    assert!(runs("bayes").first() > Some(&4));
}

#[test]
fn an_edge_that_is_not_counted_is_noticed() {
    use perdura_workloads::stamp::bayes::{Bayes, Parameters};
    let make = || Bayes::new(Parameters::of(Input::Small), SEED).expect("valid parameters");
    let edges = spoilt(&make(), "bench.bayes", |tx, root| tx.write_word(root + 24, 1));
    assert!(matches!(edges, Failure::Wrong(_)), "{edges}");
    let likelihood = spoilt(&make(), "bench.bayes", |tx, root| {
        let variables = tx.read_word(root)?;
        let likelihood = tx.read_word(variables + 16)?;
        tx.write_word(variables + 16, likelihood - 1)
    });
    assert!(matches!(likelihood, Failure::Wrong(_)), "{likelihood}");
}
