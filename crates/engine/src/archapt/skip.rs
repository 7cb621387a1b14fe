//! A group that skips write-backs: see [`cover`](super::cover).

use super::cover::Matrices;
use super::group::{Group, write_back};
use super::{Archapt, Base};
use crate::Result;
use crate::logged::Logged;
use perdura_memory::Memory;
use std::sync::atomic::Ordering;

impl Group {
    /// Whether checksums vouch for a line of `[at, at + len)`.
    pub(super) fn covers<M: Memory>(&self, memory: &M, at: u64, len: u64) -> bool {
        self.cover.any(memory, at, len)
    }

    /// Takes what the open group stores to out of the checksums, in the same record.
    pub(super) fn uncover<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        let Group { writer, cover, .. } = self;
        cover.uncover(&*engine.memory, &mut writer.writes, B::LOG_IS_ENOUGH);
        let given_up = std::mem::take(&mut cover.given_up);
        if given_up.is_empty() {
            return Ok(());
        }
        given_up.iter().for_each(|line| write_back(engine, &mut writer.counters, cover, *line));
        // Before the record that uncovers them: nothing else protects them.
        writer.fence(engine)
    }

    /// The old generation leaves: its lines have probably left the caches by themselves. From now
    /// on checksums vouch for those that are worth it, by groups that are nobody's; the others
    /// are written back. No group is open.
    pub(super) fn let_old_lines_be_covered<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        self.usable(engine)?;
        self.broken = true;
        let mut lines: Vec<u64> =
            std::iter::from_fn(|| self.history.leave()).map(|(line, _)| line).collect();
        lines.sort_unstable();
        let (sums, lines): (Vec<u64>, Vec<u64>) =
            lines.into_iter().partition(|line| self.cover.matrices.has(*line));
        self.write_back_lines(engine, &sums);
        let mut covered = Vec::new();
        for region in lines.chunk_by(Matrices::same_region) {
            let Group { writer, cover, .. } = self;
            if !cover.cover(&*engine.memory, &mut writer.writes, region) {
                self.write_back_lines(engine, region);
                continue;
            }
            covered.extend_from_slice(region);
            if writer.record_bytes() >= self.most_bytes(engine) {
                self.commit_cover(engine, &mut covered);
            }
        }
        self.commit_cover(engine, &mut covered);
        self.writer.fence(engine)?;
        self.broken = false;
        Ok(())
    }

    /// Commits the writer's words, which cover the lines in `covered`, as a group; or, where that
    /// cannot be, has these lines written back.
    fn commit_cover<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        covered: &mut Vec<u64>,
    ) {
        let lines = std::mem::take(covered);
        if self.has_room(engine, self.writer.record_bytes()) && self.commit_own(engine).is_ok() {
            return;
        }
        self.writer.forget();
        // If the medium has failed, the fence after these says so.
        self.write_back_lines(engine, &lines);
    }

    /// Commits the writer's words as a group that no client waits for; or forgets them.
    fn commit_own<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) -> Result<()> {
        if self.writer.writes.is_empty() {
            return Ok(());
        }
        let ticket = engine.committed.0.load(Ordering::Relaxed) + 1;
        let before = self.writer.counters.write_backs_log;
        if let Err(error) = B::log(engine, &mut self.writer, &self.history, ticket) {
            self.writer.forget();
            return Err(error);
        }
        let was_broken = std::mem::replace(&mut self.broken, true);
        let counters = &mut self.writer.counters;
        counters.write_backs_checksum += counters.write_backs_log - before;
        counters.write_backs_log = before;
        self.store_in_place::<M, B>(engine);
        engine.committed.0.store(ticket, Ordering::Release);
        self.writer.forget();
        self.broken = was_broken;
        Ok(())
    }

    fn write_back_lines<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        lines: &[u64],
    ) {
        let Group { writer, cover, .. } = self;
        lines.iter().for_each(|line| write_back(engine, &mut writer.counters, cover, *line));
    }

    /// Writes back every line that is covered, and covers none any more.
    pub(super) fn write_back_covered<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        self.empty_log(engine)?;
        let regions: Vec<u64> = self.cover.matrices.covered_regions(&*engine.memory).collect();
        for region in &regions {
            let lines = self.cover.lines_of(&*engine.memory, *region);
            self.write_back_lines(engine, &lines);
        }
        self.writer.fence(engine)?;
        for region in regions {
            self.cover.give_up(&*engine.memory, &mut self.writer.writes, region);
            if self.writer.record_bytes() >= self.most_bytes(engine) {
                self.make_room(engine, self.writer.record_bytes())?;
                self.commit_own(engine)?;
            }
        }
        self.make_room(engine, self.writer.record_bytes())?;
        self.commit_own(engine)?;
        self.write_back_all(engine)
    }
}
