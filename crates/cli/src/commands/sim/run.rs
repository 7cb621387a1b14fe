//! One engine's run: load, warm up, measure by the machine's clock, check.

use crate::failure::{Failure, Outcome};
use crate::quantity::show_bytes;
use perdura::{
    ArchaptRedoEngine, ArchaptUndoEngine, Counters, Engine, EngineKind, Format, Heap, RedoEngine,
    SWalEngine, UndoEngine, Volatile,
};
use perdura_machine::mechanism::HardwareUndoLog;
use perdura_machine::{
    Keep, Machine, MachineConfig, Mechanism, Options, Plain, Ps, Schedule, Statistics,
};
use perdura_workloads::random::Random;
use perdura_workloads::{Progress, Recorder, Share, Store, Windows, Workload};
use std::cell::RefCell;
use std::str::FromStr;
use std::sync::Arc;

/// `--mechanism`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MechanismChoice {
    Plain,
    UndoLog,
}

impl FromStr for MechanismChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "plain" => Ok(MechanismChoice::Plain),
            "undo-log" => Ok(MechanismChoice::UndoLog),
            other => Err(format!("unknown mechanism '{other}': it is plain or undo-log")),
        }
    }
}

impl MechanismChoice {
    fn make(self) -> Box<dyn Mechanism> {
        match self {
            MechanismChoice::Plain => Box::new(Plain),
            MechanismChoice::UndoLog => Box::new(HardwareUndoLog::new()),
        }
    }
}

/// What to run.
pub(super) struct Plan {
    pub(super) machine: MachineConfig,
    pub(super) engine: EngineKind,
    pub(super) cores: usize,
    pub(super) operations: u64,
    pub(super) warm_up: u64,
    pub(super) seed: u64,
    pub(super) mechanism: MechanismChoice,
    pub(super) epoch_us: u64,
    pub(super) window: usize,
}

/// What was measured.
pub(super) struct Run {
    pub(super) operations: u64,
    pub(super) statistics: Statistics,
    /// What the engine did meanwhile.
    pub(super) counters: Counters,
    /// What the workload counted meanwhile.
    pub(super) counts: Vec<(&'static str, u64)>,
    /// How long the simulator took for it.
    pub(super) seconds: f64,
}

/// Bytes that a simulated machine may have.
const LARGEST: u64 = 64 << 30;

/// The log, where the usual one is too small for a session on each core: four segments of a
/// mebibyte each. A pool has room for a log of half its size.
fn log(cores: usize) -> Option<u64> {
    (cores > 16).then(|| (cores as u64 * 4 + 1) << 20)
}

/// Runs `workload`, whose data takes about `bytes`.
pub(super) fn run<W: Workload>(
    plan: &Plan,
    workload: &W,
    bytes: u64,
    progress: &Progress,
) -> Outcome<Run> {
    match plan.engine {
        EngineKind::Volatile => on::<Volatile<Machine>, W>(plan, workload, bytes, progress),
        EngineKind::Undo => on::<UndoEngine<Machine>, W>(plan, workload, bytes, progress),
        EngineKind::Redo => on::<RedoEngine<Machine>, W>(plan, workload, bytes, progress),
        EngineKind::SWal => on::<SWalEngine<Machine>, W>(plan, workload, bytes, progress),
        EngineKind::ArchaptUndo => {
            on::<ArchaptUndoEngine<Machine>, W>(plan, workload, bytes, progress)
        }
        EngineKind::ArchaptRedo => {
            on::<ArchaptRedoEngine<Machine>, W>(plan, workload, bytes, progress)
        }
    }
}

fn on<E: Engine<Machine>, W: Workload>(
    plan: &Plan,
    workload: &W,
    bytes: u64,
    progress: &Progress,
) -> Outcome<Run> {
    let log = log(plan.cores);
    let limit =
        bytes.saturating_mul(2).saturating_add(64 << 20).saturating_add(2 * log.unwrap_or(0));
    if limit > LARGEST {
        return Err(Failure::new(format!(
            "the simulated machine needs up to {} of this one's memory, and may have {}: choose fewer entries",
            show_bytes(limit),
            show_bytes(LARGEST)
        )));
    }
    let limit = limit.next_multiple_of(1 << 20);
    let plain = plan.mechanism == MechanismChoice::Plain;
    let options = Options {
        cores: Some(plan.cores),
        limit,
        seed: plan.seed,
        schedule: Schedule::Clock,
        // A mechanism needs to know what the home device holds.
        keep: if plain { Keep::Visible } else { Keep::Durable },
        mechanism: plan.mechanism.make(),
        epoch: (!plain).then(|| Ps::from_ns(plan.epoch_us as f64 * 1000.0)),
        omit: None,
    };
    let machine = Arc::new(Machine::new(plan.machine.clone(), &[0; 64], options));
    let format = Format { limit, log, id: 1, requires: None };
    let heap = Heap::<Machine, E>::create(machine.clone(), format)
        .map_err(|error| Failure::new(error.to_string()))?;
    progress.restart();
    workload.load(&mut heap.session()?, progress)?;
    progress.restart();
    work(plan, workload, &heap, plan.warm_up, 1 << 32, progress)?;
    // What the warm-up left in the log is not the measured transactions' to write back. Without a
    // log there is nothing of that kind: a checkpoint would clean all caches, or empty them where
    // a write-back drops its line, and the baseline would be measured cold.
    if E::CRASH_CONSISTENT {
        heap.checkpoint()?;
    }
    let (before, counted) = (heap.counters(), workload.counts());
    machine.start_measuring();
    let start = std::time::Instant::now();
    work(plan, workload, &heap, plan.operations, 0, progress)?;
    let seconds = start.elapsed().as_secs_f64();
    let statistics = machine.statistics();
    let counters = heap.counters() - before;
    let counts = perdura_workloads::counted_since(workload, &counted);
    workload.check(&mut heap.session()?)?;
    Ok(Run { operations: plan.operations, statistics, counters, counts, seconds })
}

/// Runs `operations` transactions, a share of them on each core.
fn work<E: Engine<Machine>, W: Workload>(
    plan: &Plan,
    workload: &W,
    heap: &Heap<Machine, E>,
    operations: u64,
    first_stream: u64,
    progress: &Progress,
) -> Outcome {
    let (failure, windows) = (RefCell::new(None), Windows::new(heap, plan.window));
    let program = |core: usize| {
        let (failure, windows) = (&failure, &windows);
        Box::new(move || {
            let random = Random::new(plan.seed, first_stream + core as u64);
            let mut share = Share { thread: core, threads: plan.cores, operations, random };
            let part = share.part_of(operations);
            share.operations = part.end - part.start;
            let mut recorder = Recorder::new(W::KINDS.len(), 0, plan.seed, progress);
            let worked = windows.session().map_err(perdura_workloads::Failure::from).and_then(
                |mut session| perdura_workloads::work(workload, &mut session, share, &mut recorder),
            );
            if let Err(error) = worked {
                failure.borrow_mut().get_or_insert(error);
            }
        }) as Box<dyn FnOnce() + '_>
    };
    heap.memory().run((0..plan.cores).map(program).collect());
    match failure.into_inner() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}
