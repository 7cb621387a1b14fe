//! Copy-on-write of pages, compared with the undo log: the lines that each writes to the home device in an epoch, and
//! the time; and pages of all sizes.

#![allow(missing_docs)]

mod common;

use common::tiny;
use perdura_machine::mechanism::{CopyOnWrite, CopyOnWriteConfig, list};
use perdura_machine::{Design, Machine, Options, Ps, Schedule, presets};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory};
use std::ops::ControlFlow;

/// Lines of a page of `dual-page`.
const PAGE_LINES: u64 = 64;

/// Lines written to the home device in an epoch that stores to `dirty` lines of each of `pages` pages, and its time in
/// us.
fn epoch(mechanism: &str, (pages, dirty): (u64, u64)) -> (u64, f64) {
    const EPOCHS: u64 = 4;
    let config = presets::load("dual-page").expect("a preset");
    let mechanism = list::design(mechanism, &config, None).expect("a mechanism");
    let options = Options { cores: Some(1), mechanism, ..Options::default() };
    let lines = pages * PAGE_LINES;
    let machine = Machine::from_words(config, vec![0; (lines * 8) as usize], options);
    let run = |epoch: u64| {
        for page in 0..pages {
            // Spread over the page, other lines in each epoch.
            let line = |it: u64| page * PAGE_LINES + (it * PAGE_LINES / dirty + epoch) % PAGE_LINES;
            (0..dirty).for_each(|it| machine.store(line(it) * LINE, epoch + 1));
        }
        machine.end_epoch();
    };
    run(0);
    machine.start_measuring();
    (1..=EPOCHS).for_each(run);
    let statistics = machine.statistics();
    assert_eq!(machine.power_cut(), machine.visible(), "the last epoch is durable");
    let writes = statistics.memory.home.writes;
    assert_eq!(writes % EPOCHS, 0, "each epoch writes the same");
    (writes / EPOCHS, statistics.time_ns / 1e3 / EPOCHS as f64)
}

/// Copy-on-write writes 64 lines of each page, however many are dirty, and stores an entry for it, four in a line; the
/// undo log writes a record of two lines for each line. So the one writes less from 22 dirty lines of a page on.
#[test]
fn a_page_is_written_once_however_few_lines_are_dirty() {
    let pages = 64;
    println!("lines written and us in an epoch that stores to some lines of each of {pages} pages");
    println!("lines   copy-on-write     undo-log");
    for dirty in [1, 8, 21, 22, 32, 64] {
        let (copies, log) =
            (epoch("copy-on-write", (pages, dirty)), epoch("undo-log", (pages, dirty)));
        println!("{dirty:>5} {:>7} {:>7.1} {:>6} {:>6.1}", copies.0, copies.1, log.0, log.1);
        assert_eq!(copies.0, pages * PAGE_LINES + pages / 4 + 1, "{dirty} lines");
        assert_eq!(log.0, pages * dirty * 3 + 1, "{dirty} lines");
        assert_eq!(copies.0 > log.0, dirty <= 21, "{dirty} lines");
        // Near equal writes, reads matter too.
        if ![21, 22].contains(&dirty) {
            assert_eq!(copies.1 > log.1, dirty < 22, "{dirty} lines: {copies:?}, {log:?}");
        }
    }
}

/// Lines of one page that leave alone, since their program writes them back, with its other lines in DRAM or, without
/// DRAM, only at home; and a line that leaves after the page has been copied.
#[test]
fn lines_that_leave_alone_take_the_page_with_them() {
    for dram in [true, false] {
        let mut config = presets::load("dual-page").expect("a preset");
        if !dram {
            config.memory.dram_cache = None;
        }
        let options =
            Options { cores: Some(1), mechanism: copying(4096, 16), ..Options::default() };
        let machine = Machine::new(config, &[0; (2 * PAGE_LINES * LINE) as usize], options);
        let store = |line: u64, leaves: bool| {
            machine.store(line * LINE, 1);
            if leaves {
                machine.write_back(line * LINE, 8);
                machine.fence();
            }
        };
        let counts = || {
            let statistics = machine.statistics();
            let from_home = statistics.mechanism_figures[2];
            assert_eq!(from_home.0, "lines_copied_from_home");
            (statistics.memory.home.writes, from_home.1)
        };
        // It and 63 copies.
        store(5, true);
        let read = if dram { 0 } else { PAGE_LINES - 1 };
        assert_eq!(counts(), (PAGE_LINES, read));
        // Two later lines one each, at once or at the epoch's end; then an entry and the epoch's number.
        store(5, true);
        store(6, false);
        assert_eq!(counts(), (PAGE_LINES + 1, read));
        machine.end_epoch();
        assert_eq!(counts(), (PAGE_LINES + 2 + 2, read));
        assert_eq!(machine.power_cut(), machine.visible());
        // Back to its home.
        store(5, true);
        machine.end_epoch();
        assert_eq!(counts(), (2 * (PAGE_LINES + 2) + 2, 2 * read));
        assert_eq!(machine.power_cut(), machine.visible());
    }
}

fn copying(page_bytes: u64, lookup_cycles: u32) -> Box<dyn Design> {
    let config = CopyOnWriteConfig { page_bytes, lookup_cycles, ..CopyOnWriteConfig::default() };
    Box::new(CopyOnWrite::new(config, None).expect("figures"))
}

/// Pages of a line, of more lines than memory has, and a last page that is shorter than the others.
#[test]
fn pages_of_any_size_are_copied() {
    const LINES: u64 = 131;
    for page_bytes in [64, 512, 4096, 16 << 10] {
        let options = Options {
            cores: Some(2),
            mechanism: copying(page_bytes, 3),
            epoch: Some(Ps::from_ns(4_000.0)),
            schedule: Schedule::Seeded { every: 3 },
            at_arrivals: true,
            ..Options::default()
        };
        let machine = Machine::new(tiny(Domain::Transient), &[7; (LINES * LINE) as usize], options);
        let program = |seed: u64| {
            let machine = &machine;
            Box::new(move || {
                let mut random = SplitMix64::new(seed);
                for step in 0..200 {
                    let line = random.below(LINES) * LINE;
                    match random.below(4) {
                        0 => _ = machine.load(line),
                        1 => machine.write_back(line, 8),
                        _ => machine.store(line + random.below(8) * 8, step),
                    }
                }
            }) as Box<dyn FnOnce()>
        };
        let broken = machine.run_watched(vec![program(1), program(2)], |machine, event| {
            let left = machine.power_cut_in_recovery(event.number % 140);
            match machine.broken_promise(&left) {
                Some(word) => ControlFlow::Break((event, word)),
                None => ControlFlow::Continue(()),
            }
        });
        assert!(broken.is_continue(), "{page_bytes}: {broken:?}");
        let figures = machine.statistics().mechanism_figures;
        assert!(figures[0].1 > 3 && figures[1].1 > 3, "{figures:?}");
    }
}

#[test]
fn pages_that_cannot_be_are_refused() {
    for page_bytes in [0, 32, 96, 4 << 20, u64::MAX] {
        let config = CopyOnWriteConfig { page_bytes, ..CopyOnWriteConfig::default() };
        assert!(CopyOnWrite::new(config, None).is_err_and(|error| error.contains("page_bytes")));
    }
}

/// A look-up delays each fetch from the home device, and each line on its way there, which comes behind its copy.
#[test]
fn pages_are_looked_up_and_copied_first() {
    let mut config = tiny(Domain::Transient);
    config.cores.ghz = 1.0;
    let times = |page_bytes, cycles| {
        let options = Options { mechanism: copying(page_bytes, cycles), ..Options::default() };
        let machine = Machine::new(config.clone(), &[0; 4096], options);
        let after = |step: &dyn Fn()| {
            machine.work(100_000);
            let before = machine.time();
            step();
            machine.time().since(before)
        };
        let store = || {
            machine.store(0, 1);
            machine.write_back(0, 8);
            machine.fence();
        };
        [after(&|| _ = machine.load(0)), after(&store), after(&store)]
    };
    let [none, some] = [0, 16].map(|cycles| times(4096, cycles));
    let more = |it: usize| some[it].since(none[it]);
    assert_eq!([more(0), more(2)], [16.0, 16.0].map(Ps::from_ns), "{none:?}, {some:?}");
    // Of the 63 other lines, of 500 ns each in one of four banks, the queue has 8 at the end.
    assert!(none[1] > Ps::from_ns(55.0 * 500.0 / 4.0), "{none:?}");
    assert!(none[1] > times(64, 0)[1], "a page of a line is copied faster");
}
