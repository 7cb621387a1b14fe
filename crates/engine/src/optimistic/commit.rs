//! The commit of a transaction.

use super::session::{OptimisticSession, Way};
use super::state::Durability;
use crate::consistency::core::cut_short;
use crate::planted::{self, Bug};
use crate::sync::stm::{Locked, Stamp, Word};
use crate::{Error, Result, Ticket};
use perdura_memory::{Memory, WORD, line_of};

/// Bytes of log that a line's change of its page's sum may take.
const SUM_BYTES: u64 = 2 * WORD;

/// Ends a commit, whatever becomes of it: others must not wait for it for ever, nor go on where a panic left it.
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
            session.unlock_as_before();
        }
        session.lane.end_commit(&*session.engine.core.memory);
        session.writer.give_back_room(&session.engine.core);
    }
}

impl<M: Memory, C: Durability, S> OptimisticSession<M, C, S> {
    /// Commits the running transaction; it is over, whatever comes of it.
    #[inline]
    pub(super) fn commit_running(&mut self) -> Result<Ticket> {
        let stored = !(self.writer.writes.is_empty() && self.writer.fresh.is_empty());
        let committed = match self.way {
            // What was read may be in part what a commit had stored that was cut short.
            _ if self.engine.core.is_broken() => Err(cut_short()),
            Way::Failed => Err(Error::Conflict),
            _ if stored => self.commit_stores(),
            _ => {
                self.serial = self.moment.serial;
                self.writer.counters.read_only += 1;
                Ok(Ticket(0))
            }
        };
        if matches!(committed, Err(Error::Conflict)) {
            self.writer.counters.aborts_conflict += 1;
        }
        self.finish();
        if std::mem::take(&mut self.writer.filled) {
            self.engine.empty_if_half_full(&mut self.writer.counters);
        }
        committed
    }

    #[inline]
    fn commit_stores(&mut self) -> Result<Ticket> {
        let engine = self.engine.clone();
        let core = &engine.core;
        core.memory.check_fence()?;
        self.writer.touch_counters(&*core.memory);
        if C::LOGS {
            let sums = if self.changes_sums() { self.writer.writes.stored_lines() as u64 } else { 0 };
            self.writer.reserve(core, sums * SUM_BYTES, |counters| engine.empty(counters))?;
            if !self.writer.fresh.is_empty() {
                // The record must not be durable before what it makes reachable.
                self.writer.flush_fresh(core);
                self.writer.fence(core)?;
            }
        }
        let keeps = self.lane.begin_commit(&*core.memory, self.way == Way::Alone);
        let mut committing = Committing { session: self, returned: false };
        let committed = committing.session.commit_locked(keeps);
        if committed.is_err() {
            committing.session.unlock_as_before();
        }
        committing.returned = true;
        committed
    }

    /// Commits with locks; where that fails, nothing has been stored in place, and locks are held still.
    #[inline]
    fn commit_locked(&mut self, keeps: bool) -> Result<Ticket> {
        let early = planted::has(Bug::StampBeforeLocks).then(|| self.take_stamp()).transpose()?;
        self.lock_lines()?;
        if self.changes_sums() {
            self.lock_sums()?;
        }
        let stamp = match early {
            Some(stamp) => stamp,
            None => self.take_stamp()?,
        };
        if !planted::has(Bug::UncheckedReads) && !self.reads_hold_still() {
            return Err(self.give_way());
        }
        let engine = self.engine.clone();
        let memory = &*engine.core.memory;
        if keeps && !planted::has(Bug::NothingKept) {
            let entries = self.writer.writes.read(memory).iter().filter(|entry| entry.mask != 0);
            entries.for_each(|entry| engine.versions.keep(memory, stamp, entry));
        }
        if C::LOGS {
            let no_room = |_: &mut crate::Counters| Ok(());
            let word = |entry: &crate::writes::LineWrite, word: usize| entry.words[word];
            self.writer.append(&engine.core, stamp.0, word, no_room)?;
            if planted::has(Bug::UnlockedBeforeDurable) {
                self.store_in_place();
                self.unlock(stamp);
            }
            self.writer.fence(&engine.core)?;
        }
        self.store_in_place();
        self.unlock(stamp);
        self.writer.counters.commits += 1;
        Ok(Ticket(stamp.0))
    }

    /// Locks the records of the lines that are stored to.
    #[inline]
    fn lock_lines(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let count = self.writer.writes.read(&*engine.core.memory).len();
        for index in 0..count {
            let entry = &self.writer.writes.entries()[index];
            if entry.mask != 0 {
                let line = entry.line;
                self.lock(line)?;
            }
        }
        Ok(())
    }

    /// Locks the record of a line, unless that is done. Waits for sessions in lanes behind this one's, and gives way to
    /// those before it.
    #[inline(always)]
    fn lock(&mut self, line: u64) -> Result<()> {
        let engine = &*self.engine;
        let (memory, own) = (&*engine.core.memory, self.lane.number());
        let place = engine.records.place(line);
        let mut turn = 0;
        loop {
            let word = engine.records.load(memory, place);
            if !word.is_locked() {
                if engine.records.lock(memory, place, word, (own, self.locks.len())) {
                    self.touch_locks(self.locks.len());
                    self.locks.push(Locked { place, before: word });
                    return Ok(());
                }
            } else if word.owner() == own {
                return Ok(());
            } else if word.owner() < own {
                return Err(self.give_way());
            } else {
                memory.pause(turn);
                turn += 1;
            }
        }
    }

    #[cold]
    fn give_way(&mut self) -> Error {
        Error::Conflict
    }

    /// Whether pages are stored to that have a sum.
    #[inline(always)]
    fn changes_sums(&self) -> bool {
        let sums = self.engine.core.sums.as_ref();
        sums.is_some_and(|sums| self.writer.writes.lowest() < sums.places().end)
    }

    /// Adds the sums that the transaction changes to what it stores, and locks their lines. It has not read them: they
    /// change by as much whatever they are.
    #[cold]
    fn lock_sums(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let (memory, Some(sums)) = (&*engine.core.memory, &engine.core.sums) else { return Ok(()) };
        let count = self.writer.writes.read(memory).len();
        for index in 0..count {
            let entry = &self.writer.writes.entries()[index];
            if let Some(place) = sums.places().of(entry.line).filter(|_| entry.mask != 0) {
                self.lock(line_of(place))?;
            }
        }
        sums.add_to(memory, &mut self.writer.writes, &mut self.changes, |_| None)
    }

    /// The commit's stamp. What it stores over has earlier ones.
    #[inline]
    fn take_stamp(&mut self) -> Result<Stamp> {
        let engine = &*self.engine;
        let (memory, own) = (&*engine.core.memory, self.lane.number());
        let mut moment = engine.clock.to_commit(memory);
        let others = self.locks.iter().map(|locked| locked.before.stamp());
        let others = others.filter(|stamp| stamp.lane() != own);
        let latest = others.map(Stamp::number).max().unwrap_or(0);
        if latest > moment.number {
            engine.clock.raise(memory, latest);
            moment = engine.clock.to_commit(memory);
        }
        loop {
            if !Stamp::is_number(moment.number + 1) {
                return Err(numbers_ran_out());
            }
            if let Some(stamp) = self.lane.next_stamp(memory, moment.number + 1) {
                self.serial = moment.serial;
                return Ok(stamp);
            }
            engine.clock.raise(memory, moment.number + 1);
            moment = engine.clock.to_commit(memory);
        }
    }

    /// Whether what was read is as it was, now that what is stored to is locked.
    #[inline]
    fn reads_hold_still(&self) -> bool {
        let engine = &*self.engine;
        let (memory, own) = (&*engine.core.memory, self.lane.number());
        let holds = |place: u32, word: Word| {
            let now = engine.records.load(memory, place);
            now == word
                || now.is_locked()
                    && now.owner() == own
                    && self.locks.get(now.noted()).is_some_and(|locked| locked.before == word)
        };
        self.way != Way::Beside
            || self.reads.read(memory).iter().all(|(place, word)| holds(*place, *word))
    }

    #[inline]
    fn store_in_place(&mut self) {
        let engine = self.engine.clone();
        engine.records.before_stores();
        let dirty = engine.dirty_of(self.lane.number());
        self.writer.apply(&engine.core, |entry, _| {
            if let Some(dirty) = dirty {
                engine.mark_dirty(dirty, entry.line);
            }
        });
    }

    /// What was stored to has this stamp.
    #[inline]
    fn unlock(&mut self, stamp: Stamp) {
        let engine = &*self.engine;
        let memory = &*engine.core.memory;
        for locked in self.locks.drain(..) {
            engine.records.unlock(memory, locked.place, stamp);
        }
    }

    /// Nothing was stored in place.
    #[cold]
    fn unlock_as_before(&mut self) {
        let engine = &*self.engine;
        let memory = &*engine.core.memory;
        for locked in self.locks.drain(..) {
            engine.records.give_back(memory, locked);
        }
    }
}

#[cold]
fn numbers_ran_out() -> Error {
    Error::Invalid(
        "the pool has numbered as many commits as it can since it was opened; close it and open it again",
    )
}

