//! A session: a transaction from its begin to its end, and what its body may do.

use super::dirty::DirtySet;
use super::locks::Locks;
use super::reads::ReadSet;
use super::state::{Durability, Optimistic};
use crate::access::put_lines;
use crate::consistency::writer::Writer;
use crate::error::Boxed;
use crate::planted::{self, Bug};
use crate::sums::Change;
use crate::sync::Concurrency;
use crate::sync::stm::{Lane, Moment};
use crate::writable::Writable;
use crate::writes::range::{any_words, lay_over};
use crate::{Access, Counters, Error, Mark, Mode, Result, Session, Ticket};
use perdura_memory::elision::{Attempts, Delay, Elision};
use perdura_memory::{LINE, Memory, WORD};
use std::sync::Arc;

/// Conflicts in a row after which a writing transaction runs alone.
const PATIENCE: u32 = 10;

/// Pauses before a transaction runs again after its first conflict, about 20 ns each; twice as many after each further
/// conflict, up to `MOST_DOUBLINGS` times.
const BACK_OFF: u32 = 64;
const MOST_DOUBLINGS: u32 = 8;

/// How far a transaction sees whose moment is not known yet.
pub(super) const ANY: u64 = u64::MAX;

/// The number of the latest commits of which a transaction at moment `number` may see something: its own session's last
/// commit may have the next one.
#[inline(always)]
pub(super) const fn sees_until(number: u64) -> u64 {
    number + 1
}

/// Bytes of log that are reserved for a session's first transaction in hardware.
const FIRST_ROOM: u64 = 4 * LINE;

/// Bytes of fresh memory stored at a time: checkpoints and snapshots wait meanwhile.
const FRESH_PART: usize = 64 << 10;

/// How a transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// None is running.
    Outside,
    /// Concurrently: its reads are checked.
    Concurrent,
    /// In hardware, as far as to its locks.
    Hardware,
    /// No other one commits meanwhile.
    Alone,
    /// It reads the state committed at its moment.
    Snapshot,
    /// It has met a conflict, and must be rolled back.
    Failed,
}

/// One thread's transactions on an [`Optimistic`] engine.
pub struct OptimisticSession<M: Memory, C: Durability, S> {
    pub(super) engine: Arc<Optimistic<M, C, S>>,
    pub(super) lane: Lane,
    pub(super) writer: Writer,
    pub(super) reads: ReadSet,
    pub(super) locks: Locks,
    /// The lines that it has stored to and that are not written back yet, once there are any.
    pub(super) dirty: Option<DirtySet>,
    mode: Option<Mode>,
    pub(super) way: Way,
    /// A moment at which everything it has read holds.
    pub(super) moment: Moment,
    pub(super) writable: Writable,
    /// How often the transaction at hand has been lost in hardware.
    pub(super) elision: Elision,
    /// The latest number of another session's commit of which it has seen something in hardware.
    pub(super) seen: u64,
    /// Bytes of log that are reserved before a transaction runs in hardware.
    pub(super) largest: u64,
    /// See [`Session::serial`].
    pub(super) serial: u64,
    /// See [`Sums::add_to`](crate::Sums::add_to).
    pub(super) changes: Vec<Change>,
}

impl<M: Memory, C: Durability, S> OptimisticSession<M, C, S> {
    pub(super) fn new(engine: Arc<Optimistic<M, C, S>>) -> Option<Self> {
        let memory = &*engine.core.memory;
        let lane = Lane::new(&engine.lanes)?;
        Some(OptimisticSession {
            writer: match C::UNDOES {
                true => Writer::new(memory, engine.core.geometry.segment_bytes),
                false => Writer::new_short(memory, engine.core.geometry.segment_bytes),
            },
            reads: ReadSet::new(memory),
            locks: Locks::new(memory, lane.number()),
            dirty: None,
            mode: None,
            way: Way::Outside,
            moment: Moment::default(),
            writable: Writable::new(engine.core.sums.as_ref()),
            elision: Elision::new(Attempts::default(), Delay::default(), lane.number() as u64),
            seen: 0,
            largest: FIRST_ROOM,
            serial: 0,
            changes: Vec::new(),
            lane,
            engine,
        })
    }

    /// Begins a transaction; none is running.
    #[inline(always)]
    pub(super) fn begin_as(&mut self, mode: Mode, way: Way) {
        let engine = &*self.engine;
        let memory = &*engine.core.memory;
        self.writer.touch_fields(memory);
        if way == Way::Alone {
            engine.lanes.be_alone(memory);
        }
        self.moment = engine.clock.now(memory);
        let number = self.moment.number;
        match way {
            Way::Snapshot => {
                self.lane.run_since(memory, number, ANY);
                self.moment = engine.begin_snapshot(self.lane.number());
                self.lane.sees_until(memory, self.moment.number);
            }
            _ => self.lane.run_since(memory, number, sees_until(number)),
        }
        (self.mode, self.way) = (Some(mode), way);
        match mode {
            Mode::Write => {
                self.writable.begin(memory);
                self.reads.set_most(usize::MAX);
            }
            Mode::Read => {
                self.reads.set_most(self.engine.core.snapshots.most_reads() as usize);
            }
        }
    }

    /// Ends the transaction and forgets it; nothing is locked.
    #[inline(always)]
    pub(super) fn finish(&mut self) {
        if self.mode.is_none() {
            return;
        }
        let engine = &*self.engine;
        let memory = &*engine.core.memory;
        self.lane.end(memory);
        match self.way {
            Way::Alone => engine.lanes.let_in(memory),
            Way::Snapshot => engine.end_snapshot(self.lane.number()),
            Way::Outside | Way::Concurrent | Way::Hardware | Way::Failed => {}
        }
        self.reads.clear();
        if self.mode == Some(Mode::Write) {
            self.writer.forget(memory);
        }
        if engine.hardware.is_some() {
            self.writer.give_back_room(&engine.core);
            self.count_hardware();
        }
        self.writable.end();
        (self.mode, self.way) = (None, Way::Outside);
    }

    /// Adds how transactions have run in hardware to the counters.
    #[cold]
    fn count_hardware(&mut self) {
        let counts = self.elision.counts();
        let counters = &mut *self.writer.counters;
        counters.hardware_commits = counts.hardware;
        counters.hardware_fallbacks = counts.locked;
        counters.hardware_conflicts = counts.conflicts;
        counters.hardware_capacity = counts.capacity;
        counters.hardware_interrupts = counts.interrupts;
        counters.hardware_others = counts.others;
        counters.hardware_locked = counts.taken;
        counters.hardware_cancelled = counts.cancelled;
    }

    /// Marks the transaction as failed by a conflict.
    #[cold]
    pub(super) fn fail(&mut self) -> Box<Error> {
        debug_assert!(self.way == Way::Concurrent, "what is alone, and snapshots, meet none");
        self.way = Way::Failed;
        Box::new(Error::Conflict)
    }

    /// The word at `at`, which the transaction may have written. Out of line, so that a read that goes to the memory saves
    /// no registers for it.
    #[inline(never)]
    fn read_otherwise(&mut self, at: u64) -> Boxed<u64> {
        let memory = &*self.engine.core.memory;
        if at.is_multiple_of(WORD)
            && let Some(value) = self.writer.writes.get(memory, at)
        {
            return Ok(value);
        }
        self.load(at)
    }

    #[cold]
    fn bad_write(&self, at: u64) -> Error {
        match self.mode {
            _ if self.way == Way::Failed => Error::Conflict,
            Some(Mode::Write) => Error::outside(at),
            Some(Mode::Read) => Error::ReadOnly,
            None => Error::Invalid("a write outside of a transaction"),
        }
    }

    #[inline(always)]
    fn check_write(&self, at: u64, len: u64) -> Result<()> {
        let may = self.mode == Some(Mode::Write) && self.way != Way::Failed;
        if may && self.engine.core.memory.contains(at, len) {
            Ok(())
        } else {
            Err(self.bad_write(at))
        }
    }

    /// See [`Session::read_at_once`].
    #[inline(always)]
    fn read_simply(&mut self, at: u64) -> Option<u64> {
        if self.way != Way::Concurrent {
            return None;
        }
        if self.writer.writes.may_have(&*self.engine.core.memory, at) {
            return self.read_own(at);
        }
        self.load_concurrently(at)
    }

    /// The same, where the transaction itself may have written.
    #[inline(never)]
    fn read_own(&mut self, at: u64) -> Option<u64> {
        let memory = &*self.engine.core.memory;
        let own = self.writer.writes.get(memory, at).filter(|_| at.is_multiple_of(WORD));
        own.or_else(|| self.load_concurrently(at))
    }

    /// See [`Session::write_at_once`].
    #[inline(always)]
    fn write_simply(&mut self, at: u64, value: u64) -> bool {
        let is_allowed = self.writable.has(at);
        if is_allowed {
            self.put(at, value);
        }
        is_allowed
    }

    /// Writes the word at `at`, if that is not simply allowed: see [`Writable`].
    #[inline(never)]
    fn write_otherwise(&mut self, at: u64, value: u64) -> Boxed<()> {
        self.check_write(at, WORD)?;
        if !at.is_multiple_of(WORD) {
            return Err(Box::new(self.bad_write(at)));
        }
        self.writable.include(&*self.engine.core.memory, at);
        self.put(at, value);
        Ok(())
    }

    #[inline(always)]
    fn put(&mut self, at: u64, value: u64) {
        let memory = &*self.engine.core.memory;
        match C::UNDOES {
            true => self.writer.writes.put(memory, at, value),
            false => self.writer.writes.put_word(memory, at, value),
        }
    }

    /// Makes all that has committed durable.
    #[inline(never)]
    fn make_durable(&mut self) -> Boxed<()> {
        let core = &self.engine.core;
        // Their records are written.
        let committed = core.last_commit();
        self.writer.fence(core)?;
        core.raise_durable(committed);
        Ok(())
    }

    /// Writes words of one line.
    #[inline]
    fn put_run(&mut self, at: u64, words: &[u64]) {
        let (memory, writes) = (&*self.engine.core.memory, &mut self.writer.writes);
        match C::UNDOES {
            true => writes.put_run_by_line(memory, at, words),
            false => writes.put_run(memory, at, words),
        }
    }

    /// Writes bytes that are known to lie in the pool.
    fn put_checked(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.writable.include(&*self.engine.core.memory, at);
        put_lines(self, at, from, |session, at, words| session.put_run(at, words))
    }
}

impl<M: Memory, C: Durability, S: Concurrency> OptimisticSession<M, C, S> {
    /// Whether bodies run in hardware.
    #[inline(always)]
    fn speculates(&self) -> bool {
        S::SPECULATES && self.engine.hardware.is_some()
    }
}

/// Exponential back-off: sessions that keep taking the same lines from one another are slower together than one of them
/// alone.
fn back_off<M: Memory>(memory: &M, conflicts: u32) {
    let turns = BACK_OFF << conflicts.min(MOST_DOUBLINGS);
    if memory.traces_own() {
        return memory.work(turns);
    }
    for _ in 0..turns {
        memory.pause(0);
    }
}

impl<M: Memory, C: Durability, S> Access for OptimisticSession<M, C, S> {
    #[inline(always)]
    fn read_word(&mut self, at: u64) -> Result<u64> {
        match self.read_simply(at) {
            Some(value) => Ok(value),
            None => Ok(self.read_otherwise(at)?),
        }
    }

    #[inline(always)]
    fn prefetch(&mut self, at: u64) {
        self.engine.core.memory.prefetch(at);
        self.engine.records.view().prefetch(at);
    }

    #[inline(always)]
    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        if self.write_simply(at, value) { Ok(()) } else { Ok(self.write_otherwise(at, value)?) }
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.load_bytes(at, to)?;
        if !self.writer.writes.is_empty() {
            lay_over(|line| self.writer.writes.line(&*self.engine.core.memory, line), at, to);
        }
        Ok(())
    }

    /// Words come into place once their commit is decided: so a plain load finds none that is rolled back.
    fn peek_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        if self.way != Way::Concurrent {
            return self.read_bytes(at, to);
        }
        if !self.engine.core.memory.try_copy_out(at, to) {
            return Err(Error::outside(at));
        }
        if !self.writer.writes.is_empty() {
            lay_over(|line| self.writer.writes.line(&*self.engine.core.memory, line), at, to);
        }
        Ok(())
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.check_write(at, from.len() as u64)?;
        self.put_checked(at, from)
    }

    fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Read)
    }

    fn lane(&self) -> u32 {
        self.lane.number() as u32
    }
}

impl<M: Memory, C: Durability, S> Session for OptimisticSession<M, C, S>
where
    M: 'static,
    S: Concurrency,
{
    const CONFLICTS: bool = true;

    #[inline(always)]
    fn begin(&mut self, mode: Mode) {
        match self.mode {
            Some(_) => self.abort(),
            None if self.speculates() => self.begin_speculating(mode),
            None => self.begin_as(mode, Way::Concurrent),
        }
    }

    #[cold]
    fn begin_again(&mut self, mode: Mode, conflicts: u32) {
        if self.mode.is_some() {
            return self.abort();
        }
        if self.speculates() && self.elision.may_try() {
            return self.begin_speculating(mode);
        }
        // Losses in hardware are not conflicts of this kind.
        let conflicts = conflicts.saturating_sub(self.elision.losses());
        match mode {
            Mode::Read => self.begin_as(mode, Way::Snapshot),
            Mode::Write if conflicts > PATIENCE => self.begin_as(mode, Way::Alone),
            Mode::Write => {
                back_off(&*self.engine.core.memory, conflicts);
                self.begin_as(mode, Way::Concurrent);
            }
        }
    }

    fn begin_unfailing(&mut self, mode: Mode) {
        if self.mode.is_some() {
            return self.abort();
        }
        self.begin_as(mode, if mode == Mode::Read { Way::Snapshot } else { Way::Alone });
    }

    #[inline(always)]
    fn has_conflict(&self) -> bool {
        let is_lost = || self.engine.core.memory.lost().is_some();
        self.way == Way::Failed || S::SPECULATES && self.way == Way::Hardware && is_lost()
    }

    fn serial(&self) -> Option<u64> {
        Some(self.serial)
    }

    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        let len = (from.len() as u64).next_multiple_of(8);
        self.check_write(at, len)?;
        if !at.is_multiple_of(8) {
            return Err(self.bad_write(at));
        }
        let memory = &*self.engine.core.memory;
        // Without a log, nothing marks these lines as dirty later.
        if !C::LOGS
            || self.engine.logs_fresh(len)
            || any_words(|line| self.writer.writes.line(memory, line), at, len)
        {
            return self.put_checked(at, from);
        }
        if self.way == Way::Hardware {
            return Err(*self.leave_hardware());
        }
        if planted::has(Bug::FreshUnannounced) {
            memory.copy_in(at, from);
            self.writer.add_fresh(memory, at..at + from.len() as u64);
            return Ok(());
        }
        let OptimisticSession { engine, lane, writer, .. } = self;
        let memory = &*engine.core.memory;
        for (part, at) in from.chunks(FRESH_PART).zip((at..).step_by(FRESH_PART)) {
            writer.store_fresh(memory, &lane.store_in_place(memory), at, part);
        }
        Ok(())
    }

    #[inline(always)]
    fn read_at_once(&mut self, at: u64) -> Option<u64> {
        self.read_simply(at)
    }

    #[inline(always)]
    fn write_at_once(&mut self, at: u64, value: u64) -> bool {
        self.write_simply(at, value)
    }

    const HAS_FLOOR: bool = true;

    fn set_floor(&mut self, floor: u64) {
        self.writable.set_floor(floor);
    }

    fn mark(&mut self) -> Mark {
        self.writer.writes.mark(&*self.engine.core.memory)
    }

    fn rollback_to(&mut self, mark: Mark) {
        self.writer.writes.rollback_to(&*self.engine.core.memory, mark);
    }

    #[inline(always)]
    fn commit(&mut self) -> Result<Ticket> {
        if self.mode.is_none() {
            return Err(Error::Invalid("a commit outside of a transaction"));
        }
        Ok(self.commit_running()?)
    }

    #[inline]
    fn born(&self, ticket: Ticket) -> Ticket {
        match self.engine.group {
            Some(_) => Ticket(self.lane.last_number()),
            None => ticket,
        }
    }

    fn abort(&mut self) {
        match self.way {
            Way::Outside => {}
            Way::Hardware => match self.cancel_speculation() {
                true => self.writer.counters.aborts_user += 1,
                false => self.writer.counters.aborts_conflict += 1,
            },
            Way::Failed => self.writer.counters.aborts_conflict += 1,
            Way::Concurrent | Way::Alone | Way::Snapshot => {
                self.writer.counters.aborts_user += 1;
                self.elision.end();
            }
        }
        self.finish();
    }

    #[inline(always)]
    fn is_durable(&self, ticket: Ticket) -> bool {
        // Otherwise a returned commit held its locks until it was durable.
        self.engine.group.is_none() || self.engine.core.durable() >= ticket.0
    }

    #[inline(always)]
    fn wait_durable(&mut self, ticket: Ticket) -> Result<()> {
        if self.is_durable(ticket) { Ok(()) } else { Ok(self.make_durable()?) }
    }

    fn checkpoint(&mut self) -> Result<()> {
        if self.way == Way::Hardware {
            return Err(*self.leave_hardware());
        }
        let number = self.engine.empty(&mut self.writer.counters)?;
        if matches!(self.way, Way::Concurrent | Way::Alone) {
            // What it has read still holds: from here on it cannot reach memory that was freed before.
            self.move_to(number)?;
            let (memory, number) = (&*self.engine.core.memory, self.moment.number);
            self.lane.run_since(memory, number, sees_until(number));
            self.engine.move_horizon(number);
        }
        Ok(())
    }

    fn counters(&self) -> &Counters {
        &self.writer.counters
    }
}

impl<M: Memory, C: Durability, S> Drop for OptimisticSession<M, C, S> {
    fn drop(&mut self) {
        // In a forked child others may have locked what they share for ever.
        if self.engine.core.memory.is_forked() {
            return;
        }
        if self.way == Way::Hardware {
            self.cancel_speculation();
        }
        self.finish();
        self.writer.end(&self.engine.core);
        if let (Some(sets), Some(set)) = (&self.engine.dirty, self.dirty.take()) {
            sets.give_back(set);
        }
    }
}
