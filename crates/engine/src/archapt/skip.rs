//! A group that skips write-backs: see [`cover`](super::cover).

use super::cover::Skip;
use super::group::{Group, write_back};
use super::{Archapt, Base};
use crate::Result;
use crate::logged::Logged;
use perdura_memory::Memory;
use std::sync::atomic::Ordering;

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
        self.write_back_covered(engine)
    }

    /// Takes what the group stores to from the batches that cover it. The record's fence is after
    /// this: where a covered line is stored to there is one, for it has words that are in no log.
    pub(super) fn uncover<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        ticket: u64,
    ) {
        let Group { writer, cover, .. } = self;
        let parts = cover.uncover(&*engine.memory, &mut writer.counters, &writer.writes, ticket);
        // An undo log takes back what a group has stored; that needs no images.
        writer.parts_before = if B::LOG_IS_ENOUGH { parts } else { 0 };
    }

    /// The group that uncovered them will not be.
    pub(super) fn cover_again<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) {
        let Group { writer, cover, .. } = self;
        cover.cover_again(&*engine.memory, &mut writer.counters);
    }

    /// The old generation leaves: its lines have probably left the caches by themselves. From now
    /// on checksums vouch for them; those that are not worth it are written back. No group is
    /// open.
    pub(super) fn let_old_lines_be_covered<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        self.usable(engine)?;
        self.broken = true;
        // Who was stored to lately is in the caches, and will be stored to again.
        let always = self.cover.skip == Skip::Always;
        let (lines, recent): (Vec<_>, Vec<_>) =
            std::iter::from_fn(|| self.history.leave_for_good())
                .partition(|(_, recent)| always || !recent);
        let lines = lines.into_iter().map(|(line, _)| line).collect();
        let last = engine.committed.0.load(Ordering::Relaxed);
        let cut = engine.checkpointed.load(Ordering::Relaxed);
        let durable = engine.durable.0.load(Ordering::Relaxed);
        let Group { writer, cover, .. } = self;
        cover.make_void(&*engine.memory, &mut writer.counters, durable);
        let mut rest = cover.cover(&*engine.memory, &mut writer.counters, lines, last);
        rest.extend(recent.into_iter().map(|(line, _)| line));
        let cleaned = cover.clean(&*engine.memory, &mut writer.counters, cut)?;
        self.write_back_lines(engine, &rest);
        self.writer.fence(engine)?;
        if cleaned {
            self.cover.cleaned();
        }
        self.broken = false;
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
