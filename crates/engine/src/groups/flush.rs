//! Group flushes (physical commits): when a thread waits, and when a logical commit has become too old.

use super::base::Base;
use super::group::Leader;
use crate::Result;
use crate::planted::{self, Bug};
use perdura_memory::Memory;

impl<M: Memory, B: Base> Leader<'_, M, B> {
    /// Closes the open group, which a thread waits for: it is durable, or will be with the next fence.
    pub(super) fn close_awaited(&mut self, number: u64) -> Result<()> {
        if !B::LOG_IS_ENOUGH {
            return self.flush(number);
        }
        // On a block device the waiting thread fences, while others may enter.
        self.group.first_checked = 0;
        self.close()
    }

    /// Physical commit of everything up to the group `number`, if not done yet.
    pub(super) fn flush(&mut self, number: u64) -> Result<()> {
        let durable = || self.core.durable() >= number;
        if durable() {
            return Ok(());
        }
        self.close()?;
        if durable() {
            return Ok(());
        }
        if B::LOG_IS_ENOUGH {
            // On a block device records wait for a sync.
            let committed = self.core.last_commit();
            self.group.writer.fence(self.core)?;
            self.flushed(committed);
            return Ok(());
        }
        self.empty_log()
    }

    /// Physical commit of the open group if its oldest transaction is old enough.
    pub(super) fn flush_if_due(&mut self) -> Result<()> {
        let joined = !self.none_has_joined();
        let waiting = joined || self.core.durable() < self.core.last_commit();
        if !waiting {
            return Ok(());
        }
        let now = self.core.memory.now().max(1);
        if self.group.first_checked == 0 {
            self.group.first_checked = now;
        } else if now.saturating_sub(self.group.first_checked) >= self.group.flush_within {
            let last = self.core.last_commit() + u64::from(joined);
            self.flush(last)?;
        }
        Ok(())
    }

    /// Closes the group, writes every waiting line back and truncates the log.
    pub(super) fn empty_log(&mut self) -> Result<()> {
        self.close()?;
        self.write_back_all()
    }

    pub(super) fn write_back_all(&mut self) -> Result<()> {
        self.usable()?;
        let last = self.core.last_commit();
        self.group.broken = true;
        if !self.core.memory.domain().evicts() {
            // As in `turn`.
            self.group.writer.fence(self.core)?;
        }
        self.write_back_old(usize::MAX);
        self.group.history.turn();
        self.write_back_old(usize::MAX);
        // The words known from the log are gone with it.
        self.group.old_words_known &= self.group.writer.writes.is_empty() && self.none_has_joined();
        if planted::has(Bug::DurableBeforeFence) {
            self.core.set_durable(last);
        }
        self.group.writer.fence(self.core)?;
        self.cut_log(last)?;
        if !planted::has(Bug::OldWordsBelieved) {
            self.group.history.log_is_cut(&*self.core.memory);
        }
        self.group.writer.rewind(self.core);
        self.group.old_up_to = last;
        (self.group.old_segments, self.group.due_lines, self.group.turn_due) = (0, 0, false);
        self.group.broken = false;
        self.flushed(last);
        Ok(())
    }

    /// Everything up to the group `last` is durable.
    #[inline]
    pub(super) fn flushed(&mut self, last: u64) {
        // Only the writer changes it, so no locked instruction is needed.
        debug_assert!(self.core.durable() <= last);
        self.core.set_durable(last);
        self.group.first_checked = 0;
    }
}
