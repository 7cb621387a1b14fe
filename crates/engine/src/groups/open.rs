//! The open group, as other sessions see it: the transactions that have joined it, in an [`Overlay`].
//!
//! A joining transaction adds to it while readers are inside, which keep seeing their own snapshots. It is emptied, once
//! the group is stored in place, while the writer is alone. All the rest of the state is the writer's own, so that
//! records are written and fenced, and lines written back, with readers inside.

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
    pub(super) fn none_has_joined(&self) -> bool {
        self.joined() == 0
    }

    /// Lets the transaction in `session` join, alongside readers; returns its ticket.
    pub(super) fn take(&mut self, session: &mut Writer) -> Ticket {
        if B::SKIPS {
            self.group.fresh_lines += session.fresh_lines();
        }
        let Group { writer: Writer { fresh, old, .. }, history, deferred, .. } = &mut *self.group;
        let ticket = shared::take(self.core, &mut self.open, &session.writes, |entry, had| {
            if !B::LOG_IS_ENOUGH {
                // Now, while the lines are in this processor's caches, and not when the group is closed.
                first_old_words(&*self.core.memory, entry, had, (history, deferred), old);
            }
        });
        fresh.append(&mut session.fresh);
        ticket
    }

    /// Begins a new open group once the words of the last one are in place.
    pub(super) fn begin(&mut self) {
        let memory = &*self.core.memory;
        self.open.change(memory, self.core, |overlay: &mut Overlay| overlay.clear(memory));
    }

    /// An upper bound of the record's bytes if the transaction joins.
    pub(super) fn bytes_with(&self, session: &Writer) -> u64 {
        shared::bytes_with(self.core, self.open.get(), &session.writes)
    }

    /// Whether the group, with the transaction, would take up too much of the queue, as its lines all begin to wait at
    /// once. Independent of readers.
    pub(super) fn has_too_many_lines_with(&self, session: &Writer) -> bool {
        let stored = self.open.get().size(&*self.core.memory).0 + session.writes.stored_lines();
        let lines = stored as u64 + self.group.fresh_lines + session.fresh_lines();
        lines > self.group.history.capacity() as u64 / QUEUE_SHARE
    }

    /// Collects the joined words as those to be logged.
    pub(super) fn collect(&mut self) {
        let (memory, writes) = (&*self.core.memory, &mut self.group.writer.writes);
        writes.clear(memory);
        self.open.get().lines(memory).for_each(|entry| writes.push(memory, &entry));
    }

    /// Runs `body`; its counts are added to those of the session that causes it.
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
