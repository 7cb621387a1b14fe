//! A session's sequential log: records one after the other, in one segment after the other.
//!
//! A session that keeps no segment hands it over after each transaction: with room
//! [reserved](Writer::reserve) before, when that is given back, and the commit over; otherwise right after its record,
//! where the lock is held until the commit is over.

use super::core::Core;
use super::writer::{Stores, Writer, split};
use crate::error::Boxed;
use crate::log::record::{self, Part};
use crate::log::segments::OpenSegment;
use crate::planted::{self, Bug};
use crate::writes::{LineWrite, WriteSet};
use crate::{Counters, Result};
use perdura_memory::{LINE, Memory, WORD};

impl Writer {
    /// Appends a record of the transaction, with the words that `word_of` gives, and asks for it to become durable.
    /// Returns the offset of its first part.
    ///
    /// # Errors
    /// `TooLarge` when there is no room for it even after `make_room`.
    #[inline(always)]
    pub(crate) fn append<M: Memory>(
        &mut self,
        core: &Core<M>,
        ticket: u64,
        mut word_of: impl FnMut(&LineWrite, usize) -> u64,
        make_room: impl FnMut(&mut Counters) -> Result<()>,
    ) -> Boxed<u64> {
        let room = self.tail.end - self.tail.start;
        // The bound is known without a look at the lines, and nearly always suffices.
        if self.record_bytes_at_most() > room && self.record_bytes() > room {
            return self.append_elsewhere(core, ticket, word_of, make_room);
        }
        Ok(self.append_here(core, ticket, &mut word_of))
    }

    /// Appends a record of the transaction's new words, and asks for it to become durable; for sets that may be
    /// [short](WriteSet::short). Returns the offset of its first part.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    #[inline(always)]
    pub(crate) fn append_words<M: Memory>(
        &mut self,
        core: &Core<M>,
        ticket: u64,
        make_room: impl FnMut(&mut Counters) -> Result<()>,
    ) -> Boxed<u64> {
        let wrongly = planted::has(Bug::WordTooMuchLogged) || planted::has(Bug::OldWordsLogged);
        if self.has_room() && !wrongly {
            return Ok(self.append_short(core, ticket));
        }
        self.append_words_elsewhere(core, ticket, make_room)
    }

    /// The same, for words that are kept by line, or if the current segment has too little room.
    #[inline(never)]
    fn append_words_elsewhere<M: Memory>(
        &mut self,
        core: &Core<M>,
        ticket: u64,
        mut make_room: impl FnMut(&mut Counters) -> Result<()>,
    ) -> Boxed<u64> {
        let wrongly = planted::has(Bug::WordTooMuchLogged) || planted::has(Bug::OldWordsLogged);
        let bytes = self.writes.record_words().map(|words| words as u64 * WORD);
        match bytes.filter(|bytes| *bytes <= core.geometry.segment_bytes && !wrongly) {
            Some(bytes) => {
                self.next_segment(core, bytes, &mut make_room)?;
                let at = self.append_short(core, ticket);
                if !self.keeps && !self.owes {
                    self.hand_over(core);
                }
                Ok(at)
            }
            None => {
                self.writes.to_lines(&*core.memory);
                self.append(core, ticket, |entry, word| entry.words[word], make_room)
            }
        }
    }

    /// Appends the record that the words are kept in the form of to the current segment, which has room for it; returns
    /// its offset.
    #[inline(always)]
    fn append_short<M: Memory>(&mut self, core: &Core<M>, ticket: u64) -> u64 {
        let at = self.tail.start;
        debug_assert!(self.parts_before == 0, "of engines that log elsewhere too");
        let behind = record::behind(ticket, core.durable_at_least());
        self.tail.start += self.store_short(core, at, Part { ticket, part: 0, parts: 1, behind });
        self.highest = ticket;
        at
    }

    /// As [`append`](Self::append), if the current segment has too little room.
    #[cold]
    fn append_elsewhere<M: Memory>(
        &mut self,
        core: &Core<M>,
        ticket: u64,
        mut word_of: impl FnMut(&LineWrite, usize) -> u64,
        mut make_room: impl FnMut(&mut Counters) -> Result<()>,
    ) -> Boxed<u64> {
        let bytes = self.record_bytes();
        if bytes > core.geometry.segment_bytes {
            return Ok(self.append_large(core, (ticket, bytes), word_of, make_room)?);
        }
        self.next_segment(core, bytes, &mut make_room)?;
        let at = self.append_here(core, ticket, &mut word_of);
        if !self.keeps && !self.owes {
            self.hand_over(core);
        }
        Ok(at)
    }

    /// Appends a record to the current segment, which has room for it; returns its offset.
    #[inline(always)]
    fn append_here<M: Memory>(
        &mut self,
        core: &Core<M>,
        ticket: u64,
        word_of: &mut impl FnMut(&LineWrite, usize) -> u64,
    ) -> u64 {
        let at = self.tail.start;
        let part = self.part(core, ticket, 0, 1);
        let stored = self.store_all(core, at, part, word_of);
        debug_assert!(stored <= self.tail.end - at, "there is room for the record");
        self.tail.start += stored;
        self.highest = ticket;
        at
    }

    /// Reserves room for the transaction's record and `more` bytes, so that [`append`](Self::append) will not need to
    /// make any; what that leaves unused is returned by [`give_back_room`](Self::give_back_room).
    ///
    /// # Errors
    /// `TooLarge` when there is no room even after `make_room`.
    #[inline]
    pub(crate) fn reserve<M: Memory>(
        &mut self,
        core: &Core<M>,
        more: u64,
        mut make_room: impl FnMut(&mut Counters) -> Result<()>,
    ) -> Result<()> {
        let bytes = self.bytes_for(more);
        if self.has_reserved(bytes) {
            return Ok(());
        }
        if bytes <= core.geometry.segment_bytes {
            self.next_segment(core, bytes, &mut make_room)?;
            self.owes = !self.keeps;
            return Ok(());
        }
        self.writes.to_lines(&*core.memory);
        let runs = split(core, self.writes.entries()).len();
        let count = runs + more.div_ceil(core.geometry.segment_bytes / 2) as usize;
        // In whole segments: it fits for sure if the error says so.
        let needed = count as u64 * core.geometry.segment_bytes;
        self.reserved = self.take_segments(core, count, needed, &mut make_room)?;
        self.owes = true;
        Ok(())
    }

    /// Reserves room for a record of `bytes` bytes, at most a segment's.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    #[inline]
    pub(crate) fn reserve_bytes<M: Memory>(
        &mut self,
        core: &Core<M>,
        bytes: u64,
        mut make_room: impl FnMut(&mut Counters) -> Result<()>,
    ) -> Result<()> {
        if !self.has_reserved(bytes) {
            self.next_segment(core, bytes, &mut make_room)?;
            self.owes = !self.keeps;
        }
        Ok(())
    }

    /// Bytes of log for the transaction's record and `more` bytes.
    #[inline]
    pub(crate) fn bytes_for(&self, more: u64) -> u64 {
        (self.record_bytes() + more).next_multiple_of(LINE)
    }

    /// Whether there is room for this many bytes without making any.
    #[inline]
    pub(crate) fn has_reserved(&self, bytes: u64) -> bool {
        bytes <= self.tail.end - self.tail.start
    }

    /// Returns unused reserved room. The commit is over, or has not begun.
    #[inline(always)]
    pub(crate) fn give_back_room<M: Memory>(&mut self, core: &Core<M>) {
        if self.owes {
            self.give_back_reserved(core);
        }
    }

    #[cold]
    fn give_back_reserved<M: Memory>(&mut self, core: &Core<M>) {
        self.owes = false;
        self.reserved.drain(..).for_each(|segment| core.segments.put_back(segment));
        if !self.keeps {
            self.hand_over(core);
        }
    }

    /// Whether [`append`](Self::append) would find room for a record of `words` without making any.
    pub(crate) fn has_place<M: Memory>(&self, core: &Core<M>, words: &WriteSet) -> bool {
        let bytes = record::words_for(words.stored_lines(), words.words()) as u64 * 8;
        if bytes <= self.tail.end - self.tail.start {
            return true;
        }
        let needed = match bytes > core.geometry.segment_bytes {
            true => split(core, words.entries()).len(),
            false => 1,
        };
        core.segments.free() >= needed
    }

    /// The place of one of these records within the transaction.
    #[inline(always)]
    fn part<M: Memory>(&self, core: &Core<M>, ticket: u64, index: u16, parts: u16) -> Part {
        let (part, parts) = (self.parts_before + index, self.parts_before + parts);
        let behind = record::behind(ticket, core.durable_at_least());
        Part { ticket, part, parts, behind }
    }

    /// Leaves the current segment and begins another.
    #[cold]
    fn next_segment<M: Memory>(
        &mut self,
        core: &Core<M>,
        needed: u64,
        make_room: &mut impl FnMut(&mut Counters) -> Result<()>,
    ) -> Result<()> {
        self.leave_segment(core);
        // Room for sums that turned out not to change may have been reserved in segments of its own.
        let taken = match self.reserved.pop() {
            Some(segment) => {
                OpenSegment { segment, rest: core.geometry.segment(segment), highest: 0 }
            }
            None => self.take_own(core, needed, make_room)?,
        };
        self.segment = Some(taken.segment);
        self.tail = taken.rest;
        (self.highest, self.found) = (taken.highest, taken.highest);
        Ok(())
    }

    /// Takes a segment with room for a record of `needed` bytes; if there is none, after `make_room`.
    fn take_own<M: Memory>(
        &mut self,
        core: &Core<M>,
        needed: u64,
        make_room: &mut impl FnMut(&mut Counters) -> Result<()>,
    ) -> Result<OpenSegment> {
        self.ask_to_keep(core);
        core.touch_segments();
        if let Some(taken) = core.segments.take_for(needed) {
            return Ok(taken);
        }
        make_room(&mut self.counters)?;
        core.segments.take_for(needed).ok_or_else(|| self.too_large(core, needed))
    }

    /// Retires the current segment: it is freed once its records are dead.
    pub(crate) fn leave_segment<M: Memory>(&mut self, core: &Core<M>) {
        if let Some(full) = self.segment.take() {
            core.touch_segments();
            core.segments.filled(full, self.highest.max(self.found));
            self.filled = true;
            self.tail = 0..0;
        }
    }

    /// Hands the current segment over: the next session continues behind its records.
    fn hand_over<M: Memory>(&mut self, core: &Core<M>) {
        if let Some(segment) = self.segment.take() {
            core.touch_segments();
            let mut rest = std::mem::replace(&mut self.tail, 0..0);
            if planted::has(Bug::HandedOverFromStart) {
                rest = core.geometry.segment(segment);
            }
            let open = OpenSegment { segment, rest, highest: self.highest.max(self.found) };
            self.filled |= core.segments.hand_over(open, core.checkpointed());
        }
    }

    /// Gives up the segment, and the right to keep one: the session ends.
    pub(crate) fn end<M: Memory>(&mut self, core: &Core<M>) {
        self.hand_over(core);
        if std::mem::take(&mut self.keeps) {
            core.segments.keep_no_more();
        }
    }

    /// Restarts the current segment: all its records are dead, and durably so.
    #[inline]
    pub(crate) fn rewind<M: Memory>(&mut self, core: &Core<M>) {
        if let Some(segment) = self.segment {
            self.tail = core.geometry.segment(segment);
        }
    }

    /// A transaction of several records, each in a segment of its own.
    #[cold]
    fn append_large<M: Memory>(
        &mut self,
        core: &Core<M>,
        (ticket, needed): (u64, u64),
        mut word_of: impl FnMut(&LineWrite, usize) -> u64,
        mut make_room: impl FnMut(&mut Counters) -> Result<()>,
    ) -> Result<u64> {
        let runs = split(core, self.writes.entries());
        let mut taken = std::mem::take(&mut self.reserved);
        if taken.len() < runs.len() {
            let count = runs.len() - taken.len();
            taken.extend(self.take_segments(core, count, needed, &mut make_room)?);
        }
        self.reserved = taken.split_off(runs.len());
        let parts = runs.len() as u16;
        let first = core.geometry.segment(taken[0]).start;
        for (index, (run, segment)) in runs.into_iter().zip(taken).enumerate() {
            let at = core.geometry.segment(segment).start;
            let part = self.part(core, ticket, index as u16, parts);
            let stored = self.encode(core, at, part, run, &mut word_of);
            self.store_record(core, at, stored, Stores::PastCaches);
            core.segments.filled(segment, ticket);
        }
        self.filled = true;
        Ok(first)
    }
}
