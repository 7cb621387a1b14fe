//! Page overlays: the lines that epochs made by hand write to the home device, segments that are outgrown, the entries
//! that the controller holds, and how often random programs come to rare branches.

#![allow(missing_docs)]

mod common;

use common::figure;
use perdura_machine::mechanism::{PageOverlays, PageOverlaysConfig};
use perdura_machine::{Machine, Options, presets};
use perdura_memory::{LINE, Memory};

const PAGE: u64 = 64;
const PAGES: u64 = 64;

fn machine(config: PageOverlaysConfig) -> Machine {
    let mechanism = Box::new(PageOverlays::new(config, None).expect("figures"));
    let options = Options { cores: Some(1), mechanism, ..Options::default() };
    let machine = presets::load("dual-page").expect("a preset");
    Machine::from_words(machine, vec![0; (PAGES * PAGE * 8) as usize], options)
}

/// An epoch that stores to `dirty` lines of each page, from line `first` of it on. Returns the lines that are written for
/// it, until its overlays are merged.
fn epoch(machine: &Machine, dirty: u64, first: u64) -> u64 {
    machine.start_measuring();
    for page in 0..PAGES {
        let line = |it: u64| page * PAGE + (it + first) % PAGE;
        (0..dirty).for_each(|it| machine.store(line(it) * LINE, first + machine.time().0));
    }
    machine.end_epoch();
    assert_eq!(machine.power_cut(), machine.visible(), "the epoch is durable");
    machine.work(100_000_000);
    _ = machine.load(0);
    assert_eq!(figure(machine, "pages_merged"), figure(machine, "overlays"));
    assert_eq!(machine.power_cut(), machine.visible(), "its overlays are merged");
    machine.statistics().memory.home.writes
}

/// Each dirty line is written into an overlay and, in the next epoch, into its page; a page has an entry of a line. The
/// next epoch's lines are written as often, whichever they are.
#[test]
fn lines_are_written_twice() {
    for dirty in [1, 8, 32, 64] {
        for other in [0, 30] {
            let machine = machine(PageOverlaysConfig::default());
            for first in [0, other, other] {
                let written = epoch(&machine, dirty, first);
                assert_eq!(written, PAGES * (2 * dirty + 1) + 1, "{dirty} lines");
                assert_eq!(figure(&machine, "lines_merged"), PAGES * dirty);
                assert_eq!(figure(&machine, "pages_merged"), PAGES);
                assert_eq!((figure(&machine, "growths"), figure(&machine, "overlays")), (0, PAGES));
            }
        }
    }
}

/// All lines after one with eight of them.
#[test]
fn all_lines_after_a_few() {
    let machine = machine(PageOverlaysConfig::default());
    assert_eq!(epoch(&machine, 8, 0), PAGES * 17 + 1);
    assert_eq!(epoch(&machine, PAGE, 0), PAGES * 129 + 1);
}

/// Lines of a page that leave one by one: an overlay moves when it has 4, 8, 16 and 32 of them, with all that it has, and
/// the line that caused that waits. In the last segment lines have their own places.
#[test]
fn overlays_grow_line_by_line() {
    let machine = machine(PageOverlaysConfig::default());
    let mut moved = 0;
    for line in 0..PAGE {
        // From the last line on, so that slots are not the lines' numbers.
        machine.store((PAGE - 1 - line) * LINE, line + 1);
        machine.write_back((PAGE - 1 - line) * LINE, 8);
        machine.work(100_000);
        let before = machine.time();
        machine.fence();
        let waited = machine.time().since(before).as_ns();
        let grows = [4, 8, 16, 32].contains(&line);
        moved += if grows { line } else { 0 };
        assert_eq!(figure(&machine, "lines_moved"), moved, "{line}");
        assert_eq!(machine.statistics().memory.home.writes, line + 1 + moved);
        assert!(waited < 100.0, "{waited}: it was 53 us ago");
    }
    assert_eq!(figure(&machine, "growths"), 4);
    machine.end_epoch();
    assert_eq!(machine.power_cut(), machine.visible());
}

/// A line that makes its overlay grow is durable only after the copies of the others, which are read first.
#[test]
fn a_line_waits_for_the_move() {
    let times = [3, 4, 5].map(|lines| {
        let machine = machine(PageOverlaysConfig::default());
        let write = |line: u64| {
            machine.store(line * LINE, 1);
            machine.work(10_000);
            let before = machine.time();
            machine.write_back(line * LINE, 8);
            machine.fence();
            machine.time().since(before).as_ns()
        };
        (0..lines).for_each(|line| _ = write(line));
        write(lines)
    });
    // 220 ns for a read.
    assert!(times[1] > times[0] + 200.0 && times[2] < times[0] + 1.0, "{times:?}");
}

/// Of entries that the controller does not hold, one is read out of DRAM for each page, and written back when it leaves.
#[test]
fn entries_are_cached() {
    let run = |cached_entries, dram_entries| {
        let config =
            PageOverlaysConfig { cached_entries, dram_entries, ..PageOverlaysConfig::default() };
        let machine = machine(config);
        let written = epoch(&machine, 8, 0);
        let dram = machine.statistics().memory.dram.expect("DRAM");
        (written, figure(&machine, "table_misses"), dram.reads, dram.writes)
    };
    let all = run(0, 0);
    assert_eq!(all.1, 0);
    // A page's lines leave together: one look-up of each page misses. All but the last ones leave again.
    for cached in [1, 16, 64] {
        let some = run(cached, 1024);
        let replaced = PAGES - cached as u64;
        assert_eq!((some.0, some.1), (all.0, PAGES));
        assert_eq!((some.2 - all.2, some.3 - all.3), (PAGES, replaced), "{cached}");
    }
}

#[test]
fn figures_that_cannot_be_are_refused() {
    let usual = PageOverlaysConfig::default;
    for config in [
        PageOverlaysConfig { page_bytes: 96, ..usual() },
        PageOverlaysConfig { page_bytes: 8192, ..usual() },
        PageOverlaysConfig { cached_entries: 64, ..usual() },
        PageOverlaysConfig { dram_entries: 64, ..usual() },
    ] {
        assert!(PageOverlays::new(config, None).is_err());
    }
}

/// Each rare branch is met by a tenth of random runs, all of whose images are as promised.
#[test]
fn rare_branches_are_met() {
    let branches = ["growths", "lines_moved", "pages_merged", "merges_waited_for", "table_misses"];
    common::rare::rare_branches_are_met("page-overlays", &branches);
}
