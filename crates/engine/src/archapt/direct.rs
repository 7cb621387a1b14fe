//! Commits whose maker waits for the answer at once.
//!
//! Where nobody else's words wait in the open group there is nothing to share: the transaction
//! is written down from the session's own write set, with the lock taken once. It joins no group,
//! and no later read has to look through its words.

use super::group::{Group, TICKET_BITS};
use super::{Archapt, Base};
use crate::logged::Logged;
use crate::writer::Writer;
use crate::{Result, Ticket};
use perdura_memory::Memory;
use std::sync::atomic::Ordering;

impl Group {
    /// Commits the transaction in `session`, durably unless its maker's wait has to see to that.
    #[inline]
    pub(super) fn commit_awaited<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        session: &mut Writer,
    ) -> Result<Ticket> {
        if !engine.memory.domain().evicts() {
            // One sync serves all that have joined when somebody waits.
            return self.join(engine, session);
        }
        self.usable(engine)?;
        engine.next_number()?;
        let nobody_joined = self.nobody_joined(engine);
        if nobody_joined && B::LOG_IS_ENOUGH {
            return self.commit_alone(engine, session);
        }
        let fits = session.record_bytes() <= engine.geometry.segment_bytes;
        if !B::SKIPS && nobody_joined && self.history.is_empty() && fits {
            return self.commit_in_place(engine, session);
        }
        let ticket = self.join(engine, session)?;
        // The transaction is committed whatever comes of this: a failure shows in the wait.
        let _ = self.answer(engine, ticket.0 >> TICKET_BITS);
        Ok(ticket)
    }

    /// The transaction in `session` is a group of its own; if it cannot be logged, only it fails.
    /// Nobody has joined the open group.
    pub(super) fn commit_alone<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        session: &mut Writer,
    ) -> Result<Ticket> {
        let ticket = self.swap_alone(engine, session);
        let stored = self.log_and_store(engine);
        self.forget();
        self.swap(session);
        stored?;
        self.writer.counters.commits += 1;
        self.stored(engine);
        Ok(ticket)
    }

    /// Swaps what the group wants to store for what the session does: and back again, so that
    /// sessions keep buffers that are in their processors' caches.
    #[inline]
    fn swap(&mut self, session: &mut Writer) {
        std::mem::swap(&mut self.writer.writes, &mut session.writes);
        if self.writer.fresh.len() + session.fresh.len() > 0 {
            std::mem::swap(&mut self.writer.fresh, &mut session.fresh);
        }
    }

    /// [Swaps](Self::swap), where the transaction is a group of its own. Its ticket, the first one of
    /// that group.
    #[inline]
    fn swap_alone<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        session: &mut Writer,
    ) -> Ticket {
        self.swap(session);
        self.old_words_known = false;
        let number = engine.committed.0.load(Ordering::Relaxed) + 1;
        Ticket(number << TICKET_BITS)
    }

    /// As plain undo logging does it: no line waits, and none will. The log is cut behind the
    /// transaction, so that the next one finds the same place free.
    fn commit_in_place<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        session: &mut Writer,
    ) -> Result<Ticket> {
        self.make_room(engine, session.record_bytes())?;
        let ticket = self.swap_alone(engine, session);
        let stored = self.store_in_place_alone(engine, ticket.0 >> TICKET_BITS);
        self.forget();
        self.swap(session);
        stored.map(|()| ticket)
    }

    /// Logs the transaction that has been taken over, stores it, and cuts the log behind it.
    fn store_in_place_alone<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        number: u64,
    ) -> Result<()> {
        self.broken = true;
        if let Err(error) = self.log_old_words(engine, number) {
            // For fresh memory; nothing else has been stored.
            self.writer.fence(engine)?;
            self.broken = false;
            return Err(error);
        }
        self.writer.fence(engine)?;
        // Until it is durable: what readers see may be answered.
        engine.be_alone();
        self.writer.apply_and_write_back(engine);
        self.writer.fence(engine)?;
        self.cut_log(engine, number)?;
        self.writer.rewind(engine);
        engine.committed.0.store(number, Ordering::Release);
        self.answered(engine, number);
        self.old_up_to = number;
        self.broken = false;
        self.writer.counters.commits += 1;
        Ok(())
    }

    /// Asks for the record of the old words, and for fresh memory, to become durable.
    fn log_old_words<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        number: u64,
    ) -> Result<()> {
        let Group { writer, .. } = self;
        writer.flush_fresh(engine);
        writer
            .append(engine, number, |entry, word| engine.memory.load(entry.line + word as u64 * 8))
    }
}
