//! Transactional memory with a log for each core: what a commit costs, which accesses wait for it, and that transactions are
//! durable as a whole on transient caches, wherever the power is cut.

#![allow(missing_docs)]

mod common;

use common::bank::{LockRead, bank, ends};
use common::cuts::{LINES, Run, Tally, cuts, run_of};
use common::{figure, timed, tiny};
use perdura_machine::config::DurableAt;
use perdura_machine::mechanism::{CcHtm, CcHtmConfig, Mutant, list};
use perdura_machine::{AfterCut, Design, Keep, Machine, MachineConfig, Options, Schedule};
use perdura_memory::elision::{ElidedLock, Elision, Way};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, HardwareAbort, LINE, Memory, OwnWords, Speculation};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

type Program<'a> = Box<dyn FnOnce() + 'a>;

const BYTES: usize = 4 << 10;

fn design(config: CcHtmConfig, left_out: Option<&Mutant>) -> Box<dyn Design> {
    Box::new(CcHtm::new(config, left_out).expect("figures that make sense"))
}

/// With logs of a few kilobytes.
fn small() -> CcHtmConfig {
    CcHtmConfig { log_bytes: 4 << 10, ..CcHtmConfig::default() }
}

fn kind() -> &'static list::Kind {
    list::SPECULATING.iter().find(|kind| kind.name == "cc-htm").expect("it is listed")
}

fn machine_on(config: MachineConfig, cc: CcHtmConfig, options: Options) -> Machine {
    Machine::new(config, &[0; BYTES], Options { transactions: design(cc, None), ..options })
}

/// The machine whose times are added up by hand in timing.rs.
fn timed_machine(cc: CcHtmConfig) -> Machine {
    let machine = machine_on(timed(4), cc, Options { cores: Some(1), ..Options::default() });
    (0..2).for_each(|line| _ = machine.load(line * LINE));
    machine.fence();
    machine.work(10_000);
    machine
}

const BEGIN: u64 = 30;
const COMMIT: u64 = 70;
/// From the hand-over of a line until the controller has accepted it, which makes it durable.
const ACCEPT: u64 = 10;
/// A store that goes into the buffer.
const ISSUE: u64 = 1;
const WRITE_BACK: u64 = 2;

fn with_times() -> CcHtmConfig {
    CcHtmConfig { begin_cycles: BEGIN as u32, commit_cycles: COMMIT as u32, ..small() }
}

/// How long a transaction takes from its begin to its last access, and its commit.
fn took(machine: &Machine, body: impl FnOnce()) -> (u64, u64) {
    let begin = machine.now();
    machine.speculate().expect("it runs none");
    body();
    let end = machine.now();
    machine.end_speculation().expect("no other core");
    (end - begin, machine.now() - end)
}

/// A cycle is 1 ns. The four fences each wait for one line, handed over when the fence begins or, for the tail, one
/// store before that.
#[test]
fn a_commit_takes_its_four_fences() {
    let machine = timed_machine(with_times());
    // The log's line with the one entry, the tail, the line, the reset: each is accepted before the next is handed over.
    let (body, commit) = took(&machine, || machine.store(0, 1));
    assert_eq!((body, commit), (BEGIN + ISSUE, 4 * ACCEPT + COMMIT));
    assert_eq!((machine.power_cut()[0], machine.statistics().cores[0].fences), (1, 1 + 4));
    // Five stores to two lines: the first four entries leave with the fourth store, long before the fence. The second
    // write-back begins when the first one has been issued.
    machine.work(10_000);
    let (body, commit) = took(&machine, || {
        (0..3).for_each(|word| machine.store(8 * word, 2));
        (0..2).for_each(|word| machine.store(64 + 8 * word, 2));
    });
    assert_eq!((body, commit), (BEGIN + 5 * ISSUE, 4 * ACCEPT + WRITE_BACK + COMMIT));
    let statistics = machine.statistics();
    assert_eq!((statistics.cores[0].fences, statistics.cores[0].write_backs), (1 + 8, 3));
    // Log lines, tails and resets are the mechanism's.
    assert_eq!((statistics.write_backs.asked, statistics.write_backs.mechanism), (3, 1 + 2 + 4));
    assert_eq!((figure(&machine, "log_entries"), figure(&machine, "log_lines")), (6, 3));
}

/// A transaction that stores nothing to the pool has nothing to log.
#[test]
fn a_transaction_without_stores_has_no_fence() {
    let machine = timed_machine(with_times());
    let words = OwnWords::new(&machine, 1);
    words.store(&machine, 0, 1);
    machine.fence();
    let before = machine.statistics().cores[0].fences;
    assert_eq!(took(&machine, || _ = machine.load(0)).1, COMMIT);
    assert_eq!(took(&machine, || words.store(&machine, 0, 2)).1, 4 - ISSUE + COMMIT);
    assert_eq!((words.load(&machine, 0), machine.statistics().cores[0].fences), (2, before));
    assert_eq!(figure(&machine, "log_entries"), 0);
}

/// Interrupts come every 20 us on average. A commit of one line waits 1 us for its log, and 3 us more for the other three
/// fences, in which no interrupt ends it: about one transaction in twenty is lost, not one in five.
#[test]
fn no_interrupt_ends_a_transaction_behind_its_tail() {
    let mut config = timed(4);
    config.memory.controller.static_write_ns = 1_000.0;
    let cc = CcHtmConfig { interrupt_ns: 20_000.0, ..small() };
    let options = Options { cores: Some(1), seed: 1, ..Options::default() };
    let machine = machine_on(config, cc, options);
    for _ in 0..2_000 {
        machine.speculate().expect("it runs none");
        machine.store(0, machine.load(0) + 1);
        _ = machine.end_speculation();
    }
    let (lost, commits) = (figure(&machine, "aborts_interrupt"), figure(&machine, "commits"));
    assert_eq!((lost + commits, machine.power_cut()[0]), (2_000, commits));
    assert!((80..130).contains(&lost), "{lost} of 2,000");
}

/// Every store is logged: a word twice, those that bytes are in, an exchange that succeeds; nothing of what the program
/// does with its own memory.
#[test]
fn every_store_is_doubled() {
    let machine = timed_machine(small());
    let words = OwnWords::new(&machine, 1);
    let entries = |body: &dyn Fn(&Machine)| {
        let before = figure(&machine, "log_entries");
        took(&machine, || body(&machine));
        figure(&machine, "log_entries") - before
    };
    assert_eq!(entries(&|m| (0..5).for_each(|value| m.store(8, value))), 5);
    assert_eq!(entries(&|m| m.copy_in(13, &[9; 12])), 3, "two bytes, a word, one byte");
    assert_eq!(entries(&|m| m.copy_in(60, &[9; 8])), 2, "on two lines");
    assert_eq!(entries(&|m| _ = m.compare_exchange(8, 0, 1)), 0, "it is not 0");
    assert_eq!(entries(&|m| _ = m.compare_exchange(32, 0, 1)), 1);
    assert_eq!(entries(&|m| words.store(m, 0, 7)), 0);
    assert_eq!(machine.power_cut()[..16], machine.visible()[..16]);
}

/// A log of 192 bytes has a tail and eight entries. The ninth store does not happen, and the next transaction has all
/// the room again.
#[test]
fn a_full_log_is_a_cause_of_its_own() {
    let machine = timed_machine(CcHtmConfig { log_bytes: 192, ..CcHtmConfig::default() });
    let m = &machine;
    let run = |stores: u64, last: &dyn Fn()| {
        m.speculate().expect("it runs none");
        (0..stores).for_each(|value| m.store(value % 4 * 8, value + 1));
        last();
        let lost = m.lost();
        assert_eq!(m.end_speculation().err(), lost);
        lost
    };
    let full = Some(HardwareAbort::NoLogSpace);
    assert_eq!(run(9, &|| ()), full);
    assert_eq!((m.visible()[0], m.power_cut()[0]), (0, 0));
    assert_eq!(run(8, &|| ()), None);
    assert_eq!((m.visible()[0], m.power_cut()[0]), (5, 5));
    assert_eq!(run(7, &|| m.copy_in(7, &[1; 2])), full, "two words");
    assert_eq!(run(8, &|| _ = m.compare_exchange(32, 0, 1)), full);
    assert_eq!(run(7, &|| m.copy_in(7, &[1])), None, "one word");
    assert_eq!(run(8, &|| _ = m.load(64)), None, "it stores nothing");
    assert_eq!((figure(m, "aborts_no_log_space"), figure(m, "commits")), (3, 3));
    assert_eq!(ends(m), (6, 6));
}

/// What core 1 does to a line that core 0's transaction has accessed.
type Act = fn(&Machine, &OwnWords);

/// Core 0 commits; core 1 acts after a while, before, in and after the commit. An act before the tail is written makes
/// core 0 lose; one behind it takes place when the lines are released, not before, and finds what is committed.
#[test]
fn requests_wait_between_the_tail_and_the_release() {
    let acts: [(&str, Act); 5] = [
        ("a load of what was stored", |m, _| assert!(m.load(0) <= 1)),
        ("a store to it", |m, _| m.store(8, 1)),
        ("a write-back of it", |m, _| m.write_back(0, 8)),
        ("a store to what was read", |m, _| m.store(64, 1)),
        ("an exchange of an own word that was read", |m, words| {
            _ = words.compare_exchange(m, 0, 0, 1);
        }),
    ];
    for (what, act) in acts {
        let (mut losses, mut waits) = (0, 0);
        for after in (0..1_000).step_by(9) {
            let mut config = timed(0);
            config.memory.controller.durable_at = DurableAt::Media;
            let options = Options { cores: Some(2), ..Options::default() };
            let machine = machine_on(config, small(), options);
            let (m, words) = (&machine, &OwnWords::new(&machine, 1));
            let (released, done) = (&AtomicU64::new(0), &AtomicU64::new(0));
            m.run(vec![
                Box::new(move || {
                    m.speculate().expect("it runs none");
                    _ = (words.load(m, 0), m.load(64));
                    m.store(0, 1);
                    if m.end_speculation().is_ok() {
                        released.store(m.now(), Ordering::Relaxed);
                    }
                }) as Program<'_>,
                Box::new(move || {
                    m.work(after as u32);
                    let committed = figure(m, "commits") == 1;
                    act(m, words);
                    let now = if committed { m.now() } else { u64::MAX };
                    done.store(now, Ordering::Relaxed);
                }),
            ]);
            let (released, done) = (released.load(Ordering::Relaxed), done.load(Ordering::Relaxed));
            losses += figure(m, "aborts_conflict");
            waits += u64::from(figure(m, "waited_ns") > 0);
            assert!(done >= released, "{what}, after {after}: {done}, released at {released}");
        }
        assert!(losses > 5 && waits > 5, "{what}: {losses} lost, {waits} waited");
    }
}

/// A prefetch of a line that is not released is dropped.
#[test]
fn a_prefetch_waits_for_nothing() {
    let mut config = timed(0);
    config.memory.controller.durable_at = DurableAt::Media;
    let machine = machine_on(config, small(), Options { cores: Some(2), ..Options::default() });
    let m = &machine;
    m.run(vec![
        Box::new(move || {
            m.speculate().expect("it runs none");
            m.store(0, 1);
            m.end_speculation().expect("nothing has asked");
        }) as Program<'_>,
        Box::new(move || {
            // Behind the fetch of the line and the first of the fences.
            while figure(m, "commits") == 0 {
                m.work(1);
            }
            let before = m.now();
            m.prefetch(0);
            assert_eq!(m.now() - before, 1);
            m.load(0);
        }),
    ]);
    assert!(figure(m, "waited_ns") > 50, "the load has waited");
    assert_eq!(figure(m, "commits"), 1);
}

/// A few transactions: the power is cut at every event and arrival, and recovery after every number of stores, once and
/// twice.
#[test]
fn small_runs_are_whole_at_every_crash_point() {
    let mut images = 0;
    for (cores, seed) in [1, 4].into_iter().flat_map(|cores| (0..16).map(move |seed| (cores, seed)))
    {
        let run = Run { transactions: 6, exhaustive: true, ..run_of(seed, cores, None) };
        let tally = cuts(&run).unwrap_or_else(|what| panic!("{cores} cores, seed {seed}: {what}"));
        images += tally.images;
    }
    assert!(images > 3_000, "{images}");
}

#[test]
fn transactions_are_whole_on_one_core_and_on_four() {
    for (cores, seeds) in [(1, 420), (4, 140)] {
        let mut all = Tally::default();
        for seed in 0..seeds {
            let tally = cuts(&run_of(seed, cores, None))
                .unwrap_or_else(|what| panic!("{cores} cores, seed {seed}: {what}"));
            all.images += tally.images;
            all.points += tally.points;
            all.arrivals += tally.arrivals;
            all.commits += tally.commits;
            all.aborts += tally.aborts;
        }
        println!("{cores} cores: {all:?}");
        assert!(all.images > 100_000 && all.arrivals > 30_000, "{all:?}");
        assert!(all.commits > 5_000 && all.aborts > 3_000, "{all:?}");
    }
}

/// Each step that can be left out is found within 200 runs: by a power cut, or by transactions that are not serialisable.
#[test]
fn its_mutants_are_found() {
    let mutants = kind().mutants;
    assert!(mutants.len() >= 12);
    for mutant in mutants {
        let mut images = 0;
        let found = (0..200).position(|seed| {
            let run = run_of(seed, 1 + seed as usize % 4, Some(mutant));
            match cuts(&run) {
                Ok(tally) => images += tally.images,
                Err(_) => {
                    let whole = cuts(&Run { left_out: None, ..run });
                    whole.unwrap_or_else(|what| panic!("nothing left out, seed {seed}: {what}"));
                    return true;
                }
            }
            bank(seed, design(small(), Some(mutant)), LockRead::First).wrong > 0
        });
        println!("{}: {found:?} after {images} images", mutant.name);
        assert!(found.is_some() && images < 100_000, "{}: {}", mutant.name, mutant.what);
    }
}

/// So is a program that does not read the lock's word, or reads it after the transaction's work.
#[test]
fn the_lock_must_be_read_first() {
    let wrong = |seed, reads| bank(seed, design(small(), None), reads).wrong;
    for reads in [LockRead::Never, LockRead::Late] {
        assert!((0..200).any(|seed| wrong(seed, reads) > 0), "{reads:?}");
    }
    let interrupted = CcHtmConfig { interrupt_ns: 3_000.0, ..small() };
    for seed in 0..200 {
        let outcome = bank(seed, design(interrupted.clone(), None), LockRead::First);
        assert_eq!(outcome.wrong, 0, "seed {seed}: {outcome:?}");
    }
}

const CELLS: u64 = 12;
/// The fallback path's undo log: whether it counts, a cell, and the cell's old contents.
const UNDO: u64 = 40 * LINE;

fn persist(m: &Machine, at: u64) {
    m.write_back(at, 8);
    m.fence();
}

/// A cell is two words on two lines, which are always equal; `undo` if that may be undone.
fn add_one(m: &Machine, cell: u64, undo: bool) {
    let (first, second) = (cell * LINE, (CELLS + cell) * LINE);
    let old = m.load(first);
    if undo {
        m.store(UNDO + 8, cell);
        m.store(UNDO + 16, old);
        persist(m, UNDO);
        m.store(UNDO, 1);
        persist(m, UNDO);
    }
    m.store(first, old + 1);
    m.store(second, old + 1);
    if undo {
        m.write_back(first, 8);
        persist(m, second);
        m.store(UNDO, 0);
        persist(m, UNDO);
    }
}

/// The program's recovery, after the mechanism's.
fn undo(words: &mut [u64]) {
    let log = UNDO as usize / 8;
    let (cell, old) = (words[log + 1] as usize * 8, words[log + 2]);
    if words[log] == 1 {
        (words[cell], words[CELLS as usize * 8 + cell]) = (old, old);
    }
}

/// Runs transactions of three cores in hardware, and with an undo log under the lock that these read first. Returns how
/// many of each there were, or what a power cut has left that it must not: half of a transaction, too few or too many,
/// or both logs.
fn on_both_paths(
    seed: u64,
    left_out: Option<&Mutant>,
    recover: fn(&mut [u64]),
) -> Result<(u64, u64), String> {
    const CORES: u64 = 3;
    const ROUNDS: u64 = 25;
    let options = Options {
        cores: Some(CORES as usize),
        schedule: [Schedule::Clock, Schedule::Seeded { every: 4 }][seed as usize % 2],
        seed,
        at_arrivals: true,
        transactions: design(small(), left_out),
        ..Options::default()
    };
    let machine = Machine::new(tiny(Domain::Transient), &[0; BYTES], options);
    let (m, lock) = (&machine, &ElidedLock::new(&machine));
    let (done, elided) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let program = |core: u64| {
        Box::new(move || {
            let mut random = SplitMix64::new(seed * 8 + core);
            let mut thread = Elision::default();
            for _ in 0..ROUNDS {
                let cell = random.below(CELLS);
                loop {
                    let way = lock.enter(m, &mut thread);
                    add_one(m, cell, way == Way::Lock);
                    if lock.leave(m, &mut thread, way).is_ok() {
                        break;
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            elided.fetch_add(thread.counts().hardware, Ordering::Relaxed);
        }) as Program<'_>
    };
    let broken = m.run_watched((0..CORES).map(program).collect(), |machine, event| {
        for recoveries in [vec![], vec![event.number % 5]] {
            let AfterCut { words: mut left, stores, .. } = machine.cut(&recoveries);
            let both = left[UNDO as usize / 8] == 1 && recoveries.is_empty() && stores > 0;
            recover(&mut left);
            let (first, second) = left.split_at((CELLS * 8) as usize);
            let torn = (0..CELLS as usize * 8).any(|word| first[word] != second[word]);
            let (total, over) = (first.iter().sum::<u64>(), done.load(Ordering::Relaxed));
            if torn || both || !(over..=over + CORES).contains(&total) {
                let what = format!("{event:?}: torn {torn}, both {both}, {total} of {over}");
                return ControlFlow::Break(what);
            }
        }
        ControlFlow::Continue(())
    });
    if let ControlFlow::Break(what) = broken {
        return Err(what);
    }
    let by_hardware = elided.load(Ordering::Relaxed);
    Ok((by_hardware, CORES * ROUNDS - by_hardware))
}

/// Wherever the power is cut, each transaction is there as a whole or not at all, none is lost that a program knows to be
/// over, and never do both recoveries have something to do: a core that takes the lock waits until the tail is reset.
#[test]
fn the_fallback_path_recovers_behind_the_log() {
    let (mut hardware, mut locked) = (0, 0);
    for seed in 0..40 {
        let ways = on_both_paths(seed, None, undo);
        let (by_hardware, by_lock) = ways.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        (hardware, locked) = (hardware + by_hardware, locked + by_lock);
    }
    assert!(hardware > locked / 4 && locked > hardware / 4, "{hardware}, {locked}");
    assert!((0..40).any(|seed| on_both_paths(seed, None, |_| ()).is_err()), "no undo");
    for name in ["reset", "line", "entry"] {
        let mutant = kind().mutants.iter().find(|mutant| mutant.name == name).expect("a mutant");
        assert!((0..200).any(|seed| on_both_paths(seed, Some(mutant), undo).is_err()), "{name}");
    }
}

#[test]
fn a_seed_is_a_run() {
    for seed in [0, 3, 4, 7, 14] {
        let run = || cuts(&run_of(seed, 4, None)).unwrap_or_else(|e| panic!("{seed} {e}"));
        assert_eq!(run(), run());
        let bank = || bank(seed, design(small(), None), LockRead::First);
        assert_eq!(bank(), bank());
    }
    assert_ne!(cuts(&run_of(0, 4, None)), cuts(&run_of(8, 4, None)));
}

/// Where the persistency model is kept, a commit is certain in it: no image that it allows lacks a word, and none before
/// has one.
#[test]
fn a_commit_is_certain_in_the_model() {
    let options = Options { cores: Some(1), keep: Keep::Model, ..Options::default() };
    let machine = machine_on(tiny(Domain::Transient), small(), options);
    let m = &machine;
    m.store(16, 5);
    assert_eq!(m.speculation(), Speculation::Durable);
    m.speculate().expect("it runs none");
    m.store(0, 1);
    m.store(64, 2);
    m.model(|model, _| assert_eq!(model.outcomes(&[0, 16, 64]).len(), 2));
    m.end_speculation().expect("no other core");
    m.model(|model, real| {
        assert_eq!(model.outcomes(&[0, 16, 64]).into_iter().collect::<Vec<_>>(), [[1, 5, 2]]);
        assert_eq!([real(0)[0], real(64)[0]], [1, 2]);
    });
}

/// And what caches and devices leave is always an image that it allows, whatever other stores there are to the lines.
#[test]
fn the_model_allows_what_is_left() {
    for seed in 0..8 {
        let schedule = [Schedule::Clock, Schedule::Seeded { every: 3 }][seed as usize % 2];
        let keep = Keep::Model;
        let options = Options { cores: Some(3), keep, schedule, seed, ..Options::default() };
        let machine = machine_on(tiny(Domain::Transient), small(), options);
        let m = &machine;
        let program = |core: u64| {
            Box::new(move || {
                let mut random = SplitMix64::new(seed * 8 + core);
                for round in 0..40 {
                    let mut store = || m.store(random.below(LINES * 8) * 8, round << 8 | core);
                    store();
                    m.speculate().expect("it runs none");
                    (0..3).for_each(|_| store());
                    _ = m.end_speculation();
                    m.write_back(random.below(LINES) * LINE, 8);
                    if random.below(3) == 0 {
                        m.fence();
                    }
                }
            }) as Program<'_>
        };
        let broken = m.run_watched((0..3).map(program).collect(), |machine, event| {
            machine.model(|model, real| {
                let wrong = (0..LINES).find(|line| !model.allows(line * LINE, &real(line * LINE)));
                wrong.map_or(ControlFlow::Continue(()), |line| ControlFlow::Break((event, line)))
            })
        });
        assert!(broken.is_continue(), "seed {seed}: {broken:?}");
        assert!(figure(m, "commits") > 20);
    }
}

#[test]
fn figures_that_no_hardware_has_are_refused() {
    let refused = |cc: CcHtmConfig| CcHtm::new(cc, None).expect_err("refused");
    for log_bytes in [0, 64, 200, 2 << 30] {
        assert!(refused(CcHtmConfig { log_bytes, ..CcHtmConfig::default() }).contains("log_bytes"));
    }
    assert!(refused(CcHtmConfig { read_level: 0, ..CcHtmConfig::default() }).contains("level"));
    for preset in ["tiny", "persistence-sync"] {
        let config = perdura_machine::presets::load(preset).expect("a preset");
        assert!(config.mechanism.contains_key("cc-htm"));
        list::speculating("cc-htm", &config, None).expect("its table is right");
    }
}

/// Another mechanism's recovery would go back behind what a commit has promised.
#[test]
#[should_panic(expected = "do not go together")]
fn it_is_the_only_mechanism_with_a_promise() {
    let mechanism = common::mechanisms::undo_log(None);
    machine_on(tiny(Domain::Transient), small(), Options { mechanism, ..Options::default() });
}
