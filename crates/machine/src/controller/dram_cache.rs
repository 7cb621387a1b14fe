//! DRAM as a cache of the home device: which blocks it has, and which of their lines are dirty
//! (newer than in the home device).

use super::device::Device;
use super::stats::{DeviceStats, DramCacheStats};
use crate::Ps;
use crate::config::{ControllerConfig, DramCache as Config};
use crate::finishes::Finishes;
use crate::lru::Lru;
use std::collections::VecDeque;
use std::ops::Range;

#[derive(Clone, Copy)]
struct Block {
    /// Dirty lines, as bits.
    dirty: u64,
    /// When its data is there.
    ready: Ps,
}

/// A block to be fetched from the home device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Its first line.
    pub first: u64,
    /// Its lines; 1 where there is no DRAM cache.
    pub lines: u64,
    /// The line that the caches want.
    pub wanted: u64,
    /// When the home device is asked.
    pub now: Ps,
}

/// A block that the DRAM cache has, or had when it had to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InDram {
    /// Its first line.
    pub first: u64,
    /// Its dirty lines: a bit each, from the first one on.
    pub dirty: u64,
    /// When its lines can be read.
    pub ready: Ps,
}

impl InDram {
    /// Its dirty lines.
    pub fn dirty_lines(self) -> impl Iterator<Item = u64> {
        let mut left = self.dirty;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| u64::from(left.trailing_zeros()))?;
            left &= left - 1;
            Some(self.first + bit)
        })
    }

    /// Whether it has this line, which is in the block, dirty.
    pub fn is_dirty(self, line: u64) -> bool {
        self.dirty >> (line - self.first) & 1 == 1
    }
}

/// A block that had to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    /// It, ready when it has a place in a victim buffer.
    pub(crate) block: InDram,
    /// The miss that replaces it waits until then.
    waits: bool,
}

/// Whether there is room for a line that leaves the caches.
pub(crate) enum DramRoom {
    Here,
    Made(Option<Replaced>),
    Fetch(Fetch),
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
    /// Replaced blocks that can be on their way home, if that is bounded, and when the places become free.
    most_victims: Option<usize>,
    victims: Finishes,
    stats: DramCacheStats,
    /// Of the blocks that went home with dirty lines, how many had one, two, and so on.
    dirty_lines: Vec<u64>,
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
            most_victims: config.victim_blocks,
            victims: Finishes::default(),
            stats: DramCacheStats::default(),
            dirty_lines: vec![0; (config.block_bytes / 64) as usize],
        }
    }

    /// Looks a line up at `now`. Returns when it has left the bus, or the block to fetch for it.
    pub(super) fn find(&mut self, line: u64, now: Ps) -> Result<Ps, Fetch> {
        let now = now + self.lookup;
        self.fill_until(now);
        let Some(place) = self.blocks.touch(line / self.lines) else {
            self.stats.misses += 1;
            return Err(self.fetch(line, now));
        };
        self.stats.hits += 1;
        let ready = self.contents[place].ready;
        if ready > now {
            // The block is on its way: the line is forwarded as it comes.
            return Ok(ready + self.forward);
        }
        Ok(self.device.read(line, now))
    }

    fn fetch(&self, line: u64, now: Ps) -> Fetch {
        Fetch { first: line - line % self.lines, lines: self.lines, wanted: line, now }
    }

    /// Inserts the block of a fetch whose data comes at `ready`. Returns the block that it replaces.
    pub(super) fn take_in(&mut self, fetch: &Fetch, ready: Ps) -> Option<Replaced> {
        let number = fetch.first / self.lines;
        let replaced = self.admit(number, ready, fetch.now);
        self.fill_at(ready, number);
        replaced
    }

    /// Makes room for a block whose data comes at `ready`. Returns the block that it replaces.
    fn admit(&mut self, number: u64, ready: Ps, now: Ps) -> Option<Replaced> {
        let (place, replaced) = self.blocks.insert(number);
        let block = Block { dirty: 0, ready };
        let Some(replaced) = replaced else {
            self.contents.push(block);
            return None;
        };
        self.stats.replaced_blocks += 1;
        let old = std::mem::replace(&mut self.contents[place], block);
        let ready = now.max(old.ready);
        let from = match self.most_victims {
            Some(most @ 1..) if old.dirty != 0 => self.victims.place(ready, most, 0),
            _ => ready,
        };
        let waits = from > ready;
        let block = InDram { first: replaced * self.lines, dirty: old.dirty, ready: from };
        self.note_dirty_lines(old.dirty);
        Some(Replaced { block, waits })
    }

    /// A block goes home with these dirty lines, given as bits.
    pub(super) fn note_dirty_lines(&mut self, dirty: u64) {
        if dirty != 0 {
            self.dirty_lines[dirty.count_ones() as usize - 1] += 1;
        }
    }

    /// The dirty lines of a replaced block have been handed over, and the last of them is `accepted` then. Returns until
    /// when the miss waits that has replaced it.
    pub(super) fn is_leaving(&mut self, replaced: &Replaced, accepted: Ps) -> Ps {
        match self.most_victims {
            Some(0) => accepted,
            Some(_) if replaced.block.dirty != 0 => {
                self.victims.push(accepted);
                if replaced.waits { replaced.block.ready } else { Ps::default() }
            }
            _ => Ps::default(),
        }
    }

    /// A miss of `line`, over at `done` otherwise, waits `until` the block that it replaces has left. Returns when it is
    /// over; the fetched block is there no earlier.
    pub(super) fn wait(&mut self, line: u64, done: Ps, until: Ps) -> Ps {
        let wait = until.since(done);
        self.stats.victim_waits += u64::from(wait.0 > 0);
        self.stats.victim_wait_ps += wait.0;
        let number = line / self.lines;
        if let Some(place) = self.blocks.peek(number)
            && self.contents[place].ready < until
        {
            self.contents[place].ready = until;
            if let Some(at) = self.fills.iter().rposition(|fill| fill.1 == number) {
                self.fills.remove(at);
                self.fill_at(until, number);
            }
        }
        done.max(until)
    }

    fn fill_at(&mut self, ready: Ps, number: u64) {
        let at = self.fills.partition_point(|&(due, _)| due <= ready);
        self.fills.insert(at, (ready, number));
    }

    /// Reads a dirty line of a replaced block. Returns when it has left the bus.
    pub(super) fn read_out(&mut self, line: u64, from: Ps) -> Ps {
        self.stats.replaced_lines += 1;
        self.device.read(line, from)
    }

    /// Makes room for a line that a cache evicts: its block is here, or must be fetched; a block of one line is not
    /// fetched, but may replace another.
    pub(super) fn make_room(&mut self, line: u64, now: Ps) -> DramRoom {
        let now = now + self.lookup;
        self.fill_until(now);
        let number = line / self.lines;
        if self.blocks.touch(number).is_some() {
            self.stats.hits += 1;
            return DramRoom::Here;
        }
        self.stats.misses += 1;
        match self.lines {
            1 => DramRoom::Made(self.admit(number, now, now)),
            _ => DramRoom::Fetch(self.fetch(line, now)),
        }
    }

    /// Writes an evicted line, for which there must be room. Returns when it is in the DRAM's queue, and whether it is
    /// the first dirty line of its block.
    pub(super) fn put(&mut self, line: u64, now: Ps) -> (Ps, bool) {
        let place = self.blocks.touch(line / self.lines).unwrap_or_default();
        let dirty = &mut self.contents[place].dirty;
        let first = *dirty == 0;
        *dirty |= 1 << (line % self.lines);
        let now = now + self.lookup;
        (self.device.write(line, now, now).0, first)
    }

    /// The lines of the block that `line` is in.
    pub(super) fn block_of(&self, line: u64) -> Range<u64> {
        let first = line - line % self.lines;
        first..first + self.lines
    }

    /// A line is being written to the home device: a copy here is updated, and is clean.
    pub(super) fn written_through(&mut self, line: u64, now: Ps) {
        self.stats.through += 1;
        self.fill_until(now);
        if let Some(place) = self.blocks.peek(line / self.lines) {
            self.contents[place].dirty &= !(1 << (line % self.lines));
            let now = now + self.lookup;
            self.device.write(line, now, now);
        }
    }

    /// Whether it has a line dirty.
    pub(super) fn holds_dirty(&self, line: u64) -> bool {
        let place = self.blocks.peek(line / self.lines);
        place.is_some_and(|place| self.contents[place].dirty >> (line % self.lines) & 1 == 1)
    }

    /// Dirty lines, ascending.
    pub(super) fn dirty(&self) -> Vec<u64> {
        self.dirty_blocks().into_iter().flat_map(InDram::dirty_lines).collect()
    }

    /// Blocks with dirty lines, ascending.
    pub(super) fn dirty_blocks(&self) -> Vec<InDram> {
        let blocks = self.blocks.keys().map(|(number, place)| self.block_at(number, place));
        let mut blocks: Vec<InDram> = blocks.filter(|block| block.dirty != 0).collect();
        blocks.sort_unstable_by_key(|block| block.first);
        blocks
    }

    fn block_at(&self, number: u64, place: usize) -> InDram {
        let Block { dirty, ready } = self.contents[place];
        InDram { first: number * self.lines, dirty, ready }
    }

    /// The block that `line` is in, if it is here.
    pub(super) fn block_in(&self, line: u64) -> Option<InDram> {
        let number = line / self.lines;
        self.blocks.peek(number).map(|place| self.block_at(number, place))
    }

    /// These lines of the block that begins with `first`, given as bits, are clean.
    pub(super) fn clean(&mut self, first: u64, lines: u64) {
        if let Some(place) = self.blocks.peek(first / self.lines) {
            self.contents[place].dirty &= !lines;
        }
    }

    /// Reads a line that is here. Returns when it has left the bus.
    pub(super) fn read_line(&mut self, line: u64, from: Ps) -> Ps {
        self.device.read(line, from)
    }

    /// Writes a line that is no block's. Returns when it is in the DRAM's queue.
    pub(super) fn write_line(&mut self, line: u64, from: Ps) -> Ps {
        self.device.write(line, from, from).0
    }

    /// Gives bytes up, in whole blocks of each set, before it has any block.
    ///
    /// # Panics
    /// If none is left.
    pub(super) fn reserve(&mut self, bytes: u64) {
        self.blocks.give_up(bytes.div_ceil(self.lines * 64) as usize);
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
        self.dirty_lines.fill(0);
    }

    pub(super) fn dirty_lines(&self) -> Vec<u64> {
        self.dirty_lines.clone()
    }

    pub(super) fn stats(&self) -> (DeviceStats, DramCacheStats) {
        (self.device.stats(), self.stats)
    }
}
