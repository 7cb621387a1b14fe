//! Durability: the ticket of everything a transaction has seen, and waiting for tickets.

use super::lookup::open;
use super::session::Buffered;
use super::state::Logged;
use crate::consistency::core::{cut_short, ticket};
use crate::consistency::protocol::{Consistency, Groups, Right};
use crate::sync::Synchronisation;
use crate::writes::overlay::MayOverlay;
use crate::{Error, Mode, Result, Ticket};
use perdura_memory::Memory;

impl<M: Memory, C: Consistency, S: Synchronisation> Buffered<M, C, S> {
    /// Returns when the group with this number is durable.
    pub(super) fn wait(&mut self, number: u64) -> Result<()> {
        let allowed = self.allowed();
        self.engine.core.check_usable()?;
        if C::SECTIONS {
            return self.wait_for_cut(number);
        }
        let Logged { core, lock } = &*self.engine;
        let (seat, writer) = (&mut self.seat, &mut self.writer);
        let is_durable = || core.durable() >= number;
        // In an engine whose records do not suffice, committed groups still wait for their lines.
        let is_closed = || is_durable() || C::NO_GAPS && core.last_commit() >= number;
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
            let committed = core.last_commit();
            writer.fence(core)?;
            core.raise_durable(committed);
        }
        Ok(())
    }

    /// Returns when the section with this ticket is in the cut.
    fn wait_for_cut(&mut self, ticket: u64) -> Result<()> {
        let is_inside = self.allowed().is_some();
        let core = &self.engine.core;
        let mut turn = 0;
        while core.sections().cut.is_open(&*core.memory, ticket) {
            if C::advance(core, &mut self.writer.counters)? {
                continue;
            }
            if core.is_broken() {
                // A section that it follows will never be complete.
                return Err(cut_short());
            }
            if is_inside {
                return Err(Error::Invalid(
                    "a wait, inside of a section, for a commit that follows a running section",
                ));
            }
            core.memory.pause(turn);
            turn += 1;
        }
        Ok(())
    }

    /// How many transactions have joined the overlay, for a transaction that begins, which notes it for a writer that
    /// moves it.
    #[inline(always)]
    pub(super) fn joined(&mut self) -> u64 {
        let memory = &*self.engine.core.memory;
        open::<M, C, S>(&mut self.seat, memory).map_or(0, |open| {
            let joined = open.overlay().map_or(0, |overlay| overlay.joined(memory));
            open.note(joined);
            joined
        })
    }

    /// The last commit of which the transaction may have seen something.
    pub(super) fn seen(&mut self) -> Ticket {
        let Buffered { engine, seat, snapshot, overlaid, copied_window, .. } = self;
        let (core, bits) = (&engine.core, C::Groups::TICKET_BITS);
        let memory = &*core.memory;
        if let Some(last) = *copied_window {
            return last;
        }
        if C::Groups::WINDOWS
            && let Some(right) = seat.writing()
        {
            return ticket(bits, core.last_commit(), C::Groups::joined(memory, &right));
        }
        let saw = if *overlaid { *snapshot } else { 0 };
        // A transaction that could have written may have closed the group.
        let joined = open::<M, C, S>(seat, memory)
            .and_then(|open| open.overlay().map(|overlay| saw.min(overlay.joined(memory))));
        let seen = ticket(bits, core.last_commit(), joined.unwrap_or(0));
        if !seat.is_moved(memory) {
            return seen;
        }
        self.take_snapshot();
        self.late.as_ref().map_or(seen, |snapshot| snapshot.seen)
    }
}
