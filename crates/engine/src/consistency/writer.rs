//! What it takes to log a transaction: its words, and a place in the log for them.

use super::core::Core;
use crate::error::{Boxed, boxed};
use crate::log::area::Geometry;
use crate::log::record;
use crate::log::segments::Segments;
use crate::planted::{self, Bug};
use crate::sections::running::Running;
use crate::sync::in_place::InPlace;
use crate::writes::{LineWrite, WriteSet};
use crate::{Counters, Error, Result};
use perdura_memory::{LINE, Memory, Object, Traced, WORD, WordStore as _, line_of, lines_in};
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

/// How log records are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Past the caches.
    PastCaches,
    /// Through the caches, and written back.
    InCaches,
}

/// Offsets of its parts in a writer's object: its fields, its counters, the fresh ranges, and the record being encoded.
const FIELDS: u64 = 0;
const COUNTERS: u64 = 2 * LINE;
const FRESH: u64 = COUNTERS + (size_of::<Counters>() as u64).next_multiple_of(LINE);
const FRESH_RANGES: u64 = 256;
const RANGE: u64 = size_of::<Range<u64>>() as u64;
const RECORD: u64 = FRESH + FRESH_RANGES * RANGE;

/// A transaction's words, and the part of the log that they go to.
pub struct Writer {
    own: Object,
    /// Boxed, as are the old ones, so that they change hands by swapping pointers. Copying would wait for stores behind
    /// a fence.
    pub(crate) writes: Box<WriteSet>,
    /// Fresh memory stored in place already, to be flushed at commit.
    pub(crate) fresh: Vec<Range<u64>>,
    /// Boxed, so that a session which logs for another one can count for it by swapping pointers; copying would wait
    /// for stores behind a fence.
    pub(crate) counters: Box<Counters>,
    /// The segment being filled, and the free part of it.
    pub(crate) segment: Option<u32>,
    pub(crate) tail: Range<u64>,
    /// The ticket of its last record in the segment, and the highest one of the records that it found there.
    pub(crate) highest: u64,
    pub(crate) found: u64,
    /// Whether it keeps its segment between transactions; otherwise it hands the segment over.
    pub(crate) keeps: bool,
    /// Whether it asks for the right to.
    may_keep: bool,
    /// Whether a segment was filled since this was last checked.
    pub(crate) filled: bool,
    /// Segments for a large transaction, taken before its record is written.
    pub(crate) reserved: Vec<u32>,
    /// Whether [reserved](Self::reserve) room is to be given back after the transaction.
    pub(crate) owes: bool,
    scratch: Vec<u64>,
    /// Parts of the transaction that are stored elsewhere than in the log, and come before the others.
    pub(crate) parts_before: u16,
    /// Old words, of engines that log only some of them.
    pub(crate) old: Box<WriteSet>,
    /// The session's section, in engines that have them.
    pub(crate) section: Option<Box<Running>>,
}

impl Writer {
    /// A writer without a transaction, for a log with segments of `segment_bytes` bytes.
    pub(crate) fn new<M: Memory>(memory: &M, segment_bytes: u64) -> Self {
        Self::with(memory, segment_bytes, WriteSet::new(memory))
    }

    /// The same, whose short transactions keep their words in the form of a record.
    pub(crate) fn new_short<M: Memory>(memory: &M, segment_bytes: u64) -> Self {
        Self::with(memory, segment_bytes, WriteSet::short(memory))
    }

    fn with<M: Memory>(memory: &M, segment_bytes: u64, writes: WriteSet) -> Self {
        Writer {
            own: memory.object(RECORD + segment_bytes),
            writes: Box::new(writes),
            fresh: Vec::new(),
            counters: Box::default(),
            segment: None,
            tail: 0..0,
            highest: 0,
            found: 0,
            keeps: false,
            may_keep: true,
            filled: false,
            reserved: Vec::new(),
            owes: false,
            scratch: Vec::new(),
            parts_before: 0,
            old: Box::new(WriteSet::new(memory)),
            section: None,
        }
    }

    /// The same, for the only one that writes to the log: it keeps its segment.
    pub(crate) fn new_keeping<M: Memory>(memory: &M, segment_bytes: u64) -> Self {
        Writer { keeps: true, ..Writer::new(memory, segment_bytes) }
    }

    /// The same, for one that writes now and then: it keeps no segment.
    pub(crate) fn new_passing<M: Memory>(memory: &M, segment_bytes: u64) -> Self {
        Writer { may_keep: false, ..Writer::new(memory, segment_bytes) }
    }

    #[inline(always)]
    fn traced<'m, M: Memory>(&self, memory: &'m M) -> Traced<'m, M> {
        Traced::new(memory, self.own)
    }

    /// Reports that a transaction begins: the fields share lines, so one report suffices.
    #[inline(always)]
    pub(crate) fn touch_fields<M: Memory>(&self, memory: &M) {
        self.traced(memory).wrote(FIELDS, 2 * LINE);
    }

    /// Reports that a transaction is counted.
    #[inline(always)]
    pub(crate) fn touch_counters<M: Memory>(&self, memory: &M) {
        self.traced(memory).wrote(COUNTERS, size_of::<Counters>() as u64);
    }

    /// Stores fresh memory in place, to be flushed at commit.
    #[inline]
    pub(crate) fn store_fresh<M: Memory>(
        &mut self,
        memory: &M,
        _right: &impl InPlace,
        at: u64,
        from: &[u8],
    ) {
        memory.copy_in(at, from);
        self.add_fresh(memory, at..at + from.len() as u64);
    }

    /// Adds a range of fresh memory that has been stored in place.
    #[inline]
    pub(crate) fn add_fresh<M: Memory>(&mut self, memory: &M, range: Range<u64>) {
        let place = FRESH + self.fresh.len() as u64 % FRESH_RANGES * RANGE;
        self.fresh.push(range);
        self.traced(memory).wrote(place, RANGE);
    }

    /// Forgets the transaction.
    #[inline]
    pub(crate) fn forget<M: Memory>(&mut self, memory: &M) {
        self.writes.clear(memory);
        // Tested first: a store costs more, behind the fence of a commit.
        if !self.fresh.is_empty() {
            self.fresh.clear();
        }
    }

    /// Stores whole log lines and asks for them to become durable. Past the caches, however few they are: that and a
    /// fence cost two thirds of a line written back and a fence (`perdura-lab bench limit`), as long as the line is not
    /// cached.
    #[inline]
    #[track_caller]
    pub(crate) fn stream_log<M: Memory>(&mut self, core: &Core<M>, at: u64, words: &[u64]) {
        stream_log(core, &mut self.counters, at, words);
    }

    /// Asks for the fresh memory of this transaction to become durable.
    #[inline]
    #[track_caller]
    pub(crate) fn flush_fresh<M: Memory>(&mut self, core: &Core<M>) {
        if self.fresh.is_empty() || planted::has(Bug::FreshForgotten) {
            return;
        }
        let counted = core.memory.domain().needs_write_back();
        self.traced(&*core.memory).read(FRESH, self.fresh.len() as u64 * RANGE);
        let most = if planted::has(Bug::LaterFreshForgotten) { 1 } else { usize::MAX };
        let left_out = usize::from(planted::has(Bug::FirstFreshForgotten));
        for range in self.fresh.iter().skip(left_out).take(most) {
            let cut = planted::has(Bug::FreshCutShort);
            let len = (range.end - range.start).min(if cut { 32 << 10 } else { u64::MAX });
            self.counters.dirty_bytes += len;
            if counted {
                self.counters.write_backs_data += lines_in(range.start, len);
                self.counters.dirtied_fresh(range.start, len);
            }
            core.memory.write_back(range.start, len);
        }
    }

    /// Lines of fresh memory, those at the edges of two pieces counted with each.
    pub(crate) fn fresh_lines(&self) -> u64 {
        self.fresh.iter().map(|range| lines_in(range.start, range.end - range.start)).sum()
    }

    /// Fences, and checks that the fence worked.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn fence<M: Memory>(&mut self, core: &Core<M>) -> Boxed<()> {
        core.memory.fence();
        self.counters.fences += 1;
        core.memory.check_fence().map_err(boxed)
    }

    /// Returns when no later store can become durable before all that has been stored, or asked for, so far: a fence,
    /// unless stores are durable in their order.
    #[inline]
    #[track_caller]
    pub(crate) fn order<M: Memory>(&mut self, core: &Core<M>) -> Boxed<()> {
        if core.memory.domain().needs_write_back() {
            return self.fence(core);
        }
        fence(Ordering::Release);
        Ok(())
    }

    /// Stores the buffered words in place, calling `stored` for each line.
    #[inline(always)]
    pub(crate) fn apply<M: Memory>(
        &mut self,
        core: &Core<M>,
        stored: impl FnMut(&LineWrite, &mut Counters),
    ) {
        self.keep_overwritten(core);
        self.apply_kept(core, stored);
    }

    /// The rest of [`apply_words`](Self::apply_words), for words that are kept by line.
    #[inline(never)]
    fn apply_entries<M: Memory>(&mut self, core: &Core<M>, stored: impl Fn(u64)) {
        self.apply_kept(core, |entry, _| stored(entry.line));
    }

    /// The rest of [`apply`](Self::apply), once snapshots have what it overwrites.
    #[inline(always)]
    fn apply_kept<M: Memory>(
        &mut self,
        core: &Core<M>,
        mut stored: impl FnMut(&LineWrite, &mut Counters),
    ) {
        let (entries, counters) = (self.writes.read(&*core.memory), &mut *self.counters);
        core.touched.note(entries);
        core.memory.store_lines(
            entries,
            |entry| (entry.line, entry.mask, &entry.words),
            |entry| {
                if entry.mask != 0 {
                    stored(entry, counters);
                }
            },
        );
    }

    /// Stores the buffered words in place, calling `stored` with the offset of each line, perhaps more than once; for
    /// sets that may be [short](WriteSet::short).
    #[inline(always)]
    pub(crate) fn apply_words<M: Memory>(&mut self, core: &Core<M>, stored: impl Fn(u64)) {
        self.keep_overwritten(core);
        let memory = &*core.memory;
        let Some(words) = self.writes.record(memory) else {
            return self.apply_entries(core, stored);
        };
        core.touched.note_words(|note| self.writes.for_each(memory, |at, _| note(at)));
        let store = memory.word_store();
        words.for_each(|(number, value)| {
            store.store(number, value);
            stored(line_of(number * WORD));
        });
    }

    /// Keeps, for snapshots, what the buffered words are about to overwrite. For the writer, which is alone and has
    /// stored nothing.
    #[inline(always)]
    pub(crate) fn keep_overwritten<M: Memory>(&mut self, core: &Core<M>) {
        self.counters.dirty_bytes += self.writes.words() as u64 * 8;
        if core.snapshots.any(&*core.memory) && !planted::has(Bug::NothingKept) {
            self.keep_for_snapshots(core);
        }
    }

    #[cold]
    fn keep_for_snapshots<M: Memory>(&mut self, core: &Core<M>) {
        self.writes.to_lines(&*core.memory);
        core.snapshots.keep(&*core.memory, core.last_commit() + 1, self.writes.entries());
        // A snapshot that loads a word stored later finds what is kept.
        fence(Ordering::Release);
    }

    /// Stores the last encoded record, of `bytes` bytes, at `at`, and asks for it to become durable.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store_record<M: Memory>(
        &mut self,
        core: &Core<M>,
        at: u64,
        bytes: u64,
        how: Stores,
    ) {
        self.traced(&*core.memory).read(RECORD, bytes);
        let record = &self.scratch[..(bytes / WORD) as usize];
        self.counters.log_bytes += bytes;
        if how == Stores::PastCaches {
            stream_log(core, &mut self.counters, at, record);
        } else {
            cache_log(core, &mut self.counters, at, record);
        }
    }

    /// An upper bound of [`record_bytes`](Self::record_bytes).
    #[inline(always)]
    pub(crate) fn record_bytes_at_most(&self) -> u64 {
        record::most_words_for(self.writes.entries().len()) as u64 * WORD
    }

    /// Bytes of log for the whole transaction, if one record holds it.
    #[inline]
    pub(crate) fn record_bytes(&self) -> u64 {
        let words = match self.writes.record_words() {
            Some(words) => words,
            None => record::words_for(self.writes.stored_lines(), self.writes.words()),
        };
        words as u64 * WORD
    }

    /// Whether the current segment has room for the transaction's record, whose words are kept in its form.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        let words = self.writes.record_words();
        words.is_some_and(|words| words as u64 * WORD <= self.tail.end - self.tail.start)
    }

    /// Encodes a record of the write-set entries in `entries`; returns its bytes, padding to whole
    /// lines included.
    #[inline]
    pub(crate) fn encode<M: Memory>(
        &mut self,
        core: &Core<M>,
        at: u64,
        part: record::Part,
        entries: Range<usize>,
        word_of: impl FnMut(&LineWrite, usize) -> u64,
    ) -> u64 {
        let own = self.traced(&*core.memory);
        let entries = self.writes.read_part(&*core.memory, entries);
        encode(core, own, &mut self.scratch, (at, part), entries, word_of).len() as u64 * WORD
    }

    /// Stores a record of all lines at `at`, where there is room for it, past the caches; returns its bytes.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store_all<M: Memory>(
        &mut self,
        core: &Core<M>,
        at: u64,
        part: record::Part,
        word_of: impl FnMut(&LineWrite, usize) -> u64,
    ) -> u64 {
        let own = self.traced(&*core.memory);
        let entries = self.writes.read(&*core.memory);
        let record = encode(core, own, &mut self.scratch, (at, part), entries, word_of);
        let bytes = record.len() as u64 * WORD;
        own.read(RECORD, bytes);
        let counters = &mut *self.counters;
        counters.log_bytes += bytes;
        stream_log(core, counters, at, record);
        bytes
    }

    /// Completes the record that the words are kept in the form of, and stores it at `at`, where there is room for it,
    /// past the caches; returns its bytes.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store_short<M: Memory>(
        &mut self,
        core: &Core<M>,
        at: u64,
        part: record::Part,
    ) -> u64 {
        let (record, used) = self.writes.pad(&*core.memory);
        record::fill_header(record, used, (core.salt, at), part);
        let bytes = record.len() as u64 * WORD;
        let counters = &mut *self.counters;
        counters.log_bytes += bytes;
        stream_log(core, counters, at, record);
        bytes
    }

    /// Encodes a record of the words that `entry` is about to overwrite; returns its bytes, as [`encode`](Self::encode)
    /// does.
    #[inline]
    pub(crate) fn encode_overwritten<M: Memory>(
        &mut self,
        core: &Core<M>,
        at: u64,
        part: record::Part,
        entry: &LineWrite,
    ) -> u64 {
        let own = self.traced(&*core.memory);
        let old =
            |entry: &LineWrite, word: usize| core.memory.load(entry.line + word as u64 * WORD);
        let entries = std::slice::from_ref(entry);
        let record = record::encode(&mut self.scratch, core.salt, at, part, entries, old);
        let bytes = record.len() as u64 * WORD;
        own.wrote(RECORD, bytes);
        own.read(RECORD, bytes);
        bytes
    }

    /// Takes a free segment for a record of `needed` bytes; if there is none, after `make_room`.
    pub(crate) fn take_segment<M: Memory>(
        &mut self,
        core: &Core<M>,
        needed: u64,
        make_room: &mut impl FnMut(&mut Counters) -> Result<()>,
    ) -> Result<u32> {
        core.touch_segments();
        if let Some(segment) = core.segments.take() {
            return Ok(segment);
        }
        make_room(&mut self.counters)?;
        core.segments.take().ok_or_else(|| self.too_large(core, needed))
    }

    /// Asks for the right to keep a segment, unless that is not wanted or was granted.
    pub(crate) fn ask_to_keep<M: Memory>(&mut self, core: &Core<M>) {
        if !self.keeps && self.may_keep {
            self.keeps = core.segments.keep();
        }
    }

    /// Takes as many segments as asked for, or none.
    pub(crate) fn take_segments<M: Memory>(
        &mut self,
        core: &Core<M>,
        count: usize,
        needed: u64,
        make_room: &mut impl FnMut(&mut Counters) -> Result<()>,
    ) -> Result<Vec<u32>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            match self.take_segment(core, needed, make_room) {
                Ok(segment) => taken.push(segment),
                Err(error) => {
                    taken.into_iter().for_each(|segment| core.segments.put_back(segment));
                    return Err(error);
                }
            }
        }
        Ok(taken)
    }

    /// The error of a transaction that needs more log than there is.
    pub(crate) fn too_large<M: Memory>(&mut self, core: &Core<M>, needed: u64) -> Error {
        self.counters.aborts_capacity += 1;
        Error::TooLarge { needed, available: self.available(core) }
    }

    /// Bytes of log that one transaction may use.
    pub(crate) fn available<M: Memory>(&self, core: &Core<M>) -> u64 {
        let Geometry { segments, segment_bytes, .. } = core.geometry;
        let others = Segments::most_kept(&core.geometry) as u64;
        u64::from(segments).saturating_sub(others) * segment_bytes
    }
}

/// Encodes a record of `entries` for the offset `at` in `scratch`.
#[inline(always)]
fn encode<'s, M: Memory>(
    core: &Core<M>,
    own: Traced<'_, M>,
    scratch: &'s mut Vec<u64>,
    (at, part): (u64, record::Part),
    entries: &[LineWrite],
    word_of: impl FnMut(&LineWrite, usize) -> u64,
) -> &'s [u64] {
    if planted::has(Bug::WordTooMuchLogged) || planted::has(Bug::OldWordsLogged) {
        return encode_wrongly(core, scratch, (at, part), entries, word_of);
    }
    let record = record::encode(scratch, core.salt, at, part, entries, word_of);
    // Stands for the filling of the buffer and the computation of its check.
    own.wrote(RECORD, record.len() as u64 * WORD);
    own.read(RECORD, record.len() as u64 * WORD);
    record
}

/// Encodes a record that is wrong: planted bugs.
#[cold]
fn encode_wrongly<'s, M: Memory>(
    core: &Core<M>,
    scratch: &'s mut Vec<u64>,
    (at, part): (u64, record::Part),
    entries: &[LineWrite],
    mut word_of: impl FnMut(&LineWrite, usize) -> u64,
) -> &'s [u64] {
    let more = planted::has(Bug::WordTooMuchLogged).then(|| one_word_more(entries));
    let entries = more.as_deref().unwrap_or(entries);
    let last = entries.last().map_or(0, |entry| entry.line);
    let word_of = |entry: &LineWrite, word: usize| {
        if planted::has(Bug::OldWordsLogged) && entry.line == last {
            return core.memory.load(entry.line + word as u64 * WORD);
        }
        word_of(entry, word)
    };
    record::encode(scratch, core.salt, at, part, entries, word_of)
}

/// As [`Writer::stream_log`], counting in `counters`.
#[inline(always)]
#[track_caller]
pub(crate) fn stream_log<M: Memory>(
    core: &Core<M>,
    counters: &mut Counters,
    at: u64,
    words: &[u64],
) {
    let bytes = words.len() as u64 * WORD;
    counters.streamed_bytes += bytes;
    if core.memory.domain().needs_write_back() {
        counters.write_backs_log += bytes / LINE;
    }
    core.memory.stream(at, words);
}

/// Stores whole log lines in the caches and asks for them to become durable.
#[inline]
#[track_caller]
pub(crate) fn cache_log<M: Memory>(
    core: &Core<M>,
    counters: &mut Counters,
    at: u64,
    words: &[u64],
) {
    let bytes = words.len() as u64 * WORD;
    if core.memory.domain().needs_write_back() {
        counters.write_backs_log += bytes / LINE;
    }
    core.memory.copy_in(at, bytemuck::cast_slice(words));
    core.memory.write_back(at, bytes);
}

/// The entries, each with the word after its last one, as 0: a planted bug.
#[cold]
fn one_word_more(entries: &[LineWrite]) -> Vec<LineWrite> {
    let more = |entry: &LineWrite| {
        let next = (8 - entry.mask.leading_zeros()) as usize;
        let mut more = *entry;
        if let Some(word) = more.words.get_mut(next).filter(|_| entry.mask != 0) {
            *word = 0;
            more.mask |= 1 << next;
        }
        more
    };
    entries.iter().map(more).collect()
}

/// Splits the entries of a write set into runs whose records fit in a whole segment.
pub(crate) fn split<M: Memory>(core: &Core<M>, entries: &[LineWrite]) -> Vec<Range<usize>> {
    let most = (core.geometry.segment_bytes / 8) as usize;
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
