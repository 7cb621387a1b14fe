//! A heap on any memory, with any engine: opening, sessions, transactions, closing.
//!
//! Everything here is statically dispatched, except for [`AnyHeap`]. [`Pool`](crate::Pool) wraps it for programs that
//! choose the engine at run time.

#[cfg(feature = "any-memory")]
mod any;
mod erased;
mod explicit;
mod nested;
mod recovery;
#[cfg(test)]
mod refused;
mod release;
mod room;
mod run;
mod section;
mod transaction;

pub(crate) use erased::Erased;
pub use erased::{AnyHeap, AnySession, AnyTx};
pub use recovery::inspect;
use recovery::recover;
use run::Attempts;
pub(crate) use run::Running;
pub use transaction::HeapTx;
use transaction::SessionState;

use crate::alloc::Space;
use crate::error::OpenError;
use crate::inside::{self, OwnerThread};
use crate::superblock::{State, Superblock};
use perdura_engine::{
    Counters, Engine, Error, Mode, Oldest, Recovery, Result, Session, Ticket, Tuning, area,
};
use perdura_memory::{Domain, Memory, Survives};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a heap is created.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Limit to which it may grow, in bytes.
    pub limit: u64,
    /// Bytes of log; `None` for an eighth of the limit, at most 64 MiB.
    pub log: Option<u64>,
    /// Identifies the pool.
    pub id: u64,
    /// The failures that transactions must outlive; `None` for those that they outlive on this memory.
    pub requires: Option<Survives>,
    /// Whether all pages have checksums, or only the page table and the named roots.
    pub checksums: bool,
}

/// How a heap is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// Open although transactions outlive less than the pool requires.
    pub accept_weaker: bool,
    /// Open although the pool was in use without crash consistency when its process ended.
    pub force: bool,
}

/// A durable heap on the memory `M` with the engine `E`.
///
/// ```
/// use perdura::{Format, Heap, Opening, RedoEngine, TxExt, collections::Cell};
/// use perdura_memory::Ram;
/// use std::sync::Arc;
///
/// // A heap in ordinary memory, as simulators and tests have it.
/// let memory = Arc::new(Ram::new(8 << 20));
/// let format = Format { limit: 8 << 20, log: None, id: 1, requires: None, checksums: false };
/// let heap = Heap::<Ram, RedoEngine<Ram>>::create(memory.clone(), format)?;
/// heap.session()?.transaction(|tx| tx.open_or_create::<Cell<u64>>("count")?.set(tx, 3))?;
/// heap.close()?;
///
/// let heap = Heap::<Ram, RedoEngine<Ram>>::open(memory, Opening::default())?;
/// let count = heap.session()?.read(|tx| tx.open_or_create::<Cell<u64>>("count")?.get(tx))?;
/// assert_eq!(count, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Heap<M: Memory, E: Engine<M>> {
    memory: Arc<M>,
    engine: Arc<E>,
    shared: Arc<SharedState>,
    recovery: Recovery,
    /// The pool's number, if threads inside its transactions are tracked; else 0.
    watched: u64,
}

/// SharedState by all sessions, in addition to the engine.
struct SharedState {
    /// The pool's identifier.
    id: u64,
    memory: Arc<dyn Memory>,
    space: Space,
    superblock: Mutex<Superblock>,
    /// Counters of the sessions that have ended.
    counters: Mutex<Counters>,
    /// Whether a session is having the memory give back its copies.
    giving_back: AtomicBool,
    /// Whether free pages are being given back to the file system, some at a time.
    releasing: AtomicBool,
    /// Whether a session is making room, for an allocation that has failed.
    making_room: AtomicBool,
    /// Bytes that the last checkpoint made for limbo has left in it: a running transaction may read them.
    held: AtomicU64,
}

impl SharedState {
    fn superblock(&self) -> MutexGuard<'_, Superblock> {
        self.superblock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in limbo up to which no checkpoint is made to free them.
    fn most_limbo(&self) -> u64 {
        let pages = self.memory.len().saturating_sub(self.space.layout().pages);
        let most = (pages / LIMBO_SHARE).max(LIMBO_BYTES).min(self.memory.limit() / LIMBO_LIMIT);
        most + self.held.load(Ordering::Relaxed)
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Memory + 'static, E: Engine<M>> Heap<M, E> {
    /// Creates a heap in a zeroed memory.
    ///
    /// # Errors
    /// When the memory is too small, or fails.
    pub fn create(memory: Arc<M>, format: Format) -> Result<Self, OpenError> {
        check_safe::<M, E>(&memory)?;
        let log = format.log.unwrap_or(Superblock::default_log(format.limit));
        let requires = format.requires.unwrap_or(memory.survives());
        let area = log_area::<M, E>(log, format.limit);
        let Format { limit, id, checksums, .. } = format;
        let mut superblock = Superblock::new(limit, area, id, E::NAME, requires, checksums);
        memory.grow(superblock.smallest_len()).map_err(Error::from)?;
        E::format(&memory, superblock.log.clone());
        superblock.state = State::Open;
        superblock.write(&*memory);
        memory.check_fence().map_err(Error::from)?;
        Self::start(memory, superblock, Recovery::default())
    }

    /// Opens a heap, after the recovery of the engine that wrote it, whichever that is.
    ///
    /// # Errors
    /// When the memory holds no pool, a damaged one, one that requires more than it gets, or one left by an engine
    /// without crash consistency. Nothing has been written then.
    pub fn open(memory: Arc<M>, opening: Opening) -> Result<Self, OpenError> {
        check_safe::<M, E>(&memory)?;
        let mut superblock = Superblock::read(&*memory)?;
        if memory.survives() < superblock.requires && !opening.accept_weaker {
            return Err(OpenError::Weaker {
                path: None,
                requires: superblock.requires,
                survives: memory.survives(),
                domain: memory.domain(),
            });
        }
        let recovery = recover::<M, E>(&*memory, &superblock, opening.force)?;
        // Before the header changes, so that a damaged pool is refused unchanged, except for recovery.
        superblock.scan(&*memory)?;
        Superblock::make_durable(&*memory)?;
        if superblock.engine != E::NAME || superblock.state == State::Formatting {
            superblock.engine = E::NAME.to_owned();
            superblock.state = State::Formatting;
            superblock.write(&*memory);
            E::format(&memory, superblock.log.clone());
        }
        superblock.state = State::Open;
        superblock.write(&*memory);
        memory.check_fence().map_err(Error::from)?;
        Self::start(memory, superblock, recovery)
    }

    fn start(
        memory: Arc<M>,
        superblock: Superblock,
        recovery: Recovery,
    ) -> Result<Self, OpenError> {
        let sums = superblock.sums(&*memory);
        let engine = E::start_with_sums(memory.clone(), superblock.log.clone(), Some(sums))?;
        let space = superblock.scan(&*memory)?;
        space.note_unsecured(&*memory);
        let shared = Arc::new(SharedState {
            id: superblock.id,
            memory: memory.clone(),
            space,
            superblock: Mutex::new(superblock),
            counters: Mutex::default(),
            giving_back: AtomicBool::new(false),
            releasing: AtomicBool::new(false),
            making_room: AtomicBool::new(false),
            held: AtomicU64::new(0),
        });
        Ok(Heap { memory, engine, shared, recovery, watched: 0 })
    }

    /// From now on calls of a thread inside a transaction that would wait for that transaction are refused.
    pub(crate) fn watch(&mut self) {
        self.watched = inside::number();
    }

    /// A session for one thread.
    ///
    /// # Errors
    /// `Sessions` when there are too many: 4,096, whatever the pool's log.
    pub fn session(&self) -> Result<HeapSession<M, E>> {
        self.check_owner()?;
        let (session, engine) = (self.engine.session()?, self.engine.clone());
        let reuse = Box::new(move || (engine.pins(), engine.oldest()));
        Ok(HeapSession {
            state: SessionState::new(session, self.shared.clone(), reuse),
            engine: self.engine.clone(),
            private: self.memory.domain() == Domain::Media,
            memory: self.memory.clone(),
            watched: self.watched,
            place: OwnerThread::default(),
            makes_room: false,
            failed: Attempts::default(),
        })
    }

    /// Its memory.
    pub fn memory(&self) -> &Arc<M> {
        &self.memory
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<E> {
        &self.engine
    }

    /// The work of the recovery when it was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The free space.
    pub fn space(&self) -> &Space {
        &self.shared.space
    }

    /// Bytes of freed memory that are held back for running transactions alone, and the transaction that has kept some
    /// for the longest time.
    pub fn pinned(&self) -> (u64, Option<Oldest>) {
        if self.memory.is_forked() {
            return (0, None);
        }
        let limbo = self.shared.space.reclaim(self.engine.pins());
        (limbo.pinned_bytes, self.engine.oldest())
    }

    /// The header.
    pub fn superblock(&self) -> Superblock {
        self.shared.superblock().clone()
    }

    /// The counters of all sessions that have ended.
    pub fn counters(&self) -> Counters {
        let mut counters = *self.shared.counters();
        counters += self.engine.counters();
        counters
    }

    /// Makes everything committed durable in place and empties the log. **Must not be called inside a transaction of
    /// the calling thread, for which it may wait forever**; there, use [`Session::checkpoint`].
    ///
    /// # Errors
    /// `Io` when the medium failed; on a pool, `Nested` inside a transaction of the calling thread.
    pub fn checkpoint(&self) -> Result<()> {
        self.check_outside()?;
        self.engine.checkpoint()?;
        self.shared.space.reclaim(self.engine.pins());
        Ok(())
    }

    /// Empties the log as far as the engine needs it to be empty at times, with a session of its own. Unlike a
    /// [`checkpoint`](Self::checkpoint), it does not write back lines that an engine leaves in the caches for good.
    /// Returns the counters of that session.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint); `Sessions` when there are too many.
    pub fn empty_log(&self) -> Result<Counters> {
        self.check_outside()?;
        let mut session = self.engine.session()?;
        session.checkpoint()?;
        Ok(*session.counters())
    }

    /// Flushes commits that have waited longer than they should; to be called now and then if the engine lets commits
    /// wait. **Must not be called inside a transaction of the calling thread, for which it would wait forever.**
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn flush_due(&self) -> Result<()> {
        self.check_outside()?;
        self.engine.flush_due()
    }

    /// Changes the engine's run-time settings. **Must not be called inside a transaction of the calling thread, for
    /// which it would wait forever.**
    pub fn tune(&self, tuning: &Tuning) {
        if self.memory.is_forked() {
            return;
        }
        self.engine.tune(tuning);
        self.shared.space.tune_batches(tuning.batches);
    }

    /// Looks whether the memory's durable image is still where it was opened: see [`Memory::look`].
    ///
    /// # Errors
    /// `Io` if it is not, or when the medium has failed; nothing is committed any more then.
    pub fn look(&self) -> Result<()> {
        Ok(self.memory.look()?)
    }

    /// Checks that this process may use the heap, and that the calling thread is in no transaction on it.
    fn check_outside(&self) -> Result<()> {
        self.check_owner()?;
        inside::check_outside(self.watched)
    }

    fn check_owner(&self) -> Result<()> {
        if self.memory.is_forked() { Err(Error::Forked) } else { Ok(()) }
    }

    /// Closes the heap cleanly. Sessions must have ended; if one has not, the pool stays marked as in use. **Must not
    /// be called inside a transaction of the calling thread, for which it may wait forever.**
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn close(self) -> Result<()> {
        self.close_shared()
    }

    fn close_shared(&self) -> Result<()> {
        self.checkpoint()?;
        // Every session holds a reference to the shared part.
        if Arc::strong_count(&self.shared) > 1 {
            return Ok(());
        }
        let mut superblock = self.shared.superblock();
        if superblock.state == State::Open {
            superblock.state = State::Closed;
            superblock.write(&*self.memory);
        }
        // Nothing was closed that is not there any more.
        self.look()
    }
}

impl<M: Memory, E: Engine<M>> Drop for Heap<M, E> {
    fn drop(&mut self) {
        // A lock in a forked child's memory may be held for ever.
        if self.memory.is_forked() {
            return;
        }
        // After a failure, also one that `close` has returned already, the pool stays marked as in use.
        if self.shared.superblock().state == State::Open
            && !std::thread::panicking()
            && inside::check_outside(self.watched).is_ok()
            && self.memory.look().is_ok()
            && self.engine.checkpoint().is_ok()
            && Arc::strong_count(&self.shared) == 1
        {
            let mut superblock = self.shared.superblock();
            superblock.state = State::Closed;
            superblock.write(&*self.memory);
        }
    }
}

/// Refuses an engine that would not keep its promises on the memory, before anything is written.
fn check_safe<M: Memory, E: Engine<M>>(memory: &M) -> Result<(), OpenError> {
    Ok(E::check_safe(memory)?)
}

/// Bytes of the log area of a new pool of up to `limit` bytes: the `log` bytes asked for, at most half of the limit.
pub(crate) fn log_area<M: Memory, E: Engine<M>>(log: u64, limit: u64) -> u64 {
    log.clamp(area::SMALLEST, limit / 2) + E::beside_log(limit)
}

/// Bytes in limbo, as a share of all pages, from which on a checkpoint is made to free them,
const LIMBO_SHARE: u64 = 32;
/// but not for fewer than these,
const LIMBO_BYTES: u64 = 1 << 20;
/// unless they are this share of the pool's limit.
const LIMBO_LIMIT: u64 = 16;

/// One thread's transactions on a heap.
pub struct HeapSession<M: Memory, E: Engine<M>> {
    state: SessionState<E::Session>,
    engine: Arc<E>,
    /// Whether the memory keeps copies of pages that were stored to, to be given back now and then.
    private: bool,
    memory: Arc<M>,
    /// The heap's: see there.
    watched: u64,
    /// The thread that uses the transaction begun by a call.
    place: OwnerThread,
    /// Whether its transactions make room for one that has failed.
    makes_room: bool,
    /// How often the running transaction has failed before. Not with the caller: it would be stored each time there.
    failed: Attempts,
}

impl<M: Memory + 'static, E: Engine<M>> HeapSession<M, E> {
    /// Runs `body` as a transaction and returns when it is durable. If `body` fails, the transaction has no effect. It
    /// may be run more than once.
    ///
    /// # Errors
    /// The error of `body`, or why the commit failed; on a pool, `Nested` if the calling thread is inside another
    /// transaction on it.
    #[inline]
    pub fn transaction<R>(
        &mut self,
        body: impl FnMut(&mut HeapTx<'_, E::Session>) -> Result<R>,
    ) -> Result<R> {
        self.run_awaited(Mode::Write, body).map(|(result, _)| result)
    }

    /// Runs `body` as a transaction that only reads.
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    #[inline]
    pub fn read<R>(
        &mut self,
        body: impl FnMut(&mut HeapTx<'_, E::Session>) -> Result<R>,
    ) -> Result<R> {
        self.run_awaited(Mode::Read, body).map(|(result, _)| result)
    }

    /// As [`transaction`](Self::transaction), but returns at the logical commit, with a ticket for the durable commit.
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    #[inline]
    pub fn submit<R>(
        &mut self,
        body: impl FnMut(&mut HeapTx<'_, E::Session>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run(Mode::Write, body)
    }

    /// Runs `body`; see [`submit`](Self::submit).
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    #[inline]
    pub fn run<R>(
        &mut self,
        mode: Mode,
        body: impl FnMut(&mut HeapTx<'_, E::Session>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run_and(mode, body, false)
    }

    /// As [`run`](Self::run), but returns when the commit is durable: this is cheaper than a wait afterwards, with
    /// engines that share flushes between commits.
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    #[inline]
    pub fn run_awaited<R>(
        &mut self,
        mode: Mode,
        body: impl FnMut(&mut HeapTx<'_, E::Session>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run_and(mode, body, true)
    }

    /// Commits the running transaction, begun in this mode; `awaited` says whether the caller waits for the ticket at once.
    #[inline(always)]
    fn commit_state(&mut self, mode: Mode, awaited: bool) -> Boxed<Ticket> {
        if let Err(incomplete) = self.state.local.savepoints.check_complete() {
            self.roll_back();
            return Err(incomplete);
        }
        let committed = match (mode, awaited) {
            (Mode::Read, _) => self.state.session.end_reading(awaited),
            (Mode::Write, true) => self.state.session.commit_awaited(),
            (Mode::Write, false) => self.state.session.commit(),
        };
        match committed {
            Ok(ticket) => {
                if !self.state.local.committed_plain() {
                    self.after_commit(ticket);
                }
                if self.private && mode == Mode::Write && self.engine.give_back_due() {
                    self.give_back();
                }
                Ok(ticket)
            }
            Err(error) => Err(self.not_committed(error)),
        }
    }

    /// The work after a commit of a transaction that has done more than write words.
    #[inline(never)]
    fn after_commit(&mut self, ticket: Ticket) {
        let reclaimable = || self.engine.reclaimable();
        let SessionState { session, local, shared, .. } = &mut self.state;
        let waiting = local.committed(&shared.space, ticket, || session.born(ticket), reclaimable);
        if waiting > 0 && waiting > self.state.shared.most_limbo() {
            self.empty_limbo();
        }
    }

    #[cold]
    fn not_committed(&mut self, error: Error) -> Box<Error> {
        if !self.memory.is_forked() {
            self.state.local.aborted(&self.state.shared.space);
        }
        Box::new(error)
    }

    /// The error of a transaction: in a process forked inside it, the memory's bounds are no reason.
    #[cold]
    fn forked_or(&self, error: Error) -> Error {
        if self.memory.is_forked() { Error::Forked } else { error }
    }

    /// Makes a checkpoint, so that space in limbo can be reused.
    #[cold]
    fn empty_limbo(&mut self) {
        // The transaction has committed, even if this fails: a failed checkpoint is the last one, and a failed medium
        // shows at the next commit.
        if self.state.session.checkpoint().is_ok() {
            let held = self.state.shared.space.reclaim(self.engine.pins());
            self.state.shared.held.store(held.bytes, Ordering::Relaxed);
        }
    }

    /// Makes the memory give back its copies of pages beyond the durable image. If another session is doing so, waits
    /// for it, which also keeps this session from storing meanwhile.
    #[cold]
    fn give_back(&self) {
        let SharedState { giving_back, memory, .. } = &*self.state.shared;
        let mut turn = 0;
        while giving_back.swap(true, Ordering::Acquire) {
            memory.pause(turn);
            turn += 1;
        }
        // A failure shows again at the next fence.
        let _ = self.engine.give_back();
        giving_back.store(false, Ordering::Release);
    }

    /// Whether the commit with this ticket is durable.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.state.session.is_durable(ticket)
    }

    /// Returns when the commit with this ticket is durable.
    ///
    /// # Errors
    /// `Io` when the medium failed; on a pool, `Nested` inside a transaction of the calling thread.
    pub fn wait(&mut self, ticket: Ticket) -> Result<()> {
        if self.memory.is_forked() {
            return Err(Error::Forked);
        }
        self.place.check_others(self.watched)?;
        self.state.session.wait_durable(ticket)
    }

    /// The pause in iteration `turn` (from 0) of a loop that waits for another session: see [`Memory::pause`].
    pub fn pause(&self, turn: u32) {
        self.state.shared.memory.pause(turn);
    }

    /// The session's counters.
    pub fn counters(&self) -> &Counters {
        self.state.session.counters()
    }

    /// The last transaction's place in the serial order, in a simulator: see [`Session::serial`].
    pub fn serial(&self) -> Option<u64> {
        self.state.session.serial()
    }
}

impl<M: Memory, E: Engine<M>> Drop for HeapSession<M, E> {
    fn drop(&mut self) {
        self.place.end();
        // A lock in a forked child's memory may be held for ever.
        if self.memory.is_forked() {
            return;
        }
        self.state.local.end(&self.state.shared.space);
        *self.state.shared.counters() += *self.state.session.counters();
    }
}

impl<M: Memory, E: Engine<M>> HeapSession<M, E> {
    /// In a forked child that is left to the parent, whose threads may have left locks held for ever here.
    #[cold]
    #[inline(never)]
    fn roll_back(&mut self) {
        if !self.memory.is_forked() {
            self.state.session.abort();
            self.state.local.aborted(&self.state.shared.space);
        }
        self.place.end();
    }
}

/// A result that fits into two registers: an [`Error`] is as large as a line.
pub(crate) type Boxed<T> = Result<T, Box<Error>>;
