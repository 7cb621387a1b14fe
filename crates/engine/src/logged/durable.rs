//! Durability: the ticket of everything a transaction has seen, and waiting for tickets.

use super::session::Buffered;
use super::state::Logged;
use crate::consistency::core::ticket;
use crate::consistency::protocol::{Consistency, Groups, Right};
use crate::sync::Synchronisation;
use crate::{Error, Mode, Result, Ticket};
use perdura_memory::Memory;

impl<M: Memory, C: Consistency, S: Synchronisation> Buffered<M, C, S> {
    /// Returns when the group with this number is durable.
    pub(super) fn wait(&mut self, number: u64) -> Result<()> {
        let allowed = self.allowed();
        self.engine.core.check_usable()?;
        let Logged { core, lock } = &*self.engine;
        let (seat, writer) = (&mut self.seat, &mut self.writer);
        let is_durable = || core.durable() >= number;
        // In an engine whose records do not suffice, committed groups still wait for their lines.
        let is_closed = || is_durable() || C::NO_GAPS && core.committed() >= number;
        if C::Groups::ANY && !is_closed() {
            match allowed {
                // It would wait for itself.
                Some(Mode::Read) => {
                    return Err(Error::Invalid("a wait inside of a transaction that reads"));
                }
                _ => match seat.writing() {
                    Some(right) => C::Groups::close(core, right, writer, number)?,
                    None => {
                        let close =
                            |right: Right<'_, C>| C::Groups::close(core, right, writer, number);
                        lock.writing_unless(&*core.memory, is_closed, close).unwrap_or(Ok(()))?;
                    }
                },
            }
        }
        if !is_durable() {
            // Write-backs have been asked for everything up to the last commit.
            let committed = core.committed();
            writer.fence(core)?;
            core.raise_durable(committed);
        }
        Ok(())
    }

    /// How many transactions have joined the overlay, for a running transaction.
    #[inline(always)]
    pub(super) fn joined(&self) -> u64 {
        self.overlay().map_or(0, |overlay| overlay.joined(&*self.core().memory))
    }

    /// The last commit of which the transaction may have seen something.
    pub(super) fn seen(&mut self) -> Ticket {
        let memory = &*self.engine.core.memory;
        if C::Groups::WINDOWS
            && let Some(right) = self.seat.writing()
        {
            let joined = C::Groups::joined(memory, &right);
            return ticket(C::Groups::TICKET_BITS, self.core().committed(), joined);
        }
        let overlaid = if self.overlaid { self.snapshot } else { 0 };
        // A transaction that could have written may have closed the group.
        let joined = overlaid.min(self.joined());
        let committed = self.core().committed();
        ticket(C::Groups::TICKET_BITS, committed, joined)
    }
}
