//! Skipped write-backs: the part of a group flush that defers lines; see [`deferred`](super::deferred).

use super::base::Base;
use super::group::{Group, Leader, write_back};
use super::history::Leaving;
use super::pace::generation;
use crate::Result;
use perdura_memory::Memory;

/// At most one line in this many counts as few.
const FEW: usize = 8;
/// How many attempts to find room for images may fail in a row before all deferred lines are written back.
const IDLE: usize = 4;

impl<M: Memory, B: Base> Leader<'_, M, B> {
    /// Ensures room for the before-images of the lines that the group stores to.
    pub(super) fn make_room_for_images(&mut self) -> Result<()> {
        if self.has_room_for_images() {
            return Ok(());
        }
        self.group.writer.leave_segment(self.core);
        self.write_back_all()?;
        // All groups are durable, and no record is needed: batches may become void, and chunks clean.
        let (mut free, mut idle) = (self.group.deferred.free_chunks(), 0);
        while idle < IDLE && self.group.deferred.has_few_chunks() {
            self.group.broken = true;
            self.defer_lines(Vec::new())?;
            self.group.writer.fence(self.core)?;
            self.group.deferred.cleaned();
            self.group.broken = false;
            let now = self.group.deferred.free_chunks();
            idle = if now > free { 0 } else { idle + 1 };
            free = free.max(now);
        }
        if self.has_room_for_images() {
            return Ok(());
        }
        self.write_back_deferred()
    }

    fn has_room_for_images(&self) -> bool {
        self.group.deferred.has_room_for(&*self.core.memory, &self.group.writer.writes)
    }

    /// Ends the deferral of all lines that the group stores to; the caller fences. Returns whether there were any.
    pub(super) fn end_deferral(&mut self, ticket: u64) -> bool {
        let Group { writer, deferred, .. } = &mut *self.group;
        let parts =
            deferred.end_deferral(&*self.core.memory, &mut writer.counters, &writer.writes, ticket);
        // With undo, images are applied after the log.
        writer.parts_before = if B::LOG_IS_ENOUGH { parts } else { 0 };
        parts > 0
    }

    /// As many lines were stored to as the queue has: the old generation leaves, whose lines have probably left the
    /// caches by themselves. From now on checksums protect them; those for which that is not worth it are written back.
    /// A line that was stored to since it became old waits on; but if these are few, or the log runs short, they are
    /// written back, and the log is truncated. No group is open.
    pub(super) fn let_old_lines_be_deferred(&mut self) -> Result<()> {
        self.usable()?;
        self.group.broken = true;
        let left =
            std::iter::from_fn(|| self.group.history.leave_before_records(&*self.core.memory));
        let (recent, lines): (Vec<Leaving>, Vec<Leaving>) =
            left.partition(|leaving| leaving.recent);
        let cut = B::LOG_IS_ENOUGH
            && (recent.len() * FEW <= lines.len()
                || self.core.segments.full() >= generation(self.core) / 2);
        self.defer_lines(lines.into_iter().map(|leaving| leaving.line).collect())?;
        if cut {
            let recent: Vec<u64> = recent.iter().map(|leaving| leaving.line).collect();
            self.write_back_lines(&recent);
        }
        self.group.writer.fence(self.core)?;
        self.group.deferred.cleaned();
        if cut {
            return self.turn();
        }
        self.group.history.turn();
        recent.iter().for_each(|leaving| self.group.history.keep(&*self.core.memory, leaving));
        self.turned();
        self.group.broken = false;
        Ok(())
    }

    /// Defers lines, or writes them back; the caller fences.
    fn defer_lines(&mut self, lines: Vec<u64>) -> Result<()> {
        let last = self.core.last_commit();
        let durable = self.core.durable();
        let cut = self.core.checkpointed();
        let Group { writer, deferred, .. } = &mut *self.group;
        deferred.make_void(&*self.core.memory, &mut writer.counters, durable);
        let rest = deferred.defer(&*self.core.memory, &mut writer.counters, lines, last);
        deferred.clean(&*self.core.memory, &mut writer.counters, cut)?;
        self.write_back_lines(&rest);
        Ok(())
    }

    fn write_back_lines(&mut self, lines: &[u64]) {
        let counters = &mut self.group.writer.counters;
        lines.iter().for_each(|line| write_back(self.core, counters, *line));
    }

    /// Writes back every deferred line, so that none is deferred any more. The log is empty.
    pub(super) fn write_back_deferred(&mut self) -> Result<()> {
        self.group.broken = true;
        let lines = self.group.deferred.all_lines(&*self.core.memory);
        self.write_back_lines(&lines);
        self.group.writer.fence(self.core)?;
        let Group { writer, deferred, .. } = &mut *self.group;
        deferred.give_up(&*self.core.memory, &mut writer.counters, &lines);
        self.group.writer.fence(self.core)?;
        self.group.broken = false;
        Ok(())
    }
}
