//! `ThyNVM`: the lines that epochs made by hand write to the home device, checkpoints while programs run, and how often
//! random programs come to its rare branches.

#![allow(missing_docs)]

mod common;

use common::figure;
use perdura_machine::mechanism::{ThyNvm, ThyNvmConfig};
use perdura_machine::{Machine, Options, presets};
use perdura_memory::{LINE, Memory};

const PAGE: u64 = 64;
const PAGES: u64 = 64;

fn machine(config: ThyNvmConfig) -> Machine {
    let mechanism = Box::new(ThyNvm::new(config, None).expect("figures"));
    let options = Options { cores: Some(1), mechanism, ..Options::default() };
    let machine = presets::load("dual-page").expect("a preset");
    Machine::from_words(machine, vec![0; (PAGES * PAGE * 8) as usize], options)
}

/// Lets the checkpoint that is being made become durable.
fn settle(machine: &Machine) {
    machine.work(100_000_000);
    _ = machine.load(0);
    assert_eq!(figure(machine, "checkpoints"), figure(machine, "epochs"));
    assert_eq!(machine.power_cut(), machine.visible(), "the last epoch is durable");
}

/// An epoch that stores to `dirty` lines of each page, from line `first` of it on. Returns the lines that its checkpoint
/// has written.
fn epoch(machine: &Machine, pages: u64, dirty: u64, first: u64) -> u64 {
    machine.start_measuring();
    for page in 0..pages {
        let line = |it: u64| page * PAGE + (it + first) % PAGE;
        (0..dirty).for_each(|it| machine.store(line(it) * LINE, first + machine.time().0));
    }
    machine.end_epoch();
    settle(machine);
    machine.statistics().memory.home.writes
}

/// Few lines of each page: each is written once; and an entry of each, eight in a line. An entry goes into both copies of
/// the table, one after the other, so the second epoch's entries are written with those of the first.
#[test]
fn few_lines_are_written_one_by_one() {
    for dirty in [1, 8, 15] {
        let (lines, entries) = (PAGES * dirty, PAGES * dirty / 8);
        let same = machine(ThyNvmConfig::default());
        let all = || epoch(&same, PAGES, dirty, 0);
        // Away from home, home again, away.
        assert_eq!([(); 3].map(|()| all()), [lines + entries + 1; 3], "{dirty} lines");
        let other = machine(ThyNvmConfig::default());
        assert_eq!(epoch(&other, PAGES, dirty, 0), lines + entries + 1);
        assert_eq!(epoch(&other, PAGES, dirty, 30), lines + 2 * entries + 1, "{dirty} others");
        assert_eq!(figure(&other, "most_block_entries"), 2 * lines);
        assert_eq!(figure(&other, "lines_copied"), 0);
    }
}

/// All lines of the pages in an epoch after one with eight of them: those eight go home, the others away from it.
#[test]
fn all_lines_after_a_few() {
    let machine = machine(ThyNvmConfig::default());
    assert_eq!(epoch(&machine, PAGES, 8, 0), PAGES * 9 + 1);
    assert_eq!(epoch(&machine, PAGES, PAGE, 0), PAGES * PAGE + PAGES * PAGE / 8 + 1);
    assert_eq!(figure(&machine, "switches_to_pages"), PAGES);
}

/// Many lines of each page: by lines at first, then whole pages, whose clean lines come out of DRAM. The entries of lines
/// are void in each of the two copies of the table in turn.
#[test]
fn many_lines_are_written_as_pages() {
    for dirty in [32, 64] {
        let machine = machine(ThyNvmConfig::default());
        let (entries, pages) = (PAGES * dirty / 8, PAGES / 8);
        assert_eq!(epoch(&machine, PAGES, dirty, 0), PAGES * dirty + entries + 1);
        let reads = machine.statistics().memory.home.reads;
        for left in [entries, entries, 0, 0] {
            assert_eq!(epoch(&machine, PAGES, dirty, 0), PAGES * PAGE + left + pages + 1);
            assert_eq!(figure(&machine, "lines_copied"), PAGES * (PAGE - dirty));
        }
        assert_eq!(machine.statistics().memory.home.reads, 0, "{reads} before");
    }
}

/// A page at home is written by lines as soon as it is sparsely dirty; one away from home is written home first.
#[test]
fn pages_become_lines_again_at_home() {
    for dense in [2, 3] {
        let machine = machine(ThyNvmConfig::default());
        // By lines; a page away from home; a page at home.
        (0..dense).for_each(|_| _ = epoch(&machine, PAGES, PAGE, 0));
        let mut switches = 0;
        let mut sparse = || {
            let written = epoch(&machine, PAGES, 8, 0);
            switches += figure(&machine, "switches_to_lines");
            written
        };
        let written: Vec<_> = (0..3).map(|_| sparse()).collect();
        let (page, lines) = (PAGES * PAGE, PAGES * 8);
        // Sparse for the first time: still a page. Then, where that is away from home, a page again.
        let least = match dense {
            2 => [page, lines, lines],
            _ => [page, page, lines],
        };
        for (written, least) in written.iter().zip(least) {
            assert!((least..least + 600).contains(written), "{dense}: {written:?}, {least}");
        }
        assert_eq!(switches, PAGES);
    }
}

/// A table of 100 entries: twelve pages have eight each, all others are written whole; then blocks go home until half of
/// the table is free.
#[test]
fn a_full_table_makes_pages() {
    let machine = machine(ThyNvmConfig { block_entries: 100, ..ThyNvmConfig::default() });
    // Twelve lines of block entries, and seven of page entries: pages 12 to 63.
    assert_eq!(epoch(&machine, PAGES, 8, 0), 12 * 8 + 52 * 64 + 12 + 7 + 1);
    assert_eq!(figure(&machine, "pages_for_full_table"), 52);
    assert_eq!(figure(&machine, "most_block_entries"), 96);
    // Four are free, 25 would do: 46 more become free.
    assert_eq!(epoch(&machine, 0, 0, 0), 46 + 12 + 7 + 1);
    assert_eq!(figure(&machine, "blocks_moved_home"), 46);
    // Those void in the other copy too.
    assert_eq!(epoch(&machine, 0, 0, 0), 46u64.div_ceil(8) + 1);
    assert_eq!(epoch(&machine, 0, 0, 0), 1);
}

/// An epoch's end takes the time of the caches' way into DRAM; the next end waits for the checkpoint. A program's line
/// that comes into DRAM meanwhile lets its page be written first.
#[test]
fn programs_run_while_a_checkpoint_is_made() {
    let machine = machine(ThyNvmConfig::default());
    for page in 0..PAGES {
        (0..8).for_each(|line| machine.store((page * PAGE + line) * LINE, 1));
    }
    machine.work(1_000_000);
    let timed = |step: &dyn Fn()| {
        let before = machine.time();
        step();
        machine.time().since(before).as_ns()
    };
    let ended = timed(&|| machine.end_epoch());
    assert_eq!(machine.statistics().memory.home.writes, 8, "one page is on its way");
    machine.store(63 * PAGE * LINE, 2);
    machine.write_back(63 * PAGE * LINE, 8);
    machine.fence();
    assert_eq!(figure(&machine, "pages_written_ahead"), 1);
    assert_eq!(machine.power_cut()[0], 0, "the old epoch");
    let again = timed(&|| machine.end_epoch());
    // 512 lines at 98.5 ns on two channels.
    let least = 512.0 * 98.5 / 2.0 * 0.8;
    assert!(ended < 8_000.0 && again > least, "{ended}, {again} ns, of {least}");
    assert_eq!(figure(&machine, "epochs_that_waited"), 1);
    let left = machine.power_cut();
    assert_eq!((left[0], left[(63 * PAGE * 8) as usize]), (1, 1), "the first epoch");
    settle(&machine);
}

/// A look-up delays a fetch from the home device.
#[test]
fn lines_are_looked_up() {
    let times = [0, 16].map(|lookup_cycles| {
        let machine = machine(ThyNvmConfig { lookup_cycles, ..ThyNvmConfig::default() });
        let before = machine.time();
        _ = machine.load(0);
        machine.time().since(before).as_ns()
    });
    let more = times[1] - times[0];
    assert!((more - 16.0 / 1.87).abs() < 0.01, "{times:?}");
}

#[test]
fn figures_that_cannot_be_are_refused() {
    let usual = ThyNvmConfig::default;
    for config in [
        ThyNvmConfig { page_bytes: 96, ..usual() },
        ThyNvmConfig { page_bytes: 8192, ..usual() },
        ThyNvmConfig { block_entries: 0, ..usual() },
        ThyNvmConfig { moves_when_free: 1.5, ..usual() },
    ] {
        assert!(ThyNvm::new(config, None).is_err());
    }
}

/// Each rare branch is met by a tenth of random runs, all of whose images are as promised.
#[test]
fn rare_branches_are_met() {
    let branches = [
        "epochs_that_waited",
        "blocks_remapped",
        "pages_written",
        "lines_copied",
        "pages_for_full_table",
        "switches_to_pages",
        "switches_to_lines",
        "blocks_moved_home",
        "pages_written_ahead",
    ];
    common::rare::rare_branches_are_met("thynvm", &branches);
}
