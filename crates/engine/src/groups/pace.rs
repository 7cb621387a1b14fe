//! When lines are written back, and when generations turn.
//!
//! An old generation leaves while the young one fills its part of the log, each group writing back
//! as much of it as the group takes of that part: nobody's commit waits for more lines than its
//! group is answerable for. Where more lines wait than may, a group writes back as many as it adds
//! and what is in excess. So at most one group's lines are in excess, when the old generation has
//! none left to give, until the turn that follows.

use super::base::Base;
use super::group::Leader;
use crate::Result;
use crate::consistency::core::Core;
use perdura_memory::Memory;

/// The share of the log that a generation of records fills: two of them, and some segments for
/// whatever comes meanwhile.
const GENERATION: (usize, usize) = (3, 8);

impl<M: Memory, B: Base> Leader<'_, M, B> {
    /// Writes back as many old lines as are due with this group: before the group's record, whose
    /// fence covers what the same thread has asked for. The next fence may be another thread's.
    pub(super) fn let_old_lines_leave(&mut self) {
        if self.group.history.old_lines() == 0
            || !B::LOG_IS_ENOUGH
            || !self.core.memory.domain().evicts()
        {
            return;
        }
        let due = self.due_with(self.group.writer.record_bytes(), self.core.geometry.segment_bytes);
        let excess = match B::SKIPS {
            // They leave all at once, and most without a write-back.
            true => 0,
            false => self.group.history.excess_with(self.group.writer.writes.stored_lines()),
        };
        self.write_back_old(due.max(excess));
    }

    /// Of the lines that are due while a segment fills, the share of a record of so many bytes. An
    /// eighth faster than need be: records do not fill a segment to its end.
    fn due_with(&mut self, record: u64, segment: u64) -> usize {
        let (due, share) =
            (self.group.due_lines as u64 * record + self.group.due_rest, segment - segment / 8);
        self.group.due_rest = due % share;
        (due / share) as usize
    }

    /// Turns when the young generation has filled its part of the log, and sees to it that the
    /// old one has left by then.
    pub(super) fn recycle(&mut self) -> Result<()> {
        if B::SKIPS && self.group.history.has_passed() && self.core.memory.domain().evicts() {
            self.let_old_lines_be_covered()?;
        }
        let filled = std::mem::take(&mut self.group.writer.filled);
        let full = !B::SKIPS && self.group.history.is_full();
        if !filled && !full && !self.group.turn_due {
            return Ok(());
        }
        if !B::LOG_IS_ENOUGH {
            // Records go only when everything is in place.
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

    /// Lets the old generation's records go; the young one becomes the old one.
    pub(super) fn turn(&mut self) -> Result<()> {
        self.group.broken = true;
        if !self.core.memory.domain().evicts() {
            // What is written back now must not be durable before the records that hold it.
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
        self.group.old_up_to = self.core.committed();
        self.group.old_segments = self.core.segments.full();
        self.group.due_lines = self.group.history.old_lines().div_ceil(generation(self.core));
        self.group.turn_due = false;
    }
}

/// Segments that a generation of records fills.
pub(super) fn generation<M: Memory>(core: &Core<M>) -> usize {
    (core.geometry.segments as usize * GENERATION.0 / GENERATION.1).max(1)
}
