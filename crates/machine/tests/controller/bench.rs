//! A device with round figures, and calls in ns.

use perdura_machine::Ps;
use perdura_machine::config::{ControllerConfig, Device, DurableAt, MemoryConfig, Page};
use perdura_machine::controller::{Cause, Controller, Write};

/// ns; all different, so that a sum shows its terms.
pub(crate) const STATIC_READ: u64 = 7;
pub(crate) const STATIC_WRITE: u64 = 5;
pub(crate) const COLUMN: u64 = 10;
pub(crate) const ACTIVATE: u64 = 20;
pub(crate) const PRECHARGE: u64 = 30;
pub(crate) const ROW_OPEN: u64 = 40;
pub(crate) const WRITE: u64 = 50;
pub(crate) const BURST: u64 = 4;
pub(crate) const TURN: u64 = 3;

/// Lines of a row; rows go around the four banks.
pub(crate) const ROW: u64 = 16;
/// The next row of the same bank.
pub(crate) const SAME_BANK: u64 = 4 * ROW;

/// DRAM with open pages, one channel.
pub(crate) fn dram() -> MemoryConfig {
    MemoryConfig {
        controller: ControllerConfig {
            source: "round".to_owned(),
            static_read_ns: STATIC_READ as f64,
            static_write_ns: STATIC_WRITE as f64,
            read_queue: 8,
            write_queue: 8,
            eviction_buffers: 8,
            drain_from: 1.0,
            drain_to: 0.0,
            drain_least: 1,
            turnaround_ns: TURN as f64,
            durable_at: DurableAt::Queue,
        },
        home: device(),
        dram_cache: None,
        volatile: None,
    }
}

/// NVM: writes go to the cells, past the row buffer.
pub(crate) fn nvm() -> MemoryConfig {
    let mut memory = dram();
    memory.home.write_through = true;
    memory
}

pub(crate) fn device() -> Device {
    Device {
        source: "round".to_owned(),
        channels: 1,
        interleave_bytes: 64,
        banks: 4,
        row_bytes: ROW * 64,
        page: Page::Open,
        row_hit_ns: COLUMN as f64,
        activate_ns: ACTIVATE as f64,
        precharge_ns: PRECHARGE as f64,
        row_open_ns: ROW_OPEN as f64,
        four_activates_ns: 0.0,
        write_ns: WRITE as f64,
        write_through: false,
        read_burst_ns: BURST as f64,
        write_burst_ns: BURST as f64,
        inside: None,
        energy: None,
    }
}

pub(crate) fn ns(time: u64) -> Ps {
    Ps(time * 1000)
}

/// A controller with times in ns.
pub(crate) struct Bench(pub(crate) Controller);

impl Bench {
    pub(crate) fn new(memory: &MemoryConfig) -> Self {
        Bench(Controller::new(memory))
    }

    /// Reads, and expects the line at `expected` and not before.
    #[track_caller]
    pub(crate) fn read(&mut self, line: u64, now: u64, expected: u64) {
        ends(self.0.read(line, ns(now)), expected);
    }

    /// Evicts, and expects acceptance at `expected` and not before.
    #[track_caller]
    pub(crate) fn write(&mut self, line: u64, now: u64, expected: u64) -> Write {
        let write = self.0.write(line, ns(now), Cause::Eviction);
        ends(write.accepted, expected);
        write
    }
}

/// Something that is over at `end` is not at one picosecond before `expected`, and is then.
#[track_caller]
pub(crate) fn ends(end: Ps, expected: u64) {
    let over = |at: Ps| at >= end;
    let expected = ns(expected);
    assert!(!over(expected - Ps(1)), "over at {end:?}, too early for {expected:?}");
    assert!(over(expected), "over at {end:?}, too late for {expected:?}");
}
