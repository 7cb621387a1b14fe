//! What the engines share that have at most one transaction in the log: undo and S-WAL.
//!
//! Each session keeps one segment and writes every record at its start; more segments, for a
//! large transaction, are given back when it has ended.

use crate::logged::{Logged, Protocol};
use crate::record::{self, Part};
use crate::writer::{Writer, split};
use crate::writes::LineWrite;
use crate::{Counters, Result};
use perdura_memory::{LINE, Memory};
use std::sync::atomic::Ordering;

/// Where a transaction's record is.
pub(crate) struct Place {
    /// Offset of its first part.
    pub(crate) first: u64,
    /// Its parts.
    pub(crate) parts: u16,
    /// The segments that hold the others.
    extra: Vec<u32>,
}

impl Writer {
    /// Writes the transaction's record, of the words that `word_of` gives, to the session's
    /// segment and to more of them if it needs them, and asks for it to become durable.
    pub(crate) fn write_alone<M: Memory, P: Protocol>(
        &mut self,
        engine: &Logged<M, P>,
        ticket: u64,
        mut word_of: impl FnMut(&LineWrite, usize) -> u64,
    ) -> Result<Place> {
        let bytes = self.record_bytes();
        let own = match self.segment {
            Some(own) => own,
            None => self.take_segment(engine, bytes)?,
        };
        self.segment = Some(own);
        let runs = if bytes <= engine.geometry.segment_bytes {
            std::iter::once(0..self.writes.entries().len()).collect()
        } else {
            split(engine, self.writes.entries())
        };
        let extra = self.take_segments(engine, runs.len() - 1, bytes)?;
        let first = engine.geometry.segment(own).start;
        let parts = runs.len() as u16;
        let behind = record::behind(ticket, engine.durable.0.load(Ordering::Relaxed));
        for (index, run) in runs.into_iter().enumerate() {
            let segment = if index == 0 { own } else { extra[index - 1] };
            let at = engine.geometry.segment(segment).start;
            let part = Part { ticket, part: index as u16, parts, behind };
            let stored = self.encode(engine, at, part, run, &mut word_of);
            self.store_record(engine, at, stored);
        }
        Ok(Place { first, parts, extra })
    }

    /// The transaction with this ticket is durable in place and has left the log.
    #[inline]
    pub(crate) fn committed_alone<M: Memory, P: Protocol>(
        &mut self,
        engine: &Logged<M, P>,
        ticket: u64,
        place: Place,
    ) {
        place.extra.into_iter().for_each(|segment| engine.segments.put_back(segment));
        engine.committed.0.store(ticket, Ordering::Release);
        engine.durable.0.store(ticket, Ordering::Release);
        self.counters.commits += 1;
    }

    /// Stores the words in place and asks for their lines to become durable.
    #[inline]
    pub(crate) fn apply_and_write_back<M: Memory, P: Protocol>(&mut self, engine: &Logged<M, P>) {
        let counted = engine.memory.domain().needs_write_back();
        self.apply(engine, |entry, counters| {
            engine.memory.write_back(entry.line, LINE);
            if counted {
                counters.dirtied(entry.mask.count_ones());
            }
            counters.write_backs_data += u64::from(counted);
        });
    }
}

/// A checkpoint where nothing is pending in place: it carries the tickets over a restart, and
/// frees the segments of sessions that have ended.
pub(crate) fn checkpoint<M: Memory, P: Protocol>(
    engine: &Logged<M, P>,
    exclusive: bool,
    counters: &mut Counters,
) -> Result<()> {
    let mut checkpoint = || {
        let ticket = engine.committed.0.load(Ordering::Acquire);
        engine.alone(|| engine.move_checkpoint(ticket, counters))
    };
    if exclusive { checkpoint() } else { engine.lock.writing(&*engine.memory, checkpoint) }
}
