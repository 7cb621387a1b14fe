//! The open group, as others see it: the transactions that have joined it, in an [`Overlay`].
//!
//! Whoever joins adds to it with readers in, who go on seeing what they saw. It is emptied, once the
//! group is stored in place, while the writer is alone. All the rest of the state is the writer's
//! own, so that records are written, fenced, and lines written back, with readers in.

use super::base::first_old_words;
use super::group::{Group, QUEUE_SHARE, TICKET_BITS};
use super::{Archapt, Base};
use crate::guarded::Guarded;
use crate::logged::{Logged, last_ticket};
use crate::overlay::Overlay;
use crate::record;
use crate::writer::Writer;
use crate::{Counters, Ticket};
use perdura_memory::Memory;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The engine's state.
pub struct State {
    overlay: Guarded<Overlay>,
    group: Guarded<Group>,
    /// What was done for no session in particular. Apart from the group, so that it can be asked for
    /// without waiting for the writer; held for no access to the memory.
    counters: Mutex<Counters>,
}

impl State {
    pub(super) fn new(group: Group) -> Self {
        let (overlay, group) = (Guarded::new(Overlay::default()), Guarded::new(group));
        State { overlay, group, counters: Mutex::default() }
    }

    pub(super) fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has committed logically, and is not in the memory.
    ///
    /// # Safety
    /// The caller is in a transaction, or is the writer.
    #[inline(always)]
    pub(super) unsafe fn overlay(&self) -> &Overlay {
        // SAFETY: it is only had mutably while the writer is alone, which whoever is in a transaction,
        // and is not the writer, keeps it from being. The writer's own references end before it
        // calls `change`.
        unsafe { self.overlay.get() }
    }

    /// The writer's part.
    ///
    /// # Safety
    /// The caller is the writer, and has no other reference from here meanwhile.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn group(&self) -> &mut Group {
        // SAFETY: nobody else reaches in, as the contract says.
        unsafe { self.group.get_mut() }
    }
}

/// The open group as the writer sees it: whoever has a [`Group`] is the writer.
impl Group {
    #[inline(always)]
    fn overlay<'a, M: Memory, B: Base>(&self, engine: &'a Logged<M, Archapt<B>>) -> &'a Overlay {
        // SAFETY: only the writer has the group.
        unsafe { engine.state.overlay() }
    }

    /// Transactions in the open group.
    #[inline(always)]
    pub(super) fn joined<M: Memory, B: Base>(&self, engine: &Logged<M, Archapt<B>>) -> u64 {
        self.overlay(engine).joined()
    }

    /// Whether no transaction has joined.
    #[inline(always)]
    pub(super) fn nobody_joined<M: Memory, B: Base>(&self, engine: &Logged<M, Archapt<B>>) -> bool {
        self.joined(engine) == 0
    }

    /// Changes the overlay, alone from here on.
    fn change<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        change: impl FnOnce(&mut Overlay),
    ) {
        engine.lock.be_alone(&*engine.memory);
        // SAFETY: only the writer has the group, it is alone, and `change` reaches in nowhere else.
        change(unsafe { engine.state.overlay.get_mut() });
    }

    /// The transaction in `session` joins, beside readers. Its ticket.
    pub(super) fn take<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        session: &mut Writer,
    ) -> Ticket {
        let lines = session.writes.stored_lines();
        if !self.overlay(engine).has_room(lines) {
            self.change(engine, |overlay| overlay.make_room(lines));
        }
        let overlay = self.overlay(engine);
        if B::SKIPS {
            self.fresh_lines += session.fresh_lines();
        }
        let Group { writer: Writer { fresh, old, .. }, history, cover, .. } = self;
        for entry in session.writes.entries().iter().filter(|entry| entry.mask != 0) {
            let had = overlay.add(entry);
            if !B::LOG_IS_ENOUGH {
                // Now, with the lines in this processor's caches, and not when the group is closed.
                first_old_words(&*engine.memory, entry, had, (history, cover), old);
            }
        }
        fresh.append(&mut session.fresh);
        overlay.join();
        ticket(engine, overlay.joined())
    }

    /// The open group is over, its words in place: a new one begins.
    pub(super) fn begin<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) {
        self.change(engine, Overlay::clear);
    }

    /// An upper bound of the record's bytes if the transaction joins.
    pub(super) fn bytes_with<M: Memory, B: Base>(
        &self,
        engine: &Logged<M, Archapt<B>>,
        session: &Writer,
    ) -> u64 {
        let ((lines, words), more) = (self.overlay(engine).size(), &session.writes);
        record::words_for(lines + more.stored_lines(), words + more.words()) as u64 * 8
    }

    /// Whether the group would be too large a part of the queue, if the transaction joined: its lines
    /// wait from one moment on. Whether somebody reads or not.
    pub(super) fn has_too_many_lines_with<M: Memory, B: Base>(
        &self,
        engine: &Logged<M, Archapt<B>>,
        session: &Writer,
    ) -> bool {
        let stored = self.overlay(engine).size().0 + session.writes.stored_lines();
        let lines = stored as u64 + self.fresh_lines + session.fresh_lines();
        lines > self.history.capacity() as u64 / QUEUE_SHARE
    }

    /// What the writer is to write down is what has joined.
    pub(super) fn collect<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) {
        self.writer.writes.clear();
        self.overlay(engine).lines().for_each(|entry| self.writer.writes.push(&entry));
    }

    /// Runs `body`; what is counted meanwhile counts for the session that makes it happen.
    #[inline]
    pub(super) fn counting_for<R>(
        &mut self,
        session: &mut Writer,
        body: impl FnOnce(&mut Self, &mut Writer) -> R,
    ) -> R {
        std::mem::swap(&mut self.writer.counters, &mut session.counters);
        let result = body(self, session);
        std::mem::swap(&mut self.writer.counters, &mut session.counters);
        result
    }
}

/// The ticket of who joined the open group as the one with this number, counted from 1; of the last
/// group, if it is 0.
#[inline]
pub(super) fn ticket<M: Memory, B: Base>(engine: &Logged<M, Archapt<B>>, joined: u64) -> Ticket {
    let committed = engine.committed.0.load(Ordering::Acquire);
    match joined.checked_sub(1) {
        Some(before) => Ticket((committed + 1) << TICKET_BITS | before),
        None => last_ticket::<Archapt<B>>(committed),
    }
}
