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
