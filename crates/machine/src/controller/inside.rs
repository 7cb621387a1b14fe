//! An Optane-like module: media of 256-byte blocks behind a read-modify-write buffer and an
//! address-translation buffer.
//!
//! A block is written to the media once all its lines were written, or when it must leave the buffer:
//! then the lines that were not stored to are written too, which is write amplification. The media
//! does one thing at a time; reads go before blocks that wait to be written.

use super::buffer::{Block, Buffer};
use super::bus::{Bus, Direction};
use super::stats::DeviceCounts;
use super::wear::Wear;
use crate::Ps;
use crate::config::{ControllerConfig, Device, InsideConfig};
use crate::finishes::Finishes;
use crate::lru::Lru;
use std::collections::VecDeque;

/// Times of an [`InsideConfig`].
struct ModuleTimes {
    open_read: Ps,
    buffer_read: Ps,
    buffer_write: Ps,
    write_start: Ps,
    media_read: Ps,
    media_read_busy: Ps,
    media_write: Ps,
    translation: Ps,
    wear_move: Ps,
    burst: Ps,
    accept: Ps,
}

/// A module.
pub(super) struct Module {
    times: ModuleTimes,
    lines_per_block: u64,
    lines_per_page: u64,
    read_queue: usize,
    write_queue: usize,
    write_out: usize,
    wear_moves_after: u64,
    bus: Bus,
    reads: Finishes,
    writes: Finishes,
    buffer: Buffer,
    /// The block that was read last.
    open: u64,
    translations: Lru,
    /// Blocks that wait to be written to the media, and since when.
    out: VecDeque<(u64, Ps)>,
    /// When the media has done all accesses so far, and when all reads among them.
    media_free: Ps,
    reads_free: Ps,
    /// The last interval in which the device stands still to move a block.
    still: (Ps, Ps),
    intake_free: Ps,
    accepted_last: Ps,
    pub(super) wear: Wear,
    pub(super) counts: DeviceCounts,
}

impl Module {
    pub(super) fn new(
        controller: &ControllerConfig,
        device: &Device,
        inside: &InsideConfig,
    ) -> Self {
        Module {
            times: ModuleTimes {
                open_read: Ps::from_ns(inside.open_read_ns),
                buffer_read: Ps::from_ns(inside.buffer_read_ns),
                buffer_write: Ps::from_ns(inside.buffer_write_ns),
                write_start: Ps::from_ns(inside.write_start_ns),
                media_read: Ps::from_ns(inside.media_read_ns),
                media_read_busy: Ps::from_ns(inside.media_read_busy_ns),
                media_write: Ps::from_ns(inside.media_write_ns),
                translation: Ps::from_ns(inside.translation_ns),
                wear_move: Ps::from_ns(inside.wear_move_ns),
                burst: Ps::from_ns(device.read_burst_ns),
                accept: Ps::from_ns(controller.static_write_ns),
            },
            lines_per_block: inside.block_bytes / 64,
            lines_per_page: inside.translation_bytes / 64,
            read_queue: controller.read_queue,
            write_queue: controller.write_queue,
            write_out: inside.write_out_blocks,
            wear_moves_after: inside.wear_moves_after,
            // Modules have few reads under way: with any number of bursts placed ahead, the bandwidth of 24 threads is
            // further from that of real modules (docs/machine-validation.md).
            bus: Bus::nearly_in_order(Ps::from_ns(controller.turnaround_ns)),
            reads: Finishes::default(),
            writes: Finishes::default(),
            buffer: Buffer::new(inside.buffer_blocks, inside.buffer_draws),
            open: u64::MAX,
            translations: Lru::new(1, inside.translations),
            out: VecDeque::new(),
            media_free: Ps(0),
            reads_free: Ps(0),
            still: (Ps(0), Ps(0)),
            intake_free: Ps(0),
            accepted_last: Ps(0),
            wear: Wear::new(inside.block_bytes),
            counts: DeviceCounts::default(),
        }
    }

    /// Reads a line. Returns when it is there.
    pub(super) fn read(&mut self, line: u64, now: Ps) -> Ps {
        self.advance(now);
        self.counts.reads += 1;
        let begin = self.reads.place(now, self.read_queue, 0);
        let number = line / self.lines_per_block;
        let bit = 1 << (line % self.lines_per_block);
        let latency =
            if self.open == number { self.times.open_read } else { self.times.buffer_read };
        self.open = number;
        let held = match self.buffer.get(number) {
            Some(block) if block.whole || block.dirty & bit != 0 => Some(block.ready),
            _ if self.out.iter().any(|&(waiting, _)| waiting == number) => Some(Ps(0)),
            _ => None,
        };
        let data = match held {
            Some(ready) => {
                self.counts.row_hits += 1;
                (begin + latency).max(ready)
            }
            None => {
                self.counts.row_misses += 1;
                self.fetch(line, number, begin)
            }
        };
        let start = self.bus.reserve(data, self.times.burst, Direction::Read);
        let end = start + self.times.burst;
        self.reads.push(end);
        let unloaded = if held.is_some() { latency } else { self.times.media_read };
        self.counts.read_wait(start.since(now + unloaded));
        end
    }

    /// Reads a block from the media. Returns when the line is there.
    fn fetch(&mut self, line: u64, number: u64, begin: Ps) -> Ps {
        let page = line / self.lines_per_page;
        let begin = match self.translations.touch(page) {
            Some(_) => begin,
            None => {
                self.translations.insert(page);
                begin + self.times.translation
            }
        };
        let begin = self.hold(number, begin);
        let start = self.media_for_read(begin);
        self.counts.media_reads += 1;
        let data = start + self.times.media_read;
        if let Some(block) = self.buffer.get(number) {
            block.whole = true;
            block.ready = data;
        }
        data
    }

    /// When the media begins with a read: after the write under way, but before other waiting writes.
    fn media_for_read(&mut self, begin: Ps) -> Ps {
        let under_way = self.media_free.min(begin + self.times.media_write);
        let mut start = begin.max(self.reads_free).max(under_way);
        if self.still.0 <= start && start < self.still.1 {
            start = self.still.1;
        }
        self.reads_free = start + self.times.media_read_busy;
        self.media_free = self.media_free.max(start) + self.times.media_read_busy;
        start
    }

    /// Makes sure that the block is in the buffer. Returns when it is.
    fn hold(&mut self, number: u64, now: Ps) -> Ps {
        if self.buffer.get(number).is_some() {
            return now;
        }
        match self.buffer.insert(number, now) {
            Some(Block { number, dirty, whole, .. }) if dirty != 0 => {
                // The media's own controller fills in missing lines while it writes: measured
                // 64-byte writes go at exactly a quarter of the rate of 256-byte ones.
                self.counts.media_reads += u64::from(!whole);
                self.leave(number, now)
            }
            _ => now,
        }
    }

    /// Takes a line into the write queue. Returns when it is there, and so durable.
    pub(super) fn write(&mut self, line: u64, now: Ps) -> Ps {
        self.advance(now);
        self.counts.writes += 1;
        let arrival = now + self.times.accept;
        let free = self.writes.place(arrival, self.write_queue, 0);
        let accepted = free.max(self.accepted_last);
        self.accepted_last = accepted;
        self.counts.write_wait(accepted.since(arrival));

        let number = line / self.lines_per_block;
        let mut start = if accepted > self.intake_free {
            accepted + self.times.write_start
        } else {
            self.intake_free
        };
        self.advance(start);
        start = self.hold(number, start);
        let full = u64::MAX >> (64 - self.lines_per_block);
        let bit = 1 << (line % self.lines_per_block);
        if let Some(block) = self.buffer.get(number) {
            block.dirty |= bit;
            if block.dirty == full {
                block.dirty = 0;
                block.whole = true;
                start = self.leave(number, start);
            }
        }
        self.intake_free = start + self.times.buffer_write;
        self.writes.push(self.intake_free);
        accepted
    }

    /// Queues a block to be written to the media. Returns when there was room for it.
    fn leave(&mut self, number: u64, now: Ps) -> Ps {
        let mut from = now;
        while self.out.len() >= self.write_out {
            from = from.max(self.start_first());
        }
        self.out.push_back((number, from));
        from
    }

    /// Starts what would have been started before `now`.
    #[inline]
    fn advance(&mut self, now: Ps) {
        while let Some(&(_, since)) = self.out.front()
            && since.max(self.media_free) < now
        {
            self.start_first();
        }
    }

    /// Starts to write the block that has waited longest. Returns when.
    fn start_first(&mut self) -> Ps {
        let Some((number, since)) = self.out.pop_front() else { return Ps(0) };
        let start = since.max(self.media_free);
        self.media_free = start + self.times.media_write;
        self.counts.media_writes += 1;
        let count = self.wear.count(number);
        if self.wear_moves_after > 0 && count.is_multiple_of(self.wear_moves_after) {
            self.still = (self.media_free, self.media_free + self.times.wear_move);
            self.media_free = self.still.1;
            self.counts.wear_moves += 1;
        }
        start
    }

    /// Writes everything to the media, unfinished blocks too. Returns when that is done.
    pub(super) fn settle(&mut self, now: Ps) -> Ps {
        let from = now.max(self.intake_free);
        for block in self.buffer.blocks_mut() {
            if std::mem::take(&mut block.dirty) != 0 {
                self.counts.media_reads += u64::from(!block.whole);
                self.out.push_back((block.number, from));
            }
        }
        while !self.out.is_empty() {
            self.start_first();
        }
        self.media_free
    }
}
