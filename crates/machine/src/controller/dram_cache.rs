//! DRAM as a cache of the home device: which blocks it has, and which of their lines the home
//! device has not.

use super::device::Device;
use super::lru::Lru;
use super::stats::{DeviceStats, DramCacheStats};
use crate::Ps;
use crate::config::{ControllerConfig, DramCache as Config};
use std::collections::VecDeque;

#[derive(Clone, Copy)]
struct Block {
    /// Lines that the home device has not, as bits.
    dirty: u64,
    /// When its data is there.
    ready: Ps,
}

/// The cache.
pub(super) struct DramCache {
    device: Device,
    lines: u64,
    lookup: Ps,
    forward: Ps,
    blocks: Lru,
    contents: Vec<Block>,
    /// Blocks that are being fetched: they occupy the DRAM once they are there.
    fills: VecDeque<(Ps, u64)>,
    stats: DramCacheStats,
}

impl DramCache {
    pub(super) fn new(controller: &ControllerConfig, config: &Config) -> Self {
        let blocks = (config.bytes / config.block_bytes) as usize;
        let ways = if config.ways == 0 { blocks } else { config.ways };
        DramCache {
            device: Device::new(controller, &config.device, false),
            lines: config.block_bytes / 64,
            lookup: Ps::from_ns(config.lookup_ns),
            forward: Ps::from_ns(config.device.read_burst_ns),
            blocks: Lru::new(blocks / ways, ways),
            contents: Vec::new(),
            fills: VecDeque::new(),
            stats: DramCacheStats::default(),
        }
    }

    /// Reads a line; when it has left a bus. Dirty lines that had to leave are in `left`.
    pub(super) fn read(
        &mut self,
        line: u64,
        now: Ps,
        home: &mut Device,
        left: &mut Vec<(u64, Ps)>,
    ) -> Ps {
        let now = now + self.lookup;
        self.fill_until(now);
        let number = line / self.lines;
        let Some(place) = self.blocks.touch(number) else {
            self.stats.misses += 1;
            return self.fetch(number, line, now, home, left);
        };
        self.stats.hits += 1;
        let ready = self.contents[place].ready;
        if ready > now {
            // On its way: it is taken as it comes.
            return ready + self.forward;
        }
        self.device.read(line, now)
    }

    /// Fetches a block; when the wanted line has left the home device's bus.
    fn fetch(
        &mut self,
        number: u64,
        wanted: u64,
        now: Ps,
        home: &mut Device,
        left: &mut Vec<(u64, Ps)>,
    ) -> Ps {
        let (early, all) = home.read_block(number * self.lines, self.lines, wanted, now);
        self.admit(number, all, now, home, left);
        let at = self.fills.partition_point(|&(due, _)| due <= all);
        self.fills.insert(at, (all, number));
        early
    }

    /// Makes room for a block whose data comes at `ready`; its place.
    fn admit(
        &mut self,
        number: u64,
        ready: Ps,
        now: Ps,
        home: &mut Device,
        left: &mut Vec<(u64, Ps)>,
    ) -> usize {
        let (place, replaced) = self.blocks.insert(number);
        let block = Block { dirty: 0, ready };
        let Some(replaced) = replaced else {
            self.contents.push(block);
            return place;
        };
        self.stats.replaced_blocks += 1;
        let old = std::mem::replace(&mut self.contents[place], block);
        let mut dirty = old.dirty;
        while dirty != 0 {
            let line = replaced * self.lines + u64::from(dirty.trailing_zeros());
            dirty &= dirty - 1;
            self.stats.replaced_lines += 1;
            let there = self.device.read(line, now.max(old.ready));
            left.push((line, home.write(line, there).1));
        }
        place
    }

    /// A cache evicts a line: it stays here. When it is in the DRAM's queue.
    pub(super) fn evicted(
        &mut self,
        line: u64,
        now: Ps,
        home: &mut Device,
        left: &mut Vec<(u64, Ps)>,
    ) -> Ps {
        let now = now + self.lookup;
        self.fill_until(now);
        let number = line / self.lines;
        let place = match self.blocks.touch(number) {
            Some(place) => {
                self.stats.hits += 1;
                place
            }
            None => {
                self.stats.misses += 1;
                if self.lines == 1 {
                    self.admit(number, now, now, home, left)
                } else {
                    self.fetch(number, line, now, home, left);
                    self.blocks.touch(number).unwrap_or_default()
                }
            }
        };
        self.contents[place].dirty |= 1 << (line % self.lines);
        self.device.write(line, now).0
    }

    /// A line is being written to the home device: a copy here follows, and is clean.
    pub(super) fn written_through(&mut self, line: u64, now: Ps) {
        self.stats.through += 1;
        self.fill_until(now);
        if let Some(place) = self.blocks.peek(line / self.lines) {
            self.contents[place].dirty &= !(1 << (line % self.lines));
            self.device.write(line, now + self.lookup);
        }
    }

    /// Whether it has a line that the home device has not.
    pub(super) fn holds_dirty(&self, line: u64) -> bool {
        let place = self.blocks.peek(line / self.lines);
        place.is_some_and(|place| self.contents[place].dirty >> (line % self.lines) & 1 == 1)
    }

    /// Lines that the home device has not, ascending.
    pub(super) fn dirty(&self) -> Vec<u64> {
        let mut lines = Vec::new();
        for (number, place) in self.blocks.keys() {
            let mut dirty = self.contents[place].dirty;
            while dirty != 0 {
                lines.push(number * self.lines + u64::from(dirty.trailing_zeros()));
                dirty &= dirty - 1;
            }
        }
        lines.sort_unstable();
        lines
    }

    /// Blocks that have been fetched by `now` are written into the DRAM.
    #[inline]
    fn fill_until(&mut self, now: Ps) {
        while let Some(&(due, number)) = self.fills.front()
            && due <= now
        {
            self.fills.pop_front();
            self.device.fill_block(number * self.lines, self.lines, due);
        }
    }

    /// Sends everything to the cells of the DRAM.
    pub(super) fn settle(&mut self, now: Ps) -> Ps {
        let due = self.fills.back().map_or(now, |&(due, _)| now.max(due));
        self.fill_until(due);
        self.device.settle(now)
    }

    pub(super) fn reset_stats(&mut self) {
        self.device.reset_stats();
        self.stats = DramCacheStats::default();
    }

    pub(super) fn stats(&self) -> (DeviceStats, DramCacheStats) {
        (self.device.stats(), self.stats)
    }
}
