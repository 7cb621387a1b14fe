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
    /// Enters. If this session made the window's last commit, a reading transaction enters as a writer, to look into
    /// it; a window that other sessions have continued is closed first.
    #[inline]
    pub(super) fn enter_by_window(&mut self, mode: Mode) {
        if mode == Mode::Read && self.left_window.is_none() && self.enter_without_window() {
            return;
        }
        self.reads_alone = mode == Mode::Read;
        let Logged { core, .. } = &*self.engine;
        self.seat.enter(Mode::Write, &*core.memory);
        let Some(mut right) = self.seat.writing() else { return };
        if mode == Mode::Read && last_in_window::<M, C>(core, &right) != self.left_window {
            // A failure shows when the ticket is waited for; the window stays open then.
            let _ = C::Groups::close_to_read(core, right.again(), &mut self.writer);
        }
        C::Groups::enter(&*core.memory, right, &mut self.writer);
    }

    /// Enters to read, once no window is open; returns whether it could be closed.
    fn enter_without_window(&mut self) -> bool {
        let engine = self.engine.clone();
        let memory = &*engine.core.memory;
        loop {
            self.seat.enter(Mode::Read, memory);
            let is_open = |open| C::Groups::has_window(memory, open);
            if !self.seat.shared().is_some_and(is_open) {
                return true;
            }
            self.seat.leave(memory);
            let end = |right: Right<'_, C>| {
                C::Groups::close_to_read(&engine.core, right, &mut self.writer)
            };
            if engine.lock.writing(memory, end).is_err() {
                return false;
            }
        }
    }

    /// Returns the window's write set to it, before the transaction that has it leaves.
    #[inline(always)]
    pub(super) fn leave_window(&mut self) {
        let Logged { core, .. } = &*self.engine;
        if let Some(mut right) = self.seat.writing() {
            C::Groups::leave(&*core.memory, right.again(), &mut self.writer);
            self.left_window = last_in_window::<M, C>(core, &right);
        }
        self.reads_alone = false;
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
        joined => Some(ticket(C::Groups::TICKET_BITS, core.committed(), joined)),
    }
}
