//! A group: transactions between their logical commit and their physical one.

use super::base::{Base, first_old_words};
use super::deferred::{Deferred, Layout};
use super::history::History;
use crate::consistency::choice::SharingChoice;
use crate::consistency::core::{Core, cut_short};
use crate::consistency::shared::{GROUP_BYTES, LARGE_SHARE, TICKET_BITS};
use crate::consistency::writer::Writer;
use crate::log::record;
use crate::tuning::Tuning;
use crate::writes::ALL;
use crate::writes::overlay::Overlay;
use crate::{Counters, Result, Ticket};
use perdura_memory::lock::{SharedRight, Writing};
use perdura_memory::{LINE, Memory, line_of};
use std::marker::PhantomData;
use std::ops::Range;

/// The factor by which a group may grow while there are readers.
const STRETCH: u64 = 4;
/// With undo, where write-backs are skipped, a group has at most one in this many of the lines that may wait: they join
/// the queue all at once, and a larger group saves nothing. With redo it saves log.
pub(super) const QUEUE_SHARE: u64 = 4;
/// The default age in nanoseconds at which a group is made durable although no thread waits.
const FLUSH_WITHIN_NS: u64 = 10_000_000;
/// Transactions between two readings of the clock.
const LOOK_EVERY: u64 = 16;

/// The writer's own state: a group on its way into the log, and the waiting lines of closed groups.
pub struct Group {
    /// The words to be logged, the old words of the open group if undo logging needs them, and the log.
    pub(super) writer: Writer,
    /// With undo logging: whether all old words are collected. They are not if words have not joined, or if the log has
    /// been emptied since.
    pub(super) old_words_known: bool,
    pub(super) history: History,
    /// The last group of the old generation.
    pub(super) old_up_to: u64,
    /// Full segments at the last turn: those of the old generation.
    pub(super) old_segments: usize,
    /// Old lines to be written back while the log's current segment fills.
    pub(super) due_lines: usize,
    /// The number of lines that are due, times the bytes of a segment's share.
    pub(super) due_rest: u64,
    /// The young generation has filled its part of the log: generations turn once the old one has left.
    pub(super) turn_due: bool,
    /// When the age of the not yet durable commits was first checked; 0 if not yet.
    pub(super) first_checked: u64,
    group_bytes: u64,
    pub(super) flush_within: u64,
    /// Lines of fresh memory of the transactions that have joined.
    pub(super) fresh_lines: u64,
    /// A panic or the medium's failure has cut something short: what is durable is unknown until recovery.
    pub(super) broken: bool,
    /// Whether waiting transactions share a record with those that wait to enter.
    pub(super) choice: SharingChoice,
    /// The deferred lines.
    pub(super) deferred: Deferred,
}

impl Group {
    /// For a memory of `len` bytes, with at most `queue_lines` waiting lines.
    pub(super) fn new<M: Memory>(
        memory: &M,
        queue_lines: u64,
        by_records: bool,
        (layout, segment_bytes): (Layout, u64),
    ) -> Self {
        let len = memory.limit();
        Group {
            writer: Writer::new_keeping(memory, segment_bytes),
            old_words_known: true,
            history: History::new(memory, len, queue_lines as usize, by_records),
            old_up_to: 0,
            old_segments: 0,
            due_lines: 0,
            due_rest: 0,
            turn_due: false,
            first_checked: 0,
            group_bytes: GROUP_BYTES,
            flush_within: FLUSH_WITHIN_NS,
            fresh_lines: 0,
            broken: false,
            choice: SharingChoice::new(memory.domain()),
            deferred: Deferred::new(memory, layout),
        }
    }

    pub(super) fn tune(&mut self, tuning: &Tuning) {
        if let Some(lines) = tuning.queue_lines {
            self.history.resize(lines as usize);
        }
        self.group_bytes = tuning.group_bytes.unwrap_or(self.group_bytes);
        self.flush_within = tuning.answer_within_ns.unwrap_or(self.flush_within);
        self.choice.tune(tuning.share);
        self.deferred.skip = tuning.skip.unwrap_or(self.deferred.skip);
    }
}

/// The writer at work on the group: the session that holds the lock leads for all that have joined.
pub(super) struct Leader<'a, M: Memory, B> {
    pub(super) core: &'a Core<M>,
    pub(super) group: &'a mut Group,
    /// The open group, as readers see it.
    pub(super) open: SharedRight<'a, Overlay>,
    base: PhantomData<B>,
}

impl<'a, M: Memory, B: Base> Leader<'a, M, B> {
    pub(super) fn new(core: &'a Core<M>, right: Writing<'a, Overlay, Group>) -> Self {
        let Writing { own: group, shared: open } = right;
        Leader { core, group, open, base: PhantomData }
    }
}

impl<M: Memory, B: Base> Leader<'_, M, B> {
    /// Logical commit: the transaction in `session` joins the open group.
    #[inline]
    pub(super) fn join(&mut self, session: &mut Writer) -> Result<Ticket> {
        self.usable()?;
        self.core.next_number()?;
        if self.is_large(session.record_bytes()) {
            // It becomes a group of its own.
            self.close()?;
            let ticket = self.commit_alone(session)?;
            // As below.
            let _ = self.flush_if_due();
            return Ok(ticket);
        }
        let joined = self.joined();
        let full = joined == (1 << TICKET_BITS) - 1;
        if joined > 0
            && (full
                || self.is_too_much(self.bytes_with(session))
                || B::SKIPS && !B::LOG_IS_ENOUGH && self.has_too_many_lines_with(session))
        {
            self.close()?;
        }
        self.group.broken = true;
        let ticket = self.take(session);
        self.group.broken = false;
        self.group.writer.counters.commits += 1;
        self.group.writer.counters.shared += 1;
        if self.joined().is_multiple_of(LOOK_EVERY) {
            // The transaction is in the group in any case. A failure shows again at the next commit, and before
            // anything is acknowledged.
            let _ = self.flush_if_due();
        }
        Ok(ticket)
    }

    /// Whether a transaction with this many bytes of log is too large to share a record. If there are no readers to
    /// wait for, a fence of its own costs less than looking through its words in the overlay.
    fn is_large(&self, bytes: u64) -> bool {
        self.is_too_much(bytes)
            || bytes > self.group.group_bytes / LARGE_SHARE && !self.has_readers()
    }

    /// Whether this is more log than a group may fill. If closing the group would wait for readers, it may grow
    /// instead.
    fn is_too_much(&self, bytes: u64) -> bool {
        let limit = |most: u64| most.min(self.core.geometry.segment_bytes);
        bytes > limit(self.group.group_bytes)
            && (bytes > limit(self.group.group_bytes.saturating_mul(STRETCH))
                || !self.has_readers())
    }

    /// Whether a reader is inside.
    fn has_readers(&self) -> bool {
        self.open.has_readers(&*self.core.memory)
    }

    /// Closes the open group: it is in the log, and in place. If that fails, it is still open.
    pub(super) fn close(&mut self) -> Result<()> {
        if self.none_has_joined() {
            return Ok(());
        }
        self.collect();
        if let Err(error) = self.log_and_store() {
            self.group.writer.writes.clear(&*self.core.memory);
            self.group.old_words_known = false;
            return Err(error);
        }
        self.forget();
        self.begin();
        self.stored();
        Ok(())
    }

    /// Logs the writer's words, and stores them. Alone from the first store on; if it fails before, nothing has
    /// happened.
    pub(super) fn log_and_store(&mut self) -> Result<()> {
        self.usable()?;
        let (now, old) = (self.group.writer.record_bytes(), &self.group.writer.old);
        // A line may be among the old ones for several transactions.
        let old = record::words_for(old.stored_lines(), old.words()) as u64 * 8;
        self.make_room(now.max(old))?;
        if B::SKIPS {
            self.make_room_for_images()?;
        }
        if !B::LOG_IS_ENOUGH {
            self.know_old_words();
        }
        // Before anything is written with the group's number, which a failed group leaves to the next one.
        self.check_place()?;
        let ticket = self.core.last_commit() + 1;
        self.group.broken = true;
        self.let_old_lines_leave();
        // If this fails, the medium has failed: the group may or may not be in the log, and is the last one.
        self.log(ticket)?;
        self.core.be_alone(&mut self.open);
        self.store_in_place();
        self.core.set_last_commit(ticket);
        self.group.broken = false;
        if self.core.durable() >= ticket {
            self.group.first_checked = 0;
        }
        Ok(())
    }

    /// Makes durable what must be durable before the group's words may be stored in place.
    fn log(&mut self, ticket: u64) -> Result<()> {
        let images = B::SKIPS && self.end_deferral(ticket);
        B::log(self.core, &mut self.group.writer, ticket)?;
        if images && !B::LOG_IS_ENOUGH && self.group.writer.old.is_empty() {
            // There was no record to fence.
            self.group.writer.fence(self.core)?;
        }
        Ok(())
    }

    /// Checks that the log has a place for the writer's words.
    fn check_place(&mut self) -> Result<()> {
        let Writer { writes, old, .. } = &self.group.writer;
        let logged = if B::LOG_IS_ENOUGH { writes } else { old };
        if self.group.writer.has_place(self.core, logged) {
            return Ok(());
        }
        let needed = record::words_for(logged.stored_lines(), logged.words()) as u64 * 8;
        Err(self.group.writer.too_large(self.core, needed))
    }

    /// Collects the old words of all the writer's words, if not done yet.
    fn know_old_words(&mut self) {
        if self.group.old_words_known {
            return;
        }
        let Group { writer, history, deferred, .. } = &mut *self.group;
        let memory = &*self.core.memory;
        writer.old.clear(memory);
        for entry in writer.writes.read(memory) {
            first_old_words(memory, entry, 0, (history, deferred), &mut writer.old);
        }
        self.group.old_words_known = true;
    }

    /// Forgets the words to be logged.
    pub(super) fn forget(&mut self) {
        self.group.writer.forget(&*self.core.memory);
        self.group.writer.old.clear(&*self.core.memory);
        self.group.old_words_known = true;
        self.group.fresh_lines = 0;
    }

    /// The work after a group has been stored, with readers in again: the open group is empty, and what they see is
    /// committed.
    pub(super) fn stored(&mut self) {
        self.open.let_readers_in(&*self.core.memory);
        // The group is in the log: a failure from here on is reported by the next one.
        let _ = self.recycle();
    }

    /// Stores the group's words; their lines wait from now on.
    pub(super) fn store_in_place(&mut self) {
        let Group { writer, history, deferred, .. } = &mut *self.group;
        if !B::LOG_IS_ENOUGH {
            writer.counters.dirty_bytes +=
                writer.fresh.iter().map(|range| range.end - range.start).sum::<u64>();
        }
        if !self.core.memory.domain().needs_write_back() {
            writer.apply(self.core, |_, _| {});
            return;
        }
        let memory = &*self.core.memory;
        writer.apply(self.core, |entry, counters| {
            // With redo, the line's other words may have been deferred: it leaves as a whole. With undo, its
            // before-image has all of its old words.
            let whole = B::SKIPS
                && (B::LOG_IS_ENOUGH || history.stored(memory, entry.line) == 0)
                && deferred.was_stored_to(entry.line);
            let again = history.note(memory, entry.line, if whole { ALL } else { entry.mask });
            counters.write_backs_saved += u64::from(again);
        });
        if !B::LOG_IS_ENOUGH {
            // Not written back yet; nothing that a rollback leaves refers to it. If such a line left the queue since it
            // was stored to, it is deferred with these contents.
            let fresh = writer.fresh.iter().flat_map(lines);
            for (line, mask) in
                fresh.filter(|(line, _)| !B::SKIPS || !deferred.is_deferred(memory, *line))
            {
                history.note(memory, line, mask);
            }
        }
    }

    /// Writes back up to `most` lines of the old generation.
    pub(super) fn write_back_old(&mut self, most: usize) {
        let Group { writer, history, .. } = &mut *self.group;
        let memory = &*self.core.memory;
        for (line, mask) in std::iter::from_fn(|| history.leave(memory)).take(most) {
            write_back(self.core, &mut writer.counters, line);
            writer.counters.dirtied(mask.count_ones());
        }
    }

    /// Frees the records up to `group`: the lines that they alone protect have been written back and fenced.
    pub(super) fn cut_log(&mut self, group: u64) -> Result<()> {
        // Before the first turn there is no old generation.
        let group = group.max(self.core.checkpointed());
        self.core.move_checkpoint(group, &mut self.group.writer.counters)
    }

    /// Ensures that there are segments for a record of this many bytes.
    #[inline]
    pub(super) fn make_room(&mut self, bytes: u64) -> Result<()> {
        if !self.has_room(bytes) {
            self.group.writer.leave_segment(self.core);
            self.write_back_all()?;
        }
        Ok(())
    }

    /// Whether there are segments for a record of this many bytes.
    #[inline]
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        if bytes <= self.group.writer.tail.end - self.group.writer.tail.start {
            return true;
        }
        let segment = self.core.geometry.segment_bytes;
        // A record of several parts leaves up to twenty words of each segment unused.
        let needed = bytes.div_ceil(segment - 160) as usize + 1;
        self.core.segments.free() >= needed
    }

    pub(super) fn usable(&self) -> Result<()> {
        self.core.memory.check_fence()?;
        if self.group.broken || self.core.is_broken() { Err(cut_short()) } else { Ok(()) }
    }
}

/// Writes back a line that has waited.
pub(super) fn write_back<M: Memory>(core: &Core<M>, counters: &mut Counters, line: u64) {
    core.memory.write_back(line, LINE);
    counters.write_backs_data += 1;
}

/// The lines of a range of bytes that begins at a word, each with the mask of touched words.
fn lines(range: &Range<u64>) -> impl Iterator<Item = (u64, u8)> + use<> {
    let Range { start, end } = *range;
    (line_of(start)..end).step_by(LINE as usize).map(move |line| {
        let first = (start.max(line) - line) / 8;
        let after = (end.min(line + LINE) - line).div_ceil(8);
        (line, (0xFF_u8 << first) & (0xFF >> (8 - after)))
    })
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn words_of_a_range_are_found_by_line() {
        assert_eq!(lines(&(64..128)).collect::<Vec<_>>(), [(64, 0xFF)]);
        assert_eq!(lines(&(96..136)).collect::<Vec<_>>(), [(64, 0xF0), (128, 1)]);
        assert_eq!(lines(&(72..81)).collect::<Vec<_>>(), [(64, 0b110)]);
    }
}
