//! One engine's run on a simulated machine: load, warm up, measure by the machine's clock, check.

use crate::bench::knobs::Knobs;
use crate::computing::ComputingSession;
use crate::failure::{Failure, Outcome};
use crate::faults::FaultInjector;
use crate::quantity::show_bytes;
use perdura::{AnyHeap, Counters, EngineKind, Format, Opening};
use perdura_crashtest::Losses;
use perdura_machine::cache::Policy;
use perdura_machine::mechanism::Promise;
use perdura_machine::mechanism::list::{self, MechanismError};
use perdura_machine::{
    Design, Keep, Machine, MachineConfig, Options, Plain, Ps, Schedule, Statistics,
};
use perdura_memory::{AnyMemory, LINE, Memory, PAGE, Ram, Unflushed, WORD};
use perdura_workloads::random::Random;
use perdura_workloads::{Progress, Recorder, Share, Store, Windows, Workload};
use std::cell::{Cell, RefCell};
use std::str::FromStr;
use std::sync::Arc;

/// `--mechanism`: one of the machine's, by name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MechanismChoice(&'static list::Kind);

impl FromStr for MechanismChoice {
    type Err = MechanismError;

    fn from_str(name: &str) -> Result<Self, MechanismError> {
        list::find(name).map(MechanismChoice)
    }
}

impl PartialEq for MechanismChoice {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl MechanismChoice {
    /// The machine without mechanisms.
    pub(crate) const PLAIN: MechanismChoice = MechanismChoice(&list::KINDS[0]);

    pub(crate) fn is_plain(self) -> bool {
        self == Self::PLAIN
    }

    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    fn promises(self) -> Promise {
        self.0.promises()
    }

    /// Whether it makes memory durable by epochs.
    pub(crate) fn has_epochs(self) -> bool {
        self.promises() == Promise::Epoch
    }

    /// Its design, for programs on this many cores.
    pub(crate) fn design(self, machine: &MachineConfig, cores: usize) -> Outcome<Box<dyn Design>> {
        list::design(self.0.name, &machine.with_cores(cores), None)
            .map_err(|error| Failure::new(error.to_string()))
    }
}

/// `--transactions`: one of the machine's mechanisms for transactions, by name; none by default.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionsChoice(&'static list::Kind);

impl FromStr for TransactionsChoice {
    type Err = MechanismError;

    fn from_str(name: &str) -> Result<Self, MechanismError> {
        list::find_speculating(name).map(TransactionsChoice)
    }
}

impl PartialEq for TransactionsChoice {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl TransactionsChoice {
    /// The names that there are.
    pub(crate) fn names() -> String {
        list::SPECULATING.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    /// Its design, for programs on this many cores.
    pub(crate) fn design(self, machine: &MachineConfig, cores: usize) -> Outcome<Box<dyn Design>> {
        list::speculating(self.0.name, &machine.with_cores(cores), None)
            .map_err(|error| Failure::new(error.to_string()))
    }
}

/// Sets the replacement policy of all of the machine's caches, if one is given.
pub(crate) fn set_policy(machine: &mut MachineConfig, policy: Option<Policy>) {
    if let Some(policy) = policy {
        machine.caches.iter_mut().for_each(|level| level.policy = policy);
    }
}

/// The parameters of a run.
pub(crate) struct Plan {
    pub(crate) machine: MachineConfig,
    pub(crate) engine: EngineKind,
    pub(crate) cores: usize,
    pub(crate) operations: u64,
    pub(crate) warm_up: u64,
    /// Transactions between the checkpoint that ends the warm-up and the measured ones. If write-backs drop lines from
    /// the caches, so does a checkpoint: these transactions bring the lines back.
    pub(crate) settle: u64,
    pub(crate) seed: u64,
    pub(crate) mechanism: MechanismChoice,
    /// The mechanism for transactions, if the machine has one.
    pub(crate) transactions: Option<TransactionsChoice>,
    pub(crate) epoch_us: u64,
    /// Transactions of each core that may wait for their durability.
    pub(crate) window: usize,
    /// Settings of the engine and of the log.
    pub(crate) knobs: Knobs,
    /// Number of power cuts among the measured transactions, of a single core.
    pub(crate) cuts: u64,
    /// Whether write-backs, streams and fences are left out, to measure their cost.
    pub(crate) unflushed: bool,
    /// Whether the log is emptied before and after the measured transactions, with the cost of the latter included.
    pub(crate) emptied: bool,
    /// Whether the data is loaded before the machine is switched on: its caches then have none of it.
    pub(crate) loaded_before: bool,
}

/// The measurement.
pub(crate) struct Run {
    pub(crate) operations: u64,
    pub(crate) statistics: Statistics,
    /// The engine's counters for the measured transactions.
    pub(crate) counters: Counters,
    /// How large the workload's data was when it was loaded.
    pub(crate) sizes: Vec<(&'static str, u64)>,
    /// The workload's counts for the measured transactions.
    pub(crate) counts: Vec<(&'static str, u64)>,
    /// Losses of power cuts among the measured transactions.
    pub(crate) losses: Losses,
    /// The simulator's own run time.
    pub(crate) seconds: f64,
    /// Bytes in pages of 4 KiB that held anything when the machine was switched on, if the data was loaded before.
    pub(crate) loaded_bytes: Option<u64>,
}

/// The maximum number of bytes of a simulated machine.
pub(crate) const LARGEST: u64 = 64 << 30;

/// The log, if the default is too small for the session on each core to keep a segment: four segments of a mebibyte each.
/// A log takes at most half of a pool.
fn log(cores: usize) -> Option<u64> {
    (cores > 16).then(|| (cores as u64 * 4 + 1) << 20)
}

/// Runs `workload`, whose data takes about `bytes`.
pub(crate) fn run<W: Workload>(
    plan: &Plan,
    workload: &W,
    bytes: u64,
    progress: &Progress,
) -> Outcome<Run> {
    if W::ONE_CORE && plan.cores > 1 {
        return Err(Failure::new(
            "SQLite waits for its locks by the operating system, and simulated cores take turns on one thread: \
             choose one core",
        ));
    }
    let format = format(plan, bytes)?;
    let options = options(plan, &format)?;
    let loaded = match plan.loaded_before {
        true => Some(load_before(plan, workload, format, progress)?),
        false => None,
    };
    let loaded_bytes = loaded.as_deref().map(bytes_in_pages);
    let has_data = loaded.is_some();
    let words = loaded.unwrap_or_else(|| vec![0; (LINE / WORD) as usize]);
    let machine = Arc::new(Machine::from_words(plan.machine.clone(), words, options));
    let mut memory = AnyMemory::new(machine.clone());
    if plan.unflushed {
        memory = AnyMemory::new(Arc::new(Unflushed::new(Arc::new(memory))));
    }
    // The simulated time does not depend on dispatch.
    let heap = match has_data {
        true => <dyn AnyHeap>::open(plan.engine, Arc::new(memory), Opening::default()),
        false => <dyn AnyHeap>::create(plan.engine, Arc::new(memory), format),
    };
    let heap = heap.map_err(|error| Failure::new(error.to_string()))?;
    heap.tune(&plan.knobs.tuning());
    if !has_data {
        load(plan, workload, &*heap, progress)?;
    }
    let run = phases(plan, workload, &machine, &*heap, progress)?;
    Ok(Run { loaded_bytes, ..run })
}

/// Loads the data, and closes the pool, in ordinary memory. Returns its words.
fn load_before<W: Workload>(
    plan: &Plan,
    workload: &W,
    format: Format,
    progress: &Progress,
) -> Outcome<Vec<u64>> {
    let ram = Arc::new(AnyMemory::new(Arc::new(Ram::new(format.limit))));
    let heap = <dyn AnyHeap>::create(plan.engine, ram.clone(), format)
        .map_err(|error| Failure::new(error.to_string()))?;
    load(plan, workload, &*heap, progress)?;
    heap.close()?;
    Ok((0..ram.len() / WORD).map(|word| ram.load(word * WORD)).collect())
}

fn load<W: Workload>(
    plan: &Plan,
    workload: &W,
    heap: &dyn AnyHeap,
    progress: &Progress,
) -> Outcome {
    progress.restart();
    // With epochs each transaction would wait for the end of its own.
    let unanswered = if plan.mechanism.promises() == Promise::Epoch { usize::MAX } else { 1 };
    workload.load(&mut Windows::new(heap, unanswered).session()?, progress)?;
    Ok(())
}

fn bytes_in_pages(words: &[u64]) -> u64 {
    let used = |page: &&[u64]| page.iter().any(|word| *word != 0);
    words.chunks((PAGE / WORD) as usize).filter(used).count() as u64 * PAGE
}

/// Limit of the heap's size.
fn format(plan: &Plan, bytes: u64) -> Outcome<Format> {
    let log = plan.knobs.log.or(log(plan.cores));
    let limit = bytes
        .saturating_mul(2)
        .saturating_add(64 << 20)
        .saturating_add(log.unwrap_or(0).saturating_mul(2));
    if limit > LARGEST {
        return Err(Failure::new(format!(
            "the simulated machine needs up to {} of this one's memory, and may have {}: choose fewer entries",
            show_bytes(limit),
            show_bytes(LARGEST)
        )));
    }
    Ok(Format {
        limit: limit.next_multiple_of(1 << 20),
        log,
        id: 1,
        requires: None,
        checksums: plan.knobs.checksums,
    })
}

/// A run without power cuts keeps what programs see and nothing else: no mechanism's times depend on the rest, which
/// would take several times as much memory (an image of the home device, and one for each epoch).
pub(crate) fn keep(cuts: u64) -> Keep {
    if cuts == 0 { Keep::Visible } else { Keep::Durable }
}

fn options(plan: &Plan, format: &Format) -> Outcome<Options> {
    let plain = plan.mechanism.is_plain();
    Ok(Options {
        cores: Some(plan.cores),
        limit: format.limit,
        seed: plan.seed,
        schedule: Schedule::Clock,
        keep: keep(plan.cuts),
        mechanism: plan.mechanism.design(&plan.machine, plan.cores)?,
        transactions: match plan.transactions {
            Some(choice) => choice.design(&plan.machine, plan.cores)?,
            None => Box::new(Plain),
        },
        // Nothing is cut: their speed is measured.
        accepts_unsafe: true,
        epoch: (!plain).then(|| Ps::from_ns(plan.epoch_us as f64 * 1000.0)),
        ..Options::default()
    })
}

fn phases<W: Workload>(
    plan: &Plan,
    workload: &W,
    machine: &Arc<Machine>,
    heap: &dyn AnyHeap,
    progress: &Progress,
) -> Outcome<Run> {
    progress.restart();
    let no_faults = FaultInjector::new(machine, 0, 0, plan.seed);
    let phase = |operations, first_stream| Phase { operations, first_stream, injector: &no_faults };
    if !W::ENDS {
        work(plan, workload, machine, heap, &phase(plan.warm_up, 1 << 32), progress)?;
    }
    // The log left by the warm-up must not be written back by the measured transactions. Without a log, a checkpoint
    // would clean all caches (or empty them, if a write-back drops its line), and the baseline would be measured cold.
    if heap.is_crash_consistent() {
        heap.checkpoint()?;
    }
    if !W::ENDS {
        work(plan, workload, machine, heap, &phase(plan.settle, 2 << 32), progress)?;
    }
    if plan.emptied {
        heap.empty_log()?;
    }
    let (before, counted) = (heap.counters(), workload.counts());
    machine.start_measuring();
    let start = std::time::Instant::now();
    let injector = FaultInjector::new(machine, plan.cuts, plan.operations, plan.seed);
    let measured = Phase { operations: plan.operations, first_stream: 0, injector: &injector };
    let operations = work(plan, workload, machine, heap, &measured, progress)?;
    let emptying = if plan.emptied { heap.empty_log()? } else { Counters::default() };
    let seconds = start.elapsed().as_secs_f64();
    let statistics = machine.statistics();
    let mut counters = heap.counters() - before;
    counters += emptying;
    let counts = perdura_workloads::counted_since(workload, &counted);
    workload.check(&mut heap.session()?)?;
    let losses = injector.losses()?;
    let sizes = workload.sizes();
    let loaded_bytes = None;
    Ok(Run { operations, statistics, counters, sizes, counts, losses, seconds, loaded_bytes })
}

/// A part of a run's transactions.
struct Phase<'c> {
    operations: u64,
    /// Stream of random numbers of the first core.
    first_stream: u64,
    injector: &'c FaultInjector<'c>,
}

/// Runs a phase's transactions, a share of them on each core. Returns their number.
fn work<W: Workload>(
    plan: &Plan,
    workload: &W,
    machine: &Arc<Machine>,
    heap: &dyn AnyHeap,
    &Phase { operations, first_stream, injector }: &Phase<'_>,
    progress: &Progress,
) -> Outcome<u64> {
    if operations == 0 {
        return Ok(0);
    }
    let (failure, windows) = (RefCell::new(None), Windows::new(heap, plan.window));
    let done = Cell::new(0);
    let program = |core: usize| {
        let (failure, windows, done) = (&failure, &windows, &done);
        Box::new(move || {
            let random = Random::new(plan.seed, first_stream + core as u64);
            let mut share = Share { thread: core, threads: plan.cores, operations, random };
            let part = share.part_of(operations);
            share.operations = part.end - part.start;
            let mut recorder = Recorder::new(W::KINDS.len(), 0, plan.seed, progress);
            let session = windows.session().map_err(perdura_workloads::Failure::from);
            let worked = session.and_then(|session| {
                let session = ComputingSession::new(session, machine, &plan.machine.cores);
                let mut session = injector.session(session);
                perdura_workloads::work(workload, &mut session, share, &mut recorder)
            });
            done.set(done.get() + recorder.done());
            if let Err(error) = worked {
                failure.borrow_mut().get_or_insert(error);
            }
        }) as Box<dyn FnOnce() + '_>
    };
    machine.run((0..plan.cores).map(program).collect());
    match failure.into_inner() {
        Some(error) => Err(error.into()),
        None => Ok(done.get()),
    }
}
