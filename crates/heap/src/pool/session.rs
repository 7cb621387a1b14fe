//! A session on a pool: of the engines that most pools have with its type, of others without.

use super::tx::{PoolTx, Way};
use crate::heap::{AnySession, Erased, HeapSession, HeapTx};
use crate::tx::Tx;
use perdura_engine::{CcStmEngine, Mode, RedoEngine, Result, Ticket};
use perdura_memory::Mapped;

/// The body of a transaction, which keeps its own result.
type Body<'a> = dyn FnMut(&mut PoolTx<'_>) -> Result<()> + 'a;

/// The session.
pub(super) enum PoolSession {
    Redo(Box<HeapSession<Mapped, RedoEngine<Mapped>>>),
    CcStm(Box<HeapSession<Mapped, CcStmEngine<Mapped>>>),
    Other(AnySession),
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
        let mut result = None;
        let body: &mut Body<'_> = &mut |tx| {
            result = Some(body(tx)?);
            Ok(())
        };
        let ticket = match self {
            PoolSession::Redo(session) => run_redo(session, mode, is_awaited, body),
            PoolSession::CcStm(session) => run_ccstm(session, mode, is_awaited, body),
            PoolSession::Other(session) => run_other(session, mode, is_awaited, body),
        }?;
        Ok((result.expect("a committed body has returned"), ticket))
    }

    /// As [`erased`](Self::erased), shared.
    pub(super) fn get(&self) -> &dyn Erased {
        match self {
            PoolSession::Redo(session) => &**session,
            PoolSession::CcStm(session) => &**session,
            PoolSession::Other(AnySession(session)) => &**session,
        }
    }

    /// The session without its type, for calls that do not have to be fast.
    pub(super) fn erased(&mut self) -> &mut dyn Erased {
        match self {
            PoolSession::Redo(session) => &mut **session,
            PoolSession::CcStm(session) => &mut **session,
            PoolSession::Other(AnySession(session)) => &mut **session,
        }
    }
}

macro_rules! runs {
    ($($run:ident $engine:ident $way:ident;)*) => {$(
        #[inline(never)]
        fn $run(
            session: &mut HeapSession<Mapped, $engine<Mapped>>,
            mode: Mode,
            is_awaited: bool,
            body: &mut Body<'_>,
        ) -> Result<Ticket> {
            let body = |tx: &mut HeapTx<'_, _>| body(&mut PoolTx::new(Way::$way(tx.again())));
            session.run_and(mode, body, is_awaited).map(|((), ticket)| ticket)
        }
    )*};
}
runs! {
    run_redo RedoEngine Redo;
    run_ccstm CcStmEngine CcStm;
}

#[inline(never)]
fn run_other(
    session: &mut AnySession,
    mode: Mode,
    is_awaited: bool,
    body: &mut Body<'_>,
) -> Result<Ticket> {
    let body = &mut |tx: &mut dyn Tx| body(&mut PoolTx::new(Way::Other(tx)));
    match is_awaited {
        true => session.0.run_awaited(mode, body),
        false => session.0.run(mode, body),
    }
}
