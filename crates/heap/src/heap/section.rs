//! Sections: transactions between locks of the program, which store in place at once (docs/atlas.md).

use super::{HeapSession, HeapTx, Running};
use crate::inside;
use perdura_engine::{Engine, Error, Mode, Result, Session, Ticket};
use perdura_memory::Memory;

impl<M: Memory + 'static, E: Engine<M>> HeapSession<M, E> {
    /// Runs `body` as a section, and returns when it is durable: it takes locks by [`Tx::lock`](crate::Tx::lock), and
    /// what it stores is whole or absent after a power cut, together with what it has seen of other sections. If `body`
    /// fails, the section has no effect, unless it has [released](crate::Tx::unlock) a lock before. The engine must be
    /// one with sections.
    ///
    /// # Errors
    /// The error of `body`, or why it could not be made durable; `NoSections` under other engines; `Invalid` in a pool
    /// with checksums of all pages; on a pool, `Nested` if the calling thread is inside a transaction or a section on it.
    pub fn section<R>(
        &mut self,
        body: impl FnOnce(&mut HeapTx<'_, E::Session>) -> Result<R>,
    ) -> Result<R> {
        self.run_section(true, body).map(|(result, _)| result)
    }

    /// As [`section`](Self::section), but returns when the section is over, with a ticket for its durability: until that
    /// is [durable](Self::wait), a power cut may undo the section, and others that follow it.
    ///
    /// # Errors
    /// As [`section`](Self::section).
    pub fn submit_section<R>(
        &mut self,
        body: impl FnOnce(&mut HeapTx<'_, E::Session>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run_section(false, body)
    }

    pub(crate) fn run_section<R>(
        &mut self,
        is_awaited: bool,
        body: impl FnOnce(&mut HeapTx<'_, E::Session>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.check_sections()?;
        let (result, ticket) = {
            let _inside = inside::enter(self.watched)?;
            self.state.session.begin_section()?;
            let mut running = Running::new(self, HeapSession::roll_back);
            let result = body(&mut running.session().running_tx())?;
            (result, running.returned().commit_state(Mode::Write, false)?)
        };
        if is_awaited {
            self.state.session.wait_durable(ticket)?;
        }
        Ok((result, ticket))
    }
    /// Whether a section may begin: another engine has none, a forked child must not.
    pub(super) fn check_sections(&self) -> Result<()> {
        match E::SECTIONS {
            _ if self.memory.is_forked() => Err(Error::Forked),
            true => Ok(()),
            false => Err(Error::NoSections { engine: E::NAME }),
        }
    }
}
