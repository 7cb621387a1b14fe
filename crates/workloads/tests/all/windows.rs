//! Windows of unacknowledged transactions: how many there are, how much they save, and that latencies
//! end at the acknowledgement.

use crate::heap;
use perdura::testing::TestHeap;
use perdura::{AnyHeap, Counters, EngineKind, Result, Ticket};
use perdura_memory::{Domain, Reference};
use perdura_workloads::map::OnHashMap;
use perdura_workloads::records::Plain;
use perdura_workloads::sps::Sps;
use perdura_workloads::ycsb::{Letter, Options, YcsbOver};
use perdura_workloads::{
    Failure, Measured, Outcome, Plan, Progress, Recorder, Session, Submit, Windowed, Workload,
};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// State shared by a scripted session and its test.
#[derive(Default)]
struct Script {
    committed: Cell<u64>,
    durable: Cell<u64>,
    waits: Cell<u64>,
}

/// Transactions that become durable when the script says so, or when the session waits for one.
struct Scripted(Rc<Script>, TestHeap);

impl Session for Scripted {
    type Tx<'t> = TestHeap;

    fn transaction<R>(&mut self, body: impl FnMut(&mut TestHeap) -> Result<R>) -> Result<R> {
        let (result, ticket) = self.submit(body)?;
        self.wait(ticket)?;
        Ok(result)
    }

    fn read<R>(&mut self, body: impl FnMut(&mut TestHeap) -> Result<R>) -> Result<R> {
        self.transaction(body)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn pause(&self, _: u32) {}
}

impl Submit for Scripted {
    fn submit<R>(
        &mut self,
        mut body: impl FnMut(&mut TestHeap) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        let result = body(&mut self.1)?;
        self.0.committed.set(self.0.committed.get() + 1);
        Ok((result, Ticket(self.0.committed.get())))
    }

    fn submit_read<R>(
        &mut self,
        body: impl FnMut(&mut TestHeap) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.submit(body)
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        self.0.durable.get() >= ticket.0
    }

    fn wait(&mut self, ticket: Ticket) -> Result<()> {
        self.0.waits.set(self.0.waits.get() + 1);
        self.0.durable.set(self.0.durable.get().max(ticket.0));
        Ok(())
    }
}

fn windowed(window: usize) -> (Rc<Script>, Windowed<Scripted>) {
    let script = Rc::new(Script::default());
    (script.clone(), Windowed::new(Scripted(script, TestHeap::new()), window))
}

#[test]
fn a_window_is_as_wide_as_it_was_asked_to_be() {
    for window in [1, 2, 5] {
        let (script, mut session) = windowed(window);
        for number in 1..=20u64 {
            session.transaction(|_| Ok(())).expect("a transaction");
            // One less than the window: there is room to begin the next one.
            let open = (number as usize).min(window - 1);
            assert_eq!(script.committed.get() - script.durable.get(), open as u64);
            assert_eq!(session.unanswered(), open);
        }
        session.finish().expect("an end");
        assert_eq!((script.durable.get(), session.unanswered()), (20, 0));
        assert_eq!(session.answers().is_some(), window > 1);
    }
}

#[test]
fn a_window_without_end_waits_at_the_end() {
    let (script, mut session) = windowed(usize::MAX);
    (0..100).for_each(|_| session.transaction(|_| Ok(())).expect("a transaction"));
    assert_eq!((script.waits.get(), session.unanswered()), (0, 100));
    session.finish().expect("an end");
    assert_eq!((script.waits.get(), session.unanswered()), (1, 0));
}

#[test]
fn no_wait_for_durable_commits() {
    let (script, mut session) = windowed(4);
    for _ in 0..20 {
        session.read(|_| Ok(())).expect("a transaction");
        script.durable.set(script.committed.get());
    }
    session.finish().expect("an end");
    // Only the last is not checked before the end.
    assert!(script.waits.get() <= 1, "{}", script.waits.get());
}

#[test]
fn latencies_end_with_the_answer() {
    const LONG: Duration = Duration::from_millis(20);
    let (script, mut session) = windowed(8);
    let progress = Progress::default();
    let mut recorder = Recorder::new(2, 1, 0, &progress);
    recorder.answered_by(session.answers());
    let mut operation = |kind: usize| {
        recorder.operation(kind, || session.transaction(|_| Ok(()))).expect("a transaction");
    };
    // The first is answered only when the third looks, long after; the other kind at once.
    operation(0);
    sleep(LONG);
    operation(0);
    script.durable.set(3);
    operation(1);
    let (done, histograms) = recorder.finish();
    assert_eq!((done, histograms[0].len(), histograms[1].len()), (3, 2, 1));
    assert!(histograms[0].max() >= LONG.as_nanos() as u64, "{}", histograms[0].max());
    assert!(histograms[0].min() < LONG.as_nanos() as u64);
    assert!(histograms[1].max() < LONG.as_nanos() as u64);
}

fn run(engine: EngineKind, workload: &impl Workload, plan: &Plan) -> Outcome<Measured> {
    run_on(&*heap::in_ram(engine), workload, plan)
}

/// Compiled once for each workload, and not for each engine too.
fn run_on(heap: &dyn AnyHeap, workload: &impl Workload, plan: &Plan) -> Outcome<Measured> {
    let progress = Progress::default();
    perdura_workloads::load(workload, heap, &progress)?;
    let measured = perdura_workloads::measure(workload, heap, plan, &progress)?;
    workload.check(&mut heap.session()?)?;
    Ok(measured)
}

fn plan(threads: usize, window: usize) -> Plan {
    Plan {
        threads,
        operations: 2_000,
        warm_up: 200,
        seed: 3,
        sample_every: 1,
        per_second: None,
        pinned: false,
        window,
    }
}

/// With an engine whose commits become durable later: redo, on a block device.
#[test]
fn transactions_in_a_window_share_fences() {
    let fences = |window| {
        let sps = Sps { entries: 1_000, swaps: 1, disjoint: false, within: None };
        let memory = Arc::new(Reference::new(16 << 20, Domain::Media));
        let heap = heap::create(EngineKind::Redo, memory, None);
        let measured = run_on(&*heap, &sps, &plan(1, window));
        let measured = measured.expect("it runs");
        assert_eq!(measured.latencies[0].samples, 2_000);
        measured.counters.fences as f64 / measured.operations as f64
    };
    let (one, eight) = (fences(1), fences(8));
    assert!(one >= 1.0 && eight < 0.2, "{one} and {eight}");
}

/// Every operation is timed once, whatever the window, and every result is right.
#[test]
fn every_engine_answers_everything() {
    fn answers(engine: EngineKind, threads: usize, window: usize) {
        let plan = Plan { operations: 400, ..plan(threads, window) };
        let maps = OnHashMap::new(500, 1).expect("valid parameters");
        let measured = run(engine, &maps, &plan).expect("it runs");
        assert_eq!(measured.latencies.iter().map(|kind| kind.samples).sum::<u64>(), 400);
        for letter in [Letter::D, Letter::E] {
            let options = Options::new(letter, 200, 600);
            let ycsb = YcsbOver::<Plain>::new(options).expect("valid parameters");
            let measured = run(engine, &ycsb, &plan).expect("it runs");
            assert_eq!(measured.latencies.iter().map(|kind| kind.samples).sum::<u64>(), 400);
        }
    }
    for (threads, window) in [(1, 1), (1, 16), (3, 2), (2, 100_000)] {
        answers(EngineKind::Volatile, threads, window);
        for engine in EngineKind::ALL.into_iter().filter(|engine| engine.is_crash_consistent()) {
            answers(engine, threads, window);
        }
    }
}

#[test]
fn an_open_loop_has_no_window() {
    let sps = Sps { entries: 1_000, swaps: 1, disjoint: false, within: None };
    let plan = Plan { per_second: Some(1e6), ..plan(1, 2) };
    let refused = run(EngineKind::Redo, &sps, &plan);
    assert!(matches!(refused, Err(Failure::Parameters(_))), "{refused:?}");
}
