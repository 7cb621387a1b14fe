//! An Optane-like module with round figures.

use crate::bench::*;
use perdura_machine::config::{InsideConfig, MemoryConfig};

const OPEN: u64 = 10;
const BUFFER: u64 = 25;
const INTAKE: u64 = 6;
const START: u64 = 8;
const MEDIA_READ: u64 = 60;
const MEDIA_READ_BUSY: u64 = 35;
const MEDIA_WRITE: u64 = 200;
const TRANSLATION: u64 = 90;
const MOVE: u64 = 10_000;

/// Blocks of four lines; the buffer holds `blocks`, of which the longest unused leaves.
fn module(blocks: usize) -> MemoryConfig {
    let mut memory = nvm();
    memory.controller.write_queue = 2;
    memory.home.inside = Some(InsideConfig {
        source: "round".to_owned(),
        block_bytes: 256,
        buffer_blocks: blocks,
        buffer_draws: 100,
        open_read_ns: OPEN as f64,
        buffer_read_ns: BUFFER as f64,
        buffer_write_ns: INTAKE as f64,
        write_start_ns: START as f64,
        media_read_ns: MEDIA_READ as f64,
        media_read_busy_ns: MEDIA_READ_BUSY as f64,
        media_write_ns: MEDIA_WRITE as f64,
        write_out_blocks: 1,
        translations: 2,
        translation_bytes: 4096,
        translation_ns: TRANSLATION as f64,
        wear_moves_after: 0,
        wear_move_ns: MOVE as f64,
    });
    memory.home.interleave_bytes = 4096;
    memory
}

const AFTER: u64 = BURST + STATIC_READ;

#[test]
fn a_read_is_open_buffered_translated_or_neither() {
    let mut bench = Bench::new(&module(8));
    bench.read(0, 0, TRANSLATION + MEDIA_READ + AFTER);
    bench.read(1, 1000, 1000 + OPEN + AFTER);
    bench.read(4, 2000, 2000 + MEDIA_READ + AFTER);
    bench.read(0, 3000, 3000 + BUFFER + AFTER);
    // Two more pages evict the first one's translation.
    bench.read(64, 4000, 4000 + TRANSLATION + MEDIA_READ + AFTER);
    bench.read(128, 5000, 5000 + TRANSLATION + MEDIA_READ + AFTER);
    bench.read(8, 6000, 6000 + TRANSLATION + MEDIA_READ + AFTER);
    let home = bench.0.stats().home;
    assert_eq!((home.media_reads, home.row_hits, home.row_misses), (5, 2, 5));
}

#[test]
fn blocks_follow_each_other_at_the_medias_rate() {
    let mut bench = Bench::new(&module(8));
    bench.read(0, 0, TRANSLATION + MEDIA_READ + AFTER);
    bench.read(4, 1000, 1000 + MEDIA_READ + AFTER);
    bench.read(8, 1000, 1000 + MEDIA_READ_BUSY + MEDIA_READ + AFTER);
    // A line of a block that is being read comes with it, after that one on the bus.
    bench.read(9, 1001, 1000 + MEDIA_READ_BUSY + MEDIA_READ + BURST + AFTER);
}

#[test]
fn lines_leave_the_queue_one_by_one_after_a_start() {
    let mut bench = Bench::new(&module(8));
    bench.write(0, 0, STATIC_WRITE);
    bench.write(1, 0, STATIC_WRITE);
    bench.write(2, 0, STATIC_WRITE + START + INTAKE);
    bench.write(16, 0, STATIC_WRITE + START + 2 * INTAKE);
    // Idle again, it starts again.
    bench.write(20, 1000, 1000 + STATIC_WRITE);
    bench.write(24, 1000, 1000 + STATIC_WRITE);
    bench.write(28, 1000, 1000 + STATIC_WRITE + START + INTAKE);
}

#[test]
fn whole_blocks_are_written_once_and_parts_when_they_leave() {
    let mut bench = Bench::new(&module(2));
    for line in 0..4 {
        bench.0.write(line, ns(1000 * line), perdura_machine::Cause::Stream);
    }
    ends(bench.0.settle(ns(0)), 3000 + STATIC_WRITE + START + MEDIA_WRITE);
    assert_eq!(bench.0.stats().home.write_amplification, 1.0);
    // A line of each of three more blocks: the first of them must leave for the third.
    for block in 1..4 {
        bench.0.write(block * 4, ns(10_000 * block), perdura_machine::Cause::Stream);
    }
    bench.0.read(12, ns(50_000));
    let home = bench.0.stats().home;
    assert_eq!((home.writes, home.media_writes), (7, 1 + 1));
    bench.0.settle(ns(60_000));
    assert_eq!(bench.0.stats().home.media_writes, 1 + 3);
    let wear = bench.0.stats().home.wear.unwrap();
    assert_eq!((wear.unit_bytes, wear.written, wear.most), (256, 4, 1));
}

#[test]
fn a_read_waits_for_no_more_than_the_write_under_way() {
    let mut bench = Bench::new(&module(8));
    bench.read(128, 0, TRANSLATION + MEDIA_READ + AFTER);
    let mut last = 0;
    for line in 0..8 {
        let write = bench.0.write(line, ns(1000), perdura_machine::Cause::Stream);
        last = last.max(write.accepted.0 / 1000);
    }
    assert!(last < 1000 + MEDIA_WRITE, "two blocks fit");
    let now = 1100;
    let there = bench.0.read(132, ns(now));
    assert!(there <= ns(now + MEDIA_WRITE + MEDIA_READ + AFTER), "{there:?}");
    assert!(there > ns(now + MEDIA_READ + AFTER), "{there:?}");
}

#[test]
fn a_block_written_often_is_moved_and_all_wait() {
    let mut memory = module(8);
    if let Some(inside) = &mut memory.home.inside {
        inside.wear_moves_after = 2;
    }
    let mut bench = Bench::new(&memory);
    bench.read(4, 0, TRANSLATION + MEDIA_READ + AFTER);
    for i in 0..8 {
        bench.0.write(i % 4, ns(1000 + 1000 * i), perdura_machine::Cause::Stream);
    }
    // The second whole block is being written from 8013 on, and moved after it.
    let begun = 8000 + STATIC_WRITE + START;
    let moved = begun + MEDIA_WRITE + MOVE;
    bench.read(8, 9000, moved + MEDIA_READ + AFTER);
    assert_eq!(bench.0.stats().home.wear_moves, 1);
    ends(bench.0.settle(ns(9000)), moved + MEDIA_READ_BUSY);
}
