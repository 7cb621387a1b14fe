//! A group that skips write-backs: see [`cover`](super::cover).

use super::group::{Group, write_back};
use super::history::Leaving;
use super::pace::generation;
use super::{Archapt, Base};
use crate::Result;
use crate::logged::Logged;
use perdura_memory::Memory;
use std::sync::atomic::Ordering;

/// One line in so many is few.
const FEW: usize = 8;
/// How often room for images is looked for without finding any, before all covered lines are
/// written back.
const IDLE: usize = 4;

impl Group {
    /// Whether checksums vouch for a line of `[at, at + len)`.
    pub(super) fn covers(&self, at: u64, len: u64) -> bool {
        self.cover.any(at, len)
    }

    /// Sees to it that the before-images of the lines that the group stores to find their place.
    pub(super) fn make_room_for_images<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        if self.cover.has_room_for(&self.writer.writes) {
            return Ok(());
        }
        self.writer.leave_segment(engine);
        self.write_back_all(engine)?;
        // All groups are durable, and no record is needed: batches can be void, and chunks clean.
        let (mut free, mut idle) = (self.cover.free_chunks(), 0);
        while idle < IDLE && self.cover.has_few_chunks() {
            self.broken = true;
            self.cover_lines(engine, Vec::new())?;
            self.writer.fence(engine)?;
            self.cover.cleaned();
            self.broken = false;
            let now = self.cover.free_chunks();
            idle = if now > free { 0 } else { idle + 1 };
            free = free.max(now);
        }
        if self.cover.has_room_for(&self.writer.writes) {
            return Ok(());
        }
        self.write_back_covered(engine)
    }

    /// Takes what the group stores to from the batches that cover it, for good; the caller fences.
    /// Whether there is any.
    pub(super) fn uncover<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        ticket: u64,
    ) -> bool {
        let Group { writer, cover, .. } = self;
        let parts = cover.uncover(&*engine.memory, &mut writer.counters, &writer.writes, ticket);
        // What images take back, with undo, is taken back after what the log does.
        writer.parts_before = if B::LOG_IS_ENOUGH { parts } else { 0 };
        parts > 0
    }

    /// As many lines were stored to as the queue has: the old generation leaves, whose lines have
    /// probably left the caches by themselves. From now on checksums vouch for them; those that are
    /// not worth it are written back. A line that was stored to since it became old waits on; but
    /// where these are few, or the log runs short, they are written back, and the log is cut. No group
    /// is open.
    pub(super) fn let_old_lines_be_covered<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        self.usable(engine)?;
        self.broken = true;
        let left = std::iter::from_fn(|| self.history.leave_before_records());
        let (recent, lines): (Vec<Leaving>, Vec<Leaving>) =
            left.partition(|leaving| leaving.recent);
        let cut = B::LOG_IS_ENOUGH
            && (recent.len() * FEW <= lines.len()
                || engine.segments.full() >= generation(engine) / 2);
        self.cover_lines(engine, lines.into_iter().map(|leaving| leaving.line).collect())?;
        if cut {
            let recent: Vec<u64> = recent.iter().map(|leaving| leaving.line).collect();
            self.write_back_lines(engine, &recent);
        }
        self.writer.fence(engine)?;
        self.cover.cleaned();
        if cut {
            return self.turn(engine);
        }
        self.history.turn();
        recent.iter().for_each(|leaving| self.history.keep(leaving));
        self.turned(engine);
        self.broken = false;
        Ok(())
    }

    /// Covers lines, or writes them back; the caller fences.
    fn cover_lines<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        lines: Vec<u64>,
    ) -> Result<()> {
        let last = engine.committed.0.load(Ordering::Relaxed);
        let durable = engine.durable.0.load(Ordering::Relaxed);
        let cut = engine.checkpointed.load(Ordering::Relaxed);
        let Group { writer, cover, .. } = self;
        cover.make_void(&*engine.memory, &mut writer.counters, durable);
        let rest = cover.cover(&*engine.memory, &mut writer.counters, lines, last);
        cover.clean(&*engine.memory, &mut writer.counters, cut)?;
        self.write_back_lines(engine, &rest);
        Ok(())
    }

    fn write_back_lines<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        lines: &[u64],
    ) {
        let counters = &mut self.writer.counters;
        lines.iter().for_each(|line| write_back(engine, counters, *line));
    }

    /// Writes back every line that is covered, and covers none any more. The log is empty.
    pub(super) fn write_back_covered<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        self.broken = true;
        let lines = self.cover.all_lines(&*engine.memory);
        self.write_back_lines(engine, &lines);
        self.writer.fence(engine)?;
        let Group { writer, cover, .. } = self;
        cover.give_up(&*engine.memory, &mut writer.counters, &lines);
        self.writer.fence(engine)?;
        self.broken = false;
        Ok(())
    }
}
