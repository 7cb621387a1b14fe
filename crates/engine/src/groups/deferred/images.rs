//! Before-images: the contents of deferred lines when they were stored to again.
//!
//! The sums of a batch are over its lines' contents at that time. So before a group stores to one of these lines, its
//! contents are written to a record in the log's format, with the group's ticket: if the group counts after a power
//! cut, the line no longer belongs to its batch, and the image supplies what the sums are over; if not, the line has
//! not been stored to. With redo, where the log has only the stored words, the image also supplies the line's other
//! words; with undo, its old words, if the log has none of the line.
//!
//! Records are in chunks, used in turn. Before a chunk is reused, its images of batches that still exist are copied
//! elsewhere, as by the cleaner of a log-structured file system (Rosenblum and Ousterhout, 1992).

use super::place::{Layout, WORDS};
use crate::log::record::{self, FoundRecord, Part};
use crate::writes::{ALL, HEADER_WORDS, LineWrite};
use crate::{Counters, Error, Result};
use perdura_memory::{LINE, Memory, Object, Traced, WORD};
use std::collections::VecDeque;
use std::ops::Range;

/// Words of an image in a record: those of the line, and its number.
const IMAGE: usize = WORDS + 1;
/// One in this many chunks is cleaned ahead of need.
const SPARE: usize = 4;
/// Chunks that groups leave to the cleaner.
const RESERVE: usize = 2;

/// The chunks of before-images.
pub(super) struct Images {
    layout: Layout,
    free: Vec<u32>,
    /// Chunks that are free after the next fence.
    clean: Vec<u32>,
    /// Chunks in use, in the order of use; the last one is being filled.
    used: VecDeque<Chunk>,
    record: Vec<u64>,
    record_own: Object,
}

struct Chunk {
    number: u32,
    /// Where its next record begins.
    next: u64,
    /// The highest ticket of its records.
    highest: u64,
    /// For each image, in order, the batch that it belongs to.
    batches: Vec<Batch>,
}

/// The identity of a batch: slots are reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) slot: u32,
    /// How many batches the slot had before.
    pub(super) turn: u32,
}

impl Images {
    pub(super) fn new<M: Memory>(memory: &M, layout: Layout) -> Self {
        let free = (0..layout.chunks()).rev().collect();
        let chunk = layout.chunk(0);
        let record_own = memory.object(chunk.end - chunk.start);
        let (clean, used, record) = (Vec::new(), VecDeque::new(), Vec::new());
        Images { layout, free, clean, used, record, record_own }
    }

    /// Whether there is room for this many lines of a group, leaving enough to clean a chunk.
    pub(super) fn has_room(&self, lines: usize) -> bool {
        let reserve = RESERVE.min(self.layout.chunks() as usize / SPARE);
        lines == 0 || self.room_in(self.free.len().saturating_sub(reserve)) >= lines
    }

    /// How many lines fit into the last chunk and `chunks` others.
    fn room_in(&self, chunks: usize) -> usize {
        let whole = self.layout.chunk(0);
        let rest = self.used.back().map_or(0, |chunk| self.rest(chunk));
        images_in(rest) + chunks * images_in(whole.end - whole.start)
    }

    /// How many images fit in all, if they share records as the present ones do.
    pub(super) fn capacity(&self) -> usize {
        let whole = self.layout.chunk(0);
        let bytes = u64::from(self.layout.chunks()) * (whole.end - whole.start);
        let taken = |chunk: &Chunk| chunk.next - self.layout.chunk(chunk.number).start;
        let images: usize = self.used.iter().map(|chunk| chunk.batches.len()).sum();
        match self.used.iter().map(taken).sum() {
            0 => images_in(bytes),
            taken => (u128::from(bytes) * images as u128 / u128::from(taken)) as usize,
        }
    }

    fn rest(&self, chunk: &Chunk) -> u64 {
        self.layout.chunk(chunk.number).end - chunk.next
    }

    /// Writes the contents of lines before the group `ticket`, each for the batch in `batches`, as parts of the group from
    /// `part` on; the caller fences. Returns the next part's number. This cannot be undone: of several records in a
    /// chunk none may remain that could pass for a later group's.
    ///
    /// # Panics
    /// If there is no room.
    pub(super) fn append<M: Memory>(
        &mut self,
        memory: &M,
        counters: &mut Counters,
        ticket: u64,
        mut part: u16,
        mut lines: &[LineWrite],
        mut batches: &[Batch],
    ) -> u16 {
        while !lines.is_empty() {
            let rest = self.used.back().map_or(0, |chunk| images_in(self.rest(chunk)));
            if rest == 0 {
                let number = self.free.pop().expect("room was made");
                let next = self.layout.chunk(number).start;
                self.used.push_back(Chunk { number, next, highest: 0, batches: Vec::new() });
                continue;
            }
            let (fitting, later) = lines.split_at(rest.min(lines.len()));
            let (fitting_batches, later_batches) = batches.split_at(fitting.len());
            let chunk = self.used.back_mut().expect("the one with the rest");
            // The log's record has the number of parts, so that parts here are never taken for a whole group.
            let which = Part { ticket, part, parts: u16::MAX, behind: 0 };
            let salt = self.layout.salt();
            let word_of = |line: &LineWrite, word: usize| line.words[word];
            let record =
                record::encode(&mut self.record, salt, chunk.next, which, fitting, word_of);
            part += 1;
            let (own, bytes) = (Traced::new(memory, self.record_own), record.len() as u64 * WORD);
            own.wrote(0, bytes);
            // Stands for the computation of the check, and the streaming.
            own.read(0, bytes);
            own.read(0, bytes);
            stream(memory, counters, chunk.next, record);
            chunk.next += record.len() as u64 * WORD;
            chunk.highest = chunk.highest.max(ticket);
            chunk.batches.extend_from_slice(fitting_batches);
            (lines, batches) = (later, later_batches);
        }
        part
    }

    pub(super) fn has_few_chunks(&self) -> bool {
        self.free_chunks() * SPARE < self.layout.chunks() as usize
    }

    /// Chunks that are free, or will be with the next fence.
    pub(super) fn free_chunks(&self) -> usize {
        self.free.len() + self.clean.len()
    }

    /// Whether few chunks are free, and the log needs no record up to the group `cut`: then the oldest chunk may be
    /// cleaned.
    pub(super) fn may_clean(&self, cut: u64) -> bool {
        self.has_few_chunks() && self.used.len() > 1 && self.used[0].highest <= cut
    }

    /// Copies the images of the oldest chunk elsewhere, if there is room: those of batches that still exist according
    /// to `needed`. The caller fences, and then calls [`cleaned`](Self::cleaned). Returns whether there was room.
    ///
    /// # Errors
    /// `Corrupt` where an image is not what was written.
    pub(super) fn clean_first<M: Memory>(
        &mut self,
        memory: &M,
        counters: &mut Counters,
        needed: impl Fn(Batch) -> bool,
    ) -> Result<bool> {
        let first = &self.used[0];
        let mut kept: Vec<(u64, LineWrite, Batch)> = Vec::new();
        let mut batches = first.batches.iter();
        let start = self.layout.chunk(first.number).start;
        for found in read_records(memory, &self.layout, start..first.next) {
            for_each_image(&found, |line| {
                let batch = batches.next().filter(|batch| needed(**batch));
                kept.extend(batch.map(|batch| (found.part.ticket, line, *batch)));
            })?;
        }
        if batches.next().is_some() {
            return Err(Error::corrupt("before-image that is not what was written", start));
        }
        if !self.fit(&kept) {
            return Ok(false);
        }
        for same in kept.chunk_by(|one, other| one.0 == other.0) {
            let lines: Vec<LineWrite> = same.iter().map(|image| image.1).collect();
            let batches: Vec<Batch> = same.iter().map(|image| image.2).collect();
            self.append(memory, counters, same[0].0, 0, &lines, &batches);
        }
        self.clean.extend(self.used.pop_front().map(|chunk| chunk.number));
        Ok(true)
    }

    /// Whether [`append`](Self::append) finds room for these, group by group.
    fn fit(&self, images: &[(u64, LineWrite, Batch)]) -> bool {
        let whole = self.layout.chunk(0);
        let mut rest = self.used.back().map_or(0, |chunk| self.rest(chunk));
        let mut free = self.free.len();
        for mut same in images.chunk_by(|one, other| one.0 == other.0) {
            while !same.is_empty() {
                let count = images_in(rest).min(same.len());
                if count > 0 {
                    let (fitting, later) = same.split_at(count);
                    rest -= record::words_of(fitting.iter().map(|image| &image.1)) as u64 * WORD;
                    same = later;
                } else if free > 0 {
                    (rest, free) = (whole.end - whole.start, free - 1);
                } else {
                    return false;
                }
            }
        }
        true
    }

    /// The copied images are durable: their old chunk is free.
    pub(super) fn cleaned(&mut self) {
        self.free.append(&mut self.clean);
    }

    /// Frees all chunks.
    pub(super) fn clear(&mut self) {
        self.free.extend(self.used.drain(..).map(|chunk| chunk.number));
    }
}

/// How many images a record of this many bytes holds.
fn images_in(bytes: u64) -> usize {
    ((bytes / WORD) as usize).saturating_sub(HEADER_WORDS) / IMAGE
}

/// Every record of before-images. A reused chunk may still have old ones; these change nothing, since their batches do
/// not exist any more.
pub(crate) fn read_all<M: Memory>(memory: &M, layout: &Layout) -> Vec<FoundRecord> {
    let chunks = (0..layout.chunks()).map(|number| layout.chunk(number));
    chunks.flat_map(|chunk| read_records(memory, layout, chunk)).collect()
}

fn read_records<M: Memory>(memory: &M, layout: &Layout, range: Range<u64>) -> Vec<FoundRecord> {
    let (mut at, mut found) = (range.start, Vec::new());
    while memory.contains(at, LINE)
        && let Some((record, next)) = record::read(memory, layout.salt(), at, range.end)
    {
        found.push(record);
        at = next;
    }
    found
}

/// Calls `image` with each line of a record.
///
/// # Errors
/// `Corrupt` for a record in no known format.
pub(super) fn for_each_image(found: &FoundRecord, mut image: impl FnMut(LineWrite)) -> Result<()> {
    let mut line = LineWrite { line: 0, mask: ALL, words: [0; WORDS] };
    found.for_each_word(|at, value| {
        let word = (at % LINE / WORD) as usize;
        (line.line, line.words[word]) = (at - at % LINE, value);
        if word == WORDS - 1 {
            image(line);
        }
        Ok(())
    })
}

/// Stores whole lines past the caches, and counts them as checksum lines.
#[track_caller]
pub(super) fn stream<M: Memory>(memory: &M, counters: &mut Counters, at: u64, words: &[u64]) {
    counters.streamed_bytes += words.len() as u64 * WORD;
    counters.write_backs_checksum += (words.len() / WORDS) as u64;
    memory.stream(at, words);
}
