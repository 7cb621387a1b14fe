//! Histories of random concurrent transactions: they are serializable, in the order in which they were made durable;
//! and a body sees one committed state, even if it is going to be run again.
//!
//! With real threads, and on a simulated machine with schedules made from a seed. With a bug planted in the engine, the
//! same runs must fail.

mod history;

use history::{Done, check};
use perdura::{AnyHeap, Counters, EngineKind, Error, Format, Mode, Purpose, Tuning, Tx};
use perdura_engine::planted::{self, Bug};
use perdura_machine::{Design, Machine, MachineConfig, Options, Plain, Schedule, presets};
use perdura_memory::random::SplitMix64;
use perdura_memory::{AnyMemory, Memory, Ram};
use perdura_testing::seeds;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words in pairs, which are always written together, with the same value except for its lowest bit; each word in a
/// line of its own.
const PAIRS: u64 = 6;
/// Transactions of each thread.
const EACH: u64 = 60;
const BYTES: u64 = 1 << 20;

fn word(at: u64, pair: u64, second: u64) -> u64 {
    at + (pair * 2 + second) * 64
}

fn format() -> Format {
    Format { limit: BYTES, log: Some(0), id: 1, requires: None, checksums: false }
}

/// A heap with the words, and their place.
fn heap(engine: EngineKind, memory: Arc<dyn Memory>) -> (Box<dyn AnyHeap>, u64) {
    let memory = Arc::new(AnyMemory::new(memory));
    let heap = <dyn AnyHeap>::create(engine, memory, format()).expect("a heap");
    let at = heap.session().expect("a session").transaction(|tx| {
        let at = tx.allocate(Purpose::General, PAIRS * 128)?.at();
        (0..PAIRS * 16).try_for_each(|index| tx.write_word(at + index * 8, 0))?;
        Ok(at)
    });
    let at = at.expect("room");
    (heap, at)
}

/// For every other seed, most reading transactions have snapshots: after some lines, or as soon as a writer stores. For
/// two of three, all sessions hand their log segments over, or all but one.
fn tuning(seed: u64) -> Tuning {
    let odd = seed % 2 == 1;
    Tuning {
        snapshot_after: odd.then_some(seed / 2 % 8),
        wait_for_readers_ns: odd.then_some(0),
        kept_segments: (seed % 3).checked_sub(1),
        ..Tuning::default()
    }
}

/// Reads a pair: both words must be of one state.
fn read_pair(tx: &mut dyn Tx, at: u64, pair: u64) -> Result<u64, Error> {
    let first = tx.read_word(word(at, pair, 0))?;
    let second = tx.read_word(word(at, pair, 1))?;
    assert_eq!(first, second, "a body has seen half of a transaction");
    Ok(first)
}

/// One thread's transactions.
fn thread(
    (engine, heap): (EngineKind, &dyn AnyHeap),
    (at, number, seed): (u64, u64, u64),
    now: &dyn Fn() -> u64,
) -> Vec<Done> {
    let mut session = heap.session().expect("a session");
    let mut random = SplitMix64::new(seed ^ number << 32);
    let mut all = Vec::new();
    for count in 0..EACH {
        let mut draw = || {
            let pairs: Vec<u64> = (0..1 + random.below(3)).map(|_| random.below(PAIRS)).collect();
            pairs
        };
        let (mut reads, writes) = (draw(), draw());
        let value = (number + 1) << 32 | (count + 1) << 8;
        let mode = if random.below(3) == 0 { Mode::Read } else { Mode::Write };
        if mode == Mode::Read && random.below(2) == 0 {
            // Long enough that others commit meanwhile.
            reads = (0..PAIRS).chain((0..PAIRS).rev()).collect();
        }
        let blind = random.below(3) == 0;
        let mut done = Done::default();
        done.span.0 = now();
        let (_, ticket) = session
            .run(mode, |tx| {
                (done.reads, done.writes) = (Vec::new(), Vec::new());
                for pair in &reads {
                    done.reads.push((*pair, read_pair(tx, at, *pair)?));
                }
                if mode == Mode::Read {
                    return Ok(());
                }
                for pair in &writes {
                    if done.writes.iter().any(|(written, _)| written == pair) {
                        continue;
                    }
                    if !blind {
                        done.reads.push((*pair, read_pair(tx, at, *pair)?));
                    }
                    tx.write_word(word(at, *pair, 0), value)?;
                    tx.write_word(word(at, *pair, 1), value)?;
                    done.writes.push((*pair, value));
                }
                Ok(())
            })
            .expect("it is run until it commits");
        // Hardware numbers no commits.
        let in_hardware = engine.name().starts_with("htm-").then(|| session.serial()).flatten();
        (done.span.1, done.ticket) = (now(), in_hardware.unwrap_or(ticket.0));
        all.push(done);
    }
    all
}

/// With real threads.
fn natively(engine: EngineKind, threads: u64, seed: u64) -> Result<(), String> {
    let (heap, at) = heap(engine, Arc::new(Ram::new(BYTES)));
    heap.tune(&tuning(seed));
    let clock = AtomicU64::new(1);
    let now = || clock.fetch_add(1, Ordering::SeqCst);
    let histories: Vec<Vec<Done>> = std::thread::scope(|scope| {
        let one = |number| {
            let (heap, now) = (&*heap, &now);
            scope.spawn(move || thread((engine, heap), (at, number, seed), now))
        };
        let all: Vec<_> = (0..threads).map(one).collect();
        all.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    check(&histories.concat()).map_err(|what| format!("{engine}, seed {seed}: {what}"))
}

fn tiny() -> MachineConfig {
    presets::load("tiny").expect("a preset")
}

/// On a machine whose cores take turns according to the seed.
fn simulated(engine: EngineKind, cores: usize, every: u64, seed: u64) -> Result<(), String> {
    let plain = SimulatedRun { config: tiny(), transactions: Box::new(Plain), fallback: None };
    plain.run(engine, cores, every, seed).map(drop)
}

/// What is simulated.
pub(crate) struct SimulatedRun {
    pub(crate) config: MachineConfig,
    /// The machine's mechanism for transactions.
    pub(crate) transactions: Box<dyn Design>,
    /// See [`Tuning::fallback_percent`].
    pub(crate) fallback: Option<u64>,
}

impl SimulatedRun {
    /// Runs on a machine whose cores take turns according to the seed. Returns what the engine has counted.
    pub(crate) fn run(
        self,
        engine: EngineKind,
        cores: usize,
        every: u64,
        seed: u64,
    ) -> Result<Counters, String> {
        let SimulatedRun { mut config, transactions, fallback } = self;
        config.cores.count = cores;
        let schedule = Schedule::Seeded { every: every as u32 };
        let options = Options {
            cores: Some(cores),
            limit: BYTES,
            seed,
            schedule,
            transactions,
            accepts_unsafe: true,
            ..Options::default()
        };
        let machine = Arc::new(Machine::from_words(config, vec![0; 8], options));
        let made = RefCell::new(None);
        machine.run(vec![Box::new(|| *made.borrow_mut() = Some(heap(engine, machine.clone())))]);
        let (heap, at) = made.into_inner().expect("a heap");
        let tuning = Tuning { fallback_percent: fallback, ..tuning(seed) };
        machine.run(vec![Box::new(|| heap.tune(&tuning))]);
        let histories = RefCell::new(Vec::new());
        let clock = AtomicU64::new(1);
        let now = || clock.fetch_add(1, Ordering::SeqCst);
        let programs = (0..cores as u64).map(|number| {
            let (heap, histories, now) = (&*heap, &histories, &now);
            Box::new(move || {
                let done = thread((engine, heap), (at, number, seed), now);
                histories.borrow_mut().extend(done);
            }) as Box<dyn FnOnce() + '_>
        });
        let ran = catch_unwind(AssertUnwindSafe(|| machine.run(programs.collect())));
        if ran.is_err() {
            return Err(format!(
                "{engine}, seed {seed}, {cores} cores: a body has seen half of a transaction"
            ));
        }
        let all = histories.into_inner();
        check(&all).map_err(|what| format!("{engine}, seed {seed}, {cores} cores: {what}"))?;
        let counted = heap.counters();
        let figures = machine.statistics().mechanism_figures;
        if let Some((_, begun)) = figures.iter().find(|(name, _)| *name == "speculations") {
            assert_eq!(*begun, counted.speculations(), "{counted:?}");
        }
        Ok(counted)
    }
}

/// The engines that are consistent after a crash, and the one that only synchronises by software.
fn engines() -> impl Iterator<Item = EngineKind> {
    let all = EngineKind::ALL.into_iter();
    all.filter(|kind| kind.is_crash_consistent() || *kind == EngineKind::Stm)
}

#[test]
fn threads_could_have_run_one_after_the_other() {
    for engine in engines() {
        for seed in seeds(0, 20) {
            natively(engine, 2 + seed % 3, seed).unwrap_or_else(|what| panic!("{what}"));
        }
    }
}

#[test]
fn cores_could_have_run_one_after_the_other() {
    for engine in engines() {
        for seed in seeds(0, 6) {
            let (cores, every) = (2 + seed as usize % 3, 1 + seed % 7);
            simulated(engine, cores, every, seed).unwrap_or_else(|what| panic!("{what}"));
        }
    }
}

#[test]
fn planted_bugs_are_found() {
    // Releasing locks before durability shows only after a power cut.
    for bug in [Bug::UncheckedReads, Bug::MovedUnchecked, Bug::StampBeforeLocks, Bug::NothingKept] {
        finds(EngineKind::CcStm, bug);
        finds(EngineKind::CcStmUndo, bug);
    }
    // Bugs in moving readers.
    finds(EngineKind::Redo, Bug::NothingKept);
    finds(EngineKind::Redo, Bug::MoveOverlooked);
    finds(EngineKind::ArchaptRedo, Bug::MovedWithoutJoined);
}

fn finds(engine: EngineKind, bug: Bug) {
    let found = (0..200).find(|seed| {
        let run = || simulated(engine, 2 + *seed as usize % 3, 1 + seed % 7, *seed);
        planted::with(bug, run).is_err()
    });
    assert!(found.is_some(), "{engine}: {bug:?} was not found");
}
