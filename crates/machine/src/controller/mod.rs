//! What a line costs beyond the caches, and from when on it is durable.
//!
//! A call returns the time at which it completes; nothing is ticked. Times that successive
//! calls carry need not ascend strictly: cores whose clocks differ a little share a controller.
//!
//! Reading order: `channel` (queues, banks and a bus), `bank`, `bus`, `queue`; `device`
//! (channels); `inside` and `buffer` (Optane-like modules); `dram_cache` and `lru`; `stats`.

mod bank;
mod buffer;
mod bus;
mod channel;
mod device;
mod dram_cache;
mod inside;
mod lru;
mod queue;
mod stats;
mod wear;

pub(crate) use queue::Finishes;
pub use stats::{CauseStats, ControllerStats, DeviceStats, DramCacheStats, WearStats};
pub(crate) use wear::ByNumber;

use crate::Ps;
use crate::config::MemoryConfig;
use device::Device;
use dram_cache::DramCache;

/// A write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// When the controller has it: whose place it took in a cache or a buffer goes on.
    pub accepted: Ps,
    /// When it is in the persistence domain: who waits for durability goes on. `None` while it
    /// is only in a volatile DRAM cache. The same as `accepted`, but for a machine whose writes
    /// are durable at the media only.
    pub durable: Option<Ps>,
}

/// Why a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A cache needed the room.
    Eviction,
    /// The program asked for it: it goes through a volatile DRAM cache.
    WriteBack,
    /// The program stored it past the caches: likewise.
    Stream,
    /// A hardware mechanism needs it: likewise.
    Mechanism,
}

/// The controller, with what is behind it. Lines are numbers (address / 64).
pub struct Controller {
    static_read: Ps,
    home: Device,
    dram: Option<DramCache>,
    left: Vec<(u64, Ps)>,
    reads: u64,
    writes: CauseStats,
}

impl Controller {
    /// A controller at rest, for a configuration that has been validated.
    pub fn new(config: &MemoryConfig) -> Self {
        let MemoryConfig { controller, home, dram_cache } = config;
        Controller {
            static_read: Ps::from_ns(controller.static_read_ns),
            home: Device::new(controller, home, true),
            dram: dram_cache.as_ref().map(|cache| DramCache::new(controller, cache)),
            left: Vec::new(),
            reads: 0,
            writes: CauseStats::default(),
        }
    }

    /// A line is wanted at `now`; when it is there.
    #[inline]
    pub fn read(&mut self, line: u64, now: Ps) -> Ps {
        self.reads += 1;
        let there = match &mut self.dram {
            None => self.home.read(line, now),
            Some(dram) => {
                self.left.clear();
                dram.read(line, now, &mut self.home, &mut self.left)
            }
        };
        there + self.static_read
    }

    /// The home device's copy of a line is wanted at `now`, past a DRAM cache: a mechanism asks.
    pub fn read_home(&mut self, line: u64, now: Ps) -> Ps {
        self.reads += 1;
        self.home.read(line, now) + self.static_read
    }

    /// A line is handed over at `now`.
    #[inline]
    pub fn write(&mut self, line: u64, now: Ps, cause: Cause) -> Write {
        match cause {
            Cause::Eviction => self.writes.evictions += 1,
            Cause::WriteBack => self.writes.write_backs += 1,
            Cause::Stream => self.writes.streams += 1,
            Cause::Mechanism => self.writes.mechanism += 1,
        }
        if let Some(dram) = &mut self.dram {
            self.left.clear();
            if cause == Cause::Eviction {
                let accepted = dram.evicted(line, now, &mut self.home, &mut self.left);
                return Write { accepted, durable: None };
            }
            dram.written_through(line, now);
        }
        let (accepted, durable) = self.home.write(line, now);
        Write { accepted, durable: Some(durable) }
    }

    /// Lines that left the volatile DRAM cache for the home device in the last call of
    /// [`read`](Self::read) or [`write`](Self::write), and when they are durable.
    pub fn left_dram(&self) -> &[(u64, Ps)] {
        &self.left
    }

    /// Whether a volatile DRAM cache has a line that the home device has not: then a write-back
    /// has something to do even if no cache of a core has the line dirty.
    pub fn holds_dirty(&self, line: u64) -> bool {
        self.dram.as_ref().is_some_and(|dram| dram.holds_dirty(line))
    }

    /// Lines that only a volatile DRAM cache has, ascending: a power cut loses them.
    pub fn dirty_in_dram(&self) -> Vec<u64> {
        self.dram.as_ref().map_or_else(Vec::new, DramCache::dirty)
    }

    /// Sends to the media whatever was accepted so far; when all of it is there. What a
    /// volatile DRAM cache holds dirty stays there.
    pub fn settle(&mut self, now: Ps) -> Ps {
        let dram = self.dram.as_mut().map_or(now, |dram| dram.settle(now));
        self.home.settle(now).max(dram)
    }

    /// Forgets what was counted, wear included; queues, rows and buffers stay as they are.
    pub fn reset_stats(&mut self) {
        self.reads = 0;
        self.writes = CauseStats::default();
        self.home.reset_stats();
        if let Some(dram) = &mut self.dram {
            dram.reset_stats();
        }
    }

    /// What it has done since it was built, or its statistics were reset.
    pub fn stats(&self) -> ControllerStats {
        let dram = self.dram.as_ref().map(DramCache::stats);
        ControllerStats {
            reads: self.reads,
            writes: self.writes,
            home: self.home.stats(),
            dram: dram.map(|(device, _)| device),
            dram_cache: dram.map(|(_, cache)| cache),
        }
    }
}
