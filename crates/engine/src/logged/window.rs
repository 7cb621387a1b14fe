//! Transactions of an engine that has [windows](crate::consistency::eager): an entering transaction must see the
//! window's words.

use super::session::Buffered;
use super::state::Logged;
use crate::consistency::core::{Core, ticket};
use crate::consistency::protocol::{Consistency, Groups, Right};
use crate::sync::Synchronisation;
use crate::{Mode, Ticket};
use perdura_memory::Memory;

impl<M: Memory, C: Consistency, S: Synchronisation> Buffered<M, C, S> {
    /// Enters. If this session made the window's last commit, a reading transaction begins as a writer, to copy the
    /// window's words; a window that other sessions have continued is closed first.
    #[inline]
    pub(super) fn enter_by_window(&mut self, mode: Mode) {
        if mode == Mode::Read && self.left_window.is_none() && self.enter_without_window() {
            return;
        }
        let Logged { core, .. } = &*self.engine;
        self.seat.enter(Mode::Write, &*core.memory);
        let Some(mut right) = self.seat.writing() else { return };
        if mode == Mode::Write {
            return C::Groups::enter(&*core.memory, right, &mut self.writer);
        }
        if last_in_window::<M, C>(core, &right) != self.left_window {
            // A failure shows when the ticket is waited for; the window stays open then.
            let _ = C::Groups::close_to_read(core, right.again(), &mut self.writer);
        }
        self.left_window = last_in_window::<M, C>(core, &right);
        self.copied_window = self.left_window;
        C::Groups::copy_window(&*core.memory, right, &mut self.writer);
        self.seat.read_on(&*core.memory);
    }

    /// Enters to read, once no window is open; returns whether it could be closed.
    fn enter_without_window(&mut self) -> bool {
        let engine = self.engine.clone();
        let memory = &*engine.core.memory;
        loop {
            self.seat.enter(Mode::Read, memory);
            // If it has been moved already, its snapshot may be without the words of a window that was open.
            let open = self.seat.shared(memory);
            let has_window = open.map(|open| C::Groups::has_window(memory, &open));
            if has_window == Some(false) {
                return true;
            }
            engine.core.snapshots.end(memory, |turn| self.seat.is_at(turn));
            self.seat.leave(memory);
            let end = |right: Right<'_, C>| {
                C::Groups::close_to_read(&engine.core, right, &mut self.writer)
            };
            if has_window.is_some() && engine.lock.writing(memory, end).is_err() {
                return false;
            }
        }
    }

    /// Returns the window's write set to it, or forgets the copy of it, before the transaction that has it leaves.
    #[inline(always)]
    pub(super) fn leave_window(&mut self) {
        let Logged { core, .. } = &*self.engine;
        if let Some(mut right) = self.seat.writing() {
            C::Groups::leave(&*core.memory, right.again(), &mut self.writer);
            self.left_window = last_in_window::<M, C>(core, &right);
        } else if self.copied_window.take().is_some() {
            self.writer.forget(&*core.memory);
        }
    }
}

/// The ticket of the last transaction in the window, if one is open.
#[inline(always)]
fn last_in_window<M: Memory, C: Consistency>(
    core: &Core<M>,
    right: &Right<'_, C>,
) -> Option<Ticket> {
    match C::Groups::joined(&*core.memory, right) {
        0 => None,
        joined => Some(ticket(C::Groups::TICKET_BITS, core.last_commit(), joined)),
    }
}
