//! The open group, as others see it: the transactions that have joined it, in an [`Overlay`].
//!
//! A transaction that joins adds to it with readers in, which go on seeing what they saw. It is emptied, once the
//! group is stored in place, while the writer is alone. All the rest of the state is the writer's
//! own, so that records are written, fenced, and lines written back, with readers in.

use super::base::{Base, first_old_words};
use super::group::{Group, Leader, QUEUE_SHARE};
use crate::Ticket;
use crate::consistency::shared;
use crate::consistency::writer::Writer;
use crate::writes::overlay::Overlay;
use perdura_memory::Memory;

impl<M: Memory, B: Base> Leader<'_, M, B> {
    /// Transactions in the open group.
    #[inline(always)]
    pub(super) fn joined(&self) -> u64 {
        self.open.get().joined(&*self.core.memory)
    }

    /// Whether no transaction has joined.
    #[inline(always)]
    pub(super) fn nobody_joined(&self) -> bool {
        self.joined() == 0
    }

    /// The transaction in `session` joins, beside readers. Its ticket.
    pub(super) fn take(&mut self, session: &mut Writer) -> Ticket {
        if B::SKIPS {
            self.group.fresh_lines += session.fresh_lines();
        }
        let Group { writer: Writer { fresh, old, .. }, history, cover, .. } = &mut *self.group;
        let ticket = shared::take(self.core, &mut self.open, &session.writes, |entry, had| {
            if !B::LOG_IS_ENOUGH {
                // Now, with the lines in this processor's caches, and not when the group is closed.
                first_old_words(&*self.core.memory, entry, had, (history, cover), old);
            }
        });
        fresh.append(&mut session.fresh);
        ticket
    }

    /// The open group is over, its words in place: a new one begins.
    pub(super) fn begin(&mut self) {
        let memory = &*self.core.memory;
        self.open.change(memory, |overlay: &mut Overlay| overlay.clear(memory));
    }

    /// An upper bound of the record's bytes if the transaction joins.
    pub(super) fn bytes_with(&self, session: &Writer) -> u64 {
        shared::bytes_with(self.core, self.open.get(), &session.writes)
    }

    /// Whether the group would be too large a part of the queue, if the transaction joined: its lines
    /// wait from one moment on. Whether somebody reads or not.
    pub(super) fn has_too_many_lines_with(&self, session: &Writer) -> bool {
        let stored = self.open.get().size(&*self.core.memory).0 + session.writes.stored_lines();
        let lines = stored as u64 + self.group.fresh_lines + session.fresh_lines();
        lines > self.group.history.capacity() as u64 / QUEUE_SHARE
    }

    /// What the writer is to write down is what has joined.
    pub(super) fn collect(&mut self) {
        let (memory, writes) = (&*self.core.memory, &mut self.group.writer.writes);
        writes.clear(memory);
        self.open.get().lines(memory).for_each(|entry| writes.push(memory, &entry));
    }

    /// Runs `body`; what is counted meanwhile counts for the session that makes it happen.
    #[inline]
    pub(super) fn counting_for<R>(
        &mut self,
        session: &mut Writer,
        body: impl FnOnce(&mut Self, &mut Writer) -> R,
    ) -> R {
        std::mem::swap(&mut self.group.writer.counters, &mut session.counters);
        let result = body(self, session);
        std::mem::swap(&mut self.group.writer.counters, &mut session.counters);
        result
    }
}
