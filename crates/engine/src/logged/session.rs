//! A session of a logging engine: a transaction's writes, buffered until commit.

use super::lookup::{NOTHING, OverlayLookup, open, overlaid_line};
use super::state::Logged;
use crate::consistency::core::cut_short;
use crate::consistency::protocol::{Consistency, Groups, OpenOf, OwnOf};
use crate::consistency::snapshots::Snapshot;
use crate::consistency::writer::Writer;
use crate::error::{Boxed, boxed};
use crate::sections::running::Running;
use crate::sums::Change;
use crate::sync::Synchronisation;
use crate::writable::Writable;
use crate::{Error, Mode, Sums, Ticket};
use perdura_memory::Memory;
use perdura_memory::lock::Seat;
use std::sync::Arc;

/// One thread's transactions on a [`Logged`] engine.
pub struct Buffered<M: Memory, C: Consistency, S: Synchronisation> {
    pub(super) engine: Arc<Logged<M, C, S>>,
    /// The engine's.
    pub(super) memory: Arc<M>,
    pub(super) seat: Seat<S, OpenOf<C>, OwnOf<C>>,
    pub(super) writer: Writer,
    pub(super) writable: Writable,
    /// How many transactions had joined the overlay when this one began, which sees their words. 0 outside
    /// transactions: only inside does the lock keep the overlay as it is.
    pub(super) snapshot: u64,
    /// Whether the transaction has read one of those words.
    pub(super) overlaid: bool,
    /// The snapshot that it reads since a writer has moved it, once it knows.
    pub(super) late: Option<Box<Snapshot>>,
    /// The last transaction of the window that its last commit left open; other sessions may have continued it since.
    pub(super) left_window: Option<Ticket>,
    /// The transaction reads, and has copied a window up to this transaction to its write set.
    pub(super) copied_window: Option<Ticket>,
    /// The last lookup in the overlay: mostly the next word is of the same line.
    pub(super) looked: OverlayLookup,
    /// Pages are compared with their sums before their contents are trusted.
    pub(super) compares: bool,
    pub(super) reading: Reading,
    /// See [`Sums::add_to`].
    changes: Vec<Change>,
    /// Whether a section runs.
    pub(super) in_section: bool,
}

/// What a read looks at in addition to the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// The transaction's own words.
    Own,
    /// Whether a writer has moved the transaction, which only reads.
    Moved,
    /// All, and words that have joined, or the sums of pages.
    All,
}

impl<M: Memory, C: Consistency, S: Synchronisation> Buffered<M, C, S> {
    pub(crate) fn new(engine: Arc<Logged<M, C, S>>) -> Option<Self> {
        let (memory, segment_bytes) = (&*engine.core.memory, engine.core.geometry.segment_bytes);
        let mut writer = match C::LOGS_NEW_WORDS {
            true => Writer::new_short(memory, segment_bytes),
            false => Writer::new(memory, segment_bytes),
        };
        let seat = Seat::new(&engine.lock)?;
        let session = seat.slot() as u64;
        writer.section =
            C::SECTIONS.then(|| Box::new(Running::new(memory, session, segment_bytes)));
        Some(Buffered {
            seat,
            writer,
            writable: Writable::new(engine.core.sums.as_ref()),
            memory: engine.core.memory.clone(),
            snapshot: 0,
            overlaid: false,
            late: None,
            left_window: None,
            copied_window: None,
            looked: NOTHING,
            compares: engine.core.sums.as_ref().is_some_and(Sums::has_all),
            reading: match engine.core.sums.as_ref().is_some_and(Sums::has_all) {
                true => Reading::All,
                false => Reading::Own,
            },
            changes: Vec::new(),
            in_section: false,
            engine,
        })
    }

    /// Releases the lock and forgets the transaction.
    #[inline(always)]
    pub(super) fn finish(&mut self) {
        if C::SECTIONS && self.in_section {
            return self.leave_section();
        }
        let wrote = self.seat.mode() == Some(Mode::Write);
        if !wrote && self.seat.is_moved(&*self.engine.core.memory) {
            self.end_snapshot();
        }
        self.writable.end();
        if self.snapshot != 0 {
            self.snapshot = 0;
        }
        if self.reading != Reading::Own && !self.compares {
            self.reading = Reading::Own;
        }
        if C::Groups::WINDOWS {
            self.leave_window();
        }
        self.seat.leave(&*self.engine.core.memory);
        if wrote && !C::Groups::WINDOWS {
            self.writer.forget(&*self.engine.core.memory);
        }
    }

    /// What the transaction may do; `None` outside of one.
    #[inline(always)]
    pub(super) fn allowed(&self) -> Option<Mode> {
        if C::SECTIONS && self.in_section {
            return Some(Mode::Write);
        }
        self.seat.mode()
    }

    /// Whether the transaction has nothing to store.
    #[inline(always)]
    fn is_unchanged(&self) -> bool {
        let Writer { writes, fresh, .. } = &self.writer;
        let unchanged = if C::Groups::WINDOWS { writes.is_unchanged() } else { writes.is_empty() };
        unchanged && fresh.is_empty()
    }

    /// Commits, if the transaction has anything to store; `awaited` says whether the caller waits for the ticket.
    #[inline(always)]
    pub(super) fn commit_as(&mut self, awaited: bool) -> Boxed<Ticket> {
        let core = &self.engine.core;
        if C::SECTIONS && self.in_section {
            let ending = Ending { session: self };
            let result = ending.session.commit_section();
            ending.returned();
            return result;
        }
        if self.seat.mode().is_none() || core.is_broken() {
            return self.no_commit();
        }
        if self.is_unchanged() {
            return Ok(self.end_unchanged());
        }
        if !core.memory.is_usable() {
            return self.unusable();
        }
        let ending = Ending { session: self };
        let result = ending.session.commit_changes(awaited);
        ending.returned();
        self.after_commit();
        result
    }

    #[inline(always)]
    fn commit_changes(&mut self, awaited: bool) -> Boxed<Ticket> {
        let changes_sums = match &self.engine.core.sums {
            // Most transactions write only to objects, and most pools have no sums of these.
            // A window's earlier transactions count too.
            Some(sums) if C::Groups::WINDOWS => self.writer.writes.lowest() < sums.places().end,
            Some(_) => self.writable.changes_sums(),
            None => false,
        };
        let added = if changes_sums { self.add_sums() } else { Ok(()) };
        let result = match added {
            Ok(()) => {
                let Buffered { engine, seat, writer, .. } = self;
                writer.touch_counters(&*engine.core.memory);
                match seat.writing() {
                    Some(right) if awaited => C::commit_awaited(&engine.core, right, writer),
                    Some(right) => C::commit(&engine.core, right, writer),
                    None => Err(Box::new(Error::ReadOnly)),
                }
            }
            Err(error) => Err(error),
        };
        if self.compares {
            self.engine.core.acknowledge();
        }
        result
    }

    /// As [`wait_durable`](Session::wait_durable), if the ticket is not known to be durable.
    #[inline(never)]
    pub(super) fn wait_for(&mut self, ticket: Ticket) -> Boxed<()> {
        // The group may be closed now.
        self.looked = NOTHING;
        self.wait(ticket.0 >> C::Groups::TICKET_BITS)?;
        if self.compares {
            self.engine.core.acknowledge();
        }
        Ok(())
    }

    /// Ends a transaction that has nothing to store; returns the last commit of which it may have seen something, which
    /// may not be durable yet.
    #[inline]
    pub(super) fn end_unchanged(&mut self) -> Ticket {
        let seen = self.seen();
        self.writer.counters.read_only += 1;
        self.finish();
        seen
    }

    /// The work after a commit, outside the lock.
    #[inline(always)]
    fn after_commit(&mut self) {
        C::after_commit(&self.engine.core, &self.engine.lock, &mut self.writer);
    }

    /// Adds the sums that the transaction changes to its words.
    #[inline(never)]
    pub(super) fn add_sums(&mut self) -> Boxed<()> {
        let Buffered { engine, seat, writer, changes, snapshot, .. } = self;
        let Some(sums) = &engine.core.sums else { return Ok(()) };
        let memory = &*engine.core.memory;
        let open = open::<M, C, S>(seat, memory);
        let open = open.filter(|_| *snapshot > 0);
        let overlaid =
            |line| open.as_ref().and_then(|open| overlaid_line(&**open, memory, line, *snapshot));
        Ok(sums.add_to(memory, &mut writer.writes, changes, overlaid)?)
    }

    /// A commit has panicked.
    #[cold]
    #[inline(never)]
    fn break_off(&mut self) {
        self.engine.core.break_off();
        self.finish();
    }

    /// Ends the transaction: the memory is another process's, or its file is lost.
    #[cold]
    fn unusable(&mut self) -> Boxed<Ticket> {
        self.finish();
        self.engine.core.memory.check_fence().map_err(boxed)?;
        Err(Box::new(cut_short()))
    }

    #[cold]
    fn no_commit(&mut self) -> Boxed<Ticket> {
        Err(Box::new(match self.seat.mode() {
            None => Error::Invalid("a commit outside of a transaction"),
            Some(_) => {
                self.finish();
                cut_short()
            }
        }))
    }
}

/// Ends the transaction in any case: others must not wait for it for ever, nor continue from where a panic left it.
struct Ending<'a, M: Memory, C: Consistency, S: Synchronisation> {
    session: &'a mut Buffered<M, C, S>,
}

impl<M: Memory, C: Consistency, S: Synchronisation> Ending<'_, M, C, S> {
    /// The commit has returned normally.
    #[inline(always)]
    fn returned(self) {
        self.session.finish();
        std::mem::forget(self);
    }
}

impl<M: Memory, C: Consistency, S: Synchronisation> Drop for Ending<'_, M, C, S> {
    #[inline(always)]
    fn drop(&mut self) {
        self.session.break_off();
    }
}

impl<M: Memory, C: Consistency, S: Synchronisation> Drop for Buffered<M, C, S> {
    fn drop(&mut self) {
        // In a forked child others may have locked what they share for ever.
        if self.engine.core.memory.is_forked() {
            return;
        }
        if C::SECTIONS && self.in_section {
            self.abort_section();
        }
        self.finish();
        self.writer.end(&self.engine.core);
    }
}
