//! A session's section over locks of the program ([`sections`](crate::sections)).
//!
//! It stores in place at once, except the heap's own words, those before the pages of objects: these are behind the lock of
//! transactions, whose readers see whole states, and wait in the write set until the section is over.
//!
//! What always holds: in a section, the log has room for the section's last record, so that it can always be completed.

use super::session::Buffered;
use crate::access::put_bytes;
use crate::consistency::atlas;
use crate::consistency::core::cut_short;
use crate::consistency::protocol::Consistency;
use crate::consistency::room::{take_room, wait_for_room};
use crate::error::Boxed;
use crate::sections::locks::Release;
use crate::sections::log::last_bytes;
use crate::sections::running::Running;
use crate::sync::Synchronisation;
use crate::writes::LineWrite;
use crate::writes::range::any_words;
use crate::{Error, Mark, Mode, Result, Sums, Ticket};
use perdura_memory::{LINE, Memory, WORD, line_of};
use std::ops::Range;

/// Lines whose old words share a record, if they are stored to together.
const TOGETHER: u64 = 16;

const OUTSIDE: Error = Error::Invalid("a lock is taken, or released, outside of a section");
const NOT_HELD: Error = Error::Invalid("the section does not hold the lock that it is to release");
const UNLOCKED: Error = Error::Invalid("a section stores something, and holds no lock");
const SPOILT: Error = Error::Invalid(
    "a section was to undo what it stored before it released a lock, which others may have seen: open the pool again",
);
const SUMMED: Error = Error::Invalid(
    "sections need a pool without checksums of all pages: two of them would change the sum of one page",
);
const NESTED: Error = Error::Invalid("a section begins inside of a transaction, which is over now");

/// A session without its section, which it gets back, also if a panic comes: its locks must be released.
struct Lent<'a, M: Memory, C: Consistency, S: Synchronisation> {
    session: &'a mut Buffered<M, C, S>,
    running: Option<Box<Running>>,
}

impl<M: Memory, C: Consistency, S: Synchronisation> Drop for Lent<'_, M, C, S> {
    fn drop(&mut self) {
        self.session.writer.section = self.running.take();
    }
}

impl<M: Memory, C: Consistency, S: Synchronisation> Buffered<M, C, S> {
    /// The session's section; it is there, unless a panic has cut a commit short.
    fn running(&mut self) -> Boxed<&mut Running> {
        self.writer.section.as_deref_mut().ok_or_else(|| Box::new(cut_short()))
    }

    /// Runs `body` with the session's section, which it can use together with the writer.
    fn with_running<R>(
        &mut self,
        body: impl FnOnce(&mut Self, &mut Running) -> Boxed<R>,
    ) -> Boxed<R> {
        let running = self.writer.section.take().ok_or_else(|| Box::new(cut_short()))?;
        let mut lent = Lent { session: self, running: Some(running) };
        let Lent { session, running: Some(running) } = &mut lent else {
            return Err(Box::new(cut_short()));
        };
        body(session, running)
    }

    /// The session's number, among those that wait for locks.
    fn number(&self) -> u64 {
        self.seat.slot() as u64
    }

    /// A transaction has begun: the session's next section is later than what it sees, even if it stores nothing.
    #[inline(never)]
    pub(super) fn see_transactions(&mut self) {
        let core = &self.engine.core;
        let last = core.sections().locks.heap().last(&*core.memory);
        if let Some(running) = self.writer.section.as_deref_mut() {
            running.see(last);
        }
    }

    /// Begins a section.
    pub(super) fn enter_section(&mut self) -> Result<()> {
        if self.allowed().is_some() {
            crate::Session::abort(self);
            return Err(NESTED);
        }
        let engine = self.engine.clone();
        let (core, memory) = (&engine.core, &*engine.core.memory);
        if core.sums.as_ref().is_some_and(Sums::has_all) {
            return Err(SUMMED);
        }
        core.check_usable()?;
        if core.is_broken() {
            return Err(cut_short());
        }
        self.writer.touch_fields(memory);
        core.sections().gate.enter(memory);
        self.in_section = true;
        self.running()?.begin(memory, core.sections());
        Ok(())
    }

    /// Takes a lock.
    pub(super) fn take_lock(&mut self, id: u64) -> Boxed<()> {
        if !self.in_section {
            return Err(Box::new(OUTSIDE));
        }
        let engine = self.engine.clone();
        let (core, memory, session) = (&engine.core, &*engine.core.memory, self.number());
        if self.running()?.held.iter().any(|held| held.id() == Some(id)) {
            return Err(Box::new(Error::Deadlock { lock: Some(id), is_own: true }));
        }
        if self.running()?.held.is_empty() && self.seat.mode().is_none() {
            wait_for_room(core, &mut self.writer)?;
        }
        let sections = core.sections();
        let lock = sections.locks.lock(memory, id, sections.cut.bound(memory));
        sections.locks.take(memory, session, &lock)?;
        let followed = self.follow(lock.last(memory));
        if followed.is_err() {
            lock.release(memory);
            return followed;
        }
        self.running()?.held.push(lock);
        Ok(())
    }

    /// The section has taken a lock with this last release. The last record must have room for what it follows.
    fn follow(&mut self, last: Release) -> Boxed<()> {
        let engine = self.engine.clone();
        self.with_running(|session, running| {
            let core = &engine.core;
            let is_new = running.follow(&*core.memory, core.sections(), last);
            if running.unlogged() == 0 {
                return Ok(());
            }
            let bytes = last_bytes(running.unlogged());
            let room = take_room(core, &mut session.writer, running, bytes, 0);
            if room.is_err() && is_new {
                running.unfollow();
            }
            room
        })
    }

    /// Releases a lock before the section is over. Whoever takes it next follows this section.
    pub(super) fn release_lock(&mut self, id: u64) -> Boxed<()> {
        if !self.in_section {
            return Err(Box::new(OUTSIDE));
        }
        let engine = self.engine.clone();
        let (core, memory) = (&engine.core, &*engine.core.memory);
        self.with_running(|session, running| {
            let place = running.held.iter().position(|held| held.id() == Some(id));
            let place = place.ok_or_else(|| Box::new(NOT_HELD))?;
            // It must be able to say that it is complete, whatever it stores.
            let bytes = last_bytes(running.unlogged());
            take_room(core, &mut session.writer, running, bytes, 0)?;
            atlas::begin_records(core, running, false)?;
            running.is_named = true;
            running.seen_by_others = running.undo.len();
            let lock = running.held.remove(place);
            lock.set_last(memory, running.release(lock.last(memory)));
            lock.release(memory);
            Ok(())
        })
    }

    /// Waits for the lock of transactions, for data of the heap itself.
    #[inline(never)]
    pub(super) fn take_heap(&mut self) -> Boxed<()> {
        if self.seat.mode() == Some(Mode::Write) {
            return Ok(());
        }
        let engine = self.engine.clone();
        let (core, memory, session) = (&engine.core, &*engine.core.memory, self.number());
        let locks = &core.sections().locks;
        {
            let _waiting = locks.wait(session, locks.heap());
            self.seat.enter(Mode::Write, memory);
        }
        locks.note_heap(session);
        let followed = self.follow(locks.heap().last(memory));
        if followed.is_err() {
            locks.forget_heap();
            self.seat.leave(memory);
        }
        followed
    }

    /// Whether a store goes to the write set: of the heap's own words, and of words that are there already.
    fn is_buffered(&self, at: u64, len: u64) -> bool {
        let core = &self.engine.core;
        let own = core.sums.as_ref().map_or(0, |sums| sums.places().end);
        let writes = &self.writer.writes;
        at < own
            || !writes.is_empty() && any_words(|line| writes.line(&*core.memory, line), at, len)
    }

    /// Checks that the section may store anything.
    fn check_holds(&mut self) -> Boxed<()> {
        let has_heap = self.seat.mode().is_some();
        let holds = has_heap || !self.running()?.held.is_empty();
        if holds { Ok(()) } else { Err(Box::new(UNLOCKED)) }
    }

    /// Stores a word in place, once its old value is durable.
    #[inline(never)]
    pub(super) fn write_in_section(&mut self, at: u64, value: u64) -> Boxed<()> {
        self.check_holds()?;
        let engine = self.engine.clone();
        let (core, memory) = (&engine.core, &*engine.core.memory);
        if !at.is_multiple_of(WORD) || !memory.contains(at, WORD) {
            return Err(Box::new(Error::outside(at)));
        }
        if self.is_buffered(at, WORD) {
            self.writer.writes.put(memory, at, value);
            return Ok(());
        }
        self.with_running(|session, running| {
            let before = memory.load(at);
            if running.logged.get(memory, at).is_none() {
                let old = atlas::word_of(at, before);
                atlas::begin_records(core, running, false)?;
                atlas::log_old(core, &mut session.writer, running, &[old])?;
                running.logged.put(memory, at, before);
            }
            running.undo.push((at, before));
            memory.store(at, value);
            Ok(())
        })
    }

    /// Stores bytes in place, once the old values of their words are durable.
    pub(super) fn write_bytes_in_section(&mut self, at: u64, from: &[u8]) -> Boxed<()> {
        self.check_holds()?;
        let (mut at, mut from) = (at, from);
        while !from.is_empty() {
            let room = (line_of(at) + TOGETHER * LINE - at) as usize;
            let (now, later) = from.split_at(from.len().min(room));
            let start = at & !(WORD - 1);
            let len = (at + now.len() as u64).next_multiple_of(WORD) - start;
            if self.is_buffered(start, len) {
                put_bytes(self, at, now)?;
            } else {
                self.write_lines(at, now, start..start + len)?;
            }
            (at, from) = (at + now.len() as u64, later);
        }
        Ok(())
    }

    /// As [`write_bytes_in_section`](Self::write_bytes_in_section), for the bytes of a few lines, whose words are `words`.
    fn write_lines(&mut self, at: u64, from: &[u8], words: Range<u64>) -> Boxed<()> {
        let engine = self.engine.clone();
        let (core, memory) = (&engine.core, &*engine.core.memory);
        if !memory.contains(words.start, words.end - words.start) {
            return Err(Box::new(Error::outside(at)));
        }
        self.with_running(|session, running| {
            let (mut all, mut unlogged) = (Vec::new(), Vec::new());
            for line in (line_of(words.start)..words.end).step_by(LINE as usize) {
                let there = |word: &u64| words.contains(&(line + word * WORD));
                let mask = (0..8).filter(there).fold(0, |mask, word| mask | 1 << word);
                let old = atlas::overwritten(memory, LineWrite { line, mask, words: [0; 8] });
                let logged = running.logged.line(memory, line).map_or(0, |logged| logged.mask);
                if mask & !logged != 0 {
                    unlogged.push(LineWrite { mask: mask & !logged, ..old });
                }
                all.push(old);
            }
            if !unlogged.is_empty() {
                atlas::begin_records(core, running, false)?;
                atlas::log_old(core, &mut session.writer, running, &unlogged)?;
            }
            for old in &unlogged {
                for word in (0..8).filter(|word| old.mask & 1 << word != 0) {
                    running.logged.put(memory, old.line + word as u64 * WORD, old.words[word]);
                }
            }
            all.iter().for_each(|old| atlas::keep(running, old));
            memory.copy_in(at, from);
            Ok(())
        })
    }

    /// A point to return to.
    pub(super) fn mark_section(&mut self) -> Mark {
        let mark = self.writer.writes.mark(&*self.engine.core.memory);
        let Some(running) = self.writer.section.as_deref_mut() else { return Mark(0) };
        running.marks.push((running.undo.len(), mark));
        Mark(running.marks.len() - 1)
    }

    /// Undoes what was stored since `mark`. If others may have seen a part of that, the section can only fail.
    pub(super) fn roll_section_back_to(&mut self, mark: Mark) {
        let core = &self.engine.core;
        let Some(running) = self.writer.section.as_deref_mut() else { return };
        let Some((len, writes)) = running.marks.get(mark.0).copied() else { return };
        running.marks.truncate(mark.0 + 1);
        running.is_spoilt |= len < running.seen_by_others;
        let len = len.max(running.seen_by_others);
        for (at, value) in running.undo.drain(len..).rev() {
            core.memory.store(at, value);
        }
        self.writer.writes.rollback_to(&*core.memory, writes);
    }

    /// Commits the section, or undoes it. It is over when this returns, but for its locks.
    pub(super) fn commit_section(&mut self) -> Boxed<Ticket> {
        let engine = self.engine.clone();
        let core = &engine.core;
        let result = self.try_commit();
        if result.is_err() && !core.is_broken() {
            self.undo_section();
        }
        result
    }

    fn try_commit(&mut self) -> Boxed<Ticket> {
        let engine = self.engine.clone();
        let core = &engine.core;
        if core.is_broken() {
            return Err(Box::new(cut_short()));
        }
        core.check_usable()?;
        if self.running()?.is_spoilt {
            return Err(Box::new(SPOILT));
        }
        if !self.writer.writes.is_empty() {
            self.add_sums()?;
        }
        self.with_running(|session, running| {
            let has_heap = session.seat.mode().is_some();
            let heap_words = !session.writer.writes.is_empty();
            if heap_words {
                atlas::begin_records(core, running, false)?;
                let Some(mut right) = session.seat.writing() else {
                    return Err(Box::new(Error::ReadOnly));
                };
                C::store_heap(core, &mut right, &mut session.writer, running)?;
            }
            let writer = &mut session.writer;
            if !running.needs_record() {
                atlas::give_up(core, running);
                if !writer.fresh.is_empty() {
                    writer.flush_fresh(core);
                    writer.fence(core)?;
                }
                writer.counters.read_only += 1;
                return Ok(Ticket(core.durable()));
            }
            atlas::begin_records(core, running, false)?;
            writer.flush_fresh(core);
            atlas::write_back_logged(core, writer, running);
            if heap_words {
                writer.write_back_stored(core);
            }
            let ticket = atlas::end(core, writer, running, false)?;
            if has_heap {
                core.set_last_commit(ticket);
            }
            writer.counters.commits += 1;
            Ok(Ticket(ticket))
        })
    }

    /// Rolls the section back, and ends it.
    pub(super) fn abort_section(&mut self) {
        if !self.engine.core.is_broken() {
            self.undo_section();
        }
        self.finish();
    }

    /// Puts back what the section has stored. If others may have seen that, nothing is committed any more: recovery
    /// undoes the section, and those that follow it.
    fn undo_section(&mut self) {
        let engine = self.engine.clone();
        let core = &engine.core;
        self.writer.forget(&*core.memory);
        let undone = self.with_running(|session, running| {
            if running.seen_by_others > 0 {
                return Err(Box::new(SPOILT));
            }
            if !running.needs_record() {
                atlas::give_up(core, running);
                return Ok(());
            }
            // It has stored nothing in the end; but whoever takes its locks is later than what it has seen.
            atlas::begin_records(core, running, false)?;
            let taken_back = atlas::take_back(core, &mut session.writer, running, false);
            match taken_back {
                Err(_) if !running.is_in_log() => {
                    atlas::give_up(core, running);
                    Ok(())
                }
                taken_back => taken_back.map(drop),
            }
        });
        if undone.is_err() {
            core.break_off();
        }
    }

    /// Releases the section's locks: it is over.
    pub(super) fn leave_section(&mut self) {
        let engine = self.engine.clone();
        let (core, memory) = (&engine.core, &*engine.core.memory);
        let sections = core.sections();
        let running = self.writer.section.as_deref_mut();
        let has_heap = self.seat.mode().is_some();
        if let Some(running) = running {
            for lock in std::mem::take(&mut running.held).into_iter().rev() {
                lock.set_last(memory, running.release(lock.last(memory)));
                lock.release(memory);
            }
            if has_heap {
                let heap = sections.locks.heap();
                heap.set_last(memory, running.release(heap.last(memory)));
            }
            running.end(memory);
        }
        if has_heap {
            sections.locks.forget_heap();
        }
        self.writer.forget(memory);
        self.seat.leave(memory);
        self.in_section = false;
        sections.gate.leave(memory);
    }
}
