//! When lines are written back, and when generations turn.
//!
//! An old generation leaves while the young one fills its part of the log, each group writing back
//! as much of it as the group takes of that part: nobody's commit waits for more lines than its
//! group is answerable for. Where more lines wait than may, a group writes back as many as it adds
//! and what is in excess. So at most one group's lines are in excess, when the old generation has
//! none left to give, until the turn that follows.

use super::group::Group;
use super::{Archapt, Base};
use crate::Result;
use crate::logged::Logged;
use perdura_memory::Memory;
use std::sync::atomic::Ordering;

/// The share of the log that a generation of records fills: two of them, and some segments for
/// whatever comes meanwhile.
const GENERATION: (usize, usize) = (3, 8);

impl Group {
    /// Writes back as many old lines as are due with this group: before the group's record, whose
    /// fence covers what the same thread has asked for. The next fence may be another thread's.
    pub(super) fn let_old_lines_leave<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) {
        if self.history.old_lines() == 0 || !B::LOG_IS_ENOUGH || !engine.memory.domain().evicts() {
            return;
        }
        let due = self.due_with(self.writer.record_bytes(), engine.geometry.segment_bytes);
        let excess = match B::SKIPS {
            // They leave all at once, and most without a write-back.
            true => 0,
            false => self.history.excess_with(self.writer.writes.stored_lines()),
        };
        self.write_back_old(engine, due.max(excess));
    }

    /// Of the lines that are due while a segment fills, the share of a record of so many bytes. An
    /// eighth faster than need be: records do not fill a segment to its end.
    fn due_with(&mut self, record: u64, segment: u64) -> usize {
        let (due, share) = (self.due_lines as u64 * record + self.due_rest, segment - segment / 8);
        self.due_rest = due % share;
        (due / share) as usize
    }

    /// Turns when the young generation has filled its part of the log, and sees to it that the
    /// old one has left by then.
    pub(super) fn recycle<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        if B::SKIPS && self.history.has_passed() && engine.memory.domain().evicts() {
            self.let_old_lines_be_covered(engine)?;
        }
        let filled = std::mem::take(&mut self.writer.filled);
        let full = !B::SKIPS && self.history.is_full();
        if !filled && !full && !self.turn_due {
            return Ok(());
        }
        if !B::LOG_IS_ENOUGH {
            // Records go only when everything is in place.
            let due = full || engine.segments.full() >= 2 * generation(engine);
            return if due { self.write_back_all(engine) } else { Ok(()) };
        }
        let old = self.history.old_lines();
        if filled {
            let young = engine.segments.full().saturating_sub(self.old_segments);
            let left = generation(engine).saturating_sub(young);
            self.due_lines = old.div_ceil(left.max(1));
            self.turn_due = left == 0;
        }
        if !self.turn_due && !full || old > 0 && engine.memory.domain().evicts() {
            return Ok(());
        }
        self.turn(engine)
    }

    /// Lets the old generation's records go; the young one becomes the old one.
    pub(super) fn turn<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        self.broken = true;
        if !engine.memory.domain().evicts() {
            // What is written back now must not be durable before the records that hold it.
            self.writer.fence(engine)?;
            self.write_back_old(engine, usize::MAX);
            self.writer.fence(engine)?;
        }
        self.cut_log(engine, self.old_up_to)?;
        self.history.turn();
        self.turned(engine);
        self.broken = false;
        Ok(())
    }

    /// The young generation has become the old one.
    pub(super) fn turned<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) {
        self.old_up_to = engine.committed.0.load(Ordering::Relaxed);
        self.old_segments = engine.segments.full();
        self.due_lines = self.history.old_lines().div_ceil(generation(engine));
        self.turn_due = false;
    }
}

/// Segments that a generation of records fills.
pub(super) fn generation<M: Memory, B: Base>(engine: &Logged<M, Archapt<B>>) -> usize {
    (engine.geometry.segments as usize * GENERATION.0 / GENERATION.1).max(1)
}
