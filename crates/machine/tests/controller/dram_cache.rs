//! DRAM as a cache of NVM: hits, misses, replaced lines, and durability.

use crate::bench::*;
use perdura_machine::Ps;
use perdura_machine::config::{DramCache, MemoryConfig};
use perdura_machine::controller::Cause;

const LOOKUP: u64 = 2;
const LINES: u64 = 2;

/// `blocks` blocks of two lines.
fn cached(blocks: u64, ways: usize) -> MemoryConfig {
    let mut memory = nvm();
    memory.dram_cache = Some(DramCache {
        source: "round".to_owned(),
        bytes: blocks * LINES * 64,
        ways,
        block_bytes: LINES * 64,
        lookup_ns: LOOKUP as f64,
        victim_blocks: None,
        device: device(),
    });
    memory
}

const FETCHED: u64 = LOOKUP + ACTIVATE + COLUMN + BURST;

#[test]
fn a_miss_waits_for_its_line_and_a_hit_for_the_dram() {
    let mut bench = Bench::new(&cached(4, 0));
    bench.read(1, 0, FETCHED + STATIC_READ);
    // The block's other line is still on its way.
    bench.read(0, 10, FETCHED + BURST + BURST + STATIC_READ);
    // The block filled an open row of the DRAM.
    bench.read(0, 300, 300 + LOOKUP + COLUMN + BURST + STATIC_READ);
    let stats = bench.0.stats();
    let cache = stats.dram_cache.unwrap();
    assert_eq!((cache.hits, cache.misses), (2, 1));
    assert_eq!((stats.home.reads, stats.reads), (LINES, 3));
    let dram = stats.dram.unwrap();
    assert_eq!((dram.reads, dram.writes), (1, LINES));
    assert!(dram.wear.is_none() && stats.home.wear.is_some());
}

#[test]
fn evicted_lines_are_volatile() {
    let mut bench = Bench::new(&cached(1, 1));
    let write = bench.write(0, 0, LOOKUP + STATIC_WRITE);
    assert_eq!(write.durable, None);
    assert!(bench.0.holds_dirty(0) && !bench.0.holds_dirty(1));
    assert_eq!(bench.0.dirty_in_dram(), [0]);
    assert!(bench.0.left_dram().is_empty());
    let before = bench.0.stats().home.writes;
    bench.0.read(LINES, ns(1000));
    let left = bench.0.left_dram().to_vec();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].0, 0);
    assert!(left[0].1 > ns(1000));
    assert_eq!(bench.0.stats().home.writes - before, 1, "only the dirty line is written");
    assert!(bench.0.dirty_in_dram().is_empty());
    // The next call forgets it.
    bench.0.read(LINES, ns(5000));
    assert!(bench.0.left_dram().is_empty());
    let cache = bench.0.stats().dram_cache.unwrap();
    assert_eq!((cache.replaced_blocks, cache.replaced_lines), (1, 1));
}

#[test]
fn write_backs_pass_through() {
    for cause in [Cause::WriteBack, Cause::Stream, Cause::Mechanism] {
        let mut bench = Bench::new(&cached(4, 2));
        bench.write(0, 0, LOOKUP + STATIC_WRITE);
        bench.write(1, 200, 200 + LOOKUP + STATIC_WRITE);
        let write = bench.0.write(0, ns(400), cause);
        ends(write.durable.unwrap(), 400 + STATIC_WRITE);
        assert_eq!(bench.0.dirty_in_dram(), [1]);
        // A line that is not there is not fetched for it.
        let reads = bench.0.stats().home.reads;
        bench.0.write(20, ns(800), cause);
        assert_eq!(bench.0.stats().home.reads, reads);
        assert_eq!(bench.0.dirty_in_dram(), [1]);
    }
}

#[test]
fn the_least_recently_used_block_is_replaced() {
    // Anywhere: three blocks fit in any place. In sets of one: even ones share a place.
    for (ways, misses) in [(0, 4), (1, 6)] {
        let mut bench = Bench::new(&cached(2, ways));
        let mut now = Ps(0);
        for block in [0, 2, 0, 4, 0, 2] {
            now = bench.0.read(block * LINES, now + ns(1000));
        }
        assert_eq!(bench.0.stats().dram_cache.unwrap().misses, misses, "{ways} ways");
    }
}

#[test]
fn a_block_over_several_channels_arrives_whole() {
    let mut memory = cached(4, 0);
    memory.home.channels = 2;
    let mut bench = Bench::new(&memory);
    // Each channel sends a line at the same time.
    bench.read(1, 0, FETCHED + STATIC_READ);
    bench.read(0, 10, FETCHED + BURST + STATIC_READ);
    assert_eq!(bench.0.stats().home.reads, LINES);
}

#[test]
fn settling_leaves_dirty_lines_in_dram() {
    let mut bench = Bench::new(&cached(4, 0));
    bench.write(0, 0, LOOKUP + STATIC_WRITE);
    let settled = bench.0.settle(ns(10));
    assert!(settled > ns(10));
    assert_eq!(bench.0.dirty_in_dram(), [0]);
}

const PAGE: u64 = 64;

/// Pages, in turns on two channels of the NVM, each in a bank of its own, and a cache with room for one.
fn pages(victim_blocks: Option<usize>) -> MemoryConfig {
    let mut memory = cached(1, 0);
    memory.controller.turnaround_ns = 0.0;
    memory.home.channels = 2;
    (memory.home.interleave_bytes, memory.home.row_bytes) = (PAGE * 64, PAGE * 64);
    let cache = memory.dram_cache.as_mut().expect("a cache");
    (cache.bytes, cache.block_bytes, cache.victim_blocks) = (PAGE * 64, PAGE * 64, victim_blocks);
    memory
}

/// Evicts all lines of a page.
fn dirty(bench: &mut Bench, page: u64, now: u64) {
    for line in 0..PAGE {
        bench.0.write(page * PAGE + line, ns(now), Cause::Eviction);
    }
}

/// When the lines of the victim of the last call were accepted, ns.
fn accepted(bench: &Bench) -> Vec<u64> {
    let left = bench.0.left_dram();
    assert_eq!(left.len() as u64, PAGE, "all of the victim's lines are dirty");
    left.iter().map(|(_, accepted)| accepted.0 / 1000).collect()
}

/// A miss at 100,000 replaces a page with 64 dirty lines. The first is read out of the open row at 100,016 (look-up 2,
/// column 10, burst 4), accepted 5 later, at 100,021, and others follow, one each 4 ns. The bank takes one each 54 ns, from
/// 100,021 on, whose place is free when it has crossed the bus, the first at 100,025. Eight fill the queue, and the ninth,
/// at 100,053, has the first one's place. From the tenth on each waits: for the second one's place until 100,079, and so on;
/// the last until 54 others have gone, 100,079 + 54 x 54 = 102,995.
const FIRST: u64 = 100_021;
const LAST: u64 = 102_995;

#[test]
fn a_victim_is_accepted_as_fast_as_its_bank_writes() {
    for victim_blocks in [0, 1, 2] {
        let mut bench = Bench::new(&pages(Some(victim_blocks)));
        dirty(&mut bench, 0, 0);
        bench.0.read(PAGE, ns(100_000));
        let times = accepted(&bench);
        assert_eq!((times[0], times[8], times[9]), (FIRST, FIRST + 32, 100_079));
        assert_eq!(times[63], LAST);
    }
}

/// Two misses, of which each replaces such a page; the second one comes while the queue is full of the first one's lines.
/// Without a bound neither waits; without a buffer, each waits until its own victim has been accepted; with one of a page,
/// the second waits until the first victim has left it.
#[test]
fn misses_wait_for_room_in_the_victim_buffer() {
    let early = |now: u64| now + FETCHED;
    for victim_blocks in [None, Some(0), Some(1), Some(2)] {
        let mut bench = Bench::new(&pages(victim_blocks));
        dirty(&mut bench, 0, 0);
        let done = bench.0.read(PAGE, ns(100_000));
        let over = if victim_blocks == Some(0) { LAST } else { early(100_000) };
        ends(done, over + STATIC_READ);
        // Without a buffer the page is there only now.
        let now = if victim_blocks == Some(0) { LAST + 2_000 } else { 102_000 };
        dirty(&mut bench, 1, now - 1_000);
        let done = bench.0.read(3 * PAGE, ns(now));
        let own = *accepted(&bench).last().expect("lines");
        let over = match victim_blocks {
            Some(0) => own,
            Some(1) => LAST,
            _ => early(now),
        };
        ends(done, over + STATIC_READ);
        if victim_blocks == Some(1) {
            assert_eq!(accepted(&bench)[0], LAST + FIRST - 100_002, "read out from then on");
            // Other lines of the fetched page do not come before either.
            bench.read(3 * PAGE + 1, now + 100, LAST + BURST + STATIC_READ);
        }
        let stats = bench.0.stats().dram_cache.unwrap();
        let (count, waited) = match victim_blocks {
            Some(0) => (2, LAST - early(100_000) + own - early(now)),
            Some(1) => (1, LAST - early(now)),
            _ => (0, 0),
        };
        assert_eq!((stats.victim_waits, stats.victim_wait_ps), (count, waited * 1000));
    }
}

/// A line that leaves the caches for a page that is not there waits too, and is accepted no earlier; a victim without
/// dirty lines needs no place.
#[test]
fn evictions_wait_for_room_in_the_victim_buffer() {
    let mut bench = Bench::new(&pages(Some(1)));
    dirty(&mut bench, 0, 0);
    bench.read(PAGE, 100_000, 100_000 + FETCHED + STATIC_READ);
    // The victim is clean.
    bench.read(3 * PAGE, 101_000, 101_000 + FETCHED + STATIC_READ);
    bench.write(3 * PAGE, 102_000, 102_000 + LOOKUP + STATIC_WRITE);
    bench.write(5 * PAGE, 102_500, LAST);
    let one = bench.0.left_dram().to_vec();
    assert_eq!(one.len(), 1);
    assert!(one[0].1 > ns(LAST), "it is read out when there is a place: {one:?}");
    let stats = bench.0.stats().dram_cache.unwrap();
    let waited = LAST - (102_500 + LOOKUP + STATIC_WRITE);
    assert_eq!((stats.victim_waits, stats.victim_wait_ps), (1, waited * 1000));
}
