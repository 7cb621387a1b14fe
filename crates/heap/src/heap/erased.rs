//! Heaps, sessions and transactions whose memory and engine are known only at run time. Code that uses them is
//! compiled once, and not for each memory and engine; each access costs a virtual call or two. For everything that is
//! not timed natively: pools of any engine, simulated machines, tests.

use super::{Boxed, Heap, HeapSession};
use crate::alloc::Space;
use crate::check::{CheckRoot, Report, check_heap};
use crate::superblock::{State, Superblock};
use crate::tx::{Extent, Fresh, Locked, Moment, Purpose, Root, Savepoint, Tx};
use perdura_engine::{Access, Counters, Engine, Error, Mode, Recovery, Result, Ticket, Tuning};
use perdura_memory::Memory;

/// A [`Heap`] on some memory with some engine.
pub trait AnyHeap: Sync {
    /// As [`Heap::session`].
    ///
    /// # Errors
    /// As [`Heap::session`].
    fn session(&self) -> Result<AnySession>;

    /// As [`Heap::counters`].
    fn counters(&self) -> Counters;

    /// As [`Heap::recovery`].
    fn recovery(&self) -> &Recovery;

    /// As [`Heap::memory`].
    fn memory(&self) -> &dyn Memory;

    /// As [`Heap::space`].
    fn space(&self) -> &Space;

    /// As [`Heap::superblock`].
    fn superblock(&self) -> Superblock;

    /// See [`Engine::CRASH_CONSISTENT`].
    fn is_crash_consistent(&self) -> bool;

    /// As [`Engine::flush_due`].
    ///
    /// # Errors
    /// As [`Engine::flush_due`].
    fn flush_due(&self) -> Result<()>;

    /// As [`Engine::tune`].
    fn tune(&self, tuning: &Tuning);

    /// Dropping the heap neither waits nor writes from here on: for a crash tester, whose sessions were cut off in the
    /// middle of a commit.
    #[doc(hidden)]
    fn abandon(&self);

    /// As [`Heap::checkpoint`].
    ///
    /// # Errors
    /// As [`Heap::checkpoint`].
    fn checkpoint(&self) -> Result<()>;

    /// As [`Heap::empty_log`].
    ///
    /// # Errors
    /// As [`Heap::empty_log`].
    fn empty_log(&self) -> Result<Counters>;

    /// As [`Heap::release_one`].
    ///
    /// # Errors
    /// As [`Heap::release_one`].
    fn release_one(&self) -> Result<u64>;

    /// As [`Heap::close`].
    ///
    /// # Errors
    /// As [`Heap::close`].
    fn close(self: Box<Self>) -> Result<()>;

    /// As [`check_heap`].
    fn check(&self, other: &CheckRoot<'_>) -> Report;
}

impl<M: Memory + 'static, E: Engine<M>> AnyHeap for Heap<M, E> {
    fn session(&self) -> Result<AnySession> {
        Heap::session(self).map(HeapSession::erased)
    }

    fn counters(&self) -> Counters {
        Heap::counters(self)
    }

    fn recovery(&self) -> &Recovery {
        Heap::recovery(self)
    }

    fn memory(&self) -> &dyn Memory {
        &**Heap::memory(self)
    }

    fn space(&self) -> &Space {
        Heap::space(self)
    }

    fn superblock(&self) -> Superblock {
        Heap::superblock(self)
    }

    fn is_crash_consistent(&self) -> bool {
        E::CRASH_CONSISTENT
    }

    fn flush_due(&self) -> Result<()> {
        self.engine.flush_due()
    }

    fn tune(&self, tuning: &Tuning) {
        Heap::tune(self, tuning);
    }

    fn abandon(&self) {
        self.shared.superblock().state = State::Closed;
    }

    fn checkpoint(&self) -> Result<()> {
        Heap::checkpoint(self)
    }

    fn empty_log(&self) -> Result<Counters> {
        Heap::empty_log(self)
    }

    fn release_one(&self) -> Result<u64> {
        Heap::release_one(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Heap::close(*self)
    }

    fn check(&self, other: &CheckRoot<'_>) -> Report {
        check_heap(self, other)
    }
}

impl<M: Memory + 'static, E: Engine<M>> HeapSession<M, E> {
    /// The session with its type erased.
    pub fn erased(self) -> AnySession {
        AnySession(Box::new(self))
    }
}

/// The body of a transaction, which keeps its own result.
pub(crate) type Body<'a> = dyn FnMut(&mut dyn Tx) -> Result<()> + 'a;

/// A session's operations, without type parameters of their own.
pub(crate) trait Erased: Send {
    fn run(&mut self, mode: Mode, body: &mut Body<'_>) -> Result<Ticket>;
    fn run_awaited(&mut self, mode: Mode, body: &mut Body<'_>) -> Result<Ticket>;
    fn begin_run(&mut self, mode: Mode) -> Boxed<()>;
    fn begin_run_again(&mut self, mode: Mode, error: Box<Error>) -> Boxed<()>;
    fn tx(&mut self) -> &mut dyn Tx;
    fn commit_run(&mut self, mode: Mode, is_awaited: bool) -> Boxed<Ticket>;
    fn failed_run(&mut self, error: Error) -> Box<Error>;
    fn broken_run(&mut self);
    fn section(&mut self, is_awaited: bool, body: &mut Body<'_>) -> Result<Ticket>;
    fn begin(&mut self, mode: Mode) -> Result<()>;
    fn begin_section(&mut self) -> Result<()>;
    fn check_alone(&self) -> Result<()>;
    fn within(&mut self, body: &mut Body<'_>) -> Result<()>;
    fn commit(&mut self) -> Result<Ticket>;
    fn commit_awaited(&mut self) -> Result<Ticket>;
    fn abort(&mut self);
    fn is_durable(&self, ticket: Ticket) -> bool;
    fn wait(&mut self, ticket: Ticket) -> Result<()>;
    fn pause(&self, turn: u32);
    fn counters(&self) -> Counters;
    fn serial(&self) -> Option<u64>;
}

impl<M: Memory + 'static, E: Engine<M>> Erased for HeapSession<M, E> {
    fn run(&mut self, mode: Mode, body: &mut Body<'_>) -> Result<Ticket> {
        HeapSession::run(self, mode, |tx| body(tx)).map(|((), ticket)| ticket)
    }

    fn run_awaited(&mut self, mode: Mode, body: &mut Body<'_>) -> Result<Ticket> {
        HeapSession::run_awaited(self, mode, |tx| body(tx)).map(|((), ticket)| ticket)
    }

    fn begin_run(&mut self, mode: Mode) -> Boxed<()> {
        HeapSession::begin_run(self, mode)
    }

    fn begin_run_again(&mut self, mode: Mode, error: Box<Error>) -> Boxed<()> {
        HeapSession::begin_run_again(self, mode, error)
    }

    fn tx(&mut self) -> &mut dyn Tx {
        &mut self.state
    }

    fn commit_run(&mut self, mode: Mode, is_awaited: bool) -> Boxed<Ticket> {
        HeapSession::commit_run(self, mode, is_awaited)
    }

    fn failed_run(&mut self, error: Error) -> Box<Error> {
        HeapSession::failed_run(self, error)
    }

    fn broken_run(&mut self) {
        HeapSession::broken_run(self);
    }

    fn section(&mut self, is_awaited: bool, body: &mut Body<'_>) -> Result<Ticket> {
        HeapSession::run_section(self, is_awaited, |tx| body(tx)).map(|((), ticket)| ticket)
    }

    fn begin(&mut self, mode: Mode) -> Result<()> {
        HeapSession::begin(self, mode)
    }

    fn begin_section(&mut self) -> Result<()> {
        HeapSession::begin_section(self)
    }

    fn check_alone(&self) -> Result<()> {
        HeapSession::check_alone(self)
    }

    fn within(&mut self, body: &mut Body<'_>) -> Result<()> {
        HeapSession::within(self, |tx| body(tx))
    }

    fn commit(&mut self) -> Result<Ticket> {
        HeapSession::commit(self)
    }

    fn commit_awaited(&mut self) -> Result<Ticket> {
        HeapSession::commit_awaited(self)
    }

    fn abort(&mut self) {
        HeapSession::abort(self);
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        HeapSession::is_durable(self, ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<()> {
        HeapSession::wait(self, ticket)
    }

    fn pause(&self, turn: u32) {
        HeapSession::pause(self, turn);
    }

    fn counters(&self) -> Counters {
        *HeapSession::counters(self)
    }

    fn serial(&self) -> Option<u64> {
        HeapSession::serial(self)
    }
}

/// One thread's transactions on a heap, on some memory with some engine.
pub struct AnySession(pub(crate) Box<dyn Erased>);

impl AnySession {
    /// As [`HeapSession::transaction`].
    ///
    /// # Errors
    /// As [`HeapSession::transaction`].
    pub fn transaction<R>(&mut self, body: impl FnMut(&mut dyn Tx) -> Result<R>) -> Result<R> {
        self.run_awaited(Mode::Write, body).map(|(result, _)| result)
    }

    /// As [`HeapSession::read`].
    ///
    /// # Errors
    /// As [`HeapSession::read`].
    pub fn read<R>(&mut self, body: impl FnMut(&mut dyn Tx) -> Result<R>) -> Result<R> {
        self.run_awaited(Mode::Read, body).map(|(result, _)| result)
    }

    /// As [`HeapSession::run`].
    ///
    /// # Errors
    /// As [`HeapSession::run`].
    pub fn run<R>(
        &mut self,
        mode: Mode,
        body: impl FnMut(&mut dyn Tx) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        with_result(body, |body| self.0.run(mode, body))
    }

    /// As [`HeapSession::run_awaited`].
    ///
    /// # Errors
    /// As [`HeapSession::run_awaited`].
    pub fn run_awaited<R>(
        &mut self,
        mode: Mode,
        body: impl FnMut(&mut dyn Tx) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        with_result(body, |body| self.0.run_awaited(mode, body))
    }

    /// As [`HeapSession::section`].
    ///
    /// # Errors
    /// As [`HeapSession::section`].
    pub fn section<R>(&mut self, body: impl FnOnce(&mut dyn Tx) -> Result<R>) -> Result<R> {
        self.run_section(true, body).map(|(result, _)| result)
    }

    /// As [`HeapSession::submit_section`].
    ///
    /// # Errors
    /// As [`HeapSession::section`].
    pub fn submit_section<R>(
        &mut self,
        body: impl FnOnce(&mut dyn Tx) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run_section(false, body)
    }

    fn run_section<R>(
        &mut self,
        is_awaited: bool,
        body: impl FnOnce(&mut dyn Tx) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        let mut body = Some(body);
        with_result(
            |tx| body.take().expect("a section runs once")(tx),
            |body| self.0.section(is_awaited, body),
        )
    }

    /// As [`HeapSession::is_durable`].
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.0.is_durable(ticket)
    }

    /// As [`HeapSession::wait`].
    ///
    /// # Errors
    /// As [`HeapSession::wait`].
    pub fn wait(&mut self, ticket: Ticket) -> Result<()> {
        self.0.wait(ticket)
    }

    /// As [`HeapSession::pause`].
    pub fn pause(&self, turn: u32) {
        self.0.pause(turn);
    }

    /// As [`HeapSession::counters`].
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }

    /// As [`HeapSession::serial`].
    pub fn serial(&self) -> Option<u64> {
        self.0.serial()
    }
}

impl dyn Erased + '_ {
    /// Runs `body` inside the running transaction, which is over if `body` panics.
    pub(crate) fn within_with_result<R>(
        &mut self,
        body: impl FnOnce(&mut dyn Tx) -> Result<R>,
    ) -> Result<R> {
        let (mut body, mut value) = (Some(body), None);
        let result = self.within(&mut |tx| {
            value = body.take().map(|body| body(tx)).transpose()?;
            Ok(())
        });
        result.map(|()| value.expect("a body that has not failed has returned"))
    }
}

/// The result of `body`, which `run` has run, and the commit's ticket.
fn with_result<R>(
    mut body: impl FnMut(&mut dyn Tx) -> Result<R>,
    run: impl FnOnce(&mut Body<'_>) -> Result<Ticket>,
) -> Result<(R, Ticket)> {
    let mut result = None;
    let ticket = run(&mut |tx| {
        result = Some(body(tx)?);
        Ok(())
    })?;
    Ok((result.expect("a committed body has returned"), ticket))
}

/// A transaction on some memory with some engine, as a sized type: for code that is generic over transactions, and
/// should be compiled only for this one.
pub struct AnyTx<'t>(&'t mut (dyn Tx + 't));

impl<'t> AnyTx<'t> {
    /// Wraps `tx`.
    pub fn new(tx: &'t mut (dyn Tx + 't)) -> Self {
        AnyTx(tx)
    }
}

impl Access for AnyTx<'_> {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.0.read_word(at)
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        self.0.write_word(at, value)
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.0.read_bytes(at, to)
    }

    fn peek_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.0.peek_bytes(at, to)
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.0.write_bytes(at, from)
    }

    fn mode(&self) -> Mode {
        self.0.mode()
    }

    fn lane(&self) -> u32 {
        self.0.lane()
    }
}

impl Tx for AnyTx<'_> {
    fn allocate(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.0.allocate(purpose, len)
    }

    fn write_fresh(&mut self, fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_fresh(fresh, from, bytes)
    }

    fn allocate_now(&mut self, purpose: Purpose, len: u64) -> Result<Option<Fresh>> {
        self.0.allocate_now(purpose, len)
    }

    fn allocate_some(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.0.allocate_some(purpose, len)
    }

    fn is_sparse(&mut self, at: u64) -> bool {
        self.0.is_sparse(at)
    }

    fn free(&mut self, at: u64) -> Result<()> {
        self.0.free(at)
    }

    fn usable(&mut self, at: u64) -> Result<u64> {
        self.0.usable(at)
    }

    fn extent(&mut self, at: u64) -> Result<Option<Extent>> {
        self.0.extent(at)
    }

    fn undo_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.0.undo_to(savepoint)
    }

    fn point(&mut self) -> Savepoint {
        self.0.point()
    }

    fn moment(&self) -> Moment {
        self.0.moment()
    }

    fn root(&mut self, name: &str) -> Result<Option<Root>> {
        self.0.root(name)
    }

    fn set_root(&mut self, name: &str, root: Root) -> Result<()> {
        self.0.set_root(name, root)
    }

    fn lock(&mut self, id: u64) -> Result<Locked> {
        self.0.lock(id)
    }

    fn unlock(&mut self, lock: Locked) -> Result<()> {
        self.0.unlock(lock)
    }
}
