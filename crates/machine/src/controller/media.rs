//! The writes of a bank where lines are durable at the media only, with their times.
//!
//! When a line is durable must be known as soon as it is handed over, so its write is placed then. Reads go before
//! writes that have not begun, as they do where lines are durable in the queue: those writes, and what is placed after
//! them, move. The times at which they become durable were given away before: so a line that a read overtakes counts as
//! durable too early, by the time of that read.
//!
//! What always holds: writes are in the order of their times, and do not overlap.

use super::bank::Bank;
use crate::Ps;
use std::collections::VecDeque;

/// A write, from its burst on the bus until it is in the cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedWrite {
    pub(super) line: u64,
    /// When the controller has it.
    pub(super) accepted: Ps,
    pub(super) start: Ps,
    pub(super) end: Ps,
}

/// The writes of a bank that are not over.
#[derive(Default)]
pub(super) struct PlacedWrites(VecDeque<PlacedWrite>);

impl PlacedWrites {
    /// Removes writes that are over; the bank was busy with them.
    #[inline]
    pub(super) fn forget(&mut self, now: Ps, bank: &mut Bank) {
        while let Some(first) = self.0.front().filter(|first| first.end <= now) {
            bank.busy(first.end);
            self.0.pop_front();
        }
    }

    /// The write of a line that does not begin before `now`: it is still in the queue.
    pub(super) fn queued(&self, line: u64, now: Ps) -> Option<PlacedWrite> {
        self.0.iter().rev().take_while(|write| write.start >= now).find(|own| own.line == line).copied()
    }

    /// When a write of this length can begin, not before `ready`.
    pub(super) fn room(&self, mut ready: Ps, length: Ps) -> Ps {
        for write in &self.0 {
            if ready + length <= write.start {
                break;
            }
            ready = ready.max(write.end);
        }
        ready
    }

    /// Adds a write; later ones move behind it.
    pub(super) fn add(&mut self, write: PlacedWrite) {
        let at = self.0.partition_point(|other| other.start <= write.start);
        self.0.insert(at, write);
        self.delay(at + 1, write.end);
    }

    /// When a read can begin, not before `now`: behind writes that have begun, and those that begin by `drained`.
    pub(super) fn overtake(&self, now: Ps, drained: Ps) -> Ps {
        let behind = self.0.partition_point(|write| write.start < now || write.start <= drained);
        behind.checked_sub(1).map_or(now, |last| now.max(self.0[last].end))
    }

    /// A read has the bank from `from` until `free`: later writes move behind it.
    pub(super) fn is_read(&mut self, from: Ps, free: Ps) {
        let at = self.0.partition_point(|write| write.start < from);
        self.delay(at, free);
    }

    /// Writes from the one with this index on begin at `free` or later.
    fn delay(&mut self, at: usize, mut free: Ps) {
        for write in self.0.iter_mut().skip(at) {
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
        let waits = move |write: &&PlacedWrite| write.accepted <= now && write.start > now;
        self.0.iter().filter(waits).map(|write| write.start)
    }

    /// When the last of them is over.
    pub(super) fn last(&self) -> Ps {
        self.0.back().map_or(Ps::default(), |last| last.end)
    }
}
