//! A session's sequential log: records one after the other, in one segment after the other.

use crate::Result;
use crate::logged::{Logged, Protocol};
use crate::record::{self, Part};
use crate::writer::{Writer, split};
use crate::writes::{LineWrite, WriteSet};
use perdura_memory::Memory;
use std::sync::atomic::Ordering;

impl Writer {
    /// Writes a record of the transaction, of the words that `word_of` gives, behind the ones
    /// before, and asks for it to become durable.
    ///
    /// # Errors
    /// `TooLarge` when there is no room for it even after a checkpoint.
    #[inline]
    pub(crate) fn append<M: Memory, P: Protocol>(
        &mut self,
        engine: &Logged<M, P>,
        ticket: u64,
        mut word_of: impl FnMut(&LineWrite, usize) -> u64,
    ) -> Result<()> {
        let bytes = self.record_bytes();
        if bytes > self.tail.end - self.tail.start {
            if bytes > engine.geometry.segment_bytes {
                return self.append_large(engine, ticket, bytes, word_of);
            }
            self.next_segment(engine, bytes)?;
        }
        let at = self.tail.start;
        let entries = 0..self.writes.entries().len();
        let part = self.part(engine, ticket, 0, 1);
        let stored = self.encode(engine, at, part, entries, &mut word_of);
        debug_assert!(stored <= bytes, "room was made for the record");
        self.store_record(engine, at, stored);
        self.tail.start += stored;
        self.highest = ticket;
        Ok(())
    }

    /// Whether [`append`](Self::append) finds room for a record of `words`, without any being made.
    pub(crate) fn has_place<M: Memory, P: Protocol>(
        &self,
        engine: &Logged<M, P>,
        words: &WriteSet,
    ) -> bool {
        let bytes = record::words_for(words.stored_lines(), words.words()) as u64 * 8;
        if bytes <= self.tail.end - self.tail.start {
            return true;
        }
        let needed = match bytes > engine.geometry.segment_bytes {
            true => split(engine, words.entries()).len(),
            false => 1,
        };
        engine.segments.free() >= needed
    }

    /// Which part of the transaction one of these records is.
    #[inline]
    fn part<M: Memory, P: Protocol>(
        &self,
        engine: &Logged<M, P>,
        ticket: u64,
        index: u16,
        parts: u16,
    ) -> Part {
        let (part, parts) = (self.parts_before + index, self.parts_before + parts);
        let behind = record::behind(ticket, engine.durable.0.load(Ordering::Relaxed));
        Part { ticket, part, parts, behind }
    }

    /// Leaves the current segment and begins another.
    #[cold]
    fn next_segment<M: Memory, P: Protocol>(
        &mut self,
        engine: &Logged<M, P>,
        needed: u64,
    ) -> Result<()> {
        self.leave_segment(engine);
        let segment = self.take_segment(engine, needed)?;
        self.segment = Some(segment);
        self.tail = engine.geometry.segment(segment);
        Ok(())
    }

    /// Hands the current segment over: it is freed once its records are dead.
    pub(crate) fn leave_segment<M: Memory, P: Protocol>(&mut self, engine: &Logged<M, P>) {
        if let Some(full) = self.segment.take() {
            engine.segments.filled(full, self.highest);
            self.filled = true;
            self.tail = 0..0;
        }
    }

    /// Begins the current segment anew: all its records are dead, and durably so.
    #[inline]
    pub(crate) fn rewind<M: Memory, P: Protocol>(&mut self, engine: &Logged<M, P>) {
        if let Some(segment) = self.segment {
            self.tail = engine.geometry.segment(segment);
        }
    }

    /// A transaction of several records, each in a segment of its own.
    #[cold]
    fn append_large<M: Memory, P: Protocol>(
        &mut self,
        engine: &Logged<M, P>,
        ticket: u64,
        needed: u64,
        mut word_of: impl FnMut(&LineWrite, usize) -> u64,
    ) -> Result<()> {
        let runs = split(engine, self.writes.entries());
        let taken = self.take_segments(engine, runs.len(), needed)?;
        let parts = runs.len() as u16;
        for (index, (run, segment)) in runs.into_iter().zip(taken).enumerate() {
            let at = engine.geometry.segment(segment).start;
            let part = self.part(engine, ticket, index as u16, parts);
            let stored = self.encode(engine, at, part, run, &mut word_of);
            self.store_record(engine, at, stored);
            engine.segments.filled(segment, ticket);
        }
        self.filled = true;
        Ok(())
    }
}
