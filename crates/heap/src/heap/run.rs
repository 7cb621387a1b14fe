//! A transaction as its steps: begun, its body, committed; run again after conflicts, or once there is room for it.

use super::{Boxed, HeapSession, HeapTx};
use crate::inside::{self, Inside};
use perdura_engine::{Engine, Error, Mode, Result, Session, Ticket};
use perdura_memory::Memory;

impl<M: Memory + 'static, E: Engine<M>> HeapSession<M, E> {
    /// Runs `body`; waits until the commit is durable if it is `awaited`.
    ///
    /// The steps before and after the body are out of line and compiled once, so that each body costs little to compile
    /// and is itself in its caller: no registers are saved for a call of it, and no transaction is passed in memory.
    #[inline]
    pub(super) fn run_and<R>(
        &mut self,
        mode: Mode,
        mut body: impl FnMut(&mut HeapTx<'_, E::Session>) -> Result<R>,
        awaited: bool,
    ) -> Result<(R, Ticket)> {
        self.begin_run(mode)?;
        loop {
            let mut running = Running::new(self, HeapSession::broken_run);
            let result = body(&mut running.session().running_tx());
            let ended = running.returned().end_run(mode, awaited, result);
            match ended {
                Ok(done) => return Ok(done),
                Err(error) => self.begin_run_again(mode, error)?,
            }
        }
    }

    /// Ends a run whose body has returned `result`.
    #[inline(always)]
    fn end_run<R>(&mut self, mode: Mode, awaited: bool, result: Result<R>) -> Boxed<(R, Ticket)> {
        match result {
            Ok(value) => Ok((value, self.commit_run(mode, awaited)?)),
            Err(error) => Err(self.failed_run(error)),
        }
    }

    /// Begins a transaction whose body stays on its thread, which is inside until [`commit_run`](Self::commit_run) or
    /// [`failed_run`](Self::failed_run) returns.
    #[inline(always)]
    pub(crate) fn begin_run(&mut self, mode: Mode) -> Boxed<()> {
        match mode {
            Mode::Write => self.begin_writing(),
            Mode::Read => self.begin_reading(),
        }
    }

    #[inline(never)]
    fn begin_writing(&mut self) -> Boxed<()> {
        self.begin_as(Mode::Write)
    }

    #[inline(never)]
    fn begin_reading(&mut self) -> Boxed<()> {
        self.begin_as(Mode::Read)
    }

    #[inline(always)]
    fn begin_as(&mut self, mode: Mode) -> Boxed<()> {
        // Before it waits for others, who are not there in a forked child.
        if self.memory.is_forked() {
            return Err(forked());
        }
        let inside = inside::enter(self.watched)?;
        self.state.session.begin(mode);
        inside.stay();
        Ok(())
    }

    /// Begins it again, if that is to be done after `error`.
    ///
    /// # Errors
    /// `error`, if not.
    #[cold]
    #[inline(never)]
    #[expect(clippy::boxed_local, reason = "it comes in a register")]
    pub(crate) fn begin_run_again(&mut self, mode: Mode, error: Box<Error>) -> Boxed<()> {
        // No attempts are left to the next transaction, whatever fails here.
        let failed = std::mem::take(&mut self.failed);
        let failed = self.before_next(failed, *error)?;
        let inside = inside::enter(self.watched)?;
        match failed.conflicts {
            0 => self.state.session.begin(mode),
            conflicts => self.state.session.begin_again(mode, conflicts),
        }
        inside.stay();
        self.failed = failed;
        Ok(())
    }

    /// Commits the running transaction, and waits until that is durable if it is `awaited`.
    #[inline(always)]
    pub(crate) fn commit_run(&mut self, mode: Mode, awaited: bool) -> Boxed<Ticket> {
        match (mode, awaited) {
            (Mode::Write, true) => self.commit_awaited_writes(),
            (Mode::Write, false) => self.commit_writes(),
            (Mode::Read, _) => self.commit_reads(awaited),
        }
    }

    /// Commits the transactions that are most.
    #[inline(never)]
    fn commit_awaited_writes(&mut self) -> Boxed<Ticket> {
        self.commit_as(Mode::Write, true)
    }

    #[inline(never)]
    fn commit_writes(&mut self) -> Boxed<Ticket> {
        self.commit_as(Mode::Write, false)
    }

    #[inline(never)]
    fn commit_reads(&mut self, awaited: bool) -> Boxed<Ticket> {
        self.commit_as(Mode::Read, awaited)
    }

    #[inline(always)]
    fn commit_as(&mut self, mode: Mode, awaited: bool) -> Boxed<Ticket> {
        let committed = {
            let _inside = Inside::still(self.watched);
            // The body is run again even if it swallows the conflict's error.
            if E::Session::CONFLICTS && self.state.session.has_conflict() {
                return Err(self.roll_back_conflict());
            }
            self.commit_state(mode, awaited)
        };
        let ticket = committed?;
        if self.failed.any() {
            self.failed = Attempts::default();
        }
        if awaited {
            self.state.session.wait_durable(ticket)?;
        }
        Ok(ticket)
    }

    #[cold]
    fn roll_back_conflict(&mut self) -> Box<Error> {
        self.roll_back();
        Box::new(Error::Conflict)
    }

    /// Rolls the running transaction back, whose body has failed: returns why. That is a conflict if there was one, since
    /// the body may have failed because of what it has read.
    #[cold]
    #[inline(never)]
    pub(crate) fn failed_run(&mut self, error: Error) -> Box<Error> {
        let has_conflict = E::Session::CONFLICTS && self.state.session.has_conflict();
        let failed = self.failed;
        self.broken_run();
        self.failed = failed;
        Box::new(if has_conflict { Error::Conflict } else { error })
    }

    /// Rolls the running transaction back.
    #[cold]
    #[inline(never)]
    pub(crate) fn broken_run(&mut self) {
        self.failed = Attempts::default();
        let _inside = Inside::still(self.watched);
        self.roll_back();
    }

    /// Whether the transaction is to be run again after `error`: returns the attempts so far.
    ///
    /// # Errors
    /// `error`, if not.
    fn before_next(&mut self, before: Attempts, error: Error) -> Boxed<Attempts> {
        let Attempts { conflicts, tries } = before;
        let conflicts_again = matches!(error, Error::Conflict) && E::Session::CONFLICTS;
        if conflicts_again && !self.memory.is_forked() {
            return Ok(Attempts { conflicts: conflicts + 1, tries });
        }
        if self.state.local.is_lacking() && self.make_room(tries) {
            return Ok(Attempts { conflicts: 0, tries: tries + 1 });
        }
        Err(Box::new(self.forked_or(error)))
    }

    /// The running transaction.
    #[inline(always)]
    pub(crate) fn running_tx(&mut self) -> HeapTx<'_, E::Session> {
        HeapTx::new(&mut self.state)
    }
}

/// A session whose transaction's body runs: ends the transaction if the body does not return.
pub(crate) struct Running<'a, S> {
    session: Option<&'a mut S>,
    end: fn(&mut S),
}

impl<'a, S> Running<'a, S> {
    /// A body is to run; if it does not return, `end` ends its transaction.
    #[inline(always)]
    pub(crate) fn new(session: &'a mut S, end: fn(&mut S)) -> Self {
        Running { session: Some(session), end }
    }

    /// The session.
    #[inline(always)]
    pub(crate) fn session(&mut self) -> &mut S {
        self.session.as_mut().expect("until the body has returned")
    }

    /// The body has returned.
    #[inline(always)]
    pub(crate) fn returned(mut self) -> &'a mut S {
        self.session.take().expect("once")
    }
}

impl<S> Drop for Running<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            (self.end)(session);
        }
    }
}

#[cold]
fn forked() -> Box<Error> {
    Box::new(Error::Forked)
}

/// How often a transaction has failed and is run again: by conflicts in a row, and for want of room.
#[derive(Clone, Copy, Default)]
pub(super) struct Attempts {
    conflicts: u32,
    tries: u32,
}

impl Attempts {
    #[inline(always)]
    const fn any(self) -> bool {
        self.conflicts | self.tries != 0
    }
}
