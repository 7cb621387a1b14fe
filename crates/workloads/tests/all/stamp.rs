//! STAMP's applications, small: on redo and on volatile, one thread and two, and what their checks notice.

use perdura::{AnyHeap, Engine, EngineKind, Format, Heap, OnEngine};
use perdura_memory::Ram;
use perdura_workloads::stamp::{App, Input, OnApp};
use perdura_workloads::{Outcome, Plan, Progress, Store, Workload};
use std::collections::BTreeSet;
use std::sync::Arc;

const SEED: u64 = 20_081_001;

struct New;

impl OnEngine<Ram> for New {
    type Output = Box<dyn AnyHeap>;

    fn run<E: Engine<Ram>>(self) -> Self::Output {
        let memory = Arc::new(Ram::new(64 << 20));
        let format = Format { limit: 64 << 20, log: None, id: 1, requires: None, checksums: false };
        Box::new(Heap::<Ram, E>::create(memory, format).expect("an empty heap"))
    }
}

/// Runs an application with this number of threads, and checks its answer and the pool.
struct Run {
    engine: EngineKind,
    threads: usize,
}

impl OnApp for Run {
    type Output = Outcome<u64>;

    fn run<W: Workload>(self, make: impl Fn() -> Outcome<W>, _: u64) -> Outcome<u64> {
        let (heap, workload, progress) = (self.engine.run(New), make()?, Progress::default());
        perdura_workloads::load(&workload, &*heap, &progress)?;
        assert_eq!(progress.done(), workload.load_size());
        let plan = Plan {
            threads: self.threads,
            operations: 600,
            warm_up: 60,
            seed: SEED,
            sample_every: 4,
            per_second: None,
            pinned: false,
            window: 1,
        };
        let measured = perdura_workloads::measure(&workload, &*heap, &plan, &progress)?;
        assert!(!measured.latencies.is_empty());
        workload.check(&mut Store::session(&*heap)?)?;
        let report = heap.check(&perdura_workloads::check_root);
        assert!(report.is_whole(), "{:?}", report.problems);
        assert_eq!(report.unreachable, Some(0));
        Ok(measured.operations)
    }
}

fn runs(app: App) -> BTreeSet<u64> {
    let mut operations = BTreeSet::new();
    for engine in [EngineKind::Redo, EngineKind::Volatile] {
        for threads in [1, 2] {
            let run = app.run(Input::Small, None, SEED, Run { engine, threads });
            let done = run.expect("valid parameters");
            operations.insert(done.unwrap_or_else(|why| panic!("{engine}, {threads}: {why}")));
        }
    }
    operations
}

#[test]
fn vacation() {
    assert_eq!(runs(App::VacationLow), [600].into());
    assert_eq!(runs(App::VacationHigh), [600].into());
}
