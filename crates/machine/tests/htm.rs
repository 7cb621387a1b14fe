//! Hardware transactional memory: who loses, what fits, what an abort costs; and that what commits is serialisable.

#![allow(missing_docs)]

mod common;

use common::bank::{LockRead, Outcome, bank, ends};
use common::{figure, tiny};
use perdura_machine::mechanism::{Htm, HtmConfig, Mutant, list};
use perdura_machine::{Machine, MachineConfig, Options, Schedule, presets};
use perdura_memory::{Domain, HardwareAbort, LINE, Memory, OwnWords, Touch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

type Program<'a> = Box<dyn FnOnce() + 'a>;

const BYTES: usize = 16 << 10;

fn machine_on(config: MachineConfig, htm: HtmConfig, options: Options) -> Machine {
    let transactions = Box::new(Htm::new(htm, None).expect("figures that make sense"));
    Machine::new(config, &[0; BYTES], Options { transactions, ..options })
}

/// The machine of the paper, with this many cores: 8 lines in each of 128 sets of the nearest cache.
fn papers(cores: usize, htm: HtmConfig) -> Machine {
    let config = presets::load("persistence-sync").expect("a preset");
    let options = Options { cores: Some(cores), limit: 4 << 20, ..Options::default() };
    let machine = machine_on(config, htm, options);
    machine.grow(4 << 20).expect("its limit");
    machine
}

/// Two cores and a line. Core 0 speculates and accesses the line; then core 1 does, speculating too or not. Core 1 asks,
/// so core 0 loses, unless both have only read; and core 1 never does.
#[test]
fn the_core_that_did_not_ask_loses() {
    type Act = fn(&Machine);
    let acts: [(&str, Act, bool); 5] = [
        ("load", |m| _ = m.load(0), false),
        ("prefetch", |m| m.prefetch(0), false),
        ("store", |m| m.store(0, 9), true),
        ("exchange", |m| _ = m.compare_exchange(0, 77, 9), true),
        ("copy", |m| m.copy_in(3, &[1]), true),
    ];
    for (first, by_first, first_stores) in acts {
        // What core 0 prefetches is in no set.
        let tracked = first != "prefetch";
        for (second, by_second, second_stores) in acts {
            for both in [true, false] {
                let schedule = Schedule::Seeded { every: 1 };
                let options = Options { cores: Some(2), schedule, ..Options::default() };
                let machine = machine_on(tiny(Domain::Transient), HtmConfig::default(), options);
                let (m, turn) = (&machine, &AtomicUsize::new(0));
                let wait = move |until| {
                    while turn.load(Ordering::Relaxed) != until {
                        m.pause(0);
                    }
                };
                let conflict = tracked && (first_stores || second_stores);
                m.run(vec![
                    Box::new(move || {
                        m.speculate().expect("it runs none");
                        by_first(m);
                        turn.store(1, Ordering::Relaxed);
                        wait(2);
                        let ended = m.end_speculation().err();
                        let expected = conflict.then_some(HardwareAbort::Conflict);
                        assert_eq!(ended, expected, "{first}, {second}, both {both}");
                    }) as Program<'_>,
                    Box::new(move || {
                        wait(1);
                        if both {
                            m.speculate().expect("it runs none");
                        }
                        by_second(m);
                        turn.store(2, Ordering::Relaxed);
                        if both {
                            m.end_speculation().expect("it has asked");
                        }
                    }),
                ]);
                assert_eq!(figure(m, "aborts_conflict"), u64::from(conflict));
            }
        }
    }
}

/// 128 sets of 8 lines: lines 0, 128, 256 and so on are in one set. 8 of them that were stored to fit, 9 do not; of
/// lines that were read the level decides: 9 do not fit into the first level's set, but into the second level's 8 x 512
/// sets, where lines 0, 512 and so on share a set.
#[test]
fn eight_lines_of_a_set_fit_and_nine_do_not() {
    let run = |read_level: usize, lines: u64, apart: u64, access: fn(&Machine, u64)| {
        let machine = papers(1, HtmConfig { read_level, ..HtmConfig::default() });
        machine.speculate().expect("it runs none");
        for line in 0..lines {
            access(&machine, line * apart * LINE);
        }
        let ended = machine.end_speculation().err();
        assert_eq!(
            machine.visible().iter().any(|word| *word != 0),
            ended.is_none() && machine.load(0) != 0
        );
        ended
    };
    let full = Some(HardwareAbort::Capacity);
    let store: fn(&Machine, u64) = |machine, at| machine.store(at, 1);
    let exchange: fn(&Machine, u64) = |machine, at| _ = machine.compare_exchange(at, 0, 1);
    for by in [store, exchange] {
        for level in [1, 3] {
            assert_eq!([run(level, 8, 128, by), run(level, 9, 128, by)], [None, full]);
        }
    }
    let load: fn(&Machine, u64) = |machine, at| _ = machine.load(at);
    assert_eq!([run(1, 8, 128, load), run(1, 9, 128, load)], [None, full]);
    assert_eq!(
        [run(2, 9, 128, load), run(2, 8, 512, load), run(2, 9, 512, load)],
        [None, None, full]
    );
    assert_eq!(run(3, 9, 512, load), None);
    // A line that was read and stored to counts as stored to.
    let both: fn(&Machine, u64) = |machine, at| machine.store(at, machine.load(at) + 1);
    assert_eq!([run(3, 8, 128, both), run(3, 9, 128, both)], [None, full]);
}

/// Lines of programs' own memory take room too: 4 of them and 4 of the pool fill a set. The store that finds no room has
/// not happened either.
#[test]
fn own_lines_take_room() {
    const LINE_WORDS: usize = 8;
    let run = |own: usize, pool: u64| {
        let machine = papers(1, HtmConfig::default());
        // Own lines begin behind the pool's 65,536 lines: their first is in set 0.
        let words = OwnWords::new(&machine, 16 * 128 * LINE_WORDS);
        let object = machine.object(16 * 128 * LINE);
        machine.speculate().expect("it runs none");
        (0..pool).for_each(|line| machine.store(line * 128 * LINE, 1));
        machine.touch(object, 0, 8, Touch::Read);
        (1..own).for_each(|line| words.store(&machine, line * 128 * LINE_WORDS, 1));
        let ended = machine.end_speculation().err();
        let stored = |line: &usize| words.load(&machine, line * 128 * LINE_WORDS) == 1;
        (ended, (0..own).filter(stored).count())
    };
    let full = Some(HardwareAbort::Capacity);
    assert_eq!(
        [run(4, 4), run(5, 4), run(8, 0), run(9, 0)],
        [(None, 3), (full, 0), (None, 7), (full, 0)]
    );
}

/// A cycle is a nanosecond; the program's accesses cost no work. A line in the nearest cache is loaded in one access
/// time; after an abort it is not there, and comes from the next level that has it, or from memory.
#[test]
fn the_second_try_misses_in_the_nearest_cache() {
    let machine = papers(1, HtmConfig::default());
    let misses = || machine.statistics().caches.levels[0].misses;
    (0..4).for_each(|line| _ = machine.load(line * LINE));
    let try_once = || {
        let before = misses();
        machine.speculate().expect("it runs none");
        machine.store(0, 1);
        machine.store(64, 1);
        _ = machine.load(128);
        misses() - before
    };
    assert_eq!(try_once(), 0, "all are there");
    machine.stop_speculating(3);
    // The two lines that were stored to have left; the one that was read has not.
    assert_eq!(try_once(), 2);
    machine.end_speculation().expect("no other core");
    assert_eq!(try_once(), 0, "a commit keeps them");
    machine.end_speculation().expect("no other core");
    assert_eq!((figure(&machine, "aborts_explicit"), ends(&machine)), (1, (3, 3)));
}

/// Begin, commit and abort take their cycles, of 1 ns each.
#[test]
fn begin_commit_and_abort_take_time() {
    let htm = HtmConfig {
        begin_cycles: 1_000,
        commit_cycles: 2_000,
        abort_cycles: 4_000,
        ..HtmConfig::default()
    };
    let machine = papers(1, htm);
    let took = |ends: &dyn Fn()| {
        let before = machine.now();
        machine.speculate().expect("it runs none");
        ends();
        machine.now() - before
    };
    assert_eq!(took(&|| _ = machine.end_speculation().expect("no other core")), 3_000);
    assert_eq!(took(&|| machine.stop_speculating(0)), 5_000);
}

/// An interrupt comes to a core on average every 20 us of its time. Transactions of 100 us of computation hardly ever
/// commit; of 10,000 that take 1 us or a little more, about 1 in 20 is lost.
#[test]
fn interrupts_come_by_the_clock_and_the_seed() {
    let run = |seed: u64, cycles: u32, rounds: u64| {
        let htm = HtmConfig { interrupt_ns: 20_000.0, ..HtmConfig::default() };
        let config = presets::load("persistence-sync").expect("a preset");
        let machine =
            machine_on(config, htm, Options { cores: Some(1), seed, ..Options::default() });
        for _ in 0..rounds {
            machine.speculate().expect("it runs none");
            machine.work(cycles);
            _ = machine.end_speculation();
        }
        figure(&machine, "aborts_interrupt")
    };
    assert_eq!(run(1, 100_000, 50), 50);
    let lost = run(1, 980, 10_000);
    assert!((450..600).contains(&lost), "{lost} of 10,000");
    assert_eq!(run(1, 980, 10_000), lost);
    assert_ne!(run(2, 980, 10_000), lost);
}

/// Transactions of 8 cores on lines of their own: 8 times the work takes less than 8/6 of the time of one core's.
#[test]
fn disjoint_transactions_scale() {
    let time = |cores: usize| {
        let machine = papers(cores, HtmConfig::default());
        let m = &machine;
        let program = |core: u64| {
            Box::new(move || {
                for round in 0..300 {
                    m.speculate().expect("it runs none");
                    for line in 0..8 {
                        let at = (core * 256 + (round * 8 + line) % 64) * LINE;
                        m.store(at, m.load(at) + 1);
                    }
                    m.end_speculation().expect("no other core");
                }
            }) as Program<'_>
        };
        // The first time fetches the lines from memory.
        m.run((0..cores as u64).map(program).collect());
        m.start_measuring();
        m.run((0..cores as u64).map(program).collect());
        assert_eq!(figure(m, "commits"), 300 * cores as u64);
        m.statistics().time_ns
    };
    let (one, eight) = (time(1), time(8));
    let speedup = 8.0 * one / eight;
    assert!(speedup >= 6.0, "{speedup}");
}

fn run_bank(seed: u64, htm: HtmConfig, left_out: Option<&Mutant>) -> Outcome {
    let htm = Htm::new(htm, left_out).expect("figures that make sense");
    bank(seed, Box::new(htm), LockRead::First)
}

fn with_interrupts() -> HtmConfig {
    HtmConfig { interrupt_ns: 3_000.0, ..HtmConfig::default() }
}

/// With aborts of every cause, no money is lost, and no body that has not been told of a loss sees half a transfer.
#[test]
fn bodies_see_one_state() {
    let mut all = BTreeMap::new();
    for seed in 0..300 {
        let outcome = run_bank(seed, with_interrupts(), None);
        assert_eq!(outcome.wrong, 0, "seed {seed}: {outcome:?}");
        for (name, count) in outcome.figures {
            *all.entry(name).or_insert(0) += count;
        }
    }
    for name in
        ["commits", "aborts_conflict", "aborts_capacity", "aborts_interrupt", "aborts_explicit"]
    {
        assert!(all[name] > 100, "{name}: {all:?}");
    }
}

#[test]
fn a_seed_is_a_run() {
    for seed in [4, 5, 7] {
        assert_eq!(
            run_bank(seed, with_interrupts(), None),
            run_bank(seed, with_interrupts(), None)
        );
    }
    assert_ne!(run_bank(4, with_interrupts(), None), run_bank(8, with_interrupts(), None));
}

/// Each mutant loses money, or shows half a transfer, within 200 schedules.
#[test]
fn its_mutants_are_found() {
    let kind = list::SPECULATING.iter().find(|kind| kind.name == "htm").expect("it is listed");
    assert!(!kind.mutants.is_empty());
    for mutant in kind.mutants {
        let found =
            (0..200).any(|seed| run_bank(seed, HtmConfig::default(), Some(mutant)).wrong > 0);
        assert!(found, "{}: {}", mutant.name, mutant.what);
    }
}

/// So is a program that does not read the lock's word, or reads it after the transaction's work.
#[test]
fn the_lock_must_be_read_first() {
    for reads in [LockRead::Never, LockRead::Late] {
        let htm = || Htm::new(HtmConfig::default(), None).expect("figures that make sense");
        assert!((0..200).any(|seed| bank(seed, Box::new(htm()), reads).wrong > 0), "{reads:?}");
    }
}

#[test]
fn figures_that_no_hardware_has_are_refused() {
    let refused = |htm: HtmConfig| Htm::new(htm, None).expect_err("refused");
    assert!(refused(HtmConfig { read_level: 0, ..HtmConfig::default() }).contains("read_level"));
    for interrupt_ns in [-1.0, f64::NAN, 1e13] {
        let what = refused(HtmConfig { interrupt_ns, ..HtmConfig::default() });
        assert!(what.contains("interrupt_ns"));
    }
    let unknown = list::speculating("plain", &tiny(Domain::Transient), None);
    assert!(unknown.is_err_and(|error| error.to_string().contains("the mechanisms are htm")));
    assert!(
        list::design("htm", &tiny(Domain::Transient), None).is_err(),
        "it makes nothing durable"
    );
}
