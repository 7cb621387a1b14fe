//! A session of a logging engine: a transaction's writes, buffered until commit.

use crate::area::Geometry;
use crate::lock::SharedLock;
use crate::logged::{Logged, Protocol};
use crate::record;
use crate::writes::{ALL, WriteSet};
use crate::{Access, Counters, Error, Mark, Mode, Result, Session, Ticket};
use perdura_memory::{LINE, Memory, line_of, lines_in};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One thread's transactions on a [`Logged`] engine.
pub struct Buffered<M: Memory, P: Protocol> {
    pub(crate) engine: Arc<Logged<M, P>>,
    pub(crate) writes: WriteSet,
    /// Fresh memory stored in place already, to be flushed at commit.
    pub(crate) fresh: Vec<Range<u64>>,
    pub(crate) counters: Counters,
    /// The segment being filled, and the free part of it.
    pub(crate) segment: Option<u32>,
    pub(crate) tail: Range<u64>,
    /// Highest ticket in the segment.
    pub(crate) highest: u64,
    /// A segment was filled since this was last looked at.
    pub(crate) filled: bool,
    pub(crate) scratch: Vec<u64>,
    mode: Option<Mode>,
    slot: usize,
}

impl<M: Memory, P: Protocol> Buffered<M, P> {
    pub(crate) fn new(engine: Arc<Logged<M, P>>) -> Option<Self> {
        let slot = engine.lock.register()?;
        Some(Buffered {
            engine,
            writes: WriteSet::default(),
            fresh: Vec::new(),
            counters: Counters::default(),
            segment: None,
            tail: 0..0,
            highest: 0,
            filled: false,
            scratch: Vec::new(),
            mode: None,
            slot,
        })
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> &SharedLock {
        &self.engine.lock
    }

    /// Stores whole log lines and asks for them to become durable. Past the caches, however few
    /// they are: a line stored so and a fence cost two thirds of a line written back and a fence
    /// (`perdura bench limit`), as long as nothing has fetched the line.
    #[inline]
    #[track_caller]
    pub(crate) fn stream_log(&mut self, at: u64, words: &[u64]) {
        let bytes = words.len() as u64 * 8;
        self.counters.streamed_bytes += bytes;
        if self.engine.memory.domain().needs_write_back() {
            self.counters.write_backs_log += bytes / LINE;
        }
        self.engine.memory.stream(at, words);
    }

    /// Stores whole log lines in the caches and asks for them to become durable.
    #[inline]
    #[track_caller]
    fn cache_log(&mut self, at: u64, words: &[u64]) {
        let bytes = words.len() as u64 * 8;
        if self.engine.memory.domain().needs_write_back() {
            self.counters.write_backs_log += bytes / LINE;
        }
        self.engine.memory.copy_in(at, bytemuck::cast_slice(words));
        self.engine.memory.write_back(at, bytes);
    }

    /// Asks for the fresh memory of this transaction to become durable.
    #[inline]
    #[track_caller]
    pub(crate) fn flush_fresh(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        let counted = self.engine.memory.domain().needs_write_back();
        for range in &self.fresh {
            let len = range.end - range.start;
            self.counters.dirty_bytes += len;
            if counted {
                self.counters.write_backs_data += lines_in(range.start, len);
                self.counters.dirtied_fresh(range.start, len);
            }
            self.engine.memory.write_back(range.start, len);
        }
    }

    /// A fence that knows whether it worked.
    #[inline]
    #[track_caller]
    pub(crate) fn fence(&mut self) -> Result<()> {
        self.engine.memory.fence();
        self.counters.fences += 1;
        Ok(self.engine.memory.check_fence()?)
    }

    /// Stores the buffered words in place, calling `stored` for each line.
    #[inline]
    pub(crate) fn apply(&mut self, mut stored: impl FnMut(&Logged<M, P>, u64, &mut Counters)) {
        self.counters.dirty_bytes += self.writes.words() as u64 * 8;
        for entry in self.writes.entries() {
            let mut mask = entry.mask;
            if mask == 0 {
                continue;
            }
            if mask == ALL {
                self.engine.memory.copy_in(entry.line, bytemuck::cast_slice(&entry.words));
                mask = 0;
            }
            while mask != 0 {
                let word = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                self.engine.memory.store(entry.line + word as u64 * 8, entry.words[word]);
            }
            stored(&self.engine, entry.line, &mut self.counters);
        }
    }

    /// Stores the encoded record in `scratch` at `at` and asks for it to become durable.
    #[inline]
    #[track_caller]
    pub(crate) fn store_record(&mut self, at: u64) {
        let record = std::mem::take(&mut self.scratch);
        self.counters.log_bytes += record.len() as u64 * 8;
        if P::STREAMS {
            self.stream_log(at, &record);
        } else {
            self.cache_log(at, &record);
        }
        self.scratch = record;
    }

    /// Bytes of log for the whole transaction, if one record holds it.
    #[inline]
    pub(crate) fn record_bytes(&self) -> u64 {
        record::words_for(self.writes.stored_lines(), self.writes.words()) as u64 * 8
    }

    /// Encodes a record of the write-set entries in `entries`.
    #[inline]
    pub(crate) fn encode(
        &mut self,
        at: u64,
        part: record::Part,
        entries: Range<usize>,
        word_of: impl FnMut(&crate::writes::LineWrite, usize) -> u64,
    ) {
        let entries = &self.writes.entries()[entries];
        record::encode(&mut self.scratch, self.engine.salt, at, part, entries, word_of);
    }

    /// Splits the write set into runs of entries whose records fit in a whole segment.
    pub(crate) fn split(&self) -> Vec<Range<usize>> {
        let most = (self.engine.geometry.segment_bytes / 8) as usize;
        let entries = self.writes.entries();
        let (mut runs, mut first, mut words) = (Vec::new(), 0, 0);
        for (index, entry) in entries.iter().enumerate() {
            // Ten words hold the header's share and the largest entry.
            if words + 20 > most {
                runs.push(first..index);
                (first, words) = (index, 0);
            }
            words += 1 + entry.mask.count_ones() as usize;
        }
        runs.push(first..entries.len());
        runs
    }

    /// Takes a free segment for a record of `needed` bytes, making one free if it must; the lock
    /// is held.
    pub(crate) fn take_segment(&mut self, needed: u64) -> Result<u32> {
        if let Some(segment) = self.engine.segments.take() {
            return Ok(segment);
        }
        P::checkpoint(&self.engine, true, &mut self.counters)?;
        self.engine.segments.take().ok_or_else(|| self.too_large(needed))
    }

    /// As many segments, or none.
    pub(crate) fn take_segments(&mut self, count: usize, needed: u64) -> Result<Vec<u32>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            match self.take_segment(needed) {
                Ok(segment) => taken.push(segment),
                Err(error) => {
                    taken.into_iter().for_each(|segment| self.engine.segments.put_back(segment));
                    return Err(error);
                }
            }
        }
        Ok(taken)
    }

    /// The transaction needs more log than there is.
    pub(crate) fn too_large(&mut self, needed: u64) -> Error {
        let Geometry { segments, segment_bytes, .. } = self.engine.geometry;
        let others = self.engine.lock.slots() as u64;
        self.counters.aborts_capacity += 1;
        Error::TooLarge {
            needed,
            available: u64::from(segments).saturating_sub(others) * segment_bytes,
        }
    }

    /// Gives the lock back and forgets the transaction.
    #[inline]
    pub(crate) fn finish(&mut self) {
        match self.mode.take() {
            Some(Mode::Write) => {
                self.lock().done_writing();
                self.forget();
            }
            Some(Mode::Read) => self.lock().done_reading(self.slot),
            None => {}
        }
    }

    #[inline]
    fn forget(&mut self) {
        self.writes.clear();
        self.fresh.clear();
    }

    #[cold]
    fn bad_write(&self, at: u64) -> Error {
        match self.mode {
            Some(Mode::Write) => Error::corrupt("write outside of the pool", at),
            Some(Mode::Read) => Error::ReadOnly,
            None => Error::Invalid("a write outside of a transaction"),
        }
    }

    #[inline(always)]
    fn check_write(&self, at: u64, len: u64) -> Result<()> {
        if self.mode == Some(Mode::Write) && self.engine.memory.contains(at, len) {
            Ok(())
        } else {
            Err(self.bad_write(at))
        }
    }

    /// Splits bytes that lie in the pool into whole lines, and words at the edges.
    fn put_checked(&mut self, at: u64, from: &[u8]) -> Result<()> {
        let head = ((at.next_multiple_of(LINE) - at) as usize).min(from.len());
        put_bytes(self, at, &from[..head])?;
        let mut lines = from[head..].chunks_exact(LINE as usize);
        let mut line = at + head as u64;
        for bytes in &mut lines {
            let mut words = [0; 8];
            bytemuck::cast_slice_mut(&mut words).copy_from_slice(bytes);
            self.writes.put_line(line, &words);
            line += LINE;
        }
        put_bytes(self, line, lines.remainder())
    }

    /// Whether a word of `[at, at + len)`, both multiples of 8, is in the write set.
    fn any_written(&self, at: u64, len: u64) -> bool {
        let end = at + len;
        !self.writes.is_empty()
            && (0..lines_in(at, len)).any(|index| {
                let line = line_of(at) + index * LINE;
                let words = (at.max(line) - line) / 8..(end.min(line + LINE) - line) / 8;
                let written = self.writes.line(line).map_or(0, |entry| u64::from(entry.mask));
                words.into_iter().any(|word| written & 1 << word != 0)
            })
    }
}

impl<M: Memory, P: Protocol> Access for Buffered<M, P> {
    #[inline(always)]
    fn read_word(&mut self, at: u64) -> Result<u64> {
        if let Some(value) = self.writes.get(at)
            && at.is_multiple_of(8)
        {
            return Ok(value);
        }
        self.engine
            .memory
            .try_load(at)
            .ok_or_else(|| Error::corrupt("read outside of the pool", at))
    }

    #[inline(always)]
    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        self.check_write(at, 8)?;
        if !at.is_multiple_of(8) {
            return Err(self.bad_write(at));
        }
        self.writes.put(at, value);
        Ok(())
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        if !self.engine.memory.try_copy_out(at, to) {
            return Err(Error::corrupt("read outside of the pool", at));
        }
        if self.writes.is_empty() {
            return Ok(());
        }
        let end = at + to.len() as u64;
        for index in 0..lines_in(at, to.len() as u64) {
            let Some(entry) = self.writes.line(line_of(at) + index * LINE) else { continue };
            for word in (0..8).filter(|word| entry.mask & 1 << word != 0) {
                let start = entry.line + word as u64 * 8;
                let bytes = entry.words[word].to_ne_bytes();
                let (from, until) = (start.max(at), (start + 8).min(end));
                if from < until {
                    to[(from - at) as usize..(until - at) as usize]
                        .copy_from_slice(&bytes[(from - start) as usize..(until - start) as usize]);
                }
            }
        }
        Ok(())
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.check_write(at, from.len() as u64)?;
        self.put_checked(at, from)
    }

    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        let len = (from.len() as u64).next_multiple_of(8);
        self.check_write(at, len)?;
        if !at.is_multiple_of(8) {
            return Err(self.bad_write(at));
        }
        if P::logs_fresh(self.engine.memory.domain(), len) || self.any_written(at, len) {
            return self.put_checked(at, from);
        }
        self.engine.memory.copy_in(at, from);
        self.fresh.push(at..at + from.len() as u64);
        Ok(())
    }

    fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Read)
    }

    fn mark(&mut self) -> Mark {
        self.writes.mark()
    }

    fn rollback_to(&mut self, mark: Mark) {
        self.writes.rollback_to(mark);
    }
}

/// Splits bytes into the words of the write set; the words at the edges keep what they hold
/// beside the bytes.
pub(crate) fn put_bytes<A: Access + ?Sized>(access: &mut A, at: u64, from: &[u8]) -> Result<()> {
    let (mut at, mut rest) = (at, from);
    while !rest.is_empty() {
        let (word, skip) = (at & !7, (at % 8) as usize);
        let count = rest.len().min(8 - skip);
        let mut bytes = if count == 8 { [0; 8] } else { access.read_word(word)?.to_ne_bytes() };
        bytes[skip..skip + count].copy_from_slice(&rest[..count]);
        access.write_word(word, u64::from_ne_bytes(bytes))?;
        (at, rest) = (word + 8, &rest[count..]);
    }
    Ok(())
}

impl<M: Memory, P: Protocol> Session for Buffered<M, P> {
    #[inline]
    fn begin(&mut self, mode: Mode) {
        debug_assert!(self.mode.is_none(), "transactions of a session do not overlap");
        match mode {
            Mode::Read => self.engine.lock.read(self.slot, &*self.engine.memory),
            Mode::Write => self.engine.lock.write(&*self.engine.memory),
        }
        self.mode = Some(mode);
    }

    #[inline]
    fn commit(&mut self) -> Result<Ticket> {
        if self.writes.is_empty() && self.fresh.is_empty() {
            // What it saw may still be on its way to durability.
            let seen = Ticket(self.engine.committed.0.load(Ordering::Acquire));
            self.counters.read_only += 1;
            self.finish();
            return Ok(seen);
        }
        P::commit(self)
    }

    fn abort(&mut self) {
        self.counters.aborts_user += 1;
        self.finish();
    }

    #[inline]
    fn is_durable(&self, ticket: Ticket) -> bool {
        self.engine.durable.0.load(Ordering::Acquire) >= ticket.0
    }

    #[inline]
    fn wait_durable(&mut self, ticket: Ticket) -> Result<()> {
        if self.is_durable(ticket) {
            return Ok(());
        }
        // Everything up to the last commit has asked to be durable by now.
        let committed = self.engine.committed.0.load(Ordering::Acquire);
        self.fence()?;
        self.engine.durable.0.fetch_max(committed, Ordering::AcqRel);
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        let exclusive = self.mode == Some(Mode::Write);
        if self.mode == Some(Mode::Read) {
            return Ok(());
        }
        P::checkpoint(&self.engine, exclusive, &mut self.counters)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl<M: Memory, P: Protocol> Drop for Buffered<M, P> {
    fn drop(&mut self) {
        self.finish();
        if let Some(segment) = self.segment.take() {
            self.engine.segments.filled(segment, self.highest);
        }
        self.engine.lock.unregister(self.slot);
    }
}
