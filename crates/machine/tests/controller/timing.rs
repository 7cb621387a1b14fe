//! When things end, computed by hand: not a picosecond earlier or later.

use crate::bench::*;
use perdura_machine::config::{DramCache, DurableAt, Page};
use perdura_machine::controller::Cause;

const MISS: u64 = ACTIVATE + COLUMN + BURST + STATIC_READ;
const HIT: u64 = COLUMN + BURST + STATIC_READ;

#[test]
fn a_row_is_missed_hit_and_in_conflict() {
    let mut bench = Bench::new(&dram());
    bench.read(0, 100, 100 + MISS);
    bench.read(1, 200, 200 + HIT);
    bench.read(SAME_BANK, 300, 300 + PRECHARGE + MISS);
    bench.read(0, 400, 400 + PRECHARGE + MISS);
    let stats = bench.0.stats().home;
    assert_eq!((stats.row_hits, stats.row_misses, stats.row_conflicts), (1, 1, 2));
    assert_eq!((stats.read_waits, stats.read_wait_ps), (0, 0));
}

#[test]
fn a_bank_keeps_its_row_open_for_a_while() {
    let mut bench = Bench::new(&dram());
    bench.read(0, 0, MISS);
    bench.read(SAME_BANK, 1, ROW_OPEN + PRECHARGE + MISS);
    let stats = bench.0.stats().home;
    assert_eq!((stats.read_waits, stats.read_wait_ps), (1, (ROW_OPEN - 1) * 1000));
}

#[test]
fn lines_of_a_row_follow_each_other() {
    let mut bench = Bench::new(&dram());
    for line in 0..8 {
        bench.read(line, 0, MISS + line * BURST);
    }
}

#[test]
fn banks_share_the_bus() {
    let mut bench = Bench::new(&dram());
    bench.read(0, 0, MISS);
    bench.read(ROW, 0, MISS + BURST);
    bench.read(2 * ROW, 1, MISS + 2 * BURST);
    // Channels do not.
    let mut memory = dram();
    memory.home.channels = 2;
    let mut bench = Bench::new(&memory);
    bench.read(0, 0, MISS);
    bench.read(1, 0, MISS);
    bench.read(2, 0, MISS + BURST);
}

#[test]
fn a_gap_on_the_bus_is_used() {
    let mut bench = Bench::new(&dram());
    bench.read(0, 0, MISS);
    bench.read(ROW, 50, 50 + MISS);
    // The conflict's burst is placed from 160 on; the hit that comes after it is earlier.
    bench.read(SAME_BANK, 100, 100 + PRECHARGE + MISS);
    bench.read(ROW + 1, 101, 101 + HIT);
}

#[test]
fn four_rows_are_opened_in_a_window() {
    let mut memory = dram();
    memory.home.banks = 8;
    memory.home.four_activates_ns = 100.0;
    let mut bench = Bench::new(&memory);
    for bank in 0..4 {
        bench.read(bank * ROW, bank * 10, bank * 10 + MISS);
    }
    bench.read(4 * ROW, 40, 100 + MISS);
    bench.read(5 * ROW, 41, 110 + MISS);
}

#[test]
fn a_closed_page_is_opened_every_time() {
    let mut memory = dram();
    memory.home.page = Page::Closed;
    let mut bench = Bench::new(&memory);
    bench.read(0, 0, MISS);
    // It closes by itself after the time that it must be open.
    bench.read(1, 50, ROW_OPEN + PRECHARGE + MISS);
    bench.read(SAME_BANK, 300, 300 + MISS);
    assert_eq!(bench.0.stats().home.row_misses, 3);
}

#[test]
fn a_write_is_accepted_and_durable_in_the_queue() {
    let mut bench = Bench::new(&nvm());
    let write = bench.write(0, 100, 100 + STATIC_WRITE);
    assert_eq!(write.durable, Some(write.accepted));
    ends(bench.0.settle(ns(100)), 100 + STATIC_WRITE + BURST + WRITE);
}

#[test]
fn before_adr_a_write_is_durable_at_the_media() {
    let mut memory = nvm();
    memory.controller.durable_at = DurableAt::Media;
    let mut bench = Bench::new(&memory);
    let write = bench.write(0, 0, STATIC_WRITE);
    ends(write.durable.unwrap(), STATIC_WRITE + BURST + WRITE);
    let write = bench.write(SAME_BANK, 0, STATIC_WRITE);
    ends(write.durable.unwrap(), STATIC_WRITE + 2 * (BURST + WRITE));
    let write = bench.write(ROW, 100, 100 + STATIC_WRITE);
    ends(write.durable.unwrap(), 100 + STATIC_WRITE + BURST + WRITE);
}

#[test]
fn a_read_is_answered_from_the_write_queue() {
    let mut bench = Bench::new(&nvm());
    bench.write(0, 0, STATIC_WRITE);
    bench.read(0, STATIC_WRITE, STATIC_WRITE + STATIC_READ);
    // A picosecond later the bank has begun with it.
    let later = ns(STATIC_WRITE).0 + 1;
    let there = bench.0.read(0, perdura_machine::Ps(later));
    ends(there, STATIC_WRITE + BURST + WRITE + MISS);
    let stats = bench.0.stats().home;
    assert_eq!((stats.reads, stats.forwarded, stats.row_misses), (2, 1, 1));
}

#[test]
fn a_read_waits_for_a_write_in_its_bank_only() {
    let mut bench = Bench::new(&nvm());
    bench.write(0, 0, STATIC_WRITE);
    bench.read(1, 10, STATIC_WRITE + BURST + WRITE + MISS);
    let mut bench = Bench::new(&nvm());
    bench.write(0, 0, STATIC_WRITE);
    bench.read(ROW, 10, 10 + MISS);
}

#[test]
fn a_row_that_was_written_closes_late() {
    let mut bench = Bench::new(&dram());
    bench.write(0, 0, STATIC_WRITE);
    let recovered = STATIC_WRITE + ACTIVATE + COLUMN + BURST + WRITE;
    bench.read(SAME_BANK, 40, recovered + PRECHARGE + MISS);
}

#[test]
fn the_bus_turns_between_a_write_and_a_read() {
    let mut bench = Bench::new(&dram());
    bench.read(ROW, 0, MISS);
    bench.write(0, 40, 40 + STATIC_WRITE);
    // The write's burst: 75 to 79. A hit whose data is ready at 78 waits for its end and a turn.
    let end = 40 + STATIC_WRITE + ACTIVATE + COLUMN + BURST;
    bench.read(ROW + 1, 68, end + TURN + BURST + STATIC_READ);
    assert_eq!(end, 79);
    // One that is through before it, the turn included, does not wait.
    let mut bench = Bench::new(&dram());
    bench.read(ROW, 0, MISS);
    bench.write(0, 40, 40 + STATIC_WRITE);
    bench.read(ROW + 1, 58, 58 + HIT);
    // And one that would need a picosecond of the turn does.
    let mut bench = Bench::new(&dram());
    bench.read(ROW, 0, MISS);
    bench.write(0, 40, 40 + STATIC_WRITE);
    let there = bench.0.read(ROW + 1, perdura_machine::Ps(58_001));
    ends(there, end + TURN + BURST + STATIC_READ);
}

#[test]
fn writes_wait_while_reads_are_on_their_way() {
    let mut bench = Bench::new(&nvm());
    bench.read(0, 0, MISS);
    bench.write(0, 1, 1 + STATIC_WRITE);
    // The read's data leaves the bus at 34: until then the write waits, and is found waiting.
    bench.read(0, 34, 34 + STATIC_READ);
    // From then on its bank has it.
    bench.read(0, 35, 34 + TURN + BURST + WRITE + HIT);
}

#[test]
fn a_read_waits_for_a_drain() {
    let mut memory = dram();
    memory.controller.write_queue = 4;
    memory.controller.drain_from = 0.75;
    let mut bench = Bench::new(&memory);
    for bank in 0..3 {
        bench.write(bank * ROW, 0, STATIC_WRITE);
    }
    let drained = STATIC_WRITE + ACTIVATE + COLUMN + 3 * BURST;
    bench.read(3 * ROW, 6, drained + TURN + BURST + STATIC_READ);
    assert_eq!(bench.0.stats().home.drains, 1);
    // With two writes, it goes first.
    let mut bench = Bench::new(&memory);
    bench.write(0, 0, STATIC_WRITE);
    bench.write(ROW, 0, STATIC_WRITE);
    bench.read(3 * ROW, STATIC_WRITE, STATIC_WRITE + MISS);
    assert_eq!(bench.0.stats().home.drains, 0);
}

#[test]
fn a_drain_stops_at_its_mark() {
    let mut memory = nvm();
    memory.controller.drain_to = 0.5;
    let mut bench = Bench::new(&memory);
    for i in 0..8 {
        bench.write(i * SAME_BANK, 0, STATIC_WRITE);
    }
    // Four went to the bank, four are still waiting and answer reads.
    for i in 4..8 {
        bench.read(i * SAME_BANK, STATIC_WRITE, STATIC_WRITE + STATIC_READ);
    }
    assert_eq!(bench.0.stats().home.forwarded, 4);
    bench.read(0, STATIC_WRITE, STATIC_WRITE + 4 * (BURST + WRITE) + MISS);
}

#[test]
fn a_full_queue_accepts_when_a_write_has_left() {
    let mut memory = dram();
    memory.controller.write_queue = 2;
    let mut bench = Bench::new(&memory);
    bench.write(0, 0, STATIC_WRITE);
    bench.write(ROW, 0, STATIC_WRITE);
    let first = STATIC_WRITE + ACTIVATE + COLUMN + BURST;
    bench.write(2 * ROW, 0, first);
    bench.write(3 * ROW, 0, first + BURST);
    let stats = bench.0.stats().home;
    assert_eq!(stats.write_waits, 2);
    assert_eq!(stats.write_wait_ps, (2 * first + BURST - 2 * STATIC_WRITE) * 1000);
}

/// Lines that are on their way, out of a DRAM cache for example, take no more places than there are.
#[test]
fn lines_that_come_later_wait_for_places_too() {
    let mut memory = nvm();
    memory.dram_cache = Some(DramCache {
        source: "round".to_owned(),
        bytes: 4096,
        ways: 0,
        block_bytes: 64,
        lookup_ns: 0.0,
        victim_blocks: None,
        device: device(),
    });
    let mut bench = Bench::new(&memory);
    let lines = 100;
    let written = (0..lines).map(|line| {
        let times = (ns(0), ns(1 + line));
        bench.0.write_from(line * SAME_BANK, times, Cause::WriteBack).accepted
    });
    let last = written.last().expect("some");
    // All but those of a queue, and the one that has left it for the bank.
    let least = (lines - 9) * (BURST + WRITE);
    assert!(last >= ns(least) && last < ns(least + 100), "{last:?}");
}

#[test]
fn one_bank_of_nvm_limits_a_full_queue() {
    let mut memory = nvm();
    memory.controller.write_queue = 1;
    let mut bench = Bench::new(&memory);
    bench.write(0, 0, STATIC_WRITE);
    // Its data has left the queue once it is in the bank; the next one's, when that is free.
    bench.write(SAME_BANK, 0, STATIC_WRITE + BURST);
    bench.write(2 * SAME_BANK, 0, STATIC_WRITE + BURST + WRITE + BURST);
    bench.write(3 * SAME_BANK, 0, STATIC_WRITE + 2 * (BURST + WRITE) + BURST);
}

#[test]
fn a_full_read_queue_takes_a_read_when_one_has_left() {
    let mut memory = dram();
    memory.controller.read_queue = 1;
    let mut bench = Bench::new(&memory);
    bench.read(0, 0, MISS);
    bench.read(ROW, 0, ACTIVATE + COLUMN + BURST + MISS);
}

#[test]
fn writes_of_a_line_coalesce_while_it_waits() {
    let mut bench = Bench::new(&nvm());
    bench.write(0, 0, STATIC_WRITE);
    bench.write(0, 2, 2 + STATIC_WRITE);
    bench.write(0, 100, 100 + STATIC_WRITE);
    let stats = bench.0.stats().home;
    assert_eq!((stats.writes, stats.coalesced), (3, 1));
    let wear = stats.wear.unwrap();
    assert_eq!((wear.written, wear.most), (1, 2));
    assert!((stats.write_amplification - 2.0 / 3.0).abs() < 1e-9);
}
