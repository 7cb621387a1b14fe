//! Reads and writes inside a transaction, and the calls of a session.

use super::lookup::{NOTHING, OverlayLookup, open, overlaid_line};
use super::session::{Buffered, Reading};
use crate::access::{put_lines, words_from};
use crate::consistency::protocol::{Consistency, Groups};
use crate::engine::NO_SECTIONS;
use crate::error::Boxed;
use crate::planted::{self, Bug};
use crate::sync::Synchronisation;
use crate::writes::overlay::MayOverlay;
use crate::writes::range::{any_words, lay_over};
use crate::{Access, Counters, Error, Mark, Mode, Result, Session, Ticket};
use perdura_memory::{Memory, WORD, line_of};

impl<M: Memory, C: Consistency, S: Synchronisation> Buffered<M, C, S> {
    /// Whether the word at `at` may be committed and not in the memory yet: few false positives.
    #[inline]
    fn may_be_overlaid(&mut self, at: u64) -> bool {
        let memory = &*self.engine.core.memory;
        C::Groups::ANY
            && self.snapshot > 0
            && open::<M, C, S>(&mut self.seat, memory)
                .is_some_and(|open| open.overlay().is_some_and(|own| own.may_have(memory, at)))
    }

    /// The word at `at`, if it is not simply in the memory. Out of line, so that a read that goes to the memory saves no
    /// registers for it.
    #[inline(never)]
    fn read_otherwise(&mut self, at: u64) -> Boxed<u64> {
        if (self.writer.writes.may_have(&*self.memory, at) || self.may_be_overlaid(at))
            && let Some(value) = self.written(at)
        {
            return Ok(value);
        }
        let value = self.engine.core.memory.try_load(at).ok_or_else(|| Error::outside(at))?;
        if self.compares {
            self.compare(at, WORD)?;
        }
        Ok(self.unless_moved(at, value))
    }

    /// The word at `at`, where the transaction itself may have written, and nobody else.
    #[inline(never)]
    fn read_own(&self, at: u64) -> Option<u64> {
        let own = self.writer.writes.get(&*self.memory, at).filter(|_| at.is_multiple_of(WORD));
        own.or_else(|| self.memory.try_load(at))
    }

    /// The words from `at` on, one by one.
    #[inline(never)]
    fn read_each(&mut self, at: u64, to: &mut [u64]) -> Boxed<()> {
        for (word, at) in to.iter_mut().zip(words_from(at)) {
            *word = self.read_word(at)?;
        }
        Ok(())
    }

    /// The word at `at`, where the memory had `value`, unless a writer has moved the transaction.
    fn unless_moved(&mut self, at: u64, value: u64) -> u64 {
        // Only now: the word may have been stored to since.
        if self.seat.is_moved(&*self.engine.core.memory) && !planted::has(Bug::MoveOverlooked) {
            return self.word_of_snapshot(at, value);
        }
        value
    }

    /// The word at `at`, if the transaction has written it, or if it is committed and not in the memory yet.
    #[inline]
    fn written(&mut self, at: u64) -> Option<u64> {
        if !at.is_multiple_of(8) {
            return None;
        }
        let memory = &*self.engine.core.memory;
        if let Some(value) = self.writer.writes.get(memory, at) {
            return Some(value);
        }
        if !C::Groups::ANY || self.snapshot == 0 {
            return None;
        }
        let open = open::<M, C, S>(&mut self.seat, memory)?;
        let overlay = open.overlay()?;
        let line = line_of(at);
        if self.looked.line != line {
            if !overlay.may_have(memory, line) {
                return None;
            }
            self.looked = OverlayLookup { line, found: overlay.find(memory, line, self.snapshot) };
        }
        let value = overlay.word(memory, self.looked.found?, at)?;
        self.overlaid = true;
        Some(value)
    }

    /// Compares the pages of `[at, at + len)` with their sums, once. Not outside a transaction, where they may be
    /// changing.
    #[inline]
    fn compare(&mut self, at: u64, len: u64) -> Result<()> {
        let memory = &*self.engine.core.memory;
        match &self.engine.core.sums {
            Some(sums) if self.seat.mode().is_some() => match sums.look_at_all(memory, at, len) {
                Err(_) if self.seat.is_moved(memory) => self.compare_again(at, len),
                compared => compared,
            },
            _ => Ok(()),
        }
    }

    #[cold]
    fn bad_write(&self, at: u64) -> Error {
        match self.allowed() {
            Some(Mode::Write) => Error::outside(at),
            Some(Mode::Read) => Error::ReadOnly,
            None => Error::Invalid("a write outside of a transaction"),
        }
    }

    #[inline(always)]
    fn check_write(&self, at: u64, len: u64) -> Result<()> {
        if self.allowed() == Some(Mode::Write) && self.engine.core.memory.contains(at, len) {
            Ok(())
        } else {
            Err(self.bad_write(at))
        }
    }

    /// Writes the word at `at`, if that is not simply allowed: see [`Writable`].
    #[inline(never)]
    fn write_otherwise(&mut self, at: u64, value: u64) -> Boxed<()> {
        if C::SECTIONS && self.in_section {
            return self.write_in_section(at, value);
        }
        self.check_write(at, WORD)?;
        if !at.is_multiple_of(WORD) {
            return Err(Box::new(self.bad_write(at)));
        }
        self.writable.include(&*self.memory, at);
        self.put(at, value);
        Ok(())
    }

    #[inline(always)]
    fn put(&mut self, at: u64, value: u64) {
        match C::LOGS_NEW_WORDS {
            true => self.writer.writes.put_word(&*self.memory, at, value),
            false => self.writer.writes.put(&*self.memory, at, value),
        }
    }

    /// Writes words of one line.
    #[inline]
    fn put_run(&mut self, at: u64, words: &[u64]) {
        let (memory, writes) = (&*self.memory, &mut self.writer.writes);
        match C::LOGS_NEW_WORDS {
            true => writes.put_run(memory, at, words),
            false => writes.put_run_by_line(memory, at, words),
        }
    }

    /// Writes bytes that are known to lie in the pool.
    fn put_checked(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.writable.include(&*self.memory, at);
        put_lines(self, at, from, |session, at, words| session.put_run(at, words))
    }

    /// Whether a word of `[at, at + len)`, both multiples of 8, is in the write set, or committed and not in the memory
    /// yet: for example in memory that an earlier transaction of the group allocated and freed. That word would hide a
    /// store in place, and overwrite it.
    fn any_written(&mut self, at: u64, len: u64) -> bool {
        let (memory, snapshot) = (&*self.engine.core.memory, self.snapshot);
        any_words(|line| self.writer.writes.line(memory, line), at, len)
            || open::<M, C, S>(&mut self.seat, memory).is_some_and(|open| {
                any_words(|line| overlaid_line(&*open, memory, line, snapshot), at, len)
            })
    }

    /// As [`Groups::is_protected`], in a transaction that writes.
    fn is_protected(&mut self, at: u64, len: u64) -> bool {
        self.seat.writing().is_some_and(|right| C::Groups::is_protected(right.own, at, len))
    }
}

impl<M: Memory, C: Consistency, S: Synchronisation> Access for Buffered<M, C, S> {
    #[inline(always)]
    fn read_word(&mut self, at: u64) -> Result<u64> {
        match self.read_at_once(at) {
            Some(value) => Ok(value),
            None => Ok(self.read_otherwise(at)?),
        }
    }

    #[inline(always)]
    fn read_words(&mut self, at: u64, to: &mut [u64]) -> Result<()> {
        let memory = &*self.engine.core.memory;
        let last = at.wrapping_add(WORD * to.len() as u64).wrapping_sub(1);
        let in_one_line = line_of(at) == line_of(last);
        let may_have = |at| self.writer.writes.may_have(memory, at);
        let at_once = matches!(self.reading, Reading::Own | Reading::Moved);
        if !at_once || to.len() > 8 || may_have(at) || (!in_one_line && may_have(last)) {
            return Ok(self.read_each(at, to)?);
        }
        if !memory.try_load_words(at, to) {
            return Err(Error::outside(at));
        }
        // Only now, as for one word.
        if self.seat.is_moved(memory) && !planted::has(Bug::MoveOverlooked) {
            for (word, at) in to.iter_mut().zip(words_from(at)) {
                *word = self.word_of_snapshot(at, *word);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn prefetch(&mut self, at: u64) {
        self.memory.prefetch(at);
    }

    #[inline(always)]
    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        if self.write_at_once(at, value) { Ok(()) } else { Ok(self.write_otherwise(at, value)?) }
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        if !self.engine.core.memory.try_copy_out(at, to) {
            return Err(Error::outside(at));
        }
        if self.compares {
            self.compare(at, to.len() as u64)?;
        }
        let Buffered { engine, seat, writer, snapshot, overlaid, .. } = self;
        let (memory, snapshot) = (&*engine.core.memory, *snapshot);
        if C::Groups::ANY
            && snapshot > 0
            && let Some(open) = open::<M, C, S>(seat, memory)
        {
            *overlaid |= lay_over(|line| overlaid_line(&*open, memory, line, snapshot), at, to);
        }
        if seat.is_moved(memory) {
            self.bytes_of_snapshot(at, to);
        } else if planted::has(Bug::OwnBytesHidden) {
            let open = open::<M, C, S>(seat, memory).filter(|_| snapshot > 0);
            let hidden = |line| {
                open.as_ref()
                    .is_some_and(|open| overlaid_line(&**open, memory, line, snapshot).is_some())
            };
            let own = |line| writer.writes.line(memory, line).filter(|_| !hidden(line));
            lay_over(own, at, to);
            return Ok(());
        }
        if !self.writer.writes.is_empty() {
            let memory = &*self.engine.core.memory;
            lay_over(|line| self.writer.writes.line(memory, line), at, to);
        }
        Ok(())
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.check_write(at, from.len() as u64)?;
        if C::SECTIONS && self.in_section {
            return Ok(self.write_bytes_in_section(at, from)?);
        }
        self.put_checked(at, from)
    }

    fn mode(&self) -> Mode {
        self.allowed().unwrap_or(Mode::Read)
    }

    #[inline]
    fn lane(&self) -> u32 {
        self.seat.slot() as u32
    }
}

impl<M: Memory, C: Consistency, S: Synchronisation> Session for Buffered<M, C, S> {
    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        let len = (from.len() as u64).next_multiple_of(8);
        self.check_write(at, len)?;
        if !at.is_multiple_of(8) {
            return Err(self.bad_write(at));
        }
        // Stores of a transaction that is rolled back would be in no sum.
        if self.compares
            || C::logs_fresh(self.engine.core.memory.domain(), len)
            || self.any_written(at, len)
            || self.is_protected(at, len)
        {
            return self.put_checked(at, from);
        }
        let Buffered { engine, seat, writer, .. } = self;
        let Some(right) = seat.writing() else { return Err(Error::ReadOnly) };
        writer.store_fresh(&*engine.core.memory, &right, at, from);
        Ok(())
    }

    #[inline(always)]
    fn read_at_once(&mut self, at: u64) -> Option<u64> {
        let memory = &*self.memory;
        // One test for the reads of writers, of which there are more in a transaction.
        if self.reading != Reading::Own {
            let moved = self.reading == Reading::Moved;
            return memory.try_load(at).filter(|_| moved && !self.seat.is_moved(memory));
        }
        match self.writer.writes.may_have(memory, at) {
            true => self.read_own(at),
            false => memory.try_load(at),
        }
    }

    #[inline(always)]
    fn write_at_once(&mut self, at: u64, value: u64) -> bool {
        let is_allowed = self.writable.has(at);
        if is_allowed {
            self.put(at, value);
        }
        is_allowed
    }

    const HAS_FLOOR: bool = true;

    fn set_floor(&mut self, floor: u64) {
        self.writable.set_floor(floor);
    }

    fn begin_section(&mut self) -> Result<()> {
        if C::SECTIONS { self.enter_section() } else { Err(NO_SECTIONS) }
    }

    fn lock(&mut self, id: u64) -> Result<()> {
        if C::SECTIONS { Ok(self.take_lock(id)?) } else { Err(NO_SECTIONS) }
    }

    fn unlock(&mut self, id: u64) -> Result<()> {
        if C::SECTIONS { Ok(self.release_lock(id)?) } else { Err(NO_SECTIONS) }
    }

    #[inline(always)]
    fn enter_heap(&mut self) -> Result<()> {
        if C::SECTIONS && self.in_section { Ok(self.take_heap()?) } else { Ok(()) }
    }

    #[inline(always)]
    fn in_section(&self) -> bool {
        C::SECTIONS && self.in_section
    }

    fn mark(&mut self) -> Mark {
        if C::SECTIONS && self.in_section {
            return self.mark_section();
        }
        self.writer.writes.mark(&*self.engine.core.memory)
    }

    fn rollback_to(&mut self, mark: Mark) {
        if C::SECTIONS && self.in_section {
            return self.roll_section_back_to(mark);
        }
        self.writer.writes.rollback_to(&*self.engine.core.memory, mark);
    }

    #[inline(always)]
    fn begin(&mut self, mode: Mode) {
        if self.allowed().is_some() {
            return self.abort();
        }
        self.writer.touch_fields(&*self.engine.core.memory);
        if C::Groups::WINDOWS {
            self.enter_by_window(mode);
        } else {
            self.seat.enter(mode, &*self.engine.core.memory);
        }
        if C::SECTIONS {
            self.see_transactions();
        }
        match mode {
            Mode::Write => self.writable.begin(&*self.memory),
            Mode::Read if C::Groups::WINDOWS => self.reading = Reading::All,
            Mode::Read if self.compares => {}
            Mode::Read => self.reading = Reading::Moved,
        }
        // Only now: what joined before is seen, and no group is closed before this transaction ends.
        let joined = self.joined();
        if joined != 0 {
            self.snapshot = joined;
            self.reading = Reading::All;
            self.looked = NOTHING;
            self.overlaid = false;
        }
    }

    #[inline(always)]
    fn commit(&mut self) -> Result<Ticket> {
        Ok(self.commit_as(false)?)
    }

    #[inline(always)]
    fn commit_awaited(&mut self) -> Result<Ticket> {
        Ok(self.commit_as(true)?)
    }

    fn abort(&mut self) {
        self.writer.counters.aborts_user += u64::from(self.allowed().is_some());
        if C::SECTIONS && self.in_section {
            return self.abort_section();
        }
        self.finish();
    }

    #[inline(always)]
    fn is_durable(&self, ticket: Ticket) -> bool {
        let core = &self.engine.core;
        let is_durable = core.durable() >= ticket.0 >> C::Groups::TICKET_BITS
            || C::SECTIONS && core.sections().cut.has(&*core.memory, ticket.0);
        if is_durable && self.compares {
            // It may have become durable in a group that no session waited for.
            self.engine.core.acknowledge();
        }
        is_durable
    }

    #[inline(always)]
    fn wait_durable(&mut self, ticket: Ticket) -> Result<()> {
        if self.is_durable(ticket) { Ok(()) } else { Ok(self.wait_for(ticket)?) }
    }

    fn checkpoint(&mut self) -> Result<()> {
        if self.allowed() == Some(Mode::Read) {
            return Ok(());
        }
        self.engine.core.check_usable()?;
        self.looked = NOTHING;
        let Buffered { engine, seat, writer, .. } = self;
        match seat.writing() {
            Some(mut right) => {
                // Memory freed by transactions that joined earlier would stay in the log's reach.
                C::Groups::close(&engine.core, right.again(), writer, u64::MAX)?;
                C::checkpoint_within(&engine.core, right, &mut writer.counters)
            }
            None => {
                engine.log_open_group(|right| {
                    C::Groups::close(&engine.core, right, writer, u64::MAX)
                })?;
                C::checkpoint(&engine.core, &engine.lock, &mut writer.counters)
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.writer.counters
    }
}
