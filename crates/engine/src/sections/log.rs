//! A session's records of its sections.
//!
//! Records have the format of every log ([`record`]): the ticket is the section's number, the part the record's place in
//! its section. How many parts there are only the last one says: the others have [`OPEN`]. A record's notes are the clock, and
//! the sections that this one follows by locks taken since the record before. Its words are old values.
//!
//! Sections of several sessions follow one another in a segment: a session has one while it runs a section, and hands it
//! over afterwards. Behind its records there is always room for the section's last one.

use crate::log::record::{self, NOTES, Part};
use crate::log::segments::{OpenSegment, Segments};
use crate::writes::LineWrite;
use perdura_memory::{Memory, Object, Traced, WORD};
use std::ops::Range;

/// The number of parts of a section that is not complete.
pub(crate) const OPEN: u16 = u16::MAX;

/// Notes in one entry of a record.
const NOTES_EACH: usize = 8;

/// A session's place in the log, and the record being made.
pub(crate) struct SectionLog {
    own: Object,
    entries: Vec<LineWrite>,
    scratch: Vec<u64>,
    segment: Option<u32>,
    rest: Range<u64>,
    /// The highest number in the segment.
    highest: u64,
}

impl SectionLog {
    pub(super) fn new<M: Memory>(memory: &M, segment_bytes: u64) -> Self {
        SectionLog {
            own: memory.object(segment_bytes),
            entries: Vec::new(),
            scratch: Vec::new(),
            segment: None,
            rest: 0..0,
            highest: 0,
        }
    }

    /// Whether a record of `bytes` bytes fits, and after it the section's last one, of `last` bytes.
    #[inline]
    pub(crate) fn has_room(&self, bytes: u64, last: u64) -> bool {
        self.rest.end - self.rest.start >= bytes + last
    }

    /// Takes another segment, with room for `bytes` bytes: one in use, or one of more than `reserved` free ones. Returns
    /// whether there is one.
    pub(crate) fn take_segment(
        &mut self,
        segments: &Segments,
        bytes: u64,
        reserved: usize,
        checkpointed: u64,
    ) -> bool {
        let Some(taken) = segments.take_beyond(bytes, reserved) else { return false };
        self.hand_over(segments, checkpointed);
        let OpenSegment { segment, rest, highest } = taken;
        (self.segment, self.rest, self.highest) = (Some(segment), rest, highest);
        true
    }

    /// Hands the segment over.
    pub(crate) fn hand_over(&mut self, segments: &Segments, checkpointed: u64) {
        if let Some(segment) = self.segment.take() {
            let (rest, highest) = (std::mem::replace(&mut self.rest, 0..0), self.highest);
            segments.hand_over(OpenSegment { segment, rest, highest }, checkpointed);
        }
    }

    /// Begins a record with these notes.
    pub(crate) fn begin(&mut self, clock: u64, follows: &[u64]) {
        self.entries.clear();
        let mut notes = std::iter::once(clock).chain(follows.iter().copied()).peekable();
        while notes.peek().is_some() {
            let mut entry = LineWrite { line: NOTES, mask: 0, words: [0; 8] };
            for (word, note) in notes.by_ref().take(NOTES_EACH).enumerate() {
                entry.mask |= 1 << word;
                entry.words[word] = note;
            }
            self.entries.push(entry);
        }
    }

    /// Adds old values to it.
    #[inline]
    pub(crate) fn add(&mut self, old: LineWrite) {
        self.entries.push(old);
    }

    /// The bytes of the record, at most.
    pub(crate) fn bytes(&self) -> u64 {
        record::words_of(self.entries.iter()) as u64 * WORD
    }

    /// Encodes it for the next place, which it takes. The room was checked.
    pub(crate) fn encode<M: Memory>(&mut self, memory: &M, salt: u64, part: Part) -> (u64, &[u64]) {
        let at = self.rest.start;
        let words =
            record::encode(&mut self.scratch, salt, at, part, &self.entries, |entry, word| {
                entry.words[word]
            });
        let bytes = words.len() as u64 * WORD;
        debug_assert!(bytes <= self.rest.end - at, "there is room for the record");
        // Stands for the filling of the buffer and the computation of its check.
        let own = Traced::new(memory, self.own);
        own.wrote(0, bytes);
        own.read(0, bytes);
        self.rest.start += bytes;
        self.highest = self.highest.max(part.ticket);
        (at, words)
    }
}

/// The bytes of a section's last record that has this many sections that it follows.
pub(crate) fn last_bytes(follows: usize) -> u64 {
    let notes = 1 + follows;
    record::words_for(notes.div_ceil(NOTES_EACH), notes) as u64 * WORD
}
