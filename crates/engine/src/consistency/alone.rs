//! The part common to engines with at most one transaction in the log: undo, undo for each store, and S-WAL.
//!
//! A session writes every transaction at the start of a segment, which it keeps if it may; otherwise that is released
//! when the transaction ends, as further ones are, for a large transaction.

use super::core::Core;
use super::writer::{Stores, Writer, split};
use crate::log::record::{self, Part};
use crate::writes::LineWrite;
use crate::{Counters, Result};
use perdura_memory::{LINE, Memory};

/// The segments that a transaction's records are written to.
pub(crate) struct TakenSegments {
    own: u32,
    /// Whether the session keeps that one.
    is_kept: bool,
    /// The further ones.
    extra: Vec<u32>,
}

impl TakenSegments {
    /// The one at `index`.
    pub(crate) fn at(&self, index: usize) -> u32 {
        if index == 0 { self.own } else { self.extra[index - 1] }
    }

    /// Where the transaction's records are: `parts` of them, the first one at the start of the first segment.
    pub(crate) fn place<M: Memory>(mut self, core: &Core<M>, parts: u16) -> RecordPlace {
        if !self.is_kept {
            self.extra.push(self.own);
        }
        RecordPlace { first: core.geometry.segment(self.own).start, parts, extra: self.extra }
    }
}

/// Where a transaction's record is.
pub(crate) struct RecordPlace {
    /// Offset of its first part.
    pub(crate) first: u64,
    /// The number of parts.
    pub(crate) parts: u16,
    /// The segments that are released when it ends: those of the other parts, and the first one if it is not kept.
    extra: Vec<u32>,
}

impl Writer {
    /// Writes the transaction's record, with the words that `word_of` gives, to the session's segment and to further
    /// ones if needed, and asks for it to become durable.
    pub(crate) fn write_alone<M: Memory>(
        &mut self,
        core: &Core<M>,
        (ticket, how): (u64, Stores),
        mut word_of: impl FnMut(&LineWrite, usize) -> u64,
    ) -> Result<RecordPlace> {
        let bytes = self.record_bytes();
        let runs = if bytes <= core.geometry.segment_bytes {
            std::iter::once(0..self.writes.entries().len()).collect()
        } else {
            split(core, self.writes.entries())
        };
        let taken = self.take_alone(core, runs.len(), bytes)?;
        let parts = runs.len() as u16;
        let behind = record::behind(ticket, core.durable_at_least());
        for (index, run) in runs.into_iter().enumerate() {
            let at = core.geometry.segment(taken.at(index)).start;
            let part = Part { ticket, part: index as u16, parts, behind };
            let stored = self.encode(core, at, part, run, &mut word_of);
            self.store_record(core, at, stored, how);
        }
        Ok(taken.place(core, parts))
    }

    /// Takes `count` segments, at least one, for records of `needed` bytes together.
    ///
    /// # Errors
    /// `TooLarge` when there are too few.
    pub(crate) fn take_alone<M: Memory>(
        &mut self,
        core: &Core<M>,
        count: usize,
        needed: u64,
    ) -> Result<TakenSegments> {
        let mut make_room = |counters: &mut Counters| checkpoint(core, counters);
        let (own, is_kept) = match self.segment {
            Some(own) => (own, true),
            None => self.begin_segment(core, needed, &mut make_room)?,
        };
        let taken = self.take_segments(core, count - 1, needed, &mut make_room);
        if taken.is_err() && !is_kept {
            core.segments.put_back(own);
        }
        Ok(TakenSegments { own, is_kept, extra: taken? })
    }

    /// Takes a segment for the first part; returns whether it is kept.
    #[cold]
    fn begin_segment<M: Memory>(
        &mut self,
        core: &Core<M>,
        needed: u64,
        make_room: &mut impl FnMut(&mut Counters) -> Result<()>,
    ) -> Result<(u32, bool)> {
        self.ask_to_keep(core);
        let own = self.take_segment(core, needed, make_room)?;
        self.segment = self.keeps.then_some(own);
        Ok((own, self.keeps))
    }

    /// The transaction with this ticket is durable in place and has left the log.
    #[inline]
    pub(crate) fn after_commit_alone<M: Memory>(
        &mut self,
        core: &Core<M>,
        ticket: u64,
        place: RecordPlace,
    ) {
        for segment in place.extra {
            core.touch_segments();
            core.segments.put_back(segment);
        }
        core.set_last_commit(ticket);
        core.set_durable(ticket);
    }

    /// Asks for the lines of the buffered words, which have been stored in place, to become durable.
    #[inline]
    #[track_caller]
    pub(crate) fn write_back_stored<M: Memory>(&mut self, core: &Core<M>) {
        let counted = core.memory.domain().needs_write_back();
        for entry in self.writes.read(&*core.memory).iter().filter(|entry| entry.mask != 0) {
            core.memory.write_back(entry.line, LINE);
            if counted {
                self.counters.dirtied(entry.mask.count_ones());
            }
            self.counters.write_backs_data += u64::from(counted);
        }
        core.touched.note(self.writes.entries());
    }

    /// Stores the words in place and asks for their lines to become durable.
    #[inline]
    pub(crate) fn apply_and_write_back<M: Memory>(&mut self, core: &Core<M>) {
        let counted = core.memory.domain().needs_write_back();
        self.apply(core, |entry, counters| {
            core.memory.write_back(entry.line, LINE);
            if counted {
                counters.dirtied(entry.mask.count_ones());
            }
            counters.write_backs_data += u64::from(counted);
        });
    }
}

/// A checkpoint for when nothing is pending in place: it carries the tickets over a restart. The caller is the writer.
pub(crate) fn checkpoint<M: Memory>(core: &Core<M>, counters: &mut Counters) -> Result<()> {
    let ticket = core.last_commit();
    core.alone(|| core.move_checkpoint(ticket, counters))
}
