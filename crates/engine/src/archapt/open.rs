//! The open group: the one part of the engine's state that readers look through.
//!
//! It changes only while the writer is alone. All the rest of the state is the writer's own, so
//! that records are written, fenced, and lines written back, with readers in.

use super::group::{Group, TICKET_BITS};
use super::{Archapt, Base};
use crate::Ticket;
use crate::guarded::Guarded;
use crate::logged::{Logged, last_ticket};
use crate::record;
use crate::writer::Writer;
use crate::writes::WriteSet;
use perdura_memory::Memory;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// What has committed logically, and is not in the memory.
#[derive(Default)]
pub(super) struct Open {
    pub(super) writes: WriteSet,
    /// Fresh memory stored in place already.
    pub(super) fresh: Vec<Range<u64>>,
    pub(super) transactions: u64,
}

/// The engine's state.
pub struct State {
    open: Guarded<Open>,
    group: Guarded<Group>,
}

impl State {
    pub(super) fn new(group: Group) -> Self {
        State { open: Guarded::new(Open::default()), group: Guarded::new(group) }
    }

    /// The open group, to look at.
    ///
    /// # Safety
    /// The caller is in a transaction, or is the writer.
    #[inline(always)]
    pub(super) unsafe fn open(&self) -> &Open {
        // SAFETY: it only changes while the writer is alone, which whoever is in a transaction, and
        // is not the writer, keeps it from being. The writer's own references end
        // before it calls `change`.
        unsafe { self.open.get() }
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
    /// Whether no transaction has joined.
    #[inline(always)]
    pub(super) fn nobody_joined<M: Memory, B: Base>(&self, engine: &Logged<M, Archapt<B>>) -> bool {
        self.open(engine).transactions == 0
    }

    #[inline(always)]
    pub(super) fn open<'a, M: Memory, B: Base>(
        &self,
        engine: &'a Logged<M, Archapt<B>>,
    ) -> &'a Open {
        // SAFETY: only the writer has the group.
        unsafe { engine.state.open() }
    }

    /// Changes the open group, alone from here on.
    #[inline(always)]
    fn change<M: Memory, B: Base, R>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        change: impl FnOnce(&mut Self, &mut Open) -> R,
    ) -> R {
        engine.be_alone();
        // SAFETY: only the writer has the group, it is alone, and `change` reaches in nowhere else.
        change(self, unsafe { engine.state.open.get_mut() })
    }

    /// The transaction in `session` joins. Its ticket.
    #[inline]
    pub(super) fn take<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        session: &mut Writer,
    ) -> Ticket {
        self.change(engine, |_, open| {
            if open.transactions == 0 {
                std::mem::swap(&mut open.writes, &mut session.writes);
                std::mem::swap(&mut open.fresh, &mut session.fresh);
            } else {
                open.writes.absorb(&session.writes);
                open.fresh.append(&mut session.fresh);
            }
            open.transactions += 1;
        });
        self.ticket(engine)
    }

    /// The writer gets the open group's words, to write down; readers look through them meanwhile.
    pub(super) fn copy_words<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) {
        let Open { writes, fresh, .. } = self.open(engine);
        self.writer.writes.copy_entries(writes);
        self.writer.fresh.clone_from(fresh);
    }

    /// The open group is over, its words in place: a new one begins.
    pub(super) fn begin<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) {
        self.change(engine, |_, open| {
            open.writes.clear();
            open.fresh.clear();
            open.transactions = 0;
        });
    }

    /// An upper bound of the record's bytes if the transaction joins.
    pub(super) fn bytes_with<M: Memory, B: Base>(
        &self,
        engine: &Logged<M, Archapt<B>>,
        session: &Writer,
    ) -> u64 {
        let (its, more) = (&self.open(engine).writes, &session.writes);
        let lines = its.stored_lines() + more.stored_lines();
        record::words_for(lines, its.words() + more.words()) as u64 * 8
    }

    /// The ticket of the transaction that joined last.
    #[inline]
    fn ticket<M: Memory, B: Base>(&self, engine: &Logged<M, Archapt<B>>) -> Ticket {
        self.open(engine).ticket(engine)
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

impl Open {
    /// The ticket of the transaction that joined last; of the last group, if none has.
    #[inline]
    pub(super) fn ticket<M: Memory, B: Base>(&self, engine: &Logged<M, Archapt<B>>) -> Ticket {
        let committed = engine.committed.0.load(Ordering::Relaxed);
        match self.transactions.checked_sub(1) {
            Some(before) => Ticket((committed + 1) << TICKET_BITS | before),
            None => last_ticket::<Archapt<B>>(committed),
        }
    }
}
