//! The writes of a bank where lines are durable at the media only, with their times.
//!
//! When a line is durable must be known as soon as it is handed over, so its write is placed then. Reads go before
//! writes that have not begun, as they do where lines are durable in the queue: those writes, and what is placed after
//! them, move. The times at which they become durable were given away before: so a line that a read overtakes counts as
//! durable too early, by the time of that read.
//!
//! What always holds: writes are in the order of their times, and do not overlap; from `solid` on there is no gap that a
//! write fits into before the last of them is over.

use super::bank::Bank;
use crate::Ps;
use std::collections::VecDeque;

/// A write, from its burst on the bus until it is in the cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedWrite {
    pub(super) line: u64,
    /// When the controller has it.
    pub(super) accepted: Ps,
    /// Whether it was held back until then by what handed it over, in which case it takes no place in the queue.
    pub(super) held: bool,
    pub(super) start: Ps,
    pub(super) end: Ps,
}

/// The writes of a bank that are not over.
pub(super) struct PlacedWrites {
    writes: VecDeque<PlacedWrite>,
    solid: Ps,
    /// How many of their lines hash to each value, so that most look-ups end here.
    sieve: [u16; 256],
}

impl Default for PlacedWrites {
    fn default() -> Self {
        PlacedWrites { writes: VecDeque::new(), solid: Ps::default(), sieve: [0; 256] }
    }
}

impl PlacedWrites {
    fn hash(line: u64) -> usize {
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
    }

    /// Removes writes that are over; the bank was busy with them.
    #[inline]
    pub(super) fn forget(&mut self, now: Ps, bank: &mut Bank) {
        while let Some(first) = self.writes.front().filter(|first| first.end <= now) {
            bank.busy(first.end);
            self.sieve[Self::hash(first.line)] -= 1;
            self.writes.pop_front();
        }
    }

    /// The write of a line that does not begin before `now`: it is still in the queue.
    #[inline]
    pub(super) fn queued(&self, line: u64, now: Ps) -> Option<PlacedWrite> {
        if self.sieve[Self::hash(line)] == 0 {
            return None;
        }
        let queued = self.writes.iter().rev().take_while(|write| write.start >= now);
        { queued }.find(|write| write.line == line).copied()
    }

    /// When a write of this length can begin, not before `ready`.
    pub(super) fn room(&self, mut ready: Ps, length: Ps) -> Ps {
        if ready >= self.solid {
            return ready.max(self.last());
        }
        let over = self.writes.partition_point(|write| write.end <= ready);
        for write in self.writes.iter().skip(over) {
            if ready + length <= write.start {
                break;
            }
            ready = ready.max(write.end);
        }
        ready
    }

    /// Adds a write; later ones move behind it.
    pub(super) fn add(&mut self, write: PlacedWrite) {
        self.sieve[Self::hash(write.line)] += 1;
        let last = self.last();
        if write.start >= last {
            if write.start.since(last) >= write.end.since(write.start) {
                self.solid = write.start;
            }
            self.writes.push_back(write);
            return;
        }
        let at = self.writes.partition_point(|other| other.start <= write.start);
        self.writes.insert(at, write);
        self.delay(at + 1, write.end);
    }

    /// When a read can begin, not before `now`: behind writes that have begun, and those that begin by `drained`.
    pub(super) fn overtake(&self, now: Ps, drained: Ps) -> Ps {
        let behind =
            self.writes.partition_point(|write| write.start < now || write.start <= drained);
        behind.checked_sub(1).map_or(now, |last| now.max(self.writes[last].end))
    }

    /// A read has the bank from `from` until `free`: later writes move behind it.
    pub(super) fn is_read(&mut self, from: Ps, free: Ps) {
        let at = self.writes.partition_point(|write| write.start < from);
        self.delay(at, free);
    }

    /// Writes from the one with this index on begin at `free` or later.
    fn delay(&mut self, at: usize, mut free: Ps) {
        for write in self.writes.iter_mut().skip(at) {
            if write.start >= free {
                return;
            }
            let later = free.since(write.start);
            (write.start, write.end) = (write.start + later, write.end + later);
            free = write.end;
        }
    }

    /// When writes begin that wait in the queue at `now`.
    pub(super) fn waiting(&self, now: Ps) -> impl Iterator<Item = Ps> {
        let waits =
            move |write: &&PlacedWrite| !write.held && write.accepted <= now && write.start > now;
        self.writes.iter().filter(waits).map(|write| write.start)
    }

    /// When the last of them is over.
    pub(super) fn last(&self) -> Ps {
        self.writes.back().map_or(Ps::default(), |last| last.end)
    }
}
