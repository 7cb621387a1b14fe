//! What a line costs beyond the caches, and when it is durable.
//!
//! A call returns the time at which it completes; nothing is ticked. The times of successive calls
//! need not ascend strictly: cores whose clocks differ a little share a controller.
//!
//! Reading order: `channel` (queues, banks and a bus), `bank`, `bus`, `queue`, `media`; `device`
//! (channels); `inside` and `buffer` (Optane-like modules); `dram_cache`; `stats`.

mod bank;
mod buffer;
mod bus;
mod channel;
mod device;
mod dram_cache;
mod inside;
mod media;
mod queue;
mod stats;
mod wear;

pub use dram_cache::Fetch;
pub use dram_cache::InDram;
pub(crate) use dram_cache::{DramRoom, Replaced};
pub use stats::{CauseStats, ControllerStats, DeviceStats, DramCacheStats, WearStats};

use crate::Ps;
use crate::config::{DurableAt, MemoryConfig};
use device::Device;
use dram_cache::DramCache;
use std::ops::Range;

/// A write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// When the controller has it: its place in a cache or a buffer is free.
    pub accepted: Ps,
    /// When it is in the persistence domain: a wait for its durability ends. `None` while it is
    /// only in a volatile DRAM cache. The same as `accepted`, except on a machine whose writes are
    /// durable at the media only.
    pub durable: Option<Ps>,
}

/// Why a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A cache needed the room.
    Eviction,
    /// The program wrote it back: it goes through a volatile DRAM cache to the home device.
    WriteBack,
    /// The program stored it past the caches: likewise.
    Stream,
    /// A hardware mechanism wrote it: likewise.
    Mechanism,
    /// An epoch of a hardware mechanism ends: it goes where an evicted line does.
    Flush,
}

impl Cause {
    /// Whether a volatile DRAM cache keeps the line.
    pub(crate) const fn enters_dram(self) -> bool {
        matches!(self, Cause::Eviction | Cause::Flush)
    }
}

/// The controller, with its devices. Lines are numbers (address / 64).
pub struct Controller {
    static_read: Ps,
    least_write: Ps,
    home: Device,
    dram: Option<DramCache>,
    /// Beside both.
    volatile: Option<Device>,
    left: Vec<(u64, Ps)>,
    reads: u64,
    writes: CauseStats,
}

impl Controller {
    /// A controller at rest, for a configuration that has been validated.
    pub fn new(config: &MemoryConfig) -> Self {
        let MemoryConfig { controller, home, dram_cache, volatile } = config;
        let mut device = Device::new(controller, home, true);
        if dram_cache.is_some() {
            // Lines come later, when they have been read out of DRAM.
            device.count_sent();
        }
        Controller {
            static_read: Ps::from_ns(controller.static_read_ns),
            least_write: least_write(config),
            home: device,
            dram: dram_cache.as_ref().map(|cache| DramCache::new(controller, cache)),
            volatile: volatile.as_ref().map(|device| Device::new(controller, device, false)),
            left: Vec::new(),
            reads: 0,
            writes: CauseStats::default(),
        }
    }

    /// Reads a line at `now`. Returns when it is there.
    #[inline]
    pub fn read(&mut self, line: u64, now: Ps) -> Ps {
        self.left.clear();
        if self.dram.is_none() {
            self.reads += 1;
            return self.home.read(line, now) + self.static_read;
        }
        match self.find(line, now) {
            Ok(there) => there,
            Err(fetch) => {
                let (early, until) = self.fetch_and_replace(&fetch);
                self.wait_for_victim(line, early, until) + self.static_read
            }
        }
    }

    /// Reads a line of the volatile device, if there is one, by its place there. Returns when it is there.
    pub(crate) fn read_volatile(&mut self, line: u64, now: Ps) -> Ps {
        self.reads += 1;
        let there = self.volatile.as_mut().map_or(now, |device| device.read(line, now));
        there + self.static_read
    }

    /// A line of the volatile device is handed over. Returns when the controller has it.
    pub(crate) fn write_volatile(&mut self, line: u64, now: Ps, cause: Cause) -> Ps {
        self.count(cause);
        self.volatile.as_mut().map_or(now, |device| device.write(line, now, now).0)
    }

    /// The first half of [`read`](Self::read): when the line is there, or the block to fetch from the home device.
    pub(crate) fn find(&mut self, line: u64, now: Ps) -> Result<Ps, Fetch> {
        self.reads += 1;
        match &mut self.dram {
            None => Err(Fetch { first: line, lines: 1, wanted: line, now }),
            Some(dram) => dram.find(line, now).map(|there| there + self.static_read),
        }
    }

    /// Fetches a block from its place in the home device. Returns when the wanted line and when all lines have left the
    /// bus.
    pub(crate) fn fetch(&mut self, fetch: &Fetch) -> (Ps, Ps) {
        self.home.read_block(fetch.first, fetch.lines, fetch.wanted, fetch.now)
    }

    /// Fetches a line of a block from anywhere in the home device. Returns when it has left the bus.
    pub(crate) fn fetch_line(&mut self, line: u64, now: Ps) -> Ps {
        self.home.read(line, now)
    }

    /// The block is there at `ready`, and goes into the DRAM cache, if there is one. Returns the block that it
    /// replaces.
    pub(crate) fn take_in(&mut self, fetch: &Fetch, ready: Ps) -> Option<Replaced> {
        self.dram.as_mut()?.take_in(fetch, ready)
    }

    /// Least time of a write from being handed over until it is durable.
    pub(crate) fn least_write(&self) -> Ps {
        self.least_write
    }

    /// Reads a line of a replaced block, in order to write it home. Returns when it has left the bus.
    pub(crate) fn read_out(&mut self, line: u64, from: Ps) -> Ps {
        self.dram.as_mut().map_or(from, |dram| dram.read_out(line, from))
    }

    /// Time of a read between the last cache and the device, besides the device's own.
    pub(crate) fn static_read(&self) -> Ps {
        self.static_read
    }

    /// Returns when the wanted line has left the bus, and until when the access waits for the replaced block.
    fn fetch_and_replace(&mut self, fetch: &Fetch) -> (Ps, Ps) {
        let (early, all) = self.fetch(fetch);
        let replaced = self.take_in(fetch, all);
        (early, self.replace(replaced, fetch.now))
    }

    /// The dirty lines of a replaced block leave for the home device. Returns until when the access waits for that.
    fn replace(&mut self, replaced: Option<Replaced>, now: Ps) -> Ps {
        let Some(replaced) = replaced else { return Ps::default() };
        let mut last = Ps::default();
        for line in replaced.block.dirty_lines() {
            let there = self.read_out(line, replaced.block.ready);
            let (accepted, durable) = self.home.write(line, now, there);
            last = last.max(accepted);
            self.left.push((line, durable));
        }
        self.is_leaving(&replaced, last)
    }

    /// The dirty lines of a replaced block have been handed over: the last of them is `accepted` then. Returns until
    /// when the access waits that has replaced it.
    pub(crate) fn is_leaving(&mut self, replaced: &Replaced, accepted: Ps) -> Ps {
        self.dram.as_mut().map_or(Ps::default(), |dram| dram.is_leaving(replaced, accepted))
    }

    /// An access to `line`, over at `done` otherwise, waits `until` the block that it replaces has left. Returns when it
    /// is over.
    pub(crate) fn wait_for_victim(&mut self, line: u64, done: Ps, until: Ps) -> Ps {
        match &mut self.dram {
            Some(dram) if until.0 > 0 => dram.wait(line, done, until),
            _ => done,
        }
    }

    /// Reads the home device's copy of a line at `now`, past a DRAM cache, for a mechanism.
    pub fn read_home(&mut self, line: u64, now: Ps) -> Ps {
        self.reads += 1;
        self.home.read(line, now) + self.static_read
    }

    /// As [`read_home`](Self::read_home), of a line that no program waits for.
    pub fn read_home_in_background(&mut self, line: u64, now: Ps) -> Ps {
        self.reads += 1;
        self.home.read_in_background(line, now) + self.static_read
    }

    /// A line is handed over at `now`.
    #[inline]
    pub fn write(&mut self, line: u64, now: Ps, cause: Cause) -> Write {
        self.write_from(line, (now, now), cause)
    }

    /// As [`write`](Self::write), for a line that is handed over later, at the second of the times: earlier accesses do
    /// not wait for it.
    #[inline]
    pub fn write_from(&mut self, line: u64, (now, from): (Ps, Ps), cause: Cause) -> Write {
        self.count(cause);
        self.left.clear();
        if self.dram.is_some() {
            if cause.enters_dram() {
                let until = match self.make_room(line, from) {
                    DramRoom::Here => Ps::default(),
                    DramRoom::Made(replaced) => self.replace(replaced, now),
                    DramRoom::Fetch(fetch) => self.fetch_and_replace(&fetch).1,
                };
                let accepted = self.put(line, from).0;
                let accepted = self.wait_for_victim(line, accepted, until);
                return Write { accepted, durable: None };
            }
            self.written_through(line, from);
        }
        self.write_home(line, now, from)
    }

    /// A line is handed over, for this reason.
    pub(crate) fn count(&mut self, cause: Cause) {
        match cause {
            Cause::Eviction => self.writes.evictions += 1,
            Cause::WriteBack => self.writes.write_backs += 1,
            Cause::Stream => self.writes.streams += 1,
            Cause::Mechanism | Cause::Flush => self.writes.mechanism += 1,
        }
    }

    /// Whether a line that leaves the caches at `now` has room in the DRAM cache.
    pub(crate) fn make_room(&mut self, line: u64, now: Ps) -> DramRoom {
        self.dram.as_mut().map_or(DramRoom::Here, |dram| dram.make_room(line, now))
    }

    /// Writes a line into the DRAM cache, where it has room. Returns when that has it, and whether its block was clean.
    pub(crate) fn put(&mut self, line: u64, now: Ps) -> (Ps, bool) {
        self.dram.as_mut().map_or((now, false), |dram| dram.put(line, now))
    }

    /// Updates the DRAM cache's copy of a line that is written to the home device.
    pub(crate) fn written_through(&mut self, line: u64, now: Ps) {
        if let Some(dram) = &mut self.dram {
            dram.written_through(line, now);
        }
    }

    /// A line is written to the home device.
    #[inline]
    pub(crate) fn write_home(&mut self, line: u64, now: Ps, from: Ps) -> Write {
        let (accepted, durable) = self.home.write(line, now, from);
        Write { accepted, durable: Some(durable) }
    }

    /// Whether there is a DRAM cache.
    pub(crate) fn has_dram(&self) -> bool {
        self.dram.is_some()
    }

    /// The lines of the DRAM cache block that `line` is in; only `line` if there is no DRAM cache.
    pub(crate) fn block_of(&self, line: u64) -> Range<u64> {
        self.dram.as_ref().map_or(line..line + 1, |dram| dram.block_of(line))
    }

    /// Lines that left the volatile DRAM cache for the home device in the last call of
    /// [`read`](Self::read) or [`write`](Self::write), and when they are durable.
    pub fn left_dram(&self) -> &[(u64, Ps)] {
        &self.left
    }

    /// Whether a volatile DRAM cache has the line dirty: then a write-back has something to do even
    /// if no cache of a core has the line dirty.
    pub fn holds_dirty(&self, line: u64) -> bool {
        self.dram.as_ref().is_some_and(|dram| dram.holds_dirty(line))
    }

    /// Lines that only a volatile DRAM cache has, ascending: a power cut loses them.
    pub fn dirty_in_dram(&self) -> Vec<u64> {
        self.dram.as_ref().map_or_else(Vec::new, DramCache::dirty)
    }

    /// What a volatile DRAM cache has of the block that `line` is in.
    pub(crate) fn in_dram(&self, line: u64) -> Option<InDram> {
        self.dram.as_ref().and_then(|dram| dram.block_in(line))
    }

    /// The blocks of a volatile DRAM cache that have dirty lines, ascending.
    pub(crate) fn dirty_blocks(&self) -> Vec<InDram> {
        self.dram.as_ref().map_or_else(Vec::new, DramCache::dirty_blocks)
    }

    /// The dirty lines of a block of the volatile DRAM cache, given as bits, go home at an epoch's end.
    pub(crate) fn note_dirty_lines(&mut self, dirty: u64) {
        if let Some(dram) = &mut self.dram {
            dram.note_dirty_lines(dirty);
        }
    }

    /// These lines of the block that begins with `first` are clean.
    pub(crate) fn clean(&mut self, first: u64, lines: u64) {
        if let Some(dram) = &mut self.dram {
            dram.clean(first, lines);
        }
    }

    /// Reads a line of the DRAM, which a cached block or a mechanism has there. Returns when it has left the bus.
    pub(crate) fn read_dram(&mut self, line: u64, from: Ps) -> Ps {
        self.dram.as_mut().map_or(from, |dram| dram.read_line(line, from))
    }

    /// Writes a line of the DRAM that is a mechanism's. Returns when it is in the DRAM's queue.
    pub(crate) fn write_dram(&mut self, line: u64, from: Ps) -> Ps {
        self.dram.as_mut().map_or(from, |dram| dram.write_line(line, from))
    }

    /// Takes bytes of the DRAM away from the cache.
    pub(crate) fn reserve_dram(&mut self, bytes: u64) {
        if let Some(dram) = &mut self.dram {
            dram.reserve(bytes);
        }
    }

    /// Sends all writes accepted so far to the media. Returns when they are there. Dirty lines of a
    /// volatile DRAM cache stay there.
    pub fn settle(&mut self, now: Ps) -> Ps {
        let dram = self.dram.as_mut().map_or(now, |dram| dram.settle(now));
        let beside = self.volatile.as_mut().map_or(now, |device| device.settle(now));
        self.home.settle(now).max(dram).max(beside)
    }

    /// Resets the statistics, wear included; queues, rows and buffers stay as they are.
    pub fn reset_stats(&mut self) {
        self.reads = 0;
        self.writes = CauseStats::default();
        self.home.reset_stats();
        if let Some(dram) = &mut self.dram {
            dram.reset_stats();
        }
        if let Some(device) = &mut self.volatile {
            device.reset_stats();
        }
    }

    /// The statistics since it was built, or since they were last reset.
    pub fn stats(&self) -> ControllerStats {
        let dram = self.dram.as_ref().map(DramCache::stats);
        ControllerStats {
            reads: self.reads,
            writes: self.writes,
            home: self.home.stats(),
            dram: dram.map(|(device, _)| device),
            dram_cache: dram.map(|(_, cache)| cache),
            dirty_lines: self.dram.as_ref().map_or_else(Vec::new, DramCache::dirty_lines),
            volatile: self.volatile.as_ref().map(Device::stats),
        }
    }
}

/// Zero for a machine whose lines are durable in the queue.
fn least_write(config: &MemoryConfig) -> Ps {
    let at_media = config.controller.durable_at == DurableAt::Media;
    let (burst, cells) = (config.home.write_burst_ns, config.home.write_ns);
    let plain = at_media && config.home.inside.is_none();
    if plain { Ps::from_ns(burst) + Ps::from_ns(cells) } else { Ps::default() }
}
