//! Physical commits: when somebody waits, and when what has committed logically has waited for long.

use super::group::Group;
use super::{Archapt, Base};
use crate::Result;
use crate::logged::Logged;
use crate::planted::{self, Bug};
use perdura_memory::Memory;
use std::sync::atomic::Ordering;

impl Group {
    /// Physical commit of everything up to the group `number`, if it has not happened.
    pub(super) fn answer<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        number: u64,
    ) -> Result<()> {
        let durable = || engine.durable.0.load(Ordering::Acquire) >= number;
        if durable() {
            return Ok(());
        }
        self.close(engine)?;
        if durable() {
            return Ok(());
        }
        if B::LOG_IS_ENOUGH {
            // On a block device records wait for a sync.
            let committed = engine.committed.0.load(Ordering::Relaxed);
            self.writer.fence(engine)?;
            self.answered(engine, committed);
            return Ok(());
        }
        self.empty_log(engine)
    }

    /// Physical commit of the open group if its oldest transaction has waited long enough.
    pub(super) fn answer_if_due<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        let joined = !self.nobody_joined(engine);
        let waiting = joined
            || engine.durable.0.load(Ordering::Relaxed)
                < engine.committed.0.load(Ordering::Relaxed);
        if !waiting {
            return Ok(());
        }
        let now = engine.memory.now().max(1);
        if self.looked == 0 {
            self.looked = now;
        } else if now.saturating_sub(self.looked) >= self.answer_within {
            let last = engine.committed.0.load(Ordering::Relaxed) + u64::from(joined);
            self.answer(engine, last)?;
        }
        Ok(())
    }

    /// Closes the group, writes every waiting line back and cuts the log behind it.
    pub(super) fn empty_log<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        self.close(engine)?;
        self.write_back_all(engine)
    }

    pub(super) fn write_back_all<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        self.usable(engine)?;
        let last = engine.committed.0.load(Ordering::Relaxed);
        self.broken = true;
        if !engine.memory.domain().evicts() {
            // As in `turn`.
            self.writer.fence(engine)?;
        }
        self.write_back_old(engine, usize::MAX);
        self.history.turn();
        self.write_back_old(engine, usize::MAX);
        // Those that the log had are gone from it.
        self.old_words_known &= self.writer.writes.is_empty() && self.nobody_joined(engine);
        if planted::has(Bug::DurableBeforeFence) {
            engine.durable.0.store(last, Ordering::Release);
        }
        self.writer.fence(engine)?;
        self.cut_log(engine, last)?;
        if !planted::has(Bug::OldWordsBelieved) {
            self.history.log_is_cut();
        }
        self.writer.rewind(engine);
        self.old_up_to = last;
        (self.old_segments, self.due_lines, self.turn_due) = (0, 0, false);
        self.broken = false;
        self.answered(engine, last);
        Ok(())
    }

    /// Everything up to the group `last` is durable.
    #[inline]
    pub(super) fn answered<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        last: u64,
    ) {
        // Only the writer changes it, which needs no locked instruction then.
        debug_assert!(engine.durable.0.load(Ordering::Relaxed) <= last);
        engine.durable.0.store(last, Ordering::Release);
        self.looked = 0;
    }
}
