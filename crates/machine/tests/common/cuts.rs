//! Programs with durable speculations whose power is cut at every event and every arrival, in two lives, and in recovery.

use super::bank::ends;
use super::whole::{Ledger, Transaction};
use super::{behind_dram, tiny};
use perdura_machine::config::DurableAt;
use perdura_machine::mechanism::{CcHtm, CcHtmConfig, Mutant};
use perdura_machine::{AfterCut, Design, Kind, Machine, MachineConfig, Options, Ps, Schedule};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory};
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard};

type Program<'a> = Box<dyn FnOnce() + 'a>;

const BYTES: usize = 4 << 10;

/// Lines of transactions, and lines that other stores are to.
pub(crate) const LINES: u64 = 24;
const NOISE: std::ops::Range<u64> = 32..64;

/// Crash points, the images that were looked at, and how transactions have ended.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) points: u64,
    pub(crate) arrivals: u64,
    pub(crate) images: u64,
    pub(crate) commits: u64,
    pub(crate) aborts: u64,
    pub(crate) time: Ps,
}

/// How programs run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) config: MachineConfig,
    pub(crate) cc: CcHtmConfig,
    pub(crate) left_out: Option<Mutant>,
    pub(crate) cores: usize,
    pub(crate) seed: u64,
    pub(crate) schedule: Schedule,
    pub(crate) transactions: u64,
    /// Whether recovery is cut short after each of its stores.
    pub(crate) exhaustive: bool,
}

impl Run {
    fn design(&self) -> Box<dyn Design> {
        let design = CcHtm::new(self.cc.clone(), self.left_out.as_ref());
        Box::new(design.expect("figures that make sense"))
    }
}

/// One transaction. Returns what it has stored and read; `None` if it was given up or is lost.
fn body(m: &Machine, random: &mut SplitMix64, number: u64) -> Option<Transaction> {
    let mut transaction = Transaction::default();
    let mut words = Vec::new();
    let accesses = match random.below(8) {
        0 => 14,
        1 => 0,
        _ => 1 + random.below(6),
    };
    let only_reads = random.below(6) == 0;
    for access in 0..accesses {
        let again = words.last().copied().filter(|_| random.below(3) == 0);
        let word = again.unwrap_or_else(|| random.below(LINES) * 8 + random.below(8));
        let (at, value) = (word * 8, number << 8 | access);
        let how = if only_reads { 0 } else { random.below(8) };
        match how {
            0 => transaction.reads.push((word as usize, m.load(at))),
            1 => _ = m.compare_exchange(at, m.load(at), value),
            2 => m.copy_in(at + 1 + random.below(4), &[value as u8; 3]),
            _ => m.store(at, value),
        }
        if m.lost().is_some() {
            return None;
        }
        if how > 0 {
            words.push(word);
        }
    }
    if random.below(12) == 0 {
        m.stop_speculating(1);
        return None;
    }
    words.sort_unstable();
    words.dedup();
    transaction.writes = words.iter().map(|word| (*word as usize, m.load(word * 8))).collect();
    m.lost().is_none().then_some(transaction)
}

/// `which`: the life, and in the lower half the core.
fn program<'a>(m: &'a Machine, ledger: &'a Mutex<Ledger>, run: &Run, which: u64) -> Program<'a> {
    let mut random = SplitMix64::new(run.seed * 64 + which);
    let core = which as u32 as usize;
    let (transactions, quiet) = (run.transactions, run.cores == 1);
    Box::new(move || {
        let ledger = || ledger.lock().expect("no panic");
        for number in 1..=transactions {
            if !quiet && random.below(4) == 0 {
                noise(m, &mut random, ledger);
            }
            m.speculate().expect("it runs none");
            let done = body(m, &mut random, which >> 32 << 32 | number << 8 | (core as u64 + 1));
            let wants = done.is_some();
            done.into_iter().for_each(|done| ledger().wants(core, done));
            match m.end_speculation() {
                Ok(_) => ledger().returned(core, over(m)),
                Err(_) if wants => ledger().lost(core),
                Err(_) => {}
            }
        }
    })
}

/// Outside transactions: stores, which fill queues and banks, and looks at what transactions store.
fn noise<'a>(m: &Machine, random: &mut SplitMix64, ledger: impl Fn() -> MutexGuard<'a, Ledger>) {
    for _ in 0..1 + random.below(8) {
        let at = (NOISE.start + random.below(NOISE.end - NOISE.start)) * LINE;
        match random.below(4) {
            0 => m.store(at, 1),
            1 => m.write_back(at, 8),
            2 => m.stream(at, &[2; 8]),
            _ => {
                let word = random.below(LINES * 8);
                let read = (word as usize, m.load(word * 8));
                ledger().seen(read, over(m));
            }
        }
    }
}

/// The time now; the clock is read in nanoseconds.
fn over(m: &Machine) -> Ps {
    Ps((m.now() + 1) * 1_000)
}

/// Why a life is over before its programs are.
enum Stop {
    Wrong(String),
    Cut(AfterCut),
}

/// Cuts the power at every event and every arrival of two lives: the second one begins with what a power cut in the
/// middle of the first has left.
pub(crate) fn cuts(run: &Run) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut left = AfterCut { words: vec![0; BYTES / 8], own: Vec::new(), stores: 0 };
    // How many crash points the first life has is not known: the cut comes early in some runs, and late in others.
    for (life, last) in [(1, 20 + run.seed * 37 % 300), (2, u64::MAX)] {
        match live(run, life, left, last, &mut tally)? {
            Some(cut) => left = cut,
            None => break,
        }
    }
    Ok(tally)
}

/// One life, until its programs have ended or, at the crash point with the number `last`, by a power cut.
fn live(
    run: &Run,
    life: u64,
    left: AfterCut,
    last: u64,
    tally: &mut Tally,
) -> Result<Option<AfterCut>, String> {
    let options = Options {
        cores: Some(run.cores),
        seed: run.seed + life,
        schedule: run.schedule,
        transactions: run.design(),
        own: left.own,
        at_arrivals: true,
        ..Options::default()
    };
    let tracked = left.words[..LINES as usize * 8].to_vec();
    let ledger = &Mutex::new(Ledger::new(tracked, run.cores));
    let machine = Machine::from_words(run.config.clone(), left.words, options);
    let program = |core| program(&machine, ledger, run, life << 32 | core as u64);
    let programs = (0..run.cores).map(program).collect();
    let stopped = machine.run_watched(programs, |machine, event| {
        let (now, mut ledger) = (machine.cut_time(), ledger.lock().expect("no panic"));
        if event.kind == Kind::Commit {
            ledger.commits(event.core, now);
        }
        tally.points += 1;
        tally.arrivals += u64::from(matches!(event.kind, Kind::Arrival(_)));
        let whole = machine.cut(&[]);
        let stores = whole.stores;
        let short = match run.exhaustive {
            true => (0..stores).map(|stores| vec![stores, stores / 2]).collect(),
            false => vec![vec![event.number % 7], vec![event.number % 11, event.number % 5]],
        };
        let lefts: Vec<AfterCut> =
            short.iter().filter(|_| stores > 0).map(|cut| machine.cut(cut)).collect();
        for left in std::iter::once(&whole).chain(&lefts) {
            tally.images += 1;
            if let Some(what) = ledger.broken(&left.words, now) {
                let what = format!("life {life}, {event:?} at {now:?}: {what}");
                return ControlFlow::Break(Stop::Wrong(what));
            }
        }
        match tally.points == last {
            true => ControlFlow::Break(Stop::Cut(whole)),
            false => ControlFlow::Continue(()),
        }
    });
    let (begun, ended) = ends(&machine);
    assert_eq!(begun, ended, "causes and commits add up");
    let committed = commits(&machine);
    (tally.commits, tally.aborts) = (tally.commits + committed, tally.aborts + begun - committed);
    tally.time = machine.time();
    match stopped {
        ControlFlow::Continue(()) => Ok(None),
        ControlFlow::Break(Stop::Cut(cut)) => Ok(Some(cut)),
        ControlFlow::Break(Stop::Wrong(what)) => Err(what),
    }
}

fn commits(machine: &Machine) -> u64 {
    let figures = machine.statistics().mechanism_figures;
    figures.iter().find(|figure| figure.0 == "commits").expect("a figure").1
}

/// Lines durable in the queue; with two channels and a short queue; with evicted lines in volatile DRAM; durable at the
/// media, with two channels, so that they become durable in another order than they are written.
fn machines() -> [MachineConfig; 4] {
    let plain = tiny(Domain::Transient);
    let mut short = plain.clone();
    (short.memory.home.channels, short.memory.home.interleave_bytes) = (2, 64);
    short.memory.controller.write_queue = 2;
    let cached = behind_dram(&plain, 4, 256);
    let mut media = short.clone();
    media.memory.controller.write_queue = 4;
    media.memory.controller.durable_at = DurableAt::Media;
    [plain, short, cached, media]
}

const SCHEDULES: [Schedule; 2] = [Schedule::Clock, Schedule::Seeded { every: 4 }];

/// The run with this seed: all machines with all schedules, with logs that transactions of more than 12 stores do not
/// fit into.
pub(crate) fn run_of(seed: u64, cores: usize, left_out: Option<&Mutant>) -> Run {
    let interrupt_ns = if seed % 5 == 4 { 3_000.0 } else { 0.0 };
    Run {
        config: machines()[seed as usize % 4].clone(),
        cc: CcHtmConfig { log_bytes: 256, interrupt_ns, ..CcHtmConfig::default() },
        left_out: left_out.copied(),
        cores,
        seed,
        schedule: SCHEDULES[seed as usize / 4 % 2],
        transactions: 30,
        exhaustive: false,
    }
}
