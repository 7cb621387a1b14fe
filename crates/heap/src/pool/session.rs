//! A session on a pool: of the engines that most pools have with its type, of others without.

use super::tx::{AnyTx, OtherWay, PoolTx, Way};
use crate::heap::{AnySession, Boxed, Erased, HeapSession, HeapTx};
use crate::tx::Tx;
use perdura_engine::{CcStmEngine, Mode, RedoEngine, Result, Ticket};
use perdura_memory::Mapped;

/// The body of a transaction, which keeps its own result.
type Body<'a> = dyn FnMut(&mut PoolTx<'_>) -> Boxed<()> + 'a;

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

    /// As [`HeapSession::transaction`].
    ///
    /// # Errors
    /// As [`HeapSession::transaction`].
    #[inline]
    pub(super) fn transaction<R>(
        &mut self,
        mut body: impl FnMut(&mut PoolTx<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut result = None;
        let body: &mut Body<'_> = &mut |tx| {
            result = Some(body(tx)?);
            Ok(())
        };
        match self {
            PoolSession::Redo(session) => write_redo(session, body),
            PoolSession::CcStm(session) => write_ccstm(session, body),
            PoolSession::Other(session) => run_other(session, Mode::Write, true, body),
        }?;
        Ok(result.expect("a committed body has returned"))
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
    ($($run:ident $write:ident $engine:ident $way:expr;)*) => {$(
        #[inline(never)]
        fn $run(
            session: &mut HeapSession<Mapped, $engine<Mapped>>,
            mode: Mode,
            is_awaited: bool,
            body: &mut Body<'_>,
        ) -> Boxed<Ticket> {
            let body = |tx: &mut HeapTx<'_, _>| body(&mut PoolTx::new(($way)(tx.again())));
            session.run_boxed(mode, is_awaited, body)
        }

        /// The same for the transactions that are most.
        #[inline(never)]
        fn $write(
            session: &mut HeapSession<Mapped, $engine<Mapped>>,
            body: &mut Body<'_>,
        ) -> Boxed<Ticket> {
            let body = |tx: &mut HeapTx<'_, _>| body(&mut PoolTx::new(($way)(tx.again())));
            session.run_boxed(Mode::Write, true, body)
        }
    )*};
}
runs! {
    run_redo write_redo RedoEngine Way::Redo;
    run_ccstm write_ccstm CcStmEngine |tx| Way::Else(OtherWay::CcStm(tx));
}

#[inline(never)]
fn run_other(
    session: &mut AnySession,
    mode: Mode,
    is_awaited: bool,
    body: &mut Body<'_>,
) -> Boxed<Ticket> {
    let body =
        &mut |tx: &mut dyn Tx| Ok(body(&mut PoolTx::new(Way::Else(OtherWay::Any(AnyTx(tx)))))?);
    Ok(match is_awaited {
        true => session.0.run_awaited(mode, body),
        false => session.0.run(mode, body),
    }?)
}
