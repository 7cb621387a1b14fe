//! A session on a pool: of the engines that most pools have with its type, of others without.
//!
//! A transaction is its steps, each out of line, with the body between them in the caller: it is there once, whatever the
//! engine, and knows the transaction by value.

use super::tx::{AnyTx, OtherWay, PoolTx, Way};
use crate::heap::{AnySession, Boxed, Erased, HeapSession, Running};
use perdura_engine::{CcStmEngine, Error, Mode, RedoEngine, Result, Ticket};
use perdura_memory::Mapped;
use std::hint::cold_path;

/// The session.
pub(super) enum PoolSession {
    Redo(Box<HeapSession<Mapped, RedoEngine<Mapped>>>),
    Else(OtherSession),
}

/// The same for other engines than the first, which is the default.
pub(super) enum OtherSession {
    CcStm(Box<HeapSession<Mapped, CcStmEngine<Mapped>>>),
    Any(AnySession),
}

/// Runs code on the session, whatever its type.
macro_rules! on_session {
    ($self:expr, $session:ident => $code:expr) => {
        match $self {
            PoolSession::Redo($session) => $code,
            PoolSession::Else(session) => {
                cold_path();
                match session {
                    OtherSession::CcStm($session) => $code,
                    OtherSession::Any(AnySession($session)) => $code,
                }
            }
        }
    };
}

impl PoolSession {
    /// As [`HeapSession::run`], or [`HeapSession::run_awaited`].
    ///
    /// # Errors
    /// As [`HeapSession::run`].
    #[inline]
    pub(super) fn run<R>(
        &mut self,
        mode: Mode,
        is_awaited: bool,
        mut body: impl FnMut(&mut PoolTx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        on_session!(self, session => session.begin_run(mode))?;
        loop {
            let mut running = Running::new(self, broken_run);
            let result = body(&mut PoolTx::new(running.session().way()));
            let session = running.returned();
            let ended = match result {
                Ok(value) => on_session!(session, session => session.commit_run(mode, is_awaited))
                    .map(|ticket| (value, ticket)),
                Err(error) => Err(session.failed_run(error)),
            };
            match ended {
                Ok(done) => return Ok(done),
                Err(error) => self.begin_run_again(mode, error)?,
            }
        }
    }

    /// The running transaction.
    #[inline(always)]
    fn way(&mut self) -> Way<'_> {
        match self {
            PoolSession::Redo(session) => Way::Redo(session.running_tx()),
            PoolSession::Else(session) => Way::Else(match session {
                OtherSession::CcStm(session) => OtherWay::CcStm(session.running_tx()),
                OtherSession::Any(AnySession(session)) => OtherWay::Any(AnyTx(session.tx())),
            }),
        }
    }

    #[cold]
    fn begin_run_again(&mut self, mode: Mode, error: Box<Error>) -> Boxed<()> {
        self.erased().begin_run_again(mode, error)
    }

    #[cold]
    fn failed_run(&mut self, error: Error) -> Box<Error> {
        self.erased().failed_run(error)
    }

    /// As [`erased`](Self::erased), shared.
    pub(super) fn get(&self) -> &dyn Erased {
        on_session!(self, session => &**session)
    }

    /// The session without its type, for calls that do not have to be fast.
    pub(super) fn erased(&mut self) -> &mut dyn Erased {
        on_session!(self, session => &mut **session)
    }
}

#[cold]
#[inline(never)]
fn broken_run(session: &mut PoolSession) {
    session.erased().broken_run();
}
