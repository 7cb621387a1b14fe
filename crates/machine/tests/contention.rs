//! Contention between cores, and overlapping accesses of one core: worked out by hand.
//!
//! A cycle is 1 ns. L1 answers after 4 ns and the last cache after 40; a line, or the right to change it, goes
//! from core to core in 20 more. Memory takes 125 beyond the caches, and has a bank for every line.

mod common;

use common::timed;
use perdura_machine::cache::Access;
use perdura_machine::config::Holds;
use perdura_machine::{Keep, Machine, MachineConfig, Options, Ps};
use perdura_memory::{LINE, Memory};
use std::cell::Cell;

const L1: u64 = 4;
const LAST: u64 = 40;
const MISS: u64 = LAST + 125;
/// From core to core.
const HANDED: u64 = LAST + 20;

type Program<'a> = Box<dyn FnOnce() + 'a>;

/// Memory that serves all lines at once, but for the bus.
fn config(store_buffer: usize, fill_buffers: usize) -> MachineConfig {
    let mut config = timed(store_buffer);
    config.cores.fill_buffers = fill_buffers;
    config.memory.home.banks = 64;
    config.memory.home.row_bytes = 64;
    config.memory.controller.read_queue = 64;
    config
}

fn machine(config: MachineConfig, cores: usize) -> Machine {
    let options = Options { cores: Some(cores), keep: Keep::Visible, ..Options::default() };
    Machine::new(config, &[0; 64 << 10], options)
}

/// How long this takes the running core.
fn took(machine: &Machine, action: impl FnOnce()) -> u64 {
    let before = machine.now();
    action();
    machine.now() - before
}

fn ns(time: Ps) -> u64 {
    time.0 / 1000
}

/// Cores that change one word in turn, each as soon as it can: a line is in one place at a time, however many cores
/// there are.
#[test]
fn a_line_is_not_in_two_places_at_once() {
    const ROUNDS: u64 = 100;
    for cores in [2, 4, 8, 16] {
        // Stored: fetched from the core that has it dirty. Loaded before: fetched, and then made its own.
        for (accesses, each) in
            [(&[Access::Store][..], HANDED), (&[Access::Load, Access::Store], 2 * HANDED)]
        {
            let machine = machine(config(0, 4), cores);
            for turn in 0..ROUNDS as usize * cores {
                machine.replay(turn % cores, accesses.iter().map(|&access| (0, access)));
            }
            let operations = ROUNDS * cores as u64;
            let all = ns(machine.time());
            // The first access fetches the line from memory; the second core asks for it as soon as it is there.
            assert_eq!(all, MISS + (operations - 1) * each, "{cores} cores, {each} ns each");
        }
    }
}

#[test]
fn a_line_that_others_read_is_made_its_own() {
    let machine = machine(config(4, 4), 2);
    let times = [Cell::new(0), Cell::new(0), Cell::new(0)];
    machine.run(vec![
        Box::new(|| {
            machine.load(0);
            machine.work(1000);
            times[0].set(took(&machine, || _ = machine.compare_exchange(0, 0, 1)));
            times[1].set(took(&machine, || _ = machine.compare_exchange(0, 1, 2)));
        }),
        Box::new(|| {
            machine.work(500);
            machine.load(0);
            machine.work(2000);
            // A store goes through the buffer; the fence waits until the line is this core's.
            machine.store(8, 1);
            times[2].set(took(&machine, || machine.fence()));
        }),
    ]);
    assert_eq!(times.map(Cell::into_inner), [HANDED, L1, HANDED - 1]);
}

/// A load of a line that another core is fetching waits for the rest of that fetch.
#[test]
fn requests_merge_with_a_miss() {
    for (after, rest) in [(1, MISS - 1), (100, MISS - 100), (MISS - 10, LAST), (MISS + 1, LAST)] {
        let machine = machine(config(4, 4), 2);
        let time = Cell::new(0);
        machine.run(vec![
            Box::new(|| _ = machine.load(0)),
            Box::new(|| {
                machine.work(after as u32);
                time.set(took(&machine, || _ = machine.load(8)));
            }),
        ]);
        assert_eq!(time.get(), rest, "{after} ns after");
        assert_eq!(machine.statistics().cores[1].memory_loads, 0);
    }
}

/// A victim level does not have a core's line: another core gets it from that core, or from memory.
#[test]
fn clean_lines_are_forwarded_where_the_processor_does() {
    for (forwards, expected) in [(true, HANDED), (false, MISS)] {
        let mut config = config(4, 4);
        config.caches[1].holds = Holds::Victims;
        config.cores.forwards_clean = forwards;
        let machine = machine(config, 2);
        let time = Cell::new(0);
        machine.run(vec![
            Box::new(|| _ = machine.load(0)),
            Box::new(|| {
                machine.work(1000);
                time.set(took(&machine, || _ = machine.load(0)));
            }),
        ]);
        assert_eq!(time.get(), expected);
        assert_eq!(machine.statistics().caches.forwards, u64::from(forwards));
    }
}

/// A store to a line that is on its way is there when the line is.
#[test]
fn a_store_behind_a_miss_waits_for_it() {
    let machine = machine(config(8, 4), 2);
    let alone = took(&machine, || {
        machine.store(0, 1);
        machine.store(8, 1);
        machine.fence();
    });
    assert_eq!(alone, MISS);
    let time = Cell::new(0);
    machine.run(vec![
        Box::new(|| machine.store(1024, 1)),
        Box::new(|| {
            machine.work(MISS as u32 + 1);
            machine.store(1024 + 8, 1);
            machine.fence();
            time.set(machine.now());
        }),
    ]);
    // The first core's clock is at MISS when it stores; the line comes, and goes on.
    assert_eq!(time.get(), 2 * MISS + HANDED);
}

/// A core loads words in its store buffer from there; other words of the line come with the line.
#[test]
fn stores_on_their_way_are_loaded_at_once() {
    let machine = machine(config(8, 4), 1);
    machine.store(0, 7);
    assert_eq!(took(&machine, || assert_eq!(machine.load(0), 7)), L1);
    assert_eq!(took(&machine, || assert_eq!(machine.load(8), 0)), MISS - 1 - L1);
}

/// 32 stores that miss, and a fence: with 10 fill buffers there are 4 rounds of misses.
#[test]
fn stores_overlap_up_to_the_fill_buffers() {
    let time = |fill_buffers| {
        let machine = machine(config(56, fill_buffers), 1);
        took(&machine, || {
            (0..32).for_each(|line| machine.store(line * LINE, 1));
            machine.fence();
        })
    };
    // Each is on the bus for 5 ns, and is issued a nanosecond after the one before.
    assert!((4 * MISS..4 * MISS + 32 * 5).contains(&time(10)), "{} ns", time(10));
    assert!((32 * MISS..32 * MISS + 32).contains(&time(1)), "{} ns", time(1));
    assert!((MISS..MISS + 32 * 6).contains(&time(32)), "{} ns", time(32));
}

/// The loads of one copy of 4 KB are independent; those of calls are not known to be.
#[test]
fn loads_of_one_call_overlap() {
    let copied = |fill_buffers| {
        let machine = machine(config(4, fill_buffers), 1);
        let mut bytes = [1; 4096];
        let time = took(&machine, || machine.copy_out(0, &mut bytes));
        assert!(bytes.iter().all(|byte| *byte == 0));
        time
    };
    let rounds = 64u64.div_ceil(10);
    assert!((rounds * MISS..(rounds + 1) * MISS).contains(&copied(10)), "{} ns", copied(10));
    assert_eq!(copied(1), 64 * MISS);
    let machine = machine(config(4, 10), 1);
    let one_by_one = took(&machine, || (0..64).for_each(|line| _ = machine.load(line * LINE)));
    assert_eq!(one_by_one, 64 * MISS);
}

/// The wait for a prefetched line ends at its arrival.
#[test]
fn prefetches_run_ahead() {
    let machine = machine(config(4, 2), 1);
    let all = took(&machine, || {
        (0..2).for_each(|line| machine.prefetch(line * LINE));
        (0..2).for_each(|line| _ = machine.load(line * LINE));
    });
    assert!((MISS..MISS + 20).contains(&all), "{all} ns");
    // Two other lines take both buffers: the third is not requested.
    (2..5).for_each(|line| machine.prefetch(line * LINE));
    machine.work(10_000);
    let times = [2, 3, 4].map(|line| took(&machine, || _ = machine.load(line * LINE)));
    assert_eq!(times, [L1, L1, MISS]);
    machine.prefetch(u64::MAX);
}

/// Time for each core to add 100 times to a word of its own choice.
fn adding(cores: usize, word: impl Fn(usize) -> u64) -> u64 {
    const TIMES: u64 = 100;
    let machine = machine(config(4, 4), cores);
    let programs = (0..cores).map(|core| {
        let (machine, at) = (&machine, word(core));
        Box::new(move || {
            for _ in 0..TIMES {
                let mut old = machine.load(at);
                while let Err(found) = machine.compare_exchange(at, old, old + 1) {
                    old = found;
                }
            }
        }) as Program<'_>
    });
    machine.run(programs.collect());
    let time = ns(machine.time());
    let words: std::collections::BTreeSet<u64> = (0..cores).map(&word).collect();
    let sum: u64 = words.iter().map(|at| machine.load(*at)).sum();
    assert_eq!(sum, TIMES * cores as u64);
    time
}

/// A counter of all does not scale; counters on lines of their own do, those on one line do not.
#[test]
fn counters_scale_as_their_lines_do() {
    let alone = adding(1, |_| 0);
    let operations = 16 * 100;
    // The line moves for every addition but those that find it still there.
    let [word, line, lines, apart] = [
        adding(16, |_| 0),
        adding(16, |core| core as u64 % 8 * 8),
        adding(16, |core| core as u64 % 2 * LINE),
        adding(16, |core| core as u64 * LINE),
    ];
    println!(
        "one word {word} ns, words of a line {line}, two lines {lines}, apart {apart}; alone {alone}"
    );
    assert!(word >= operations * HANDED / 2, "one word: {word} ns");
    assert!(line >= operations * HANDED / 2, "words of one line: {line} ns");
    assert!(
        word > 16 * alone && line > 16 * alone,
        "a global counter scales: {word} and {line} ns"
    );
    assert!((word / 4..=word * 3 / 4).contains(&lines), "two lines: {lines} ns, one: {word}");
    assert!(apart <= alone + 16 * 5, "lines of their own: {apart} ns, alone {alone}");
}

/// Cores that wait for a lock are not stepped while its holder works: the host's work grows with the accesses, not with
/// the waiting cores.
#[test]
fn cores_that_wait_sleep() {
    for cores in [2, 16] {
        let machine = machine(config(4, 4), cores);
        let programs = (0..cores).map(|core| {
            let machine = &machine;
            Box::new(move || {
                for _ in 0..20 {
                    while machine.load(0) != 0 || machine.compare_exchange(0, 0, 1).is_err() {
                        machine.pause(0);
                    }
                    // No core waits for these lines.
                    (0..500).for_each(|step| machine.store(LINE + step % 64 * 8, core as u64));
                    machine.store(0, 0);
                }
            }) as Program<'_>
        });
        machine.run(programs.collect());
        let statistics = machine.statistics();
        let pauses: u64 = statistics.cores.iter().map(|core| core.pauses).sum();
        let turns = 20 * cores as u64;
        assert!(pauses <= turns * 2 * cores as u64, "{pauses} pauses of {cores} cores");
        assert!(statistics.accesses >= turns * 500);
        assert_eq!(machine.load(0), 0);
    }
}

/// A core that waits for something that the machine does not see goes on with the core furthest behind among those that
/// work; and all cores that wait for the same thing come back at the same time in each run.
#[test]
fn waiting_for_what_is_not_seen_ends() {
    let run = || {
        let machine = machine(config(4, 4), 4);
        let done = Cell::new(false);
        let programs = (0..4).map(|core| {
            let (machine, done) = (&machine, &done);
            Box::new(move || {
                if core == 0 {
                    (0..100).for_each(|step| machine.store(step * LINE, 1));
                    machine.work(1_000_000);
                    done.set(true);
                } else {
                    while !done.get() {
                        machine.pause(0);
                    }
                }
            }) as Program<'_>
        });
        machine.run(programs.collect());
        let pauses: u64 = machine.statistics().cores.iter().map(|core| core.pauses).sum();
        assert!(pauses < 1_000, "{pauses} pauses");
        (machine.time(), serde_json::to_string(&machine.statistics()).expect("JSON"))
    };
    assert_eq!(run(), run());
}

/// A core may load a line, and then wait for something else, from another core that waits too.
#[test]
fn looks_elsewhere_while_waiting() {
    let machine = machine(config(4, 4), 2);
    let (first, second) = (Cell::new(false), Cell::new(false));
    machine.run(vec![
        Box::new(|| {
            machine.pause(0);
            machine.load(0);
            while !second.get() {
                machine.pause(0);
            }
            first.set(true);
        }),
        Box::new(|| {
            machine.work(10_000);
            second.set(true);
            while !first.get() {
                machine.load(64);
                machine.pause(0);
            }
        }),
    ]);
    assert!(ns(machine.time()) < 20_000, "{} ns", ns(machine.time()));
}
