//! Commits that are waited for at once.
//!
//! If another writing transaction waits to enter, this one joins the group and lets it in: the last one leads for all.
//! If none does, and the open group has no words of other transactions, there is nothing to share: the transaction is
//! logged from the session's own write set, with the lock taken once. It joins no group, and no later read has to look
//! through its words.

use super::base::Base;
use super::group::Leader;
use crate::consistency::shared::TICKET_BITS;
use crate::consistency::writer::Writer;
use crate::{Result, Ticket};
use perdura_memory::Memory;

impl<M: Memory, B: Base> Leader<'_, M, B> {
    /// Commits the transaction in `session`, durably unless the caller's wait has to complete that.
    #[inline]
    pub(super) fn commit_awaited(&mut self, session: &mut Writer) -> Result<Ticket> {
        if !self.core.memory.domain().evicts() || self.shares() {
            // A later wait's single fence, or sync, serves all that have joined.
            return self.join(session);
        }
        self.usable()?;
        self.core.next_number()?;
        let none_has_joined = self.none_has_joined();
        if none_has_joined && B::LOG_IS_ENOUGH {
            return self.commit_alone(session);
        }
        let fits = session.record_bytes() <= self.core.geometry.segment_bytes;
        if !B::SKIPS && none_has_joined && self.group.history.is_empty() && fits {
            return self.commit_in_place(session);
        }
        let ticket = self.join(session)?;
        // The transaction is committed in any case: a failure shows in the wait.
        let _ = self.flush(ticket.0 >> TICKET_BITS);
        Ok(ticket)
    }

    /// Whether another transaction waits to enter, so that both can share a record.
    #[inline]
    fn shares(&mut self) -> bool {
        let wanted = self.open.is_wanted(&*self.core.memory);
        // The leader asks too, so that every commit is counted.
        let pays = (wanted || !self.none_has_joined())
            && self.core.memory.domain().needs_write_back()
            && self.group.choice.shares(&*self.core.memory);
        pays && wanted
    }

    /// Commits the transaction in `session` as a group of its own; if it cannot be logged, only it fails. The open
    /// group must be empty.
    pub(super) fn commit_alone(&mut self, session: &mut Writer) -> Result<Ticket> {
        let ticket = self.swap_alone(session);
        let stored = self.log_and_store();
        self.forget();
        self.swap(session);
        stored?;
        self.group.writer.counters.commits += 1;
        self.stored();
        Ok(ticket)
    }

    /// Swaps the group's write set with the session's: and back again, so that sessions keep buffers that are in their
    /// processors' caches.
    #[inline]
    fn swap(&mut self, session: &mut Writer) {
        std::mem::swap(&mut self.group.writer.writes, &mut session.writes);
        if self.group.writer.fresh.len() + session.fresh.len() > 0 {
            std::mem::swap(&mut self.group.writer.fresh, &mut session.fresh);
        }
    }

    /// [Swaps](Self::swap) for a transaction that is a group of its own. Returns its ticket, the first one of that
    /// group.
    #[inline]
    fn swap_alone(&mut self, session: &mut Writer) -> Ticket {
        self.swap(session);
        self.group.old_words_known = false;
        let number = self.core.last_commit() + 1;
        Ticket(number << TICKET_BITS)
    }

    /// As plain undo logging: no line waits, and none will. The log is truncated behind the transaction, so that the
    /// next one finds the same place free.
    fn commit_in_place(&mut self, session: &mut Writer) -> Result<Ticket> {
        self.make_room(session.record_bytes())?;
        let ticket = self.swap_alone(session);
        let stored = self.store_in_place_alone(ticket.0 >> TICKET_BITS);
        self.forget();
        self.swap(session);
        stored.map(|()| ticket)
    }

    /// Logs the swapped-in transaction, stores it, and truncates the log behind it.
    fn store_in_place_alone(&mut self, number: u64) -> Result<()> {
        self.group.broken = true;
        if let Err(error) = self.log_old_words(number) {
            // For fresh memory; nothing else has been stored.
            self.group.writer.fence(self.core)?;
            self.group.broken = false;
            return Err(error);
        }
        self.group.writer.fence(self.core)?;
        // Until it is durable: transactions that readers see may be acknowledged.
        self.core.be_alone(&mut self.open);
        self.group.writer.apply_and_write_back(self.core);
        self.group.writer.fence(self.core)?;
        self.cut_log(number)?;
        self.group.writer.rewind(self.core);
        self.core.set_last_commit(number);
        self.flushed(number);
        self.group.old_up_to = number;
        self.group.broken = false;
        self.group.writer.counters.commits += 1;
        Ok(())
    }

    /// Asks for the record of the old words, and for fresh memory, to become durable.
    fn log_old_words(&mut self, number: u64) -> Result<()> {
        let (core, writer) = (self.core, &mut self.group.writer);
        writer.flush_fresh(core);
        let old = |line: u64, word: usize| core.memory.load(line + word as u64 * 8);
        writer.append(core, number, |entry, word| old(entry.line, word), |_| Ok(()))?;
        Ok(())
    }
}
