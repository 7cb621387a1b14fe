//! A group: transactions between their logical commit and their physical one.

use super::base::first_old_words;
use super::cover::{Cover, Layout};
use super::history::History;
use super::{Archapt, Base, Tuning, lines};
use crate::logged::{Logged, cut_short};
use crate::record;
use crate::writer::Writer;
use crate::writes::ALL;
use crate::{Counters, Result, Ticket};
use perdura_memory::{LINE, Memory};
use std::sync::atomic::Ordering;

/// Bytes of log that a group may fill, unless told otherwise. Enough to spread the price of a fence
/// over a hundred small transactions; what it overlays is looked through by every read, and should
/// stay in the nearest cache. A large transaction is a group of its own, which nobody looks through.
const GROUP_BYTES: u64 = 4 << 10;
/// A transaction that would fill more than one in so many of these is large.
const LARGE_SHARE: u64 = 4;
/// With readers there a group may be so many times as large.
const STRETCH: u64 = 4;
/// With undo, where write-backs are skipped, a group has at most one in so many of the lines that may
/// wait: they join the queue all at once, and a larger group saves nothing. With redo it saves log.
pub(super) const QUEUE_SHARE: u64 = 4;
/// Nanoseconds after which a group is made durable though nobody waits, unless told otherwise.
const ANSWER_WITHIN_NS: u64 = 10_000_000;
/// Bits of a ticket that number the transactions of a group.
pub(super) const TICKET_BITS: u32 = 20;
/// Transactions after which the clock is looked at.
const LOOK_EVERY: u64 = 16;
/// What the simulator is told that joining a group costs, for each line (natively 7 ns); and noting
/// one (40 ns, where lines are many and seldom the same).
const CYCLES_TO_JOIN: u32 = 20;
const CYCLES_TO_NOTE: u32 = 100;

/// What is the writer's own: a group on its way into the log, and the lines that closed ones have
/// left waiting.
pub(super) struct Group {
    /// What is to be written down, the old words of the open group that undo logging wants, and the
    /// log.
    pub(super) writer: Writer,
    /// With undo logging: the old words are all there. They are not where words have not joined, or
    /// where the log has been emptied since.
    pub(super) old_words_known: bool,
    pub(super) history: History,
    /// The last group of the old generation.
    pub(super) old_up_to: u64,
    /// Full segments at the last turn: those of the old generation.
    pub(super) old_segments: usize,
    /// Old lines to be written back while the log's current segment fills.
    pub(super) due_lines: usize,
    /// What is due of a line, in shares of a segment's bytes.
    pub(super) due_rest: u64,
    /// The young generation has filled its part of the log: it turns when the old one has left.
    pub(super) turn_due: bool,
    /// When it was first looked at whether what is not durable yet is due; 0 if it was not.
    pub(super) looked: u64,
    group_bytes: u64,
    pub(super) answer_within: u64,
    /// Lines of fresh memory of those that have joined.
    pub(super) fresh_lines: u64,
    /// Something panicked halfway, or the medium failed: what is durable is unknown until recovery.
    pub(super) broken: bool,
    /// The lines that need no write-back.
    pub(super) cover: Cover,
}

impl Group {
    /// For a memory of `len` bytes, of which `queue_lines` lines may wait.
    pub(super) fn new(len: u64, queue_lines: u64, by_records: bool, layout: Layout) -> Self {
        Group {
            writer: Writer::default(),
            old_words_known: true,
            history: History::new(len, queue_lines as usize, by_records),
            old_up_to: 0,
            old_segments: 0,
            due_lines: 0,
            due_rest: 0,
            turn_due: false,
            looked: 0,
            group_bytes: GROUP_BYTES,
            answer_within: ANSWER_WITHIN_NS,
            fresh_lines: 0,
            broken: false,
            cover: Cover::new(layout, len),
        }
    }

    pub(super) fn tune(&mut self, tuning: &Tuning) {
        if let Some(lines) = tuning.queue_lines {
            self.history.resize(lines as usize);
        }
        self.group_bytes = tuning.group_bytes.unwrap_or(self.group_bytes);
        self.answer_within = tuning.answer_within_ns.unwrap_or(self.answer_within);
        self.cover.skip = tuning.skip.unwrap_or(self.cover.skip);
    }

    /// Logical commit: the transaction in `session` joins the open group.
    #[inline]
    pub(super) fn join<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        session: &mut Writer,
    ) -> Result<Ticket> {
        self.usable(engine)?;
        engine.next_number()?;
        if self.is_large(engine, session.record_bytes()) {
            // It is a group of its own.
            self.close(engine)?;
            let ticket = self.commit_alone(engine, session)?;
            // As below.
            let _ = self.answer_if_due(engine);
            return Ok(ticket);
        }
        let joined = self.joined(engine);
        let full = joined == (1 << TICKET_BITS) - 1;
        if joined > 0
            && (full
                || self.is_too_much(engine, self.bytes_with(engine, session))
                || B::SKIPS && !B::LOG_IS_ENOUGH && self.has_too_many_lines_with(engine, session))
        {
            self.close(engine)?;
        }
        engine.memory.work(CYCLES_TO_JOIN * session.writes.entries().len() as u32);
        self.broken = true;
        let ticket = self.take(engine, session);
        self.broken = false;
        self.writer.counters.commits += 1;
        if self.joined(engine).is_multiple_of(LOOK_EVERY) {
            // The transaction is in the group whatever comes of this. A failure shows again at
            // the next commit, and before anything is acknowledged.
            let _ = self.answer_if_due(engine);
        }
        Ok(ticket)
    }

    /// Whether a transaction with so many bytes of log is too large to share a record. Where nobody
    /// reads, who could be waited for, a fence of its own costs less than that its words are looked
    /// for in the overlay.
    fn is_large<M: Memory, B: Base>(&self, engine: &Logged<M, Archapt<B>>, bytes: u64) -> bool {
        self.is_too_much(engine, bytes)
            || bytes > self.group_bytes / LARGE_SHARE && !engine.lock.has_readers()
    }

    /// Whether these are more bytes of log than a group may fill. Who would have to wait for readers
    /// to end the group lets it grow.
    fn is_too_much<M: Memory, B: Base>(&self, engine: &Logged<M, Archapt<B>>, bytes: u64) -> bool {
        let limit = |most: u64| most.min(engine.geometry.segment_bytes);
        bytes > limit(self.group_bytes)
            && (bytes > limit(self.group_bytes.saturating_mul(STRETCH))
                || !engine.lock.has_readers())
    }

    /// Ends the open group: it is in the log, and in place. If that fails, it is open still.
    pub(super) fn close<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        if self.nobody_joined(engine) {
            return Ok(());
        }
        self.collect(engine);
        if let Err(error) = self.log_and_store(engine) {
            self.writer.writes.clear();
            self.old_words_known = false;
            return Err(error);
        }
        self.forget();
        self.begin(engine);
        self.stored(engine);
        Ok(())
    }

    /// Writes down what the writer has, and stores it. Alone from the first store on; if it
    /// fails before, nothing has happened.
    pub(super) fn log_and_store<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
    ) -> Result<()> {
        self.usable(engine)?;
        let (now, old) = (self.writer.record_bytes(), &self.writer.old);
        // A line may be among the old ones for several transactions.
        let old = record::words_for(old.stored_lines(), old.words()) as u64 * 8;
        self.make_room(engine, now.max(old))?;
        if B::SKIPS {
            self.make_room_for_images(engine)?;
        }
        if !B::LOG_IS_ENOUGH {
            self.know_old_words(engine);
        }
        // Before anything is written with the group's number: the next one will have the same.
        self.check_place(engine)?;
        let ticket = engine.committed.0.load(Ordering::Relaxed) + 1;
        self.broken = true;
        self.let_old_lines_leave(engine);
        // If this fails, so has the medium: the group may be in the log or not, and is the last one.
        self.log::<M, B>(engine, ticket)?;
        engine.be_alone();
        self.store_in_place::<M, B>(engine);
        engine.committed.0.store(ticket, Ordering::Release);
        self.broken = false;
        if engine.durable.0.load(Ordering::Relaxed) >= ticket {
            self.looked = 0;
        }
        Ok(())
    }

    /// Makes durable what must be so before the group's words may be stored in place.
    fn log<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        ticket: u64,
    ) -> Result<()> {
        let images = B::SKIPS && self.uncover(engine, ticket);
        B::log(engine, &mut self.writer, ticket)?;
        if images && !B::LOG_IS_ENOUGH && self.writer.old.is_empty() {
            // There was no record to be fenced.
            self.writer.fence(engine)?;
        }
        Ok(())
    }

    /// Whether the log has a place for what the writer has.
    fn check_place<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) -> Result<()> {
        let Writer { writes, old, .. } = &self.writer;
        let logged = if B::LOG_IS_ENOUGH { writes } else { old };
        if self.writer.has_place(engine, logged) {
            return Ok(());
        }
        let needed = record::words_for(logged.stored_lines(), logged.words()) as u64 * 8;
        Err(self.writer.too_large(engine, needed))
    }

    /// The old words of all that the writer has, where they are not known yet.
    fn know_old_words<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) {
        if self.old_words_known {
            return;
        }
        let Group { writer, history, cover, .. } = self;
        writer.old.clear();
        for entry in writer.writes.entries() {
            first_old_words(&*engine.memory, entry, 0, (history, cover), &mut writer.old);
        }
        self.old_words_known = true;
    }

    /// Forgets what is to be written down.
    pub(super) fn forget(&mut self) {
        self.writer.forget();
        self.writer.old.clear();
        self.old_words_known = true;
        self.fresh_lines = 0;
    }

    /// What is to be done after a group has been stored, with readers in again: the open group is
    /// empty, and what they see is committed.
    pub(super) fn stored<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) {
        engine.lock.let_readers_in();
        // The group is in the log: a failure from here on is the next one's.
        let _ = self.recycle(engine);
    }

    /// Stores the group's words; their lines wait from now on.
    pub(super) fn store_in_place<M: Memory, B: Base>(&mut self, engine: &Logged<M, Archapt<B>>) {
        let Group { writer, history, cover, .. } = self;
        if !B::LOG_IS_ENOUGH {
            writer.counters.dirty_bytes +=
                writer.fresh.iter().map(|range| range.end - range.start).sum::<u64>();
        }
        if !engine.memory.domain().needs_write_back() {
            writer.apply(engine, |_, _| {});
            return;
        }
        engine.memory.work(CYCLES_TO_NOTE * writer.writes.entries().len() as u32);
        writer.apply(engine, |entry, counters| {
            // With redo, what else the line holds may have been left to the caches: it leaves as a
            // whole. With undo, its before-image has all of its old words.
            let whole = B::SKIPS
                && (B::LOG_IS_ENOUGH || history.stored(entry.line) == 0)
                && cover.was_stored_to(entry.line);
            let again = history.note(entry.line, if whole { ALL } else { entry.mask });
            counters.write_backs_saved += u64::from(again);
        });
        if !B::LOG_IS_ENOUGH {
            // Not written back yet; nothing that a rollback leaves refers to it. A line that left
            // the queue since it was stored to is covered with that.
            let fresh = writer.fresh.iter().flat_map(lines);
            for (line, mask) in fresh.filter(|(line, _)| !B::SKIPS || !cover.covers(*line)) {
                history.note(line, mask);
            }
        }
    }

    /// Writes back up to `most` lines of the old generation.
    pub(super) fn write_back_old<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        most: usize,
    ) {
        let Group { writer, history, .. } = self;
        for (line, mask) in std::iter::from_fn(|| history.leave()).take(most) {
            write_back(engine, &mut writer.counters, line);
            writer.counters.dirtied(mask.count_ones());
        }
    }

    /// Lets the records up to `group` go: the lines that they alone protect have been written
    /// back, and that is fenced.
    pub(super) fn cut_log<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        group: u64,
    ) -> Result<()> {
        // Before the first turn there is no old generation.
        let group = group.max(engine.checkpointed.load(Ordering::Relaxed));
        engine.move_checkpoint(group, &mut self.writer.counters)
    }

    /// Sees to it that a record of so many bytes finds its segments.
    #[inline]
    pub(super) fn make_room<M: Memory, B: Base>(
        &mut self,
        engine: &Logged<M, Archapt<B>>,
        bytes: u64,
    ) -> Result<()> {
        if !self.has_room(engine, bytes) {
            self.writer.leave_segment(engine);
            self.write_back_all(engine)?;
        }
        Ok(())
    }

    /// Whether a record of so many bytes finds its segments.
    #[inline]
    pub(super) fn has_room<M: Memory, B: Base>(
        &self,
        engine: &Logged<M, Archapt<B>>,
        bytes: u64,
    ) -> bool {
        if bytes <= self.writer.tail.end - self.writer.tail.start {
            return true;
        }
        let segment = engine.geometry.segment_bytes;
        // A record of several parts leaves up to twenty words of each segment unused.
        let needed = bytes.div_ceil(segment - 160) as usize + 1;
        engine.segments.free() >= needed
    }

    pub(super) fn usable<M: Memory, B: Base>(&self, engine: &Logged<M, Archapt<B>>) -> Result<()> {
        engine.memory.check_fence()?;
        if self.broken || engine.is_broken() { Err(cut_short()) } else { Ok(()) }
    }
}

/// Asks for a line that has waited to become durable.
pub(super) fn write_back<M: Memory, B: Base>(
    engine: &Logged<M, Archapt<B>>,
    counters: &mut Counters,
    line: u64,
) {
    engine.memory.write_back(line, LINE);
    counters.write_backs_data += 1;
}
