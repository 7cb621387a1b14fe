//! When lines are written back, and when generations turn.
//!
//! An old generation leaves while the young one fills its part of the log: each group writes back a part of it in
//! proportion to the log that the group takes. Lines in excess of the queue's capacity are due as well. Due lines leave
//! a batch at a time: a few lines at each commit would slow every commit's fence, a batch slows one in many hundred. So
//! at most a batch and one group's lines are in excess, if the old generation has none left to give, until the
//! following turn.

use super::base::Base;
use super::group::{Group, Leader};
use crate::Result;
use crate::consistency::core::Core;
use perdura_memory::Memory;

/// The share of the log that a generation of records fills: two generations, and some segments for what arrives
/// meanwhile.
const GENERATION: (usize, usize) = (3, 8);
/// Old lines that leave at a time; fewer, if this is more than one in [`BATCH_SHARE`] of the lines that may wait.
const BATCH: usize = 512;
/// See [`BATCH`].
const BATCH_SHARE: usize = 64;

impl<M: Memory, B: Base> Leader<'_, M, B> {
    /// Writes back as many old lines as are due with this group: before the group's record, whose fence serves this
    /// thread's write-backs. The next fence may be another thread's.
    pub(super) fn let_old_lines_leave(&mut self) {
        if self.group.history.old_lines() == 0
            || !B::LOG_IS_ENOUGH
            || !self.core.memory.domain().evicts()
        {
            return;
        }
        let excess = match B::SKIPS {
            // They leave all at once, and most without a write-back.
            true => 0,
            false => {
                let Group { writer, history, .. } = &*self.group;
                // This also prefetches lines that are missing in the caches while the record is made.
                let joining = history.joining(
                    &*self.core.memory,
                    writer.writes.entries().iter().map(|entry| entry.line),
                );
                history.excess_with(joining)
            }
        };
        // The record's share of the lines that are due while a segment fills. An eighth faster than necessary: records
        // do not fill a segment to its end.
        let segment = self.core.geometry.segment_bytes;
        let share = segment - segment / 8;
        self.group.due_rest += self.group.due_lines as u64 * self.group.writer.record_bytes();
        let due = (self.group.due_rest / share) as usize;
        let batch = BATCH.min(self.group.history.capacity() / BATCH_SHARE).max(1);
        if due.max(excess) >= batch.min(self.group.history.old_lines()) {
            self.group.due_rest %= share;
            self.write_back_old(due.max(excess));
        }
    }

    /// Turns when the young generation has filled its part of the log, and ensures that the old one has left by then.
    pub(super) fn recycle(&mut self) -> Result<()> {
        if B::SKIPS && self.group.history.has_passed() && self.core.memory.domain().evicts() {
            self.let_old_lines_be_deferred()?;
        }
        let filled = std::mem::take(&mut self.group.writer.filled);
        let full = !B::SKIPS && self.group.history.is_full();
        if !filled && !full && !self.group.turn_due {
            return Ok(());
        }
        if !B::LOG_IS_ENOUGH {
            // Records are freed only when everything is in place.
            let due = full || self.core.segments.full() >= 2 * generation(self.core);
            return if due { self.write_back_all() } else { Ok(()) };
        }
        let old = self.group.history.old_lines();
        if filled {
            let young = self.core.segments.full().saturating_sub(self.group.old_segments);
            let left = generation(self.core).saturating_sub(young);
            self.group.due_lines = old.div_ceil(left.max(1));
            self.group.turn_due = left == 0;
        }
        if !self.group.turn_due && !full || old > 0 && self.core.memory.domain().evicts() {
            return Ok(());
        }
        self.turn()
    }

    /// Frees the old generation's records; the young one becomes the old one.
    pub(super) fn turn(&mut self) -> Result<()> {
        self.group.broken = true;
        if !self.core.memory.domain().evicts() {
            // Lines written back from here on must not be durable before the records that hold them.
            self.group.writer.fence(self.core)?;
            self.write_back_old(usize::MAX);
            self.group.writer.fence(self.core)?;
        }
        self.cut_log(self.group.old_up_to)?;
        self.group.history.turn();
        self.turned();
        self.group.broken = false;
        Ok(())
    }

    /// The young generation has become the old one.
    pub(super) fn turned(&mut self) {
        self.group.old_up_to = self.core.last_commit();
        self.group.old_segments = self.core.segments.full();
        self.group.due_lines = self.group.history.old_lines().div_ceil(generation(self.core));
        self.group.turn_due = false;
    }
}

/// Segments that a generation of records fills.
pub(super) fn generation<M: Memory>(core: &Core<M>) -> usize {
    (core.geometry.segments as usize * GENERATION.0 / GENERATION.1).max(1)
}
