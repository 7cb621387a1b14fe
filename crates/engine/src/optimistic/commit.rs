//! The commit of a transaction.

use super::dirty::DirtySet;
use super::locks::Locks;
use super::session::{OptimisticSession, Way};
use super::state::{Durability, Optimistic};
use crate::consistency::core::cut_short;
use crate::consistency::writer::Writer;
use crate::error::{Boxed, boxed};
use crate::planted::{self, Bug};
use crate::sync::stm::{Begun, RecordWord, Records, Stamp};
use crate::{Error, Result, Ticket};
use perdura_memory::{Memory, WORD, line_of};

/// The most bytes of log that a line's change of its page's sum takes.
pub(super) const SUM_BYTES: u64 = 2 * WORD;

/// How often a transaction that needs several segments looks for them before it gives up.
const MOST_TRIES: u32 = 100;

/// Ends a commit in any case: others must not wait for it for ever, nor continue from where a panic left it.
struct Committing<'a, M: Memory, C: Durability, S> {
    session: &'a mut OptimisticSession<M, C, S>,
    returned: bool,
}

impl<M: Memory, C: Durability, S> Drop for Committing<'_, M, C, S> {
    #[inline(always)]
    fn drop(&mut self) {
        let session = &mut *self.session;
        if !self.returned {
            session.engine.core.break_off();
            session.give_back_locks();
        }
        session.lane.end_commit(&*session.engine.core.memory);
        session.writer.give_back_room(&session.engine.core);
    }
}

impl<M: Memory, C: Durability, S> OptimisticSession<M, C, S> {
    /// Commits the running transaction, which is over in any case.
    #[inline(always)]
    pub(super) fn commit_running(&mut self) -> Boxed<Ticket> {
        let stored = !(self.writer.writes.is_empty() && self.writer.fresh.is_empty());
        let in_software = self.engine.hardware.is_some() && self.way != Way::Hardware;
        let committed = match self.way {
            Way::Hardware => self.commit_in_hardware(stored),
            // What was read may include stores of a commit that was cut short.
            _ if self.engine.core.is_broken() => Err(Box::new(cut_short())),
            Way::Failed => Err(Box::new(Error::Conflict)),
            _ if stored => self.commit_stores(),
            _ => {
                self.serial = self.moment.serial;
                self.writer.counters.read_only += 1;
                Ok(self.latest_seen())
            }
        };
        if let Err(error) = &committed
            && matches!(**error, Error::Conflict)
        {
            self.writer.counters.aborts_conflict += 1;
        }
        if in_software && committed.is_ok() {
            self.elision.count_locked();
        }
        self.finish();
        if self.writer.filled {
            self.writer.filled = false;
            self.engine.empty_if_half_full(&mut self.writer.counters);
        }
        committed
    }

    #[inline(always)]
    fn commit_stores(&mut self) -> Boxed<Ticket> {
        let changes_sums = self.changes_sums();
        let OptimisticSession { engine, writer, .. } = &mut *self;
        let memory = &*engine.core.memory;
        memory.check_fence().map_err(boxed)?;
        writer.touch_counters(memory);
        if C::LOGS && !writer.fresh.is_empty() {
            // The record must not be durable before the memory that it makes reachable.
            writer.flush_fresh(&engine.core);
            // An undo log's fence of the old words will do.
            let is_fenced_later = C::UNDOES && !writer.writes.is_empty();
            if !is_fenced_later && !planted::has(Bug::FreshUnfenced) {
                writer.fence(&engine.core)?;
            }
        }
        let Begun { keeps, has_bias } = self.begin_commit(changes_sums)?;
        self.locks.are_alone = has_bias;
        self.commit_begun(|session| session.commit_locked(keeps, changes_sums))
    }

    /// Commits by `commit`, which may hold locks when it fails; the commit has been announced.
    #[inline]
    pub(super) fn commit_begun(
        &mut self,
        commit: impl FnOnce(&mut Self) -> Boxed<Ticket>,
    ) -> Boxed<Ticket> {
        let mut committing = Committing { session: self, returned: false };
        let committed = commit(committing.session);
        if committed.is_err() {
            committing.session.give_back_locks();
        }
        committing.returned = true;
        drop(committing);
        self.lane.note_commit(&*self.engine.core.memory);
        committed
    }

    /// Begins to commit, with room in the log for the record.
    #[inline(always)]
    fn begin_commit(&mut self, changes_sums: bool) -> Boxed<Begun> {
        let is_alone = self.way == Way::Alone;
        let mut turn = 0;
        loop {
            if C::LOGS {
                self.reserve(changes_sums)?;
            }
            let memory = &*self.engine.core.memory;
            if let Some(begun) = self.lane.begin_commit(memory, is_alone) {
                return Ok(begun);
            }
            // The session that runs alone may need that room.
            self.writer.give_back_room(&self.engine.core);
            self.lane.wait_to_commit(memory, is_alone, &mut turn);
        }
    }

    /// Makes room in the log for the record.
    ///
    /// # Errors
    /// `TooLarge`; `Conflict` if others keep taking the room.
    #[inline(always)]
    fn reserve(&mut self, changes_sums: bool) -> Boxed<()> {
        if !changes_sums && self.writer.has_room() {
            return Ok(());
        }
        self.reserve_more(changes_sums)
    }

    #[inline(never)]
    fn reserve_more(&mut self, changes_sums: bool) -> Boxed<()> {
        let sums = if changes_sums { self.writer.writes.stored_lines() as u64 } else { 0 };
        match self.try_to_reserve(sums) {
            Ok(()) => Ok(()),
            Err(error) => match *error {
                Error::TooLarge { needed, available } if needed <= available => {
                    self.wait_for_room(sums)
                }
                error => Err(Box::new(error)),
            },
        }
    }

    /// The same, where there may be room later if `TooLarge` says that the record fits.
    #[inline]
    fn try_to_reserve(&mut self, sums: u64) -> Boxed<()> {
        let OptimisticSession { engine, writer, .. } = self;
        let core = &engine.core;
        Ok(writer.reserve(core, sums * SUM_BYTES, |counters| {
            match core.segments.may_release() {
                true => engine.empty(counters).map(drop),
                // Others hold what is not kept.
                false => core.check_usable(),
            }
        })?)
    }

    /// Other sessions commit at the same time, and hold all segments that are not kept, or have taken what a checkpoint
    /// has freed. They hold them only while they commit, and then wait for none. For one segment this waits as long as
    /// it takes. Others may take single segments again and again, so that a large transaction never finds enough: it
    /// gives up as if it had met a conflict, and finds them all once it runs alone.
    #[cold]
    fn wait_for_room(&mut self, sums: u64) -> Boxed<()> {
        let mut tries = 0;
        loop {
            // That try was not the last one.
            self.writer.counters.aborts_capacity -= 1;
            let core = &self.engine.core;
            core.memory.pause(tries);
            tries = tries.saturating_add(1);
            if core.is_broken() {
                return Err(Box::new(cut_short()));
            }
            let segment_bytes = core.geometry.segment_bytes;
            let Err(error) = self.try_to_reserve(sums) else { return Ok(()) };
            match *error {
                Error::TooLarge { needed, available } if needed <= available => {
                    if needed > segment_bytes && tries > MOST_TRIES && self.way == Way::Concurrent {
                        return Err(self.fail());
                    }
                }
                error => return Err(Box::new(error)),
            }
        }
    }

    /// Commits with locks; if that fails, the locks are still held, and nothing has been stored in place, or the engine is
    /// broken off.
    #[inline(always)]
    fn commit_locked(&mut self, keeps: bool, changes_sums: bool) -> Boxed<Ticket> {
        let early = planted::has(Bug::StampBeforeLocks).then(|| self.take_stamp()).transpose()?;
        self.lock_lines()?;
        if changes_sums {
            self.lock_sums()?;
        }
        self.locks.complete(self.engine.records.view());
        let stamp = match early {
            Some(stamp) => stamp,
            None => self.take_stamp()?,
        };
        if !planted::has(Bug::UncheckedReads) && !self.reads_hold_still() {
            if C::LOGS && planted::has(Bug::LoggedBeforeChecked) {
                self.log_uncommitted(stamp)?;
            }
            return Err(Box::new(Error::Conflict));
        }
        self.commit_stamped(keeps, stamp)
    }

    /// The rest of it: the transaction has its locks and its stamp, and its reads hold.
    #[inline]
    pub(super) fn commit_stamped(&mut self, keeps: bool, stamp: Stamp) -> Boxed<Ticket> {
        if keeps && !planted::has(Bug::NothingKept) {
            self.keep_versions(stamp);
        }
        if self.engine.group.is_some() {
            return self.commit_in_turn(stamp);
        }
        if C::UNDOES {
            return Ok(self.commit_undoable(stamp)?);
        }
        let early = planted::has(Bug::UnlockedBeforeDurable);
        if early {
            self.store_in_place(stamp);
        }
        if C::LOGS {
            let OptimisticSession { engine, writer, .. } = &mut *self;
            writer.append_words(&engine.core, stamp.0, |_| Ok(()))?;
            if planted::has(Bug::HandedOverUnfenced) {
                writer.give_back_room(&engine.core);
            }
            writer.fence(&engine.core)?;
        }
        if !early {
            self.store_in_place(stamp);
        }
        self.writer.counters.commits += 1;
        Ok(Ticket(stamp.0))
    }

    /// The rest of a commit that becomes durable once its ticket is waited for.
    #[cold]
    fn commit_in_turn(&mut self, stamp: Stamp) -> Boxed<Ticket> {
        let engine = self.engine.clone();
        let core = &engine.core;
        let early = planted::has(Bug::NumberedOutOfTurn).then(|| core.next_number()).transpose()?;
        let _turn = engine.group.as_ref().map(|group| group.take(&*core.memory));
        let number = core.next_number()?;
        let ticket = early.unwrap_or(number);
        self.writer.append_words(core, ticket, |_| Ok(()))?;
        // A transaction that finds the words unlocked has this ticket or a later one: its record has been written, so
        // that the next fence covers it.
        let late = planted::has(Bug::UnlockedBeforeCommitted);
        if !late {
            core.set_last_commit(number);
        }
        self.store_in_place(stamp);
        if late {
            core.set_last_commit(number);
        }
        self.writer.counters.commits += 1;
        Ok(Ticket(ticket))
    }

    /// Writes a record of a transaction that does not commit: a planted bug.
    #[cold]
    fn log_uncommitted(&mut self, stamp: Stamp) -> Result<()> {
        let OptimisticSession { engine, writer, .. } = &mut *self;
        let core = &engine.core;
        let _turn = engine.group.as_ref().map(|group| group.take(&*core.memory));
        let ticket = match engine.group {
            Some(_) => core.next_number()?,
            None => stamp.0,
        };
        writer.append_words(core, ticket, |_| Ok(()))?;
        Ok(())
    }

    /// The last commit of which a transaction without stores may have seen something, if that may not be durable.
    #[inline]
    pub(super) fn latest_seen(&self) -> Ticket {
        match self.engine.group {
            Some(_) => Ticket(self.engine.core.last_commit()),
            None => Ticket(0),
        }
    }

    /// Locks the records of the lines that the transaction stores to.
    #[inline(always)]
    pub(super) fn lock_lines(&mut self) -> Boxed<()> {
        let OptimisticSession { engine, writer, locks, .. } = self;
        let memory = &*engine.core.memory;
        let Some(words) = writer.writes.record(memory) else {
            return lock_entries(memory, writer, locks, &engine.records);
        };
        let records = (&engine.records, engine.records.view());
        let mut locked = u64::MAX;
        for (number, _) in words {
            let line = line_of(number * WORD);
            if line == locked {
                continue;
            }
            locks.lock(memory, records, line)?;
            locked = line;
            if planted::has(Bug::FirstLineLocked) {
                break;
            }
        }
        Ok(())
    }

    /// Whether the transaction stores to pages that have a sum.
    #[inline(always)]
    pub(super) fn changes_sums(&self) -> bool {
        self.writable.changes_sums()
    }

    /// Adds the changed sums to the transaction's stores, and locks their lines. It has not read them: they change by
    /// the same amount whatever their value.
    #[cold]
    pub(super) fn lock_sums(&mut self) -> Boxed<()> {
        let OptimisticSession { engine, writer, locks, changes, .. } = self;
        let (memory, Some(sums)) = (&*engine.core.memory, &engine.core.sums) else { return Ok(()) };
        let records = (&engine.records, engine.records.view());
        let mut locked = u64::MAX;
        let has_sum = |line| sums.places().of(line).is_some();
        writer.writes.try_for_each(memory, has_sum, |at, _| match sums.places().of(at) {
            Some(place) if line_of(place) != locked && !planted::has(Bug::SumsUnlocked) => {
                locked = line_of(place);
                locks.lock(memory, records, locked)
            }
            _ => Ok(()),
        })?;
        Ok(sums.add_to(memory, &mut writer.writes, changes, |_| None)?)
    }

    /// Takes the commit's stamp, which is later than those of what it overwrites.
    #[inline(always)]
    fn take_stamp(&mut self) -> Boxed<Stamp> {
        let OptimisticSession { engine, lane, locks, .. } = &mut *self;
        let memory = &*engine.core.memory;
        let mut moment = engine.clock.to_commit(memory);
        let latest = locks.latest_of_others();
        if latest > moment.number {
            engine.clock.raise(memory, latest);
            moment = engine.clock.to_commit(memory);
        }
        loop {
            if !Stamp::is_number(moment.number + 1) {
                return Err(Box::new(numbers_ran_out()));
            }
            if let Some(stamp) = lane.next_stamp(memory, moment.number + 1) {
                self.serial = moment.serial;
                return Ok(stamp);
            }
            engine.clock.raise(memory, moment.number + 1);
            moment = engine.clock.to_commit(memory);
        }
    }

    /// Whether what was read is unchanged, now that the written lines are locked.
    #[inline(always)]
    fn reads_hold_still(&self) -> bool {
        let OptimisticSession { engine, reads, locks, way, .. } = self;
        let (memory, records) = (&*engine.core.memory, engine.records.view());
        let holds = |place: u32, word: RecordWord| {
            let now = records.load(memory, place);
            now == word || locks.held(now, word)
        };
        *way != Way::Concurrent || reads.all(memory, |read| holds(read.place, read.word))
    }

    /// Keeps the words that are about to be overwritten, for snapshots.
    #[cold]
    fn keep_versions(&mut self, stamp: Stamp) {
        let memory = &*self.engine.core.memory;
        self.writer.writes.to_lines(memory);
        let entries = self.writer.writes.read(memory).iter().filter(|entry| entry.mask != 0);
        let (engine, number) = (&*self.engine, stamp.number());
        let newest = engine.snapshots.newest(memory);
        entries.for_each(|entry| match newest {
            Some(newest) => engine.versions.keep_for(memory, number, newest, entry),
            None => engine.versions.keep(memory, number, entry),
        });
    }

    /// Stores the transaction's words in place, and unlocks their lines.
    #[inline(always)]
    fn store_in_place(&mut self, stamp: Stamp) {
        let OptimisticSession { engine, dirty, writer, locks, .. } = self;
        let memory = &*engine.core.memory;
        engine.records.view().before_stores();
        match dirty {
            Some(dirty) if !dirty.is_shared() => {
                writer.apply_words(&engine.core, dirty.marker(memory));
            }
            _ => store_otherwise(engine, dirty, writer),
        }
        locks.unlock(memory, engine.records.view(), stamp);
    }

    /// Unlocks, with nothing stored in place.
    #[cold]
    fn give_back_locks(&mut self) {
        let OptimisticSession { engine, locks, .. } = self;
        locks.give_back(&*engine.core.memory, engine.records.view());
    }
}

/// Stores the transaction's words in place, if the session has no set of dirty lines of its own, or not yet.
#[inline(never)]
fn store_otherwise<M: Memory, C: Durability, S>(
    engine: &Optimistic<M, C, S>,
    dirty: &mut Option<DirtySet>,
    writer: &mut Writer,
) {
    let memory = &*engine.core.memory;
    if dirty.is_none() {
        *dirty = engine.dirty.as_ref().map(|sets| sets.take(memory));
    }
    match dirty {
        Some(dirty) if dirty.is_shared() => {
            writer.apply_words(&engine.core, |line| dirty.mark(memory, line));
        }
        Some(dirty) => writer.apply_words(&engine.core, dirty.marker(memory)),
        None => writer.apply_words(&engine.core, |_| {}),
    }
}

/// Locks the records of the lines, for words that are kept by line.
#[inline(never)]
fn lock_entries<M: Memory>(
    memory: &M,
    writer: &Writer,
    locks: &mut Locks,
    records: &Records,
) -> Boxed<()> {
    let most = if planted::has(Bug::FirstLineLocked) { 1 } else { usize::MAX };
    let entries = writer.writes.read(memory).iter().filter(|entry| entry.mask != 0);
    let records = (records, records.view());
    entries.take(most).try_for_each(|entry| locks.lock(memory, records, entry.line))
}

#[cold]
fn numbers_ran_out() -> Error {
    Error::Invalid(
        "the pool has numbered as many commits as it can since it was opened; close it and open it again",
    )
}
