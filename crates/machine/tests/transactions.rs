//! Mechanisms that make transactions atomic and durable: a power cut at any moment leaves whole transactions, in their
//! order, and loses no acknowledged one.

#![allow(missing_docs)]

mod common;

use common::{behind_dram, timed, tiny};
use perdura_machine::config::DurableAt;
use perdura_machine::mechanism::{Promise, list};
use perdura_machine::{AfterCut, Design, Machine, MachineConfig, Options, Schedule};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, HardwareAbort, LINE, Memory};
use std::ops::ControlFlow;

/// Lines of the pool; the first has the lock.
const LINES: u64 = 160;
const LOCK: u64 = 0;

fn names() -> impl Iterator<Item = &'static list::Kind> {
    list::KINDS.iter().filter(|kind| kind.promises() == Promise::Transactions)
}

/// The machine, with a log of 128 block groups, so that it wraps around.
fn with_a_small_log() -> MachineConfig {
    let mut config = tiny(Domain::Transient);
    for kind in names() {
        let table = config.mechanism.get_mut(kind.name).expect("a table");
        table.insert("area_bytes".to_owned(), 65_536.into());
    }
    config
}

fn design(name: &str) -> Box<dyn Design> {
    list::design(name, &with_a_small_log(), None).expect("a mechanism")
}

/// Three machines: lines durable in the queue; lines durable at the media, with two channels, so that they become
/// durable in another order than they are written; evicted lines in volatile DRAM.
fn machines() -> [MachineConfig; 3] {
    let queue = with_a_small_log();
    let mut media = queue.clone();
    if let Some(degree) = media.mechanism.get_mut("loc-wal").and_then(|it| it.get_mut("degree")) {
        *degree = 16.into();
    }
    (media.memory.home.channels, media.memory.home.interleave_bytes) = (2, 64);
    media.memory.controller.write_queue = 4;
    media.memory.controller.durable_at = DurableAt::Media;
    let cached = behind_dram(&queue, 4, 256);
    [queue, media, cached]
}

/// Transactions under a lock: long and short, overlapping ones, aborted and empty ones; sometimes the program waits for
/// durability, or polls it.
fn program(machine: &Machine, seed: u64, transactions: u64) -> Box<dyn FnOnce() + '_> {
    Box::new(move || {
        let mut random = SplitMix64::new(seed);
        for number in 1..=transactions {
            let mut turns = 0..;
            while machine.compare_exchange(LOCK, 0, 1).is_err() {
                machine.pause(turns.next().unwrap_or(0));
            }
            machine.tx_begin().expect("under the lock");
            let (long, end) = (random.below(10) == 0, random.below(8));
            let accesses = if end == 7 { 0 } else { 1 + random.below(if long { 90 } else { 8 }) };
            for _ in 0..accesses {
                // Most lines are used again and again.
                let near = random.below(3) > 0;
                let line = 1 + random.below(if near { 8 } else { LINES - 1 });
                let at = line * LINE + random.below(8) * 8;
                match random.below(8) {
                    0 | 1 => _ = machine.load(at),
                    2 => machine.stream(line * LINE, &[number << 16 | seed; 8]),
                    3 => machine.write_back(at, 8),
                    4 => machine.fence(),
                    _ => machine.store(at, number << 16 | seed << 8 | random.below(256)),
                }
            }
            if end == 0 {
                assert!(machine.tx_abort(), "what it has stored is undone");
            } else {
                let ticket = machine.tx_commit().expect("under the lock");
                if random.below(4) == 0 && machine.tx_durable() < ticket && end % 2 == 0 {
                    machine.tx_flush();
                    assert!(machine.tx_durable() >= ticket);
                }
            }
            machine.store(LOCK, 0);
        }
    })
}

/// Waits for durability repeatedly, while another core's transactions run, whose clock may be ahead.
fn waiting(machine: &Machine, seed: u64, times: u64) -> Box<dyn FnOnce() + '_> {
    Box::new(move || {
        let mut random = SplitMix64::new(seed);
        for _ in 0..times {
            machine.tx_flush();
            // A crash point right after it.
            machine.store((1 + random.below(LINES - 1)) * LINE, seed);
        }
    })
}

/// The number of images checked, or the first one that is wrong.
fn cuts(
    config: &MachineConfig,
    (name, left_out): (&str, Option<&str>),
    (cores, seed): (usize, u64),
    schedule: Schedule,
) -> Result<u64, String> {
    let mut images = 0;
    let words = (LINES * LINE / 8) as usize;
    let mut left = AfterCut { words: vec![7; words], own: Vec::new(), stores: 0 };
    left.words[LOCK as usize] = 0;
    // A machine, and its successors, each of which begins with the image after a power cut of the one before.
    for transactions in [12, 30, 6] {
        let options = Options {
            cores: Some(cores),
            seed,
            schedule,
            mechanism: list::design(name, config, left_out).expect("a mechanism"),
            own: std::mem::take(&mut left.own),
            at_arrivals: true,
            ..Options::default()
        };
        let machine = Machine::from_words(config.clone(), left.words, options);
        let programs = (0..cores as u64).map(|core| match core {
            1 if seed % 4 == 3 => waiting(&machine, seed, 2 * transactions),
            _ => program(&machine, seed * 10 + core, transactions / cores as u64 + 1),
        });
        let broken = machine.run_watched(programs.collect(), |machine, event| {
            for stores in [u64::MAX, event.number % 7, event.number % 40] {
                images += 1;
                let left = machine.power_cut_in_recovery(stores);
                if let Some(word) = machine.broken_promise(&left) {
                    let what = format!("{event:?}, {stores} stores: word {word:#x}");
                    return ControlFlow::Break(what);
                }
            }
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(what) = broken {
            return Err(what);
        }
        left = machine.cut(&[seed % 9]);
        left.words[LOCK as usize] = 0;
    }
    Ok(images)
}

const SCHEDULES: [Schedule; 2] = [Schedule::Clock, Schedule::Seeded { every: 4 }];

#[test]
fn whole_transactions_are_left_in_their_order() {
    for kind in names() {
        for (number, config) in machines().into_iter().enumerate() {
            for (seed, cores) in (1..9).map(|seed| (seed, 1 + seed as usize % 3)) {
                let schedule = SCHEDULES[(seed as usize + number) % 2];
                let config = acknowledging(&config, kind.name, seed / 2);
                let found = cuts(&config, (kind.name, None), (cores, seed), schedule);
                let images =
                    found.unwrap_or_else(|what| panic!("{}, seed {seed}: {what}", kind.name));
                assert!(images > 500, "{}: {images}", kind.name);
            }
        }
    }
}

/// Each mutant of the mechanisms is found.
#[test]
fn their_mutants_are_found() {
    for kind in names() {
        assert!(kind.mutants.len() >= 3);
        for mutant in kind.mutants {
            let found = (1..60).any(|seed| {
                // Each machine with each of the moments.
                let config = &machines()[seed as usize % 3];
                let config = &acknowledging(config, kind.name, seed / 3);
                let (cores, schedule) = (1 + seed as usize % 3, SCHEDULES[seed as usize / 2 % 2]);
                let run = |left_out| cuts(config, (kind.name, left_out), (cores, seed), schedule);
                let found = run(Some(mutant.name)).is_err();
                if found && let Err(what) = run(None) {
                    panic!("{}, with nothing left out, seed {seed}: {what}", kind.name);
                }
                found
            });
            assert!(found, "{}, {}: {}", kind.name, mutant.name, mutant.what);
        }
    }
}

/// Transactions take turns, and do not nest; without a begin there is no commit.
#[test]
fn they_take_turns() {
    for kind in names() {
        let options =
            Options { cores: Some(2), mechanism: design(kind.name), ..Options::default() };
        let machine = Machine::new(tiny(Domain::Transient), &[0; 4096], options);
        assert_eq!(machine.tx_commit(), Err(HardwareAbort::Nested));
        assert!(!machine.tx_abort());
        machine.tx_begin().expect("the first");
        assert_eq!(machine.tx_begin(), Err(HardwareAbort::Nested), "{}", kind.name);
        let other = || {
            assert_eq!(machine.tx_begin(), Err(HardwareAbort::Busy));
        };
        let programs: Vec<Box<dyn FnOnce()>> = vec![Box::new(|| ()), Box::new(other)];
        machine.run(programs);
        machine.tx_commit().expect("it runs");
    }
}

/// More numbers than fit into a `TxID`, and more blocks than fit into the log.
#[test]
fn numbers_and_the_log_go_round() {
    for kind in names() {
        let options = Options { mechanism: design(kind.name), ..Options::default() };
        let machine = Machine::new(tiny(Domain::Transient), &[0; 16 << 10], options);
        for number in 1..=700 {
            machine.tx_begin().expect("it runs alone");
            for line in 0..=number % 5 {
                machine.store((number * 7 + line) % 256 * LINE, number);
            }
            let ticket = machine.tx_commit().expect("it runs alone");
            if number % 50 == 0 {
                machine.tx_flush();
                assert!(machine.tx_durable() >= ticket);
            }
            // Numbers begin again at 256 and 512, in the middle of windows.
            if number % 50 == 0 || number % 256 < 20 || number % 256 > 236 {
                let left = machine.power_cut();
                assert_eq!(machine.broken_promise(&left), None, "{}, {number}", kind.name);
            }
        }
    }
}

/// Each two transactions of a window write a line of their own: the most possible pairs. The log has room for the
/// lines, but not also for the pairs. A refused transaction fits when it runs again.
#[test]
fn pairs_take_room_in_the_log() {
    const DEGREE: u64 = 48;
    let mut config = with_a_small_log();
    // No line leaves the caches.
    (config.caches[0].bytes, config.caches[1].bytes) = (64 << 10, 1 << 20);
    let table = config.mechanism.get_mut("loc-wal").expect("a table");
    let lines = DEGREE * (DEGREE - 1) / 2;
    let groups = lines.div_ceil(7) + 16;
    table.insert("area_bytes".to_owned(), (groups as i64 * 512).into());
    table.insert("degree".to_owned(), (DEGREE as i64).into());
    let mechanism = list::design("loc-wal", &config, None).expect("a mechanism");
    let words = (lines * LINE) as usize;
    let machine =
        Machine::new(config, &vec![0; words], Options { mechanism, ..Options::default() });
    let line_of = |first: u64, second: u64| second * (second - 1) / 2 + first;
    let run = |number: u64| {
        machine.tx_begin().expect("it runs alone");
        let one = number % DEGREE;
        let earlier = (0..one).map(|other| line_of(other, one));
        let later = (one + 1..DEGREE).map(|other| line_of(one, other));
        earlier.chain(later).for_each(|line| machine.store(line * LINE, number));
        machine.tx_commit()
    };
    for number in 0..3 * DEGREE {
        if let Err(abort) = run(number) {
            assert_eq!(abort, HardwareAbort::Capacity);
            run(number).expect("the window has ended");
        }
        assert_eq!(machine.broken_promise(&machine.power_cut()), None, "{number}");
    }
    machine.tx_flush();
    assert_eq!(machine.broken_promise(&machine.power_cut()), None);
}

/// A transaction that does not fit into the log is aborted, and another one runs afterwards.
#[test]
fn too_large() {
    for kind in names() {
        let options = Options { mechanism: design(kind.name), ..Options::default() };
        let machine = Machine::new(tiny(Domain::Transient), &[3; 256 << 10], options);
        machine.tx_begin().expect("it runs alone");
        (0..4096).for_each(|line| machine.store(line * LINE, 9));
        assert_eq!(machine.tx_commit(), Err(HardwareAbort::Capacity), "{}", kind.name);
        assert!((0..4096).all(|line| machine.load(line * LINE) == 0x0303_0303_0303_0303));
        machine.tx_begin().expect("it runs alone");
        machine.store(64, 1);
        machine.tx_commit().expect("it is small");
        machine.tx_flush();
        assert_eq!(machine.broken_promise(&machine.power_cut()), None, "{}", kind.name);
    }
}

/// One line in a transaction, by hand. A write is accepted after 10 ns, on the bus for 5, in its cells after 50: 65.
/// The block is found in a cycle, 1 ns; its metadata is held back until 55 ns before the block is durable, at 66, and
/// is durable 10 ns later, as it must be accepted first: 76. Then, one after the other, commit record, line, log head.
#[test]
fn commit_time() {
    let mut config = timed(0);
    config.memory.controller.durable_at = DurableAt::Media;
    let took = |name: &str, transactions: u64, sets: &[(&str, &str)]| {
        let config = sets.iter().fold(config.clone(), |config, (figure, value)| {
            config.with(&format!("mechanism.{name}.{figure}"), value).expect("a figure")
        });
        let mechanism = list::design(name, &config, None).expect("a mechanism");
        let machine = Machine::new(config, &[0; 4096], Options { mechanism, ..Options::default() });
        // The line is in the caches, and the store is over.
        machine.store(64, 1);
        machine.write_back(64, 8);
        machine.fence();
        let begins = machine.statistics().time_ns;
        for _ in 0..transactions {
            machine.tx_begin().expect("it runs alone");
            machine.store(64, 2);
            machine.tx_commit().expect("it runs alone");
        }
        // The first of the next window waits.
        machine.tx_begin().expect("it runs alone");
        machine.statistics().time_ns - begins
    };
    // Time of a store whose line is in the first cache.
    let store = 4.0;
    let [home, truncated] = ["home", "truncated"].map(|value| [("acknowledged", value)]);
    // The commit record acknowledges it; or the line in place; or the log's head.
    assert_eq!(took("h-wal", 1, &[]), store + 76.0 + 65.0);
    assert_eq!(took("h-wal", 1, &home), store + 76.0 + 2.0 * 65.0);
    assert_eq!(took("h-wal", 1, &truncated), store + 76.0 + 3.0 * 65.0);
    assert_eq!(took("h-wal", 2, &truncated), 2.0 * (store + 76.0 + 3.0 * 65.0));
    // Without the record.
    assert_eq!(took("ec-wal", 1, &[]), store + 76.0);
    assert_eq!(took("ec-wal", 1, &home), store + 76.0 + 65.0);
    assert_eq!(took("ec-wal", 1, &truncated), store + 76.0 + 2.0 * 65.0);
    // Where the next begin waits, computation between them does not wait; there is none here.
    assert_eq!(took("ec-wal", 1, &[home[0], ("waits", "begin")]), store + 76.0 + 65.0);
    // Sixteen transactions persist together: one block, and fifteen pairs in two more blocks, which its bank takes one
    // after the other.
    let sixteen = ("degree", "16");
    assert_eq!(took("loc-wal", 16, &[sixteen]), 16.0 * store + 76.0 + 2.0 * 55.0);
    assert_eq!(took("loc-wal", 16, &[sixteen, home[0]]), 16.0 * store + 76.0 + 2.0 * 55.0 + 65.0);
    // A line that is in the nearest cache is written to the last one in 20 ns, and the commit bit in 20 more.
    assert_eq!(took("kiln", 1, &[]), store + 1.0 + 20.0 + 20.0);
    assert_eq!(took("loc-kiln", 16, &[sixteen]), 16.0 * store + 1.0 + 20.0 + 20.0);
}

/// A line that left the caches before its transaction committed is in the log alone until it is written in place, which
/// is not before the whole window is logged. A load of it is answered from the log, and so does not wait for that.
#[test]
fn loads_of_lines_on_their_way_home() {
    let mut config = timed(0).with("mechanism.loc-wal.degree", "1").expect("a figure");
    config.memory.controller.durable_at = DurableAt::Media;
    let mechanism = list::design("loc-wal", &config, None).expect("a mechanism");
    let lines = 4 * config.caches.iter().map(|cache| cache.bytes / LINE).sum::<u64>();
    let image = vec![0; (lines * LINE) as usize];
    let machine = Machine::new(config, &image, Options { mechanism, ..Options::default() });
    machine.tx_begin().expect("it runs alone");
    (1..lines).for_each(|line| machine.store(line * LINE, line));
    let ticket = machine.tx_commit().expect("it runs alone");
    let begins = machine.statistics().time_ns;
    assert_eq!(machine.load(LINE), 1);
    // Two caches are asked, then the device reads: 100 + 10 + 5 ns.
    let took = machine.statistics().time_ns - begins;
    assert!(took < 200.0, "{took} ns");
    assert!(machine.tx_durable() < ticket, "the window is still being logged");
}

/// The machine with a mechanism whose programs go on at the `turn`th of the three moments.
fn acknowledging(config: &MachineConfig, name: &str, turn: u64) -> MachineConfig {
    let moment = ["logged", "home", "truncated"][turn as usize % 3];
    config.with(&format!("mechanism.{name}.acknowledged"), moment).expect("a figure")
}
